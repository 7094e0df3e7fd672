"""Requests and replies as files: nothing is asked twice, nothing is lost, runs end the same."""

import json
import sys
from pathlib import Path

import pytest
from scripted_endpoint import completion
from test_llm_search_run import Model, asked, replay, server  # noqa: F401 (a fixture)

sys.path.append(str(Path(__file__).parents[2] / "optimize"))
from scripted import ScriptedJudge, decisions, search

from agent.endpoint.batch import MAX_ATTEMPTS, BatchEndpoint, BatchFolder, custom_id
from agent.endpoint.client import Endpoint
from agent.endpoint.errors import EndpointError
from agent.optimize.config import Limits
from agent.optimize.run import RunFolder
from agent.pause import NeedsGpuError, WaitingError
from agent.proposers.llm.accounting import Price
from agent.proposers.llm.gateway import Gateway
from agent.proposers.llm.proposer import LlmProposer
from agent.proposers.llm.record import read_exchanges, spent_in

ASK = {"messages": [{"role": "user", "content": "Faster?"}], "max_tokens": 10}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def result(name, body=None, status=200, error=None):
    response = None if error else {"status_code": status, "request_id": "r", "body": body}
    return json.dumps({"id": f"b-{name}", "custom_id": name, "response": response, "error": error})


def write(root, *results, name="results.jsonl"):
    with (root / name).open("a") as file:
        file.writelines(f"{each}\n" for each in results)


def waits(root, ask=ASK, model="m"):
    """The id of a request that is not answered yet."""
    with pytest.raises(WaitingError):
        BatchEndpoint(model, BatchFolder(root)).complete(ask)
    return custom_id({"model": model, **ask})


def test_a_request_is_written_in_the_batch_format_once(tmp_path):
    name = waits(tmp_path)
    assert waits(tmp_path) == name
    (line,) = lines(tmp_path / "requests.jsonl")
    assert line == {
        "custom_id": name, "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "m", **ASK},
    }  # fmt: skip
    assert waits(tmp_path, {"max_tokens": 10, "messages": ASK["messages"]}) == name
    assert waits(tmp_path, model="other") != name
    assert BatchFolder(tmp_path).waiting == 2


def test_a_reply_is_taken_and_its_requests_file_counts_as_sent(tmp_path):
    first = waits(tmp_path)
    other = waits(tmp_path, ASK | {"max_tokens": 11})
    write(tmp_path, result(first, completion("Yes.")), name="results-1.jsonl")
    folder = BatchFolder(tmp_path)
    assert BatchEndpoint("m", folder).complete(ASK).completion.choices[0].message.content == "Yes."
    assert (folder.waiting, folder.unsent) == (1, 0)
    assert not (tmp_path / "requests.jsonl").exists()
    # The other one is under way: it is not asked again, only what is new is written.
    waits(tmp_path, ASK | {"max_tokens": 11})
    new = waits(tmp_path, ASK | {"max_tokens": 12})
    assert [each["custom_id"] for each in lines(tmp_path / "requests.jsonl")] == [new]
    assert BatchFolder(tmp_path).waiting == 2
    assert other in (tmp_path / "sent" / "0001.jsonl").read_text()


def test_errors_that_pass_are_asked_again_and_then_told(tmp_path):
    name = waits(tmp_path)
    for number in range(1, MAX_ATTEMPTS + 1):
        expired = {"code": "batch_expired", "message": f"too late {number}"}
        write(tmp_path, result(name, error=expired))
        if number < MAX_ATTEMPTS:
            waits(tmp_path)
            assert [each["custom_id"] for each in lines(tmp_path / "requests.jsonl")] == [name]
    with pytest.raises(EndpointError, match="too late 3"):
        BatchEndpoint("m", BatchFolder(tmp_path)).complete(ASK)
    write(tmp_path, result(name, completion("At last.")))
    assert BatchEndpoint("m", BatchFolder(tmp_path)).complete(ASK).completion.choices


def test_a_refusal_of_the_request_is_told_at_once_with_its_status(tmp_path):
    name = waits(tmp_path)
    write(tmp_path, result(name, {"error": {"message": "no response_format"}}, 400))
    with pytest.raises(EndpointError, match="no response_format") as raised:
        BatchEndpoint("m", BatchFolder(tmp_path)).complete(ASK)
    assert raised.value.status_code == 400
    assert BatchFolder(tmp_path).waiting == 0


def test_strange_and_damaged_results_are_named_and_do_no_harm(tmp_path):
    name = waits(tmp_path)
    write(tmp_path, result("kb-stranger", completion("?")), "no JSON", result(name, {"x": 1}))
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"custom_id": "cut off')
    folder = BatchFolder(tmp_path)
    assert any("kb-stranger" in each for each in folder.notes)
    assert any("2 lines are not results" in each for each in folder.notes)
    with pytest.raises(EndpointError, match="not a chat completion"):
        BatchEndpoint("m", folder).complete(ASK)


def test_a_torn_request_is_written_anew(tmp_path):
    waits(tmp_path)
    path = tmp_path / "requests.jsonl"
    path.write_text(path.read_text()[:-20])
    name = waits(tmp_path)
    assert [each["custom_id"] for each in lines(path)] == [name]


