"""Evaluations over real HTTP: verdicts, the queue, cancelling, scopes, bad input, and restarts."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import time
from pathlib import Path

import httpx2
import pytest
import schemathesis
from conftest import QUERY, opened
from evaluations import (
    CHEAT,
    HANG,
    IDLE,
    NO_PYTHON,
    PROBLEM,
    RIGHT,
    WRONG,
    Evaluations,
    bearer,
    body,
)
from live import serving, serving_here
from schemathesis import GenerationMode
from test_endpoints import assert_problem
from test_reload import publish
from test_schema import CHECKS, EXAMPLES, given, takes_anything

from cli.evaluate_api.mount import EvaluationMount

MISSING = "0123456789abcdef"


@contextlib.contextmanager
def evaluations(started, place):
    """The routes of a server that is about to start, as an admin sees them."""
    tokens = place / "tokens.json"
    headers = bearer(tokens)
    with (
        started as server,
        httpx2.Client(base_url=server.url, headers=headers, timeout=60) as client,
    ):
        found = Evaluations(client)
        found.server, found.tokens, found.headers = server, tokens, headers
        yield found


def judging_here(index, place, **changed):
    """A server in this process that takes evaluations; the judge has a process of its own."""
    return evaluations(serving_here(index, place, allow_evaluate=True, **changed), place)


@pytest.fixture(scope="module")
def judging(built, tmp_path_factory):
    place = tmp_path_factory.mktemp("judging")
    shutil.copytree(built / "index", place / "index")
    with judging_here(place / "index", place) as found:
        found.index = place / "index"
        yield found


class Unjudged(EvaluationMount):
    """The routes with nobody who judges: what is sent stays in the queue."""

    def running(self):
        return contextlib.nullcontext()


def unjudged(index, place, **changed):
    """A client of an application in this process."""
    values = {"index": index, "allow_evaluate": True} | changed
    return opened(place, [Unjudged], **values)


@pytest.fixture
def quiet(built, tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda **changed: stack.enter_context(unjudged(built / "index", tmp_path, **changed))


@pytest.fixture(scope="module")
def refusing(built, tmp_path_factory):
    """An application for all that is refused, and a header for it."""
    place = tmp_path_factory.mktemp("refusing")
    with unjudged(built / "index", place, max_budget=4_000) as client:
        yield client, bearer(place / "tokens.json")


def judges(*parents):
    """Process ids of the judging processes that these processes have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"judge_main" in path.read_bytes() and parent_of(path.parent) in parents:
                found.append(int(path.parent.name))
    return found


def parent_of(process):
    return int((process / "stat").read_text().rpartition(") ")[2].split()[1])


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_right_kernel_comes_back_with_verdict_diagnosis_and_the_next_context(judging):
    accepted = judging.client.post("/v1/evaluate", json=body(context={"query": QUERY}))
    assert accepted.status_code == 202
    job = accepted.json()
    assert accepted.headers["location"] == f"/v1/evaluate/{job['id']}"
    assert job["state"] in ("queued", "running")
    assert job["answer"] is None
    done = judging.outcome(job)
    answer = done["answer"]
    assert (done["state"], done["verdict"], answer["verdict"]) == ("done", "correct", "correct")
    assert [each["name"] for each in done["phases"]] == ["judge", "diagnose", "retrieve"]
    assert "ok" in done["phases"][0]["said"]
    assert answer["evaluation"]["interpreted"]
    assert all(each["passed"] for each in answer["evaluation"]["cases"])
    assert {each["name"] for each in answer["evaluation"]["sandbox"]} >= {"seccomp", "landlock"}
    assert answer["diagnosis"]["headline"]
    assert answer["profile"] is None
    assert "interpret" in answer["notes"][0]
    assert answer["context"]["techniques"][0]["slug"] == "pid-swizzling"
    assert "pid-swizzling" in answer["shown"]
    listed = judging.client.get("/v1/evaluate").json()["evaluations"]
    assert job["id"] in {each["id"] for each in listed}
    assert all("answer" not in each for each in listed)


def test_a_wrong_kernel_comes_back_with_where_it_is_wrong(judging):
    answer = judging.answer(kernel=WRONG)
    assert answer["verdict"] == "wrong"
    assert answer["diagnosis"] is None
    failed = [each for each in answer["evaluation"]["cases"] if not each["passed"]]
    wrong = [one for each in failed for one in each["counterexamples"]]
    assert "Infinity" in {one["got"] for one in wrong}


def test_an_answer_with_infinities_keeps_to_the_published_schema(judging):
    job = judging.send(kernel=WRONG)
    judging.outcome(job)
    api = schemathesis.openapi.from_url(
        f"{judging.server.url}/openapi.json", headers=judging.headers
    )
    case = api["/v1/evaluate/{evaluation_id}"]["GET"].Case(
        path_parameters={"evaluation_id": job["id"]}, headers=judging.headers
    )
    answer = case.call_and_validate(checks=CHECKS)
    assert answer.json()["verdict"] == "wrong"


