"""Which job has which GPU, in the files that NVIDIA's dcgm-exporter reads.

With `--hpc-job-mapping-dir FOLDER` (DCGM_HPC_JOB_MAPPING_DIR) the exporter reads one file a GPU,
named by its index, with a job's id on each line, and labels its metrics `hpc_job`. So GPU metrics
have jobs as labels where NVIDIA's own tools make them, and ours need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_log = structlog.get_logger(__name__)


class JobMapping:
    """The files of one folder, which is the agent's alone."""

    def __init__(self, folder: Path, *, gpus: int) -> None:
        """Begin with files that name nobody: what an agent before us wrote may be outdated."""
        self._folder = folder
        self._written: dict[int, str | None] = dict.fromkeys(range(gpus))

    def show(self, held: Iterable[tuple[str, Iterable[int]]]) -> None:
        """These jobs have these GPUs now. A folder that cannot be written stops nobody."""
        jobs: dict[int, list[str]] = {gpu: [] for gpu in self._written}
        for job, gpus in held:
            for gpu in gpus:
                jobs.setdefault(gpu, []).append(job)
        try:
            self._write({gpu: "".join(f"{job}\n" for job in names) for gpu, names in jobs.items()})
        except OSError as error:
            _log.warning("job_mapping_refused", folder=str(self._folder), error=str(error))

    def _write(self, texts: Mapping[int, str]) -> None:
        """Change the files that are to change. A short line is written at once or not at all."""
        for gpu, text in texts.items():
            if self._written.get(gpu) != text:
                self._folder.mkdir(parents=True, exist_ok=True)
                (self._folder / str(gpu)).write_text(text, encoding="utf-8")
                self._written[gpu] = text