class Files:
    """A machine with the model: answers what is in `requests.jsonl`, `most` at a time."""

    def __init__(self, root, model, most=99):
        self.root, self.model, self.most, self.asked = root, model, most, []

    def answer(self):
        waiting = [
            each
            for path in [*sorted(self.root.glob("sent/*.jsonl")), self.root / "requests.jsonl"]
            for each in lines(path)
            if each["custom_id"] not in self.asked
        ]
        for each in waiting[: self.most]:
            self.asked.append(each["custom_id"])
            write(self.root, result(each["custom_id"], self.model(each["body"]).body))
        return len(waiting)


def journey(folder, files, config, judge=ScriptedJudge, killed=()):
    """Goes to and fro until the run ends; how often it paused."""
    pauses = 0
    begun = False
    while True:
        make = RunFolder.resume if begun else RunFolder.create
        with make(folder, *([] if begun else [config])) as run:
            begun = True
            client = BatchEndpoint("model-1", BatchFolder(files.root))
            price = Price(input=10, output=40)
            one = LlmProposer(Gateway.open_live(client, folder, price=price))
            if pauses in killed:
                one._gateway._write = kill
            try:
                search(run, judge(), one).run()
            except WaitingError:
                pauses += 1
                assert files.answer()
            except KeyboardInterrupt:
                killed = [each for each in killed if each != pauses]
            else:
                return pauses


def kill(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("most", "killed"), [(99, ()), (1, ()), (99, (1, 3)), (2, (2, 4))])
def test_a_run_by_files_ends_as_one_over_the_network(server, tmp_path, most, killed):  # noqa: F811
    live = tmp_path / "live"
    with RunFolder.create(live, asked()) as folder:
        client = Endpoint("model-1", server.url, max_retries=0, timeout=20)
        gateway = Gateway.open_live(client, live, price=Price(input=10, output=40))
        search(folder, ScriptedJudge(), LlmProposer(gateway)).run()
        expected, cost = decisions(folder), folder.record.total
    files = Files(tmp_path / "batch", Model(), most)
    pauses = journey(tmp_path / "run", files, asked(), killed=killed)
    assert pauses > 3
    with RunFolder.resume(tmp_path / "run") as folder:
        assert decisions(folder) == expected
        total = folder.record.total
    assert len(files.asked) == len(set(files.asked)) == len(server.requests)
    assert total.tokens_in == cost.tokens_in
    assert total.money == pytest.approx(cost.money / 2)  # the rate of a batch
    recorded = spent_in(read_exchanges(tmp_path / "run"))
    assert (recorded.tokens_in, recorded.tokens_out) == (total.tokens_in, total.tokens_out)
    assert recorded.money == pytest.approx(total.money)
    assert decisions(replay(tmp_path / "run", tmp_path / "again")) == expected


class Blind(ScriptedJudge):
    """A judge of a machine without a GPU."""

    def unmeasured_start(self, given):
        known = ScriptedJudge().judge_start(given, lambda _: None)
        start = known.start.outcome.model_copy(
            update={"median_ms": None, "verdict": None, "floor_fraction": None}
        )
        return known.model_copy(
            update={
                "measured": False, "baselines": {},
                "start": known.start.model_copy(update={"outcome": start}),
            }
        )  # fmt: skip

    def judge_start(self, given, say):
        raise NeedsGpuError("no GPU")


class Seeing(Blind):
    """A judge of the machine with one, where the same run goes on."""

    judge_start = ScriptedJudge.judge_start


def test_the_first_round_is_planned_without_a_gpu_and_judged_with_one(tmp_path):
    files = Files(tmp_path / "batch", Model())
    config = asked(Limits(rounds=2)).model_copy(update={"plan_first": True})
    with pytest.raises(NeedsGpuError):
        journey(tmp_path / "run", files, config, judge=Blind)
    roles = len(files.asked)
    assert roles == 3  # a planner and two coders
    with RunFolder.resume(tmp_path / "run") as run:
        assert run.record.standing.measured is False
        proposed = run.record.rounds[1].proposed.candidates
        assert len(proposed) == 2
    while True:
        with RunFolder.resume(tmp_path / "run") as run:
            client = BatchEndpoint("model-1", BatchFolder(files.root))
            one = LlmProposer(Gateway.open_live(client, tmp_path / "run"))
            try:
                summary = search(run, Seeing(), one).run()
                break
            except WaitingError:
                assert files.answer()
    assert summary.better
    with RunFolder.resume(tmp_path / "run") as run:
        assert run.record.rounds[1].proposed.candidates == proposed
        expected = decisions(run)
    assert len(files.asked) == len(set(files.asked))
    assert decisions(replay(tmp_path / "run", tmp_path / "again")) == expected


def test_limits_hold_for_requests_whose_replies_come_later(tmp_path):
    endpoint = BatchEndpoint("m", BatchFolder(tmp_path / "batch"))
    gateway = Gateway.open_live(endpoint, tmp_path / "run", max_tokens=100)
    with pytest.raises(WaitingError):
        gateway.send("one", 0, ASK | {"max_tokens": 50})
    with pytest.raises(WaitingError, match="allow no further request"):
        gateway.send("two", 0, ASK | {"max_tokens": 40})
    assert BatchFolder(tmp_path / "batch").waiting == 1
