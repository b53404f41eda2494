"""Users and operators: what they ask for, again and again until the log has it; and liars.

A request that got no answer may have landed all the same; it is sent again under the same id. What
was acknowledged is kept, as that is what the cell has promised to answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.events import codec, facts
from gangline.events.log import LogError, Message, Topic
from gangline.events.spec import JobClass, jobs_of
from gangline.replay.vopr.plan import job_of, quota_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.replay.vopr.bus import Line
    from gangline.replay.vopr.host import Host
    from gangline.replay.vopr.plan import Plan
    from gangline.replay.vopr.programs import Programs

LIE: Final = "lie-"
"""How the ids of facts begin that nobody may believe; only the auditor knows."""

AGAIN_MS: Final = (200, 3_000)


class People:
    """Everybody who asks a cell for something.

    submitted: specs by job, whether acknowledged or not. acknowledged: jobs whose submission the
    log has taken, and told so.
    """

    def __init__(self, plan: Plan, *, line: Line, programs: Programs) -> None:
        self._plan = plan
        self._chance = plan.chance
        self._line = line
        self._programs = programs
        self._ids = 0
        self.submitted: list[str] = []
        self.acknowledged: set[str] = set()
        self.unanswered = 0

    # --- saying ----------------------------------------------------------------------------------

    def say(
        self,
        topic: Topic,
        body: Any,  # noqa: ANN401 - any fact of people
        *,
        then: Callable[[], None] | None = None,
    ) -> None:
        """State a fact, and again until the log has it."""
        self._ids += 1
        name = body.job if isinstance(body, facts.JobSubmitted) else f"ask-{self._ids}"
        actor = "operator:ops" if topic is Topic.CONTROL else "user:u"
        value = codec.stated(body, id=name, actor=actor)
        self.unanswered += 1
        self._send(Message(topic=topic, value=value), then)

    def _send(self, message: Message, then: Callable[[], None] | None) -> None:
        try:
            self._line.append([message])
        except LogError:
            timeline = self._line.bus.timeline
            timeline.after(self._chance.randrange(*AGAIN_MS), lambda: self._send(message, then))
            return
        self.unanswered -= 1
        if then is not None:
            then()

    def control(self, body: Any) -> None:  # noqa: ANN401 - any fact of operators
        """An operator states a fact."""
        self.say(Topic.CONTROL, body)

    def ask(self, body: Any) -> None:  # noqa: ANN401 - any fact of users
        """A user states a fact."""
        self.say(Topic.JOBS, body)

    # --- users -----------------------------------------------------------------------------------

    def found_cell(self) -> None:
        """Policy, nodes and teams, in the order in which an operator would say them."""
        plan = self._plan
        self.control(facts.PolicySet(values=plan.policy))
        for node in plan.nodes:
            admitted = facts.NodeAdmitted(
                node=node.name, path=node.path, levels=plan.levels, gpus=node.gpus
            )
            self.control(admitted)
        for team in plan.teams:
            self.control(team)

    def submit(self) -> None:
        """Somebody submits a job, now and then the same one twice."""
        if self.submitted and self._chance.random() < 0.03:
            job = self._chance.choice(self.submitted)
            self.ask(facts.JobCancelRequested(job=job))
            return
        planned = job_of(self._plan, len(self.submitted), self.submitted)
        for name in jobs_of(planned.job, planned.spec):
            self._programs.of_job[name] = planned.program
        self.submitted.append(planned.job)
        body = facts.JobSubmitted(job=planned.job, spec=planned.spec)
        self.say(Topic.JOBS, body, then=lambda: self.acknowledged.add(planned.job))

    def some_job(self) -> str:
        """A job that was submitted, or one that never was."""
        return self._chance.choice([*self.submitted[-12:], "nobody"])

    def change_mind(self) -> None:
        """Somebody cancels, holds, releases or raises a job."""
        job = self.some_job()
        classes = list(JobClass)
        self.ask(
            self._chance.choice(
                (
                    facts.JobCancelRequested(job=job),
                    facts.JobHoldRequested(job=job),
                    facts.JobHoldReleased(job=job),
                    facts.JobPriorityChangeRequested(
                        job=job, job_class=self._chance.choice(classes)
                    ),
                )
            )
        )

    def release_all(self) -> None:
        """Nobody holds anything any more."""
        for job in self.submitted:
            self.ask(facts.JobHoldReleased(job=job))

    # --- operators -------------------------------------------------------------------------------

    def give_orders(self) -> None:
        """An operator does something to a node, or asks for a hand-over."""
        chance = self._chance
        node = chance.choice(self._plan.nodes).name
        self.control(
            chance.choice(
                (
                    facts.NodeCordoned(node=node),
                    facts.NodeUncordoned(node=node),
                    facts.DrainRequested(node=node, deadline_ms=chance.choice((None, 0, 5_000))),
                    facts.MaintenanceScheduled(
                        node=node, in_ms=chance.choice((0, 10_000)), for_ms=10_000
                    ),
                    facts.HandOverRequested(),
                    facts.NodeUncordoned(node=node),
                )
            )
        )

    def change_quota(self) -> None:
        """An operator changes a team."""
        self.control(quota_of(self._plan))

    def open_all(self) -> None:
        """Operators want all nodes to work."""
        for node in self._plan.nodes:
            self.control(facts.NodeUncordoned(node=node.name))

    # --- liars -----------------------------------------------------------------------------------

    def litter(self) -> None:
        """Bytes that mean nothing, anywhere among the inputs."""
        topic = self._chance.choice((Topic.JOBS, Topic.CONTROL, Topic.NODES, Topic.HEARTBEATS))
        self._line.bus.land([Message(topic=topic, value=self._chance.randbytes(9))])

    def lie(self, host: Host) -> None:
        """A node states what it must not: of others, of what it does not have, or nonsense."""
        self._ids += 1
        chance, node = self._chance, host.name
        other = chance.choice([n.name for n in self._plan.nodes if n.name != node] or ["nowhere"])
        job, victim = self.some_job(), chance.choice((other, "nowhere"))
        place: dict[str, Any] = {"node": victim, "job": job, "attempt": chance.choice((1, 2, 99))}
        body = chance.choice(
            (
                facts.MemberExited(**place, code=chance.choice((0, 1))),
                facts.MemberReady(**place, address="liar", port=1),
                facts.CheckpointSaved(**place, step=10**6, path="/lie", productive_ms=10**9),
                facts.FaultDetected(node=victim, gpu=-1, fault="xid"),
                facts.NodeRegistered(node=victim, boot_id="lie", gpus=99, address="liar"),
                facts.FaultDetected(node=node, gpu=10**6, fault="xid"),
                facts.FaultDetected(node=node, gpu=-7, fault="xid"),
                facts.MemberExited(node=node, job="nobody", attempt=1, code=0),
                facts.NodeHeartbeat(node=other, boot_id="lie", sequence=1),
                facts.JobSubmitted(
                    job=f"forged-{self._ids}", spec=job_of(self._plan, 0, ["nobody"]).spec
                ),
                facts.TeamSet(team="t0", guaranteed=10**6),
            )
        )
        heartbeat = isinstance(body, facts.NodeHeartbeat)
        topic = Topic.HEARTBEATS if heartbeat else Topic.NODES
        value = codec.stated(body, id=f"{LIE}{self._ids}", actor=f"node:{node}")
        self._line.bus.land([Message(topic=topic, key=host.key, value=value)])
