"""Golden logs: what each logic version decided, kept for ever.

`python -m tests.support.golden` writes those of the present version anew, from scenarios. Before a
version's first release it may be run whenever the core decides otherwise; afterwards never: a core
that decides otherwise is a new version, and older ones must still come out byte for byte.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

from gangline.replay.history import FileSource
from gangline.replay.verify import verify
from gangline.scheduler import core
from tests.support.histories import write_history

FOLDER: Final = Path(__file__).parents[1] / "golden"
SCENARIOS: Final = Path(__file__).parents[1] / "scenarios"
NAMES: Final = (
    "01-two-gangs-one-fleet",
    "03-borrow-then-reclaim",
    "04-never-evict-in-vain",
    "05-large-gang-is-not-starved",
    "06-fault-loses-one-interval",
    "09-users-failures-cost-retries",
    "10-cancel-wins",
)


def folder_of(version: int) -> Path:
    """Where a version's logs are."""
    return FOLDER / f"logic-{version}"


def main() -> None:
    """Write the logs of the present version, and the digests of their last batches."""
    folder = folder_of(core.LOGIC_VERSION)
    folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    for name in NAMES:
        text = (SCENARIOS / f"{name}.scn").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / f"{name}.log"
            write_history(path, text, genesis=f"golden-{name}")
            report = verify(FileSource(path), core)
            if report.difference is not None:
                raise report.difference
            (folder / path.name).write_bytes(path.read_bytes())
        digests[name] = report.digest
    text = json.dumps(digests, indent=1) + "\n"
    (folder / "digests.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
