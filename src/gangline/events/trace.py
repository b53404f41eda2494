"""Trace ids: everything about a job belongs to one trace, named after the job.

Whoever knows a job's id knows its trace, so no process has to hand one on in its state, and a
replay finds the same. Records carry it as the header `traceparent` (W3C Trace Context): the
submission, each batch of decisions, and each assignment that places or stops the job, with one
header for each job. Of a batch about very many jobs, the first of them only.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from typing import Final

HEADER: Final = "traceparent"
MOST_JOBS: Final = 64
"""So many traces has one record at most."""


def trace_id(job: str) -> str:
    """The trace of a job: 32 hexadecimal digits, never all zero."""
    return sha256(job.encode()).hexdigest()[:32]


def traceparent(job: str, span: str) -> tuple[str, bytes]:
    """The header of one span of a job's trace. span: its name, like `submitted`."""
    span_id = sha256(f"{job}/{span}".encode()).hexdigest()[:16]
    return HEADER, f"00-{trace_id(job)}-{span_id}-01".encode()


def of_jobs(jobs: Iterable[str], span: str) -> tuple[tuple[str, bytes], ...]:
    """One header for each job, once, of the first `MOST_JOBS`."""
    distinct = islice(dict.fromkeys(jobs), MOST_JOBS)
    return tuple(traceparent(job, span) for job in distinct)
