"""Runs scenario files on the real core through the simulator, and says what was not as expected.

The invariants are checked after every step, and the run is replayed at its end. A file is `ok`, or
one line says where it first went wrong: `FILE:LINE: expected …, got …`.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from gangline.events import facts as f
from gangline.replay import scenario_commands as c
from gangline.replay.bad_input import BadInputError
from gangline.replay.broken_rule import BrokenRuleError
from gangline.replay.invariants import Invariants
from gangline.replay.scenario_expect import Scene, Unmet
from gangline.replay.scenario_grammar import parse, submit_of
from gangline.replay.scenario_replay import check_replay
from gangline.replay.scenario_tally import Tally
from gangline.replay.scenario_values import show_ms
from gangline.replay.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gangline.replay.core_port import Core, Step

PASSED: Final = 0
FAILED: Final = 1
BAD_INPUT: Final = 2


def run_files(paths: Sequence[str | Path], out: TextIO, *, core: Core | None = None) -> int:
    """Run scenario files and print a line for each and a last one; the exit code is returned.

    0: all passed; 1: one or more failed; 2: one or more could not be read.
    """
    codes = []
    for path in paths:
        code, line = _run_path(Path(path), core)
        print(line, file=out, flush=True)
        codes.append(code)
    passed = codes.count(PASSED)
    print(f"{passed} passed, {len(codes) - passed} failed", file=out, flush=True)
    return max(codes, default=BAD_INPUT)


def _run_path(path: Path, core: Core | None) -> tuple[int, str]:
    """The exit code and the line of one file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        return BAD_INPUT, f"{path}: expected a scenario file, got {error.strerror}"
    except UnicodeDecodeError as error:
        return BAD_INPUT, f"{path}: expected UTF-8 text, got {error.reason} at {error.start}"
    try:
        commands = parse(text, file=str(path))
    except BadInputError as error:
        return BAD_INPUT, str(error)
    run = ScenarioRun(str(path), core=core)
    problem = run.play(commands)
    return (PASSED, f"{path}: ok") if problem is None else (FAILED, problem)


class ScenarioRun:
    """One file being played."""

    def __init__(self, file: str, *, core: Core | None = None) -> None:
        self.file = file
        self.tally = Tally()
        self.rules = Invariants()
        self.world = World(
            core or _real_core(), observers=(self.tally, self.rules, self), keeps_steps=True
        )
        self.scene = Scene(self.world, self.tally, self.rules.model)
        self._wanted: tuple[str, str] | None = None
        self._found = False

    def play(self, commands: Sequence[c.Command]) -> str | None:
        """Play all commands; the line that says what went wrong, or None."""
        line = 0
        try:
            for command in commands:
                line = command.line
                self.do(command)
            self.finish()
        except (Unmet, BrokenRuleError) as problem:
            return f"{self.file}:{line}: {problem}"
        except Exception as error:  # noqa: BLE001 - a crash of the core fails the scenario
            return f"{self.file}:{line}: expected no crash, got {_told(error)}"
        return None

    def do(self, command: c.Command) -> None:
        """Play one command; raises Unmet or BrokenRuleError."""
        _PLAYERS[type(command)](self, command)

    def finish(self) -> None:
        """See that nothing is left undone, and that the run replays."""
        self.world.settle()
        self.rules.finish()
        check_replay(self.world.core, self.world.steps)

    def stepped(self, _world: World, _step: Step) -> None:
        """A step was made: look for the state that is waited for."""
        if self._wanted is not None:
            job, state = self._wanted
            self._found = self._found or self.scene.state_of(job) == state

    # --- commands ---------------------------------------------------------------------------------

    def _fleet(self, command: c.MakeFleet) -> None:
        self.world.admit(command.nodes)

    def _policy(self, command: c.SetPolicy) -> None:
        self.world.control(f.PolicySet(values=command.values))

    def _team(self, command: c.SetTeam) -> None:
        self.world.control(command.team)

    def _submit(self, command: c.Submit) -> None:
        self.world.submit(command.job, command.spec, command.program)

    def _repeat(self, command: c.Repeat) -> None:
        """The first at once, the others as time passes."""

        def submit(index: int) -> None:
            if index < command.count:
                at_ms = self.world.now_ms + command.every_ms
                self.world.at(at_ms, lambda: submit(index + 1))
            self._submit(submit_of(command, index, file=self.file))

        submit(1)

    def _cancel(self, command: c.Cancel) -> None:
        self.world.ask(f.JobCancelRequested(job=command.job))

    def _hold(self, command: c.Hold) -> None:
        self.world.ask(f.JobHoldRequested(job=command.job))

    def _release(self, command: c.Release) -> None:
        self.world.ask(f.JobHoldReleased(job=command.job))

    def _priority(self, command: c.ChangePriority) -> None:
        self.world.ask(f.JobPriorityChangeRequested(job=command.job, job_class=command.job_class))

    def _run(self, command: c.Run) -> None:
        self.world.run(self.world.now_ms + command.for_ms)

    def _run_until(self, command: c.RunUntil) -> None:
        self.world.settle()
        self._found = self.scene.state_of(command.job) == command.state
        self._wanted = (command.job, command.state)
        until_ms = self.world.now_ms + command.max_ms
        found = self.world.run(until_ms, watch=lambda: self._found)
        self._wanted = None
        if not found:
            expected = f"{command.job} {command.state} within {show_ms(command.max_ms)}"
            raise Unmet(expected, self.scene.state_of(command.job))

    def _fail(self, command: c.Fail) -> None:
        self.world.fail(self._node(command.place), for_ms=command.for_ms)

    def _partition(self, command: c.Partition) -> None:
        self.world.cut(self._node(command.place), for_ms=command.for_ms)

    def _fault(self, command: c.Fault) -> None:
        node = self._node(command.place)
        self.world.break_gpu(node, gpu=command.gpu, kind=command.kind)

    def _slow(self, command: c.Slow) -> None:
        self.world.slow(self._node(command.place), ready_ms=command.ready_ms)

    def _cordon(self, command: c.Cordon) -> None:
        self.world.control(f.NodeCordoned(node=self._node(command.place)))

    def _uncordon(self, command: c.Uncordon) -> None:
        self.world.control(f.NodeUncordoned(node=self._node(command.place)))

    def _drain(self, command: c.Drain) -> None:
        node = self._node(command.place)
        self.world.control(f.DrainRequested(node=node, deadline_ms=command.deadline_ms))

    def _maintain(self, command: c.Maintain) -> None:
        node = self._node(command.place)
        self.world.control(
            f.MaintenanceScheduled(node=node, in_ms=command.in_ms, for_ms=command.for_ms)
        )

    def _withdraw(self, command: c.Withdraw) -> None:
        self.world.control(f.NodeWithdrawn(node=self._node(command.place)))

    def _crash(self, _command: c.CrashScheduler) -> None:
        self.world.crash()

    def _stop(self, command: c.StopScheduler) -> None:
        self.world.stop_scheduler(command.for_ms)

    def _log(self, command: c.ChangeLog) -> None:
        self.world.settle()
        log = self.world.log
        if command.mode == "normal":
            log.doubled = log.shuffled = False
        elif command.mode == "duplicate":
            log.doubled = True
        else:
            log.shuffled = True

    def _garbage(self, command: c.Garbage) -> None:
        self.world.garbage(command.topic)

    def _expect(self, command: c.Expect) -> None:
        self.world.settle()
        self.scene.check(command.what, command.name, command.checks)

    def _expect_reason(self, command: c.ExpectReason) -> None:
        self.world.settle()
        state = self.scene.state_of(command.job)
        got = state
        if state in {"queued", "starting"}:
            cause, text = self.world.core.explain(
                self.world.state, command.job, now_ms=self.world.now_ms
            )
            got = str(cause)
            if got == command.cause:
                return
            got = f"{cause} ({text})"
        raise Unmet(f"reason {command.job} {command.cause}", got)

    def _node(self, place: c.Place) -> str:
        self.world.settle()
        return self.scene.node_of(place)


