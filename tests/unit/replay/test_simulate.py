"""Whole simulations, small ones: what becomes of a trace on a fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gangline.agents.simulated_gang import Saves
from gangline.events import decisions as d
from gangline.replay import simulate as simulation_module
from gangline.replay.bad_input import BadInputError
from gangline.replay.baselines import BASELINES, parse_baselines
from gangline.replay.history import FileSource
from gangline.replay.simulate import Simulation, run, simulate
from gangline.replay.simulation_input import Inputs, SimulationSettings, read_inputs
from gangline.replay.verify import verify
from gangline.scheduler import core

HEADER = "job_id,team,submit_s,gpus,duration_s,status"
FLEET = """
gpus_per_node = 8
levels = ["block"]
blocks = 2
nodes_per_block = 2
"""


def settings(folder: Path, *rows: str, header: str = HEADER, **more: Any) -> SimulationSettings:
    """A trace of these rows on four nodes of 8 GPUs in two blocks."""
    (folder / "trace.csv").write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    (folder / "fleet.toml").write_text(FLEET, encoding="utf-8")
    return SimulationSettings(trace=folder / "trace.csv", fleet=folder / "fleet.toml", **more)


def busy(folder: Path, **more: Any) -> SimulationSettings:
    """Sixty jobs of two teams that ask for half as much again as there is."""
    sizes = (1, 8, 2, 16, 4, 8)
    rows = [
        f"j{i},{'ab'[i % 2]},{i * 600},{sizes[i % 6]},{3600 * (1 + i % 7)},ok" for i in range(60)
    ]
    return settings(folder, *rows, **more)


def test_jobs_run_for_their_duration(tmp_path: Path) -> None:
    """With room for all, nobody waits, and everybody ends when the row says."""
    numbers = simulate(settings(tmp_path, "a,t,0,8,600,ok", "b,t,60,16,60,ok")).numbers

    assert (numbers["jobs"], numbers["finished"], numbers["makespan_s"]) == (2, 2, 600)
    assert numbers["wait_s"]["all"]["max"] == 0
    assert numbers["slowdown"]["all"]["max"] == 1
    assert numbers["placement"]["best_level"] == 1


def test_a_failed_row_ends_as_failed(tmp_path: Path) -> None:
    """It works as long as the row says, and is not tried again."""
    numbers = simulate(settings(tmp_path, "a,t,0,8,600,Failed", "b,t,0,8,600,ok")).numbers

    assert numbers["outcomes"] == {"failed": 1, "succeeded": 1}
    assert numbers["attempts"] == 2
    assert numbers["makespan_s"] == 600


def test_no_job_is_ended_for_a_limit_it_does_not_name(tmp_path: Path) -> None:
    """A job of nine days without a limit runs for nine days."""
    numbers = simulate(settings(tmp_path, "a,t,0,8,777600,ok")).numbers

    assert numbers["outcomes"] == {"succeeded": 1}
    assert numbers["makespan_s"] == 777_600


def test_what_can_never_run_is_told(tmp_path: Path) -> None:
    """A gang larger than the fleet is refused and counted; the rest goes on."""
    numbers = simulate(settings(tmp_path, "a,t,0,64,600,ok", "b,t,0,8,600,ok")).numbers

    assert (numbers["jobs"], numbers["finished"], numbers["rejected"]) == (2, 1, 1)


def test_rows_left_out_are_part_of_the_result(tmp_path: Path) -> None:
    """Whoever reads the numbers sees what they are not about."""
    numbers = simulate(settings(tmp_path, "a,t,0,0,600,ok", "b,t,0,8,600,ok")).numbers

    assert numbers["left_out"] == {"no_gpus": 1}
    assert numbers["jobs"] == 1


def test_the_fleet_is_held_by_one_gang_at_a_time(tmp_path: Path) -> None:
    """Held GPU-time is at most the capacity, and everything is done in the end."""
    measured = simulate(busy(tmp_path))
    numbers = measured.numbers

    assert numbers["finished"] == 60
    assert 0.8 < numbers["allocation"] <= 1
    assert numbers["evictions_without_start"] == 0
    worked = sum(job.gpus * job.productive_ms for job in measured.fold.jobs.values())
    asked = sum(job.gpus * job.duration_ms for job in read_inputs(busy(tmp_path)).jobs)
    assert worked == asked


def test_faults_cost_work_but_no_job(tmp_path: Path) -> None:
    """Under a storm of faults every job still ends, with work lost and done again."""
    numbers = simulate(busy(tmp_path, faults="900+jobs+stragglers", seed=5)).numbers

    assert numbers["finished"] == 60
    assert numbers["lost_gpu_hours"] > 0
    assert numbers["attempts"] > 60
    assert numbers["goodput"] < numbers["allocation"]


def test_a_hard_loss_costs_at_most_a_checkpoint_interval(tmp_path: Path) -> None:
    """What was saved every ten minutes is not done again."""
    interval_ms = 600_000
    often = simulate(busy(tmp_path, faults="2000", seed=5, checkpoint_ms=interval_ms))

    stopped = [a for a in often.fold.attempts if a.stop == d.StopCause.INFRASTRUCTURE.value]
    assert stopped
    silent_ms = 150_000
    for attempt in stopped:
        assert attempt.lost_gpu_ms <= attempt.job.gpus * (interval_ms + silent_ms)


def test_jobs_arrive_faster_on_demand(tmp_path: Path) -> None:
    """Twice as fast means half the window."""
    once = simulate(busy(tmp_path)).numbers["window_s"]

    assert simulate(busy(tmp_path, speedup_load=2.0)).numbers["window_s"] == once / 2


def test_newest_checkpoints_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saying each checkpoint as it is made changes nothing but the number of events."""
    few = simulate(busy(tmp_path, faults="9000", seed=3)).numbers
    monkeypatch.setattr(simulation_module, "SAVES", Saves.AS_MADE)
    all_of_them = simulate(busy(tmp_path, faults="9000", seed=3)).numbers

    assert all_of_them["events"] > few["events"]
    for key in ("makespan_s", "allocation", "lost_gpu_hours", "wait_s", "attempts"):
        assert few[key] == all_of_them[key], key