def test_a_cheat_is_called_one(judging):
    answer = judging.answer(kernel=CHEAT)
    assert answer["verdict"] == "cheat"
    assert answer["evaluation"]["reasons"]


def test_a_kernel_that_never_returns_is_wrong_and_the_next_one_is_judged(judging):
    answer = judging.answer(kernel=HANG, call_seconds=1)
    assert answer["verdict"] == "wrong"
    assert judging.answer()["verdict"] == "correct"


def test_a_kernel_that_is_no_python_is_a_verdict_and_not_an_error(judging):
    answer = judging.answer(kernel=NO_PYTHON)
    assert answer["verdict"] == "wrong"
    assert "not Python" in answer["evaluation"]["reasons"][0]


def test_evaluations_are_judged_one_at_a_time_in_their_order(judging):
    jobs = [judging.send(kernel=IDLE, call_seconds=2), *(judging.send() for _ in range(2))]
    judging.until(jobs[0], "running")
    assert [judging.read(each)["ahead"] for each in jobs] == [None, 1, 2]
    done = [judging.outcome(each) for each in jobs]
    assert [each["verdict"] for each in done] == ["wrong", "correct", "correct"]
    for before, after in itertools.pairwise(done):
        assert before["finished"] <= after["started"]


def test_a_cancelled_evaluation_is_ended_and_forgotten(judging):
    running = judging.send(kernel=IDLE)
    waiting = judging.send()
    last = judging.send()
    judging.until(running, "running")
    for job in (waiting, running):
        answer = judging.client.delete(f"/v1/evaluate/{job['id']}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert judging.client.get(f"/v1/evaluate/{job['id']}").status_code == 404
        assert judging.client.delete(f"/v1/evaluate/{job['id']}").status_code == 404
    assert judging.outcome(last)["verdict"] == "correct"
    listed = {each["id"] for each in judging.client.get("/v1/evaluate").json()["evaluations"]}
    assert listed.isdisjoint({running["id"], waiting["id"]})


def test_a_chain_of_evaluations_is_never_given_the_same_twice(judging):
    wanted = {"query": QUERY, "max_tokens": 600}
    first = judging.send(context=wanted)
    given_first = set(judging.outcome(first)["answer"]["shown"])
    second = judging.answer(context=wanted, previous=first["id"])
    assert "pid-swizzling" in given_first
    given_second = {
        *second["context"]["examples"],
        *(each["slug"] for each in second["context"]["techniques"]),
    }
    assert given_second.isdisjoint(given_first)
    assert given_first <= set(second["shown"])
    assert second["context"]["tokens"] <= 600
    alike = judging.answer(context=wanted, exclude=sorted(given_first))
    assert alike["context"] == second["context"]


def test_answers_outlive_a_new_generation_which_gives_the_next_context(judging, tmp_path):
    job = judging.send(kernel=NO_PYTHON)
    done = judging.outcome(job)
    publish(judging.index, tmp_path / "zebra", 7)
    assert judging.read(job) == done
    later = judging.answer(context={"query": "zebra crossing numbered stamp7"})
    assert "zebra" in {each["title"] for each in later["context"]["citations"]}


def test_outcomes_are_counted(judging):
    judging.answer()
    metrics = judging.client.get("/metrics").text
    assert 'kb_evaluations_total{outcome="correct"}' in metrics
    assert 'route="/v1/evaluate/{evaluation_id}"' in metrics


def test_only_admins_evaluate(judging):
    reader = bearer(judging.tokens, "read")
    url = judging.server.url
    for headers, status in ((reader, 403), ({}, 401)):
        for answer in (
            httpx2.post(f"{url}/v1/evaluate", json=body(), headers=headers),
            httpx2.get(f"{url}/v1/evaluate", headers=headers),
            httpx2.get(f"{url}/v1/evaluate/{MISSING}", headers=headers),
            httpx2.delete(f"{url}/v1/evaluate/{MISSING}", headers=headers),
        ):
            assert answer.status_code == status
            assert_problem(answer)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_routes_keep_to_their_document(judging, mode):
    api = schemathesis.openapi.from_url(
        f"{judging.server.url}/openapi.json", headers=judging.headers
    )
    mounted = [each.ok() for each in api.get_all_operations() if "evaluate" in each.ok().path]
    assert len(mounted) == 4
    for operation in mounted:
        if mode is GenerationMode.NEGATIVE and not takes_anything(operation):
            continue

        @EXAMPLES
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            case.call_and_validate(checks=CHECKS, headers=judging.headers)

        check()


def test_without_the_flag_there_is_no_such_route(make_client, tmp_path):
    client = make_client()
    headers = bearer(tmp_path / "tokens.json")
    assert client.post("/v1/evaluate", json=body(), headers=headers).status_code == 404
    paths = client.get("/openapi.json", headers=headers).json()["paths"]
    assert not [path for path in paths if "evaluate" in path]


def test_without_tokens_nobody_is_an_admin(quiet):
    answer = quiet().post("/v1/evaluate", json=body())
    assert answer.status_code == 403
    assert_problem(answer)


def test_the_server_does_not_start_without_an_admin_token(cli, tmp_path):
    bearer(tmp_path / "tokens.json", "read")
    done = cli("serve", "--allow-evaluate", "--tokens", tmp_path / "tokens.json")
    assert done.status == 1
    assert "--allow-evaluate needs an admin token" in done.err


BAD = {
    "no problem": {"problem": None},
    "no kernel": {"kernel": None},
    "blank kernel": {"kernel": " \n"},
    "not Python": {"problem": "class Model:\n"},
    "no Model": {"problem": PROBLEM.replace("class Model", "class Other")},
    "null byte": {"problem": PROBLEM + "\0"},
    "half a surrogate pair": {"kernel": RIGHT + "\ud800"},
    "too long": {"kernel": "#" * 200_001},
    "dtype": {"dtype": "float13"},
    "baseline": {"baselines": ["fastest"]},
    "CUDA in the interpreter": {"kernel_language": "cuda"},
    "no GPU": {"interpret": False},
    "two budgets": {"context": {"max_tokens": 500, "max_chars": 500}},
    "small budget": {"context": {"max_tokens": 1}},
    "large budget": {"context": {"max_tokens": 5_000}},
    "unknown GPU": {"context": {"gpu": "H9000"}},
    "unknown previous": {"previous": MISSING},
    "malformed previous": {"previous": "../../etc"},
    "path as name": {"name": "../evil"},
    "no time": {"call_seconds": 0},
    "unknown key": {"trust": True},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_reason(refusing, monkeypatch, case):
    monkeypatch.setattr("agent.service.service.has_gpu", lambda: False)
    client, headers = refusing
    changed = BAD[case]
    sent = {key: value for key, value in (body() | changed).items() if value is not None}
    kind = {"Content-Type": "application/json"}
    answer = client.post("/v1/evaluate", content=json.dumps(sent), headers=headers | kind)
    assert answer.status_code == 422, answer.text
    assert_problem(answer)
    detail = answer.json()["detail"]
    word = {"two budgets": "not both", "no GPU": "no GPU", "not Python": "problem.py:1: not Python"}
    assert word.get(case, "") in detail
    assert client.get("/v1/evaluate", headers=headers).json() == {"evaluations": []}


def test_a_body_that_is_too_large_is_refused(quiet, tmp_path):
    client = quiet(max_body_bytes=2_000)
    headers = bearer(tmp_path / "tokens.json")
    answer = client.post("/v1/evaluate", json=body(kernel="#" * 3_000), headers=headers)
    assert answer.status_code == 413
    assert_problem(answer)


def test_a_full_queue_is_busy_until_something_is_cancelled(quiet, tmp_path):
    client = quiet(max_evaluations=2)
    headers = bearer(tmp_path / "tokens.json")
    jobs = [client.post("/v1/evaluate", json=body(), headers=headers).json() for _ in range(2)]
    assert [each["ahead"] for each in jobs] == [0, 1]
    full = client.post("/v1/evaluate", json=body(), headers=headers)
    assert full.status_code == 503
    assert full.headers["retry-after"]
    assert_problem(full)
    assert client.delete(f"/v1/evaluate/{jobs[0]['id']}", headers=headers).status_code == 204
    assert client.post("/v1/evaluate", json=body(), headers=headers).status_code == 202


def test_an_evaluation_that_takes_too_long_is_ended(built, tmp_path, judges_are_processes):
    with judging_here(built / "index", tmp_path, evaluate_timeout=2) as judging:
        before = set(judges(os.getpid()))
        job = judging.send(kernel=IDLE)
        wait_for(lambda: set(judges(os.getpid())) - before)
        failed = judging.outcome(job)
        assert failed["state"] == "failed"
        assert "longer than 2 s" in failed["error"]
        assert failed["answer"] is None
        wait_for(lambda: set(judges(os.getpid())) <= before)


def test_a_worker_that_dies_and_a_server_that_ends_lose_no_evaluation(built, tmp_path):
    options = (
        "--allow-evaluate", "--workers", "2", "--state-dir", str(tmp_path / "state"),
        "--tokens", str(tmp_path / "tokens.json"),
    )  # fmt: skip
    with evaluations(serving(built / "index", *options), tmp_path) as judging:
        server = judging.server
        job = judging.send(kernel=IDLE)
        waiting = judging.send(kernel=NO_PYTHON)
        judging.until(job, "running")
        wait_for(lambda: judges(*server.workers()))
        (judge,) = judges(*server.workers())
        os.kill(parent_of(Path(f"/proc/{judge}")), signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{judge}").exists())
        wait_for(lambda: judging.read(job)["attempts"] == 2, 120)
        wait_for(lambda: judges(*server.workers()))
        (judge,) = judges(*server.workers())
        server.process.send_signal(signal.SIGINT)
        server.process.wait(20)
        assert not Path(f"/proc/{judge}").exists()
    with judging_here(built / "index", tmp_path) as judging:
        again = judging.until(job, "running")
        assert again["attempts"] == 2
        assert judging.client.delete(f"/v1/evaluate/{job['id']}").status_code == 204
        assert judging.outcome(waiting)["verdict"] == "wrong"