def _told(error: Exception) -> str:
    """An unforeseen error in one line: what, and where it was raised."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said} ({Path(where.filename).name}:{where.lineno})"


def _real_core() -> Core:
    from gangline.scheduler import core  # noqa: PLC0415 - only who runs scenarios needs it

    return core


_PLAYERS: Final[Mapping[type, Callable[[ScenarioRun, Any], None]]] = {
    c.MakeFleet: ScenarioRun._fleet,  # noqa: SLF001 - the table of this class
    c.SetPolicy: ScenarioRun._policy,  # noqa: SLF001
    c.SetTeam: ScenarioRun._team,  # noqa: SLF001
    c.Submit: ScenarioRun._submit,  # noqa: SLF001
    c.Repeat: ScenarioRun._repeat,  # noqa: SLF001
    c.Cancel: ScenarioRun._cancel,  # noqa: SLF001
    c.Hold: ScenarioRun._hold,  # noqa: SLF001
    c.Release: ScenarioRun._release,  # noqa: SLF001
    c.ChangePriority: ScenarioRun._priority,  # noqa: SLF001
    c.Run: ScenarioRun._run,  # noqa: SLF001
    c.RunUntil: ScenarioRun._run_until,  # noqa: SLF001
    c.Fail: ScenarioRun._fail,  # noqa: SLF001
    c.Partition: ScenarioRun._partition,  # noqa: SLF001
    c.Fault: ScenarioRun._fault,  # noqa: SLF001
    c.Slow: ScenarioRun._slow,  # noqa: SLF001
    c.Cordon: ScenarioRun._cordon,  # noqa: SLF001
    c.Uncordon: ScenarioRun._uncordon,  # noqa: SLF001
    c.Drain: ScenarioRun._drain,  # noqa: SLF001
    c.Maintain: ScenarioRun._maintain,  # noqa: SLF001
    c.Withdraw: ScenarioRun._withdraw,  # noqa: SLF001
    c.CrashScheduler: ScenarioRun._crash,  # noqa: SLF001
    c.StopScheduler: ScenarioRun._stop,  # noqa: SLF001
    c.ChangeLog: ScenarioRun._log,  # noqa: SLF001
    c.Garbage: ScenarioRun._garbage,  # noqa: SLF001
    c.Expect: ScenarioRun._expect,  # noqa: SLF001
    c.ExpectReason: ScenarioRun._expect_reason,  # noqa: SLF001
}
