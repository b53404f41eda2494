"""The log on Kafka, the production bus. Only this package speaks Kafka.

Exactly once rests on three things. Facts are appended by idempotent producers. A leader's commits
are transactions under one transactional id a cell and role, so that the broker fences older
leaders. And a commit that says anything but "ok", at once and without trouble on the way, is of
unknown outcome: librdkafka repeats an EndTxn by itself, after a time-out or a lost connection,
and the first copy, arriving late, may end a *later* transaction, so that a record of it is seen
though its commit failed. The one recovery is a new writer, whose `init_transactions` settles the
old transaction and makes the broker refuse the late copy.

Settings and their reasons stand in `settings.py`. Kafka's clients do not survive a fork: use
a log only in the process that opened it.
"""

from gangline.events.kafka.log import KafkaLog
from gangline.events.kafka.settings import settings_of

__all__ = ["KafkaLog", "settings_of"]
