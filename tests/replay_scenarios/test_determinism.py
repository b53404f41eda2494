"""The same story gives the same bytes, whatever the order in which Python hashes text."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.sources import ROOT

SCRIPT = """
import hashlib, sys
from gangline.events import codec
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import parse

digest = hashlib.blake2b()
for path in sys.argv[1:]:
    run = ScenarioRun(path)
    assert run.play(parse(open(path, encoding="utf-8").read(), file=path)) is None
    for step in run.world.steps:
        digest.update(step.digest)
        for decision in step.decisions:
            digest.update(codec.pack(decision).body)
print(digest.hexdigest())
"""


def digest_of(names: list[str], *, seed: str) -> str:
    """The digest of all decisions and states of some scenarios, made by a process of its own."""
    scenarios = ROOT / "tests" / "scenarios"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *(str(scenarios / name) for name in names)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    "names",
    [
        ["17-team-tree.scn", "23-share-by-weight.scn", "31-siblings-lend-before-cousins.scn"],
        ["24-crash-in-the-middle-of-a-preemption.scn", "67-reclaim-under-a-hostile-log.scn"],
    ],
)
def test_two_processes_decide_the_same(names: list[str]) -> None:
    """Byte for byte, in decisions and in states."""
    assert digest_of(names, seed="1") == digest_of(names, seed="4242")
