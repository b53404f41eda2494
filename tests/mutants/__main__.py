"""`make mutants`: every wrong patch, the seeds that it took to catch it, and what gave it away."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import TYPE_CHECKING

from tests.mutants.hunt import MOST_SEEDS, MUTANTS, Catch, hunt

if TYPE_CHECKING:
    from collections.abc import Sequence

ALARM_CHARACTERS = 90


def _line(catch: Catch) -> str:
    mutant = MUTANTS[catch.mutant]
    seeds = str(catch.seeds) if catch.seeds else "not"
    alarm = " ".join(catch.alarm.split())[:ALARM_CHARACTERS].replace("|", "/")
    return f"| {mutant.name} | {mutant.room} | {mutant.says} | {seeds} | {alarm} |\n"


def main(words: Sequence[str] | None = None) -> int:
    """Hunt all, or the named ones; 1 if one got away."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants, default all")
    parser.add_argument(
        "--seeds", type=int, default=MOST_SEEDS, help="at most, default %(default)s"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(words)
    names = chosen.names or list(MUTANTS)
    catches: dict[str, Catch] = {}
    with ProcessPoolExecutor(chosen.workers, max_tasks_per_child=1) as pool:
        work = partial(hunt, seeds=range(chosen.seeds))
        for future in as_completed([pool.submit(work, name) for name in names]):
            catch = future.result()
            catches[catch.mutant] = catch
            took = f"{catch.seeds} seeds" if catch.seeds else "GOT AWAY"
            sys.stderr.write(f"{len(catches)} of {len(names)}: {catch.mutant}: {took}\n")
    sys.stdout.write("| mutant | room | what is wrong | seeds | the alarm |\n")
    sys.stdout.write("| --- | --- | --- | ---: | --- |\n")
    sys.stdout.writelines(_line(catches[name]) for name in names)
    away = [name for name in names if not catches[name].seeds]
    sys.stdout.write(f"\n{len(names) - len(away)} of {len(names)} mutants caught\n")
    return 1 if away else 0


if __name__ == "__main__":
    sys.exit(main())
