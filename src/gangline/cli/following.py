"""A job's output as it comes, over all its nodes and attempts.

Each node of an attempt is read by a thread of its own (`Source`), so that one that does not answer
keeps nobody else's lines; only the thread that follows writes. What a node could not tell is asked
for again from where it was, also beside later attempts, until the job has ended.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from gangline.cli.output import say
from gangline.cli.output_files import (
    File,
    Wanted,
    listing,
    not_kept,
    outputs,
    parts,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gangline.client import Client, GanglineError

POLL_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0
LAST_S: Final = 10.0
"""For how long nodes that do not answer are asked once the job has ended."""
_PIECES: Final = 64
_TOO_MANY: Final = 429
_MOST_LOOKS_A_SECOND: Final = 50
"""By all sources together: an API has others to answer, and turns away who asks too often."""
_NOT_RUNNING: Final = frozenset({"starting", "aborted"})
_OVER: Final = frozenset({"ended", "aborted"})


def _passes(error: GanglineError) -> bool:
    """Whether asking again may help."""
    return error.status == _TOO_MANY or type(error).__name__ in ("NotYetError", "UnreachableError")


class Source(threading.Thread):
    """The output of one attempt on one node: read until the attempt has ended and all is told.

    over: the attempt has ended. away: the node does not answer.
    """

    def __init__(
        self, client: Client, wanted: Wanted, node: str, *, among: int, told: queue.Queue[Any]
    ) -> None:
        """Among so many nodes; what it finds goes into `told`, itself at the end."""
        super().__init__(daemon=True, name=f"output of {node}")
        self.over = threading.Event()
        self.away = False
        self.wanted = wanted
        self.node = node
        self.files: dict[str, File] = {}
        self._client = client
        self._several = among > 1 and wanted.rank is None
        self._poll_s = max(POLL_S, among / _MOST_LOOKS_A_SECOND)
        self._tail = wanted.tail
        self._told = told

    def run(self) -> None:
        """Look again and again, ever more seldom while there is no answer."""
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001 - the thread that writes raises it
            self._told.put(error)

    def _follow(self) -> None:
        pause_s = self._poll_s
        while True:
            last = self.over.is_set()
            answered = self._look()
            if answered and last:
                self._told.put(self)
                return
            pause_s = self._poll_s if answered else min(pause_s * 2, LONGEST_PAUSE_S)
            time.sleep(pause_s * random.uniform(0.7, 1.0))  # noqa: S311 - jitter

    def _look(self) -> bool:
        """Tell what is new; whether there was an answer."""
        from gangline.client import GanglineError, NotFoundError  # noqa: PLC0415 - as connect()

        try:
            found = listing(self._client, self.wanted, node=self.node)
            for each in found["unreachable"]:
                return self._missed(each["detail"])
            self._read(found)
        except NotFoundError:
            return True  # it keeps none: not yet, or no more
        except GanglineError as error:
            if not _passes(error):
                raise
            return self._missed(str(error) if error.problem == "agent-unreachable" else "")
        self._heard()
        return True

    def _read(self, found: dict[str, Any]) -> None:
        for new, size in outputs(found, self.wanted.rank):
            file = self.files.setdefault(new.name, new)
            file.prefixed = new.prefixed or self._several
            if file is new and self._tail is not None:
                file.offset = max(0, size - self._tail)
            for data, gone in parts(self._client, self.wanted, file) if size > file.offset else ():
                if gone:
                    self._told.put(not_kept(file, gone))
                self._told.put((file, data))
        self._tail = None  # what begins later is shown whole

    def _missed(self, detail: str) -> bool:
        """No answer. detail: why, empty where not the node is to blame."""
        if detail and not self.away:
            self.away = True
            self._told.put(f"{self.node} does not answer; it is asked again ({detail})")
        return False

    def _heard(self) -> None:
        if self.away:
            self.away = False
            self._told.put(f"{self.node} answers again")


class Follower:
    """Shows what a job prints until the job, or the one attempt that is wanted, has ended."""

    def __init__(self, client: Client, wanted: Wanted) -> None:
        """wanted.attempt: 0 for the last one and all that follow."""
        self._client = client
        self._wanted = wanted
        self._told: queue.Queue[Any] = queue.Queue(_PIECES)
        self._open: list[Source] = []
        self._begun = wanted.attempt - 1
        self._found: dict[str, Any] | None = None
        self._said = ""
        self._away = self._is_later = False

    def run(self) -> dict[str, Any]:
        """Until all is shown; the job as it was then.

        What a node that does not answer tells within some seconds after the end is shown too.
        """
        over_s: float | None = None
        while True:
            if (found := self._job()) is not None:
                self._begin(found)
                if self._is_over(found):
                    over_s = time.monotonic() if over_s is None else over_s
                    if self._has_all(time.monotonic() - over_s):
                        self._close()
                        return found
            self._show(POLL_S)

    def _job(self) -> dict[str, Any] | None:
        """The job as it is; None while the API does not answer, once it has."""
        from gangline.client import GanglineError  # noqa: PLC0415 - as in connect()

        try:
            self._found = self._client.job(self._wanted.job)
        except GanglineError as error:
            if self._found is None or not _passes(error):
                raise
            self._say(f"{error}; it is asked again")
            self._away = True
            return None
        if self._away:
            self._away = False
            self._say("the API answers again")
        return self._found

    def _is_over(self, found: dict[str, Any]) -> bool:
        """Whether nothing will be printed any more."""
        from gangline.client import ENDED  # noqa: PLC0415 - as in connect()

        only = self._wanted.attempt
        states = [one["state"] for one in found["attempts_list"] if one["attempt"] == only]
        return _OVER.issuperset(states) if only else found["state"] in ENDED

    def _has_all(self, since_s: float) -> bool:
        """Whether everybody has told all, or will not: so long after the end."""
        return not self._open or (since_s > LAST_S and all(each.away for each in self._open))

    # ------------------------------------------------------------ attempts

    def _begin(self, found: dict[str, Any]) -> None:
        """Read the next attempt's nodes; let those of ended ones come to their end."""
        attempts = {one["attempt"]: one for one in found["attempts_list"]}
        for source in self._open:
            if attempts[source.wanted.attempt]["state"] in _OVER:
                source.over.set()
        if self._begun < 0:
            self._begun = max(attempts, default=1) - 1
        following = self._next(attempts.values())
        if following is not None and all(each.away for each in self._open):
            self._start(following)
        elif following is None and found["state"] == "queued" and found.get("reason_text"):
            self._say(f"{self._wanted.job} waits: it {found['reason_text']}")

    def _next(self, attempts: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
        """The first attempt that runs or ran and is not read yet."""
        for one in attempts:
            wanted = self._wanted.attempt in (0, one["attempt"])
            if wanted and one["attempt"] > self._begun and one["state"] not in _NOT_RUNNING:
                return one
        return None

    def _start(self, attempt: dict[str, Any]) -> None:
        number, tail = int(attempt["attempt"]), self._wanted.tail
        if self._is_later:
            say(f"{self._wanted.job} runs again, attempt {number}")
            tail = None
        self._is_later, self._begun = True, number
        nodes = list(dict.fromkeys(str(seat["node"]) for seat in attempt["seats"]))
        for node in nodes:
            wanted = self._wanted._replace(attempt=number, tail=tail)
            source = Source(self._client, wanted, node, among=len(nodes), told=self._told)
            self._open.append(source)
            source.start()

    # ------------------------------------------------------------ what they tell

    def _show(self, for_s: float) -> None:
        """Write what comes meanwhile."""
        until_s = time.monotonic() + for_s
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                self._take(self._told.get(timeout=left_s))
            except queue.Empty:
                return

    def _take(self, told: Any) -> None:  # noqa: ANN401 - what sources put there
        match told:
            case (File() as file, bytes() as data):
                write(file, data)
            case str():
                say(told)
            case Source():
                self._open.remove(told)
                _finish(told)
            case Exception():
                raise told

    def _say(self, words: str) -> None:
        """Once, until there is something else to say."""
        if words != self._said:
            self._said = words
            say(words)

    def _close(self) -> None:
        """Say whose last lines are missing, and write those that have no end."""
        for source in self._open:
            _finish(source)
            where = f"attempt {source.wanted.attempt} printed on {source.node}"
            say(f"what {where} is not shown to its end: the node does not answer")


def _finish(source: Source) -> None:
    """Write what stands there without the end of a line."""
    for file in source.files.values():
        write(file, last=True)
