"""The Python client for programs that run on asyncio.

    async with AsyncClient() as gangline:
        job = await gangline.submit(JobSpec(team="vision", gpus=8, command=["python", "train.py"]))
        code = await gangline.wait(job.job)

It is `gangline.client.Client` with its calls on threads of its own, so that there is one
implementation of retries and streams. Waiting for many jobs takes one thread (`wait_all`); more
calls than `threads` at once wait for each other.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from gangline.client import Client, Happening, JobSpec, Submitted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

Answer = TypeVar("Answer")
_END: Final = object()


class AsyncClient:
    """A client of one API; errors are those of `gangline.client`. options: of `Client`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        threads: int = 32,
        **options: Any,  # noqa: ANN401
    ) -> None:
        self.client = Client(url, **options)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="gangline-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections; streams end."""
        self.client.close()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def submit(
        self, spec: JobSpec | Mapping[str, Any], *, key: str | None = None
    ) -> Submitted:
        """Submit a job."""
        return await self._call(partial(self.client.submit, spec, key=key))

    async def submit_many(
        self, specs: Iterable[JobSpec | Mapping[str, Any]], *, keys: Iterable[str] = ()
    ) -> list[Submitted]:
        """Submit many jobs in few requests."""
        return await self._call(partial(self.client.submit_many, list(specs), keys=list(keys)))

    async def dry_run(self, spec: JobSpec | Mapping[str, Any]) -> dict[str, Any]:
        """When and where a job would start; nothing is submitted."""
        return await self._call(partial(self.client.dry_run, spec))

    async def job(self, job: str, *, min_position: str = "") -> dict[str, Any]:
        """A job with its attempts."""
        return await self._call(partial(self.client.job, job, min_position=min_position))

    async def cancel(self, job: str, *, why: str = "") -> Submitted:
        """Cancel a job."""
        return await self._call(partial(self.client.cancel, job, why=why))

    async def wait(self, job: str, *, timeout_s: float | None = None) -> int:
        """The exit code of a job once it has ended."""
        return await self._call(partial(self.client.wait, job, timeout_s=timeout_s))

    async def wait_all(
        self, jobs: Iterable[str], *, timeout_s: float | None = None
    ) -> dict[str, int]:
        """The exit codes of jobs once all have ended, by one stream."""
        return await self._call(partial(self.client.wait_all, list(jobs), timeout_s=timeout_s))

    async def request(self, method: str, path: str, **options: Any) -> Any:  # noqa: ANN401
        """One request, as `Client.request`."""
        return await self._call(partial(self.client.request, method, path, **options))

    async def pages(
        self,
        path: str,
        **params: Any,  # noqa: ANN401
    ) -> AsyncIterator[dict[str, Any]]:
        """All rows of a list, page by page."""
        async for row in self._each(self.client.pages(path, **params)):
            yield row

    async def events(self, *, job: str = "", after: str = "end") -> AsyncIterator[Happening]:
        """Decisions as they are made, for ever."""
        async for happening in self._each(self.client.events(job=job, after=after)):
            if happening is not None:
                yield happening

    async def _each(self, rows: Iterator[Answer]) -> AsyncIterator[Answer]:
        """What an iterator gives, each taken on a thread."""
        while (row := await self._call(partial(next, rows, _END))) is not _END:
            yield row

    async def _call(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
