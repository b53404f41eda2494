"""Submitting a job: what is taken, what is said when it cannot be taken, and what repeats do."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from gangline.api.jobs import Submissions
from gangline.events.log import Topic
from gangline.events.spec import JobClass, Topology, TopologyKind

if TYPE_CHECKING:
    from gangline.events.log import Message
    from tests.api.fakes import World

GOOD = {"team": "vision", "gpus": 8, "command": ["python", "train.py"]}


def test_a_job_becomes_a_fact_whose_id_is_the_idempotency_key(world: World) -> None:
    """The client gets the job's id and the position of its submission."""
    answer = world.client.post("/v1/jobs", json=GOOD, headers={"Idempotency-Key": "run-17"})

    assert answer.status_code == 202
    assert answer.json() == {"job": "run-17", "position": "jobs-0-0"}
    (event,) = world.facts(Topic.JOBS)
    assert (event.envelope.id, event.envelope.actor) == ("run-17", "operator:local")
    assert (event.body.job, event.body.spec.team, event.body.spec.gpus) == ("run-17", "vision", 8)


def test_repeats_at_the_same_time_are_one_submission(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes while the first is still being written down waits for it."""
    publisher = world.client.app.state.desk.publisher  # type: ignore[attr-defined]
    append, inside, go_on = publisher.append_all, threading.Event(), threading.Event()

    def slow(messages: list[Message]) -> list[str]:
        inside.set()
        go_on.wait(timeout=30)
        found: list[str] = append(messages)
        return found

    def submit(spec: dict[str, Any]) -> Any:
        headers = {"Idempotency-Key": "run-17"}
        return world.client.post("/v1/jobs", json=spec, headers=headers)

    monkeypatch.setattr(publisher, "append_all", slow)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(submit, GOOD)
        inside.wait(timeout=30)
        others = [threads.submit(submit, spec) for spec in (GOOD, GOOD, GOOD | {"gpus": 4})]
        go_on.set()
        answers = [each.result() for each in (first, *others)]

    assert [answer.status_code for answer in answers] == [202, 202, 202, 409]
    assert {answer.json()["position"] for answer in answers[:3]} == {"jobs-0-0"}
    assert len(world.facts(Topic.JOBS)) == 1


def test_all_names_of_the_grammar_reach_the_log(world: World) -> None:
    """Durations are texts or numbers of seconds."""
    spec = GOOD | {
        "gpus_per_node": 4, "priority": "high", "limit": "2h", "checkpoint": 600, "grace": "30s",
        "topology": "required:block", "retries": 1, "after": ["prepare"], "preemptible": "no",
        "name": "resnet", "env": {"A": "1"}, "workdir": "/data",
    }  # fmt: skip

    world.client.post("/v1/jobs", json=spec).raise_for_status()

    (event,) = world.facts(Topic.JOBS)
    logged = event.body.spec
    assert logged.gpus_per_node == 4
    assert logged.job_class is JobClass.HIGH
    assert (logged.limit_ms, logged.checkpoint.interval_ms, logged.grace_ms) == (
        7_200_000,
        600_000,
        30_000,
    )
    assert logged.topology == Topology(kind=TopologyKind.REQUIRED, level="block")
    assert (logged.retries, logged.after, logged.preemptible) == (1, ("prepare",), False)
    assert json.loads(logged.private.ciphertext) == {
        "command": ["python", "train.py"], "env": {"A": "1"}, "workdir": "/data",
    }  # fmt: skip


def test_a_job_without_a_key_is_named_after_its_name(world: World) -> None:
    """Two of them are two jobs."""
    jobs = [
        world.client.post("/v1/jobs", json=GOOD | {"name": "resnet"}).json()["job"] for _ in "12"
    ]

    assert all(job.startswith("resnet-") for job in jobs)
    assert jobs[0] != jobs[1]


def test_the_same_key_again_is_the_same_job(world: World) -> None:
    """However often it is sent, one fact stands in the log."""
    answers = [
        world.client.post("/v1/jobs", json=GOOD, headers={"Idempotency-Key": "k"}).json()
        for _ in range(3)
    ]

    assert answers == [{"job": "k", "position": "jobs-0-0"}] * 3
    assert len(world.facts(Topic.JOBS)) == 1


def test_a_repeat_is_known_after_a_restart(world: World) -> None:
    """Another process of the API asks the views where the submission stands, and reads it there."""
    headers = {"Idempotency-Key": "k"}
    first = world.client.post("/v1/jobs", json=GOOD, headers=headers).json()
    world.views.tables["jobs"] = [{"job": "k", "team": "vision", "submission": first["position"]}]
    world.client.app.state.desk.submissions = Submissions()  # type: ignore[attr-defined]

    again = world.client.post("/v1/jobs", json=GOOD, headers=headers)
    other = world.client.post("/v1/jobs", json=GOOD | {"gpus": 1}, headers=headers)

    assert again.json() == first
    assert other.status_code == 409
    assert len(world.facts(Topic.JOBS)) == 1


def test_the_same_key_for_another_job_is_a_conflict(world: World) -> None:
    """A key belongs to one job."""
    headers = {"Idempotency-Key": "k"}
    world.client.post("/v1/jobs", json=GOOD, headers=headers).raise_for_status()

    answer = world.client.post("/v1/jobs", json=GOOD | {"gpus": 16}, headers=headers)

    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:gangline:problem:conflict"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpus": 0}, "gpus: this is at least 1, not 0"),
        ({"gpus": -8}, "gpus: this is at least 1, not -8"),
        ({"gpus": "8"}, "gpus: this is a whole number, not '8'"),
        ({"gpus": 1.5}, "gpus: this is a whole number, not 1.5"),
        ({"gpus": True}, "gpus: this is a whole number, not true"),
        ({"gpus_per_node": 3}, "body: gpus (8) is not a multiple of gpus_per_node (3)"),
        (
            {"grace": "5s", "stop_signal": "USR2@10s"},
            "body: the lead of stop_signal (10s) is longer than the grace (5s)",
        ),
        ({"gpu_per_node": 8}, "gpu_per_node: there is no such field; did you mean gpus_per_node?"),
        ({"team": ""}, "team: a name has at least one character"),
        ({"team": "x" * 129}, "team: a name has at most 128 characters, not 129"),
        ({"team": "a\x07b"}, "team: a name has printing characters only"),
        ({"team": "a\u3164"}, "team: a name has no character that cannot be seen, like U+3164"),
        ({"name": "tra\ufe0fin"}, "name: a name has no character that cannot be seen, like U+FE0F"),
        ({"team": "a b"}, "team: a name has no space"),
        ({"name": "a/b"}, "name: a name has no /"),
        ({"limit": "10 minutes"}, "limit: a duration is a text like 500ms, 30s, 10m, 2h or 3d"),
        ({"limit": "0s"}, "limit: this is more than 0"),
        ({"limit": -1}, "limit: a duration is not negative, like -1"),
        ({"topology": "required"}, "topology: a topology is any, preferred:LEVEL or required:"),
        ({"priority": "top"}, "priority: this is low, normal, high or urgent, not 'top'"),
        ({"preemptible": "maybe"}, "preemptible: this is yes or no"),
        ({"command": []}, "command"),
        ({"command": ["a\0b"]}, "body: command, env and workdir hold no NUL"),
        ({"env": {"A": "\ud800"}}, "body: command, env and workdir hold no NUL and no half"),
        ({"env": {"A\n\x1b[31m": "1"}}, "'env.A\\n\\x1b[31m': a name has printing"),
        ({"env": {"A=B": "1"}}, "body: the name of a variable has no ="),
        ({"runtime": "10m"}, "body: runtime and exits_after are for jobs without a command"),
        (
            {"env": {"A": "x" * 65_430}},
            "a spec has at most 65,536 bytes, this one 65,553 in the log",
        ),
        ({"env": {"A": "x" * 70_000}}, "a spec has at most 65,536 bytes, this one 70,0"),
    ],
)
def test_a_wrong_spec_is_one_problem_that_says_what_would_be_right(
    world: World, change: dict[str, Any], said: str
) -> None:
    """It names the field, and nothing reaches the log."""
    answer = world.client.post("/v1/jobs", content=json.dumps(GOOD | change))

    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith(said)
    assert world.facts(Topic.JOBS) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is no JSON"),
        (b"{", "the body is no JSON"),
        (b'{"team": "a", "team": "b", "gpus": 1}', "'team' stands twice"),
        (b'{"team": "a", "gpus": NaN}', "NaN is no number"),
        (b"\xff\xfe", "the body is no JSON"),
        (b"[" * 100_000, "the body is no JSON"),
        (b'{"gpus": ' + b"9" * 5_000 + b"}", "a number of 5,000 digits; at most 100 are read"),
    ],
)
def test_a_body_that_is_no_json_is_said_to_be_so(world: World, body: bytes, said: str) -> None:
    """A broken body is a bad request, not an accident."""
    answer = world.client.post("/v1/jobs", content=body)

    assert answer.status_code == 400
    assert said in answer.json()["detail"]


def test_a_body_that_is_no_object_is_not_valid(world: World) -> None:
    """JSON, but no spec."""
    answer = world.client.post("/v1/jobs", json=[1])

    assert answer.status_code == 422


def test_a_batch_is_taken_whole_or_not_at_all(world: World) -> None:
    """One wrong spec keeps all of them out, and is named."""
    good = {"id": "a", "spec": GOOD}
    wrong = {"id": "b", "spec": GOOD | {"gpus": 0}}

    refused = world.client.post("/v1/jobs/batch", json={"jobs": [good, wrong]})
    taken = world.client.post("/v1/jobs/batch", json={"jobs": [good, {"id": "b", "spec": GOOD}]})

    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("jobs.1: gpus:")
    assert [job["position"] for job in taken.json()["jobs"]] == ["jobs-0-0", "jobs-0-1"]


def test_one_id_for_two_jobs_of_a_batch_is_a_conflict(world: World) -> None:
    """Nothing is taken; twice the same job is one job that was sent twice."""
    other = GOOD | {"gpus": 16}
    twins = [{"id": "a", "spec": GOOD}, {"id": "a", "spec": other}]

    answer = world.client.post("/v1/jobs/batch", json={"jobs": twins})

    assert answer.status_code == 409
    assert answer.json()["detail"] == "two jobs of this batch have the id a"
    assert world.facts(Topic.JOBS) == []


def test_a_key_may_be_of_any_script(world: World) -> None:
    """A header is bytes: UTF-8 here, as everywhere."""
    headers = {b"Idempotency-Key": "équipe-作业".encode()}

    answer = world.client.post("/v1/jobs", json=GOOD, headers=headers)

    assert answer.json()["job"] == "équipe-作业"


def test_an_unknown_class_and_an_empty_name_are_said_to_be_so(world: World) -> None:
    """Not an accident of the server's, and no way to somewhere else."""
    world.client.post("/v1/jobs", json=GOOD, headers={"Idempotency-Key": "k"}).raise_for_status()

    wrong = world.client.post("/v1/jobs/k/priority", json={"priority": "top"})
    nameless = world.client.get("/v1/jobs/", follow_redirects=False)

    assert wrong.status_code == 422
    assert wrong.json()["detail"].startswith("priority: this is low, normal, high or")
    assert (nameless.status_code, nameless.json()["detail"]) == (404, "GET /v1/jobs/: Not Found")


def test_a_job_without_a_command_holds_its_gpus_for_its_runtime(world: World) -> None:
    """The grammar of scenarios names no command; a stand-in sleeps."""
    spec = {"team": "a", "gpus": 1, "runtime": "90s", "exits": 3}

    world.client.post("/v1/jobs", json=spec).raise_for_status()

    (event,) = world.facts(Topic.JOBS)
    command = json.loads(event.body.spec.private.ciphertext)["command"]
    assert command == ["sh", "-c", "sleep 90 & wait $!; exit 3"]