PROGRAM = """
import json, sys
from pathlib import Path
from gangline.replay.simulate import simulate
from gangline.replay.simulation_input import SimulationSettings
folder = Path(sys.argv[1])
numbers = simulate(
    SimulationSettings(
        trace=folder / "trace.csv", fleet=folder / "fleet.toml", faults="9000+groups+jobs", seed=7
    )
).numbers
print(json.dumps({"digest": numbers["digest"], "wait_s": numbers["wait_s"]}))
"""


def test_the_same_seed_gives_the_same_digest_in_any_process(tmp_path: Path) -> None:
    """Also where Python hashes text in another way."""
    busy(tmp_path)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]

    assert outputs[0] == outputs[1]
    assert len(json.loads(outputs[0])["digest"]) == 64


def test_another_seed_gives_another_digest(tmp_path: Path) -> None:
    """Other faults are other decisions."""
    one, other = (simulate(busy(tmp_path, faults="9000", seed=seed)).numbers for seed in (1, 2))

    assert one["digest"] != other["digest"]


def inputs(folder: Path) -> Inputs:
    """One large job that waits for a long one, and a small one that fits beside."""
    return read_inputs(
        settings(
            folder,
            "long,a,0,24,7200,ok",
            "large,b,10,32,600,ok",
            "small,a,20,8,600,ok",
            "later,b,30,4,300,ok",
        )
    )


def started(folder: Path, name: str) -> dict[str, int]:
    """When each job starts under a baseline, in seconds."""
    jobs = run(inputs(folder), baseline=BASELINES[name]).fold.jobs.values()
    zero = min(job.submitted_ms for job in jobs)
    return {job.job: (job.first_start_ms - zero) // 1000 for job in jobs}


def test_fifo_lets_nobody_pass_the_head(tmp_path: Path) -> None:
    """Even a job that fits waits behind the large one."""
    assert started(tmp_path, "fifo") == {"long": 0, "large": 7200, "small": 7800, "later": 7800}


def test_backfill_fills_the_hole(tmp_path: Path) -> None:
    """Small jobs without a declared limit may be long: only those sure to leave may pass."""
    times = started(tmp_path, "backfill")

    assert times["large"] == 7200


def test_shortest_first_serves_the_least_work(tmp_path: Path) -> None:
    """Of those at the desk the shortest is handed in; what is inside is not overtaken."""
    times = started(tmp_path, "shortest")

    assert times["later"] <= times["small"]


def test_baselines_keep_the_teams_apart_in_the_measures(tmp_path: Path) -> None:
    """One team on the core, but delivered GPU-hours are still told by team."""
    fairness = run(inputs(tmp_path), baseline=BASELINES["fifo"]).numbers["fairness"]["per_team"]

    assert set(fairness) == {"a", "b"}


def test_teams_without_a_file_share_the_fleet(tmp_path: Path) -> None:
    """Listed teams keep what they are guaranteed; the others split the rest."""
    (tmp_path / "teams.toml").write_text('[[team]]\nname = "a"\nguaranteed = 12\n')
    made = read_inputs(busy(tmp_path, teams=tmp_path / "teams.toml"))

    assert [(team.team, team.guaranteed) for team in made.teams] == [("a", 12), ("b", 20)]


def test_a_policy_file_is_checked_against_the_core(tmp_path: Path) -> None:
    """Units are the core's; unknown keys and wrong values are named."""
    policy = tmp_path / "policy.toml"
    policy.write_text('min_runtime = "5m"\nretries = 2\n')
    assert read_inputs(busy(tmp_path, policy=policy)).policy["min_runtime"] == 300_000

    for text, message in (
        ("min_runtme = 3", "min_runtme: no such policy key"),
        ("min_runtime = 3", 'expected a duration like "10m"'),
        ('retries = "10m"', "retries: expected a count"),
    ):
        policy.write_text(text)
        with pytest.raises(BadInputError) as caught:
            read_inputs(busy(tmp_path, policy=policy))
        assert message in str(caught.value)


def test_unknown_baselines_are_refused() -> None:
    """The message lists the known ones."""
    assert [b.name for b in parse_baselines("fifo,gangline,fifo")] == ["fifo", "gangline"]
    with pytest.raises(BadInputError, match="expected some of fifo, backfill"):
        parse_baselines("fifo,lottery")


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    """There is nothing to simulate."""
    with pytest.raises(BadInputError, match="expected at least one job"):
        simulate(settings(tmp_path))


def test_progress_is_told(tmp_path: Path) -> None:
    """At the end everything is done."""
    told: list[int] = []

    def progress(simulation: Simulation) -> None:
        told.append(simulation.done)

    simulate(busy(tmp_path), progress=progress)
    assert told[-1] == 60


def test_a_simulated_log_is_proven_like_any_other(tmp_path: Path) -> None:
    """Verify runs the core again over the recorded facts and finds every byte as it was."""
    log = tmp_path / "cell.log"
    numbers = simulate(busy(tmp_path, faults="900+jobs", seed=5, log=log)).numbers

    report = verify(FileSource(log), core)

    assert report.difference is None
    assert report.unconsumed_facts == 0
    assert report.decisions == numbers["decisions"]
