"""`python -m gangline.replay.vopr`: run many seeds, or one again."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from gangline.replay.vopr.many import Tally, run_many

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from gangline.replay.vopr.simulation import Verdict

OFTEN_S: Final = 0.2
SELDOM_S: Final = 10.0


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gangline.replay.vopr",
        description="Simulate whole cells with faults, one a seed; exit 1 if anything was wrong.",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many, default %(default)s")
    parser.add_argument("--first", type=int, default=0, help="the first one, default %(default)s")
    parser.add_argument("--seed", type=int, help="only this one, again")
    parser.add_argument("--fresh", action="store_true", help="seeds that nobody has drawn before")
    parser.add_argument("--workers", type=int, help="processes, default one a processor")
    parser.add_argument("--json", type=Path, help="write the tally there")
    return parser.parse_args(words)


def _seeds(chosen: argparse.Namespace) -> list[int]:
    if chosen.seed is not None:
        return [chosen.seed]
    if chosen.fresh:
        return [SystemRandom().randrange(1 << 40) for _ in range(chosen.seeds)]
    return list(range(chosen.first, chosen.first + chosen.seeds))


def commit() -> str:
    """Which code runs, as git names it; `unknown` outside a clone."""
    here = Path(__file__).parent
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"


class _Progress:
    """A line on stderr: written over on a terminal, else now and then."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = self._wrong = 0
        self._terminal = sys.stderr.isatty()
        self._began = self._told = time.monotonic()

    def __call__(self, verdict: Verdict) -> None:
        """One more seed is done; a wrong one is told at once."""
        self._done += 1
        if verdict.wrong:
            self._wrong += 1
            self._say(f"seed {verdict.seed}: {verdict.wrong}\n")
        now = time.monotonic()
        if now - self._told >= (OFTEN_S if self._terminal else SELDOM_S):
            self._told = now
            rate = self._done / (now - self._began)
            left_s = (self._total - self._done) / rate
            line = f"{self._done} of {self._total} seeds, {self._wrong} wrong, {left_s:.0f} s left"
            self._say(line if self._terminal else f"{line}\n")

    def _say(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text}" if self._terminal else text)
        sys.stderr.flush()


def _counted(title: str, counter: Counter[str]) -> str:
    words = ", ".join(f"{name} {count:,}" for name, count in counter.most_common())
    return f"{title}: {words or 'none'}\n"


def report(tally: Tally, *, wall_s: float) -> str:
    """The tally in words."""
    hours = tally.virtual_s / 3600
    text = (
        f"{tally.seeds:,} seeds at commit {commit()}: {len(tally.wrong)} wrong; "
        f"{hours:,.1f} h of virtual time, {tally.events:,} events, {tally.batches:,} batches "
        f"in {wall_s:,.0f} s; the slowest came to rest after {tally.slowest_rest_s} s\n"
    )
    text += _counted("decisions", tally.decisions)
    text += _counted("wait causes", tally.causes)
    text += _counted("refusals", tally.refusals)
    text += _counted("troubles", tally.troubles)
    text += _counted("schedulers", tally.crew)
    text += f"never seen: {', '.join(tally.unseen()) or 'nothing'}\n"
    for seed, wrong in sorted(tally.wrong.items()):
        text += f"WRONG: {wrong}\n  again: python -m gangline.replay.vopr --seed {seed}\n"
    return text


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for; 0 if nothing was wrong."""
    chosen = _arguments(words)
    seeds = _seeds(chosen)
    sys.stdout.write(f"seeds {seeds[0]} to {seeds[-1]}, commit {commit()}\n")
    began = time.monotonic()
    tally = run_many(seeds, workers=chosen.workers, seen=_Progress(len(seeds)))
    wall_s = time.monotonic() - began
    sys.stdout.write(report(tally, wall_s=wall_s))
    if chosen.json:
        figures = {"commit": commit(), "wall_s": round(wall_s), "seeds": tally.seeds}
        figures |= {"events": tally.events, "batches": tally.batches, "wrong": tally.wrong}
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
