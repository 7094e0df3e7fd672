"""A whole search with a model as its only proposer: Ctrl-C, limits and replay, as the loop does."""

import json
import sys
from pathlib import Path

import pytest
from scripted_endpoint import Answer, completion, error, role_of, says, text_of

sys.path.append(str(Path(__file__).parents[2] / "optimize"))
from scripted import ScriptedJudge, config, decisions, kernel, search

from agent.endpoint.client import Endpoint as Client
from agent.optimize.config import Limits
from agent.optimize.loop import Search
from agent.optimize.replay import ReplayAdvisor, ReplayJudge
from agent.optimize.run import RunFolder, read_run
from agent.proposers.llm.accounting import Price
from agent.proposers.llm.gateway import Gateway
from agent.proposers.llm.proposer import LlmProposer
from agent.proposers.llm.record import read_exchanges, spent_in

TIME = "gpu__time_duration.sum"
# What coders write, by technique: time, and what the judge finds.
WRITTEN = {
    "split-k": (0.6, "wrong"), "async-copy": (0.8, ""), "fast-math": (0.4, ""),
    "loop-unrolling": (0.9, ""), "stream-k": (0.7, "compile"), "tensor-cores": (0.41, ""),
}  # fmt: skip


class Model:
    """Answers as a function of the request alone, as a replay needs."""

    def __call__(self, request):
        text = text_of(request)
        match role_of(request):
            case "planner":
                leader = text.split("\n## Kernel ")[1][:8]
                number = int(text.split("State of the search, round ")[1].split("\n")[0])
                names = list(WRITTEN)[2 * (number - 1) : 2 * number] or ["split-k"]
                made = [
                    {"parent": leader, "technique": each, "claim": f"Use {each}.", "risk": "None.",
                     "metric": TIME, "direction": "down", "expected": 100.0,
                     "evidence": ["source"]}
                    for each in names
                ]  # fmt: skip
                return says({"plans": made})
            case "coder":
                name = text.split("\nTechnique: ")[1].split("\n")[0]
                return says({"note": "n", "code": kernel(*WRITTEN[name]) + f"# {name}\n"})
            case "combiner":
                return says({"note": "Both.", "code": kernel(0.39) + "# both\n"})
            case "fixer":
                ms = float(text.split("VALUE = ")[1].split("\n")[0])
                return says(f"Mended.\n```python\n{kernel(ms)}# mended\n```")
            case "reflector":
                ids = text.split("For each candidate (")[1].split(")")[0].split(", ")
                return says({"reflections": [
                    {"candidate": each, "finding": "inconclusive", "action": "focus",
                     "lesson": f"Round's lesson of {each}."} for each in ids
                ]})  # fmt: skip
        raise AssertionError(request)


@pytest.fixture
def server(endpoint):
    one = endpoint()
    one.model = Model()
    plain = one.answer

    def answer(request, headers):
        one.roles = {role_of(request): [one.model]}
        return plain(request, headers)

    one.answer = answer
    return one


def proposer(server, run, **limits):
    client = Client("model-1", server.url, max_retries=0, timeout=20)
    return LlmProposer(Gateway.open_live(client, run, **limits))


def asked(limits=None):
    return config(limits or Limits(rounds=3), patience=4).model_copy(
        update={"proposers": ("llm",), "model": "model-1"}
    )


def run(server, root, limits=None, **options):
    with RunFolder.create(root, asked(limits)) as folder:
        summary = start(folder, proposer(server, root, **options))
    return folder, summary


def start(folder, one):
    return search(folder, ScriptedJudge(), one).run()


def replay(recorded, root):
    known, record = read_run(recorded)
    with RunFolder.create(root, known) as folder:
        one = LlmProposer(Gateway.open_replay(recorded, root))
        Search(folder, ReplayJudge(record), ReplayAdvisor(record), [one]).run()
    return folder


def test_a_search_with_a_model_finds_repairs_combines_reflects_and_replays(server, tmp_path):
    folder, found = run(server, tmp_path / "run")
    assert found.better
    assert found.best.candidate.source.endswith(("# both\n", "# fast-math\n", "# tensor-cores\n"))
    assert set(server.asked) == {"planner", "coder", "fixer", "combiner", "reflector"}
    notes = folder.record.notes
    assert any("inconclusive, focus. Round's lesson" in each for each in notes)
    assert notes[0] in text_of(server.of("planner")[1])
    spent = spent_in(read_exchanges(tmp_path / "run"))
    assert folder.record.total.tokens_in == spent.tokens_in == 100 * len(server.requests)
    again = replay(tmp_path / "run", tmp_path / "again")
    assert decisions(again) == decisions(folder)
    assert again.record.spent == folder.record.spent


@pytest.mark.parametrize("at", [0, 3, 6])
def test_after_ctrl_c_at_any_request_a_search_goes_on_to_the_same_end(server, tmp_path, at):
    expected = decisions(run(server, tmp_path / "whole")[0])
    root = tmp_path / "cut"
    with RunFolder.create(root, asked()) as folder:
        one = proposer(server, root)
        one._parallel = 1
        send, left = one._gateway.send, [at]

        def interrupted(*arguments):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return send(*arguments)

        one._gateway.send = interrupted
        with pytest.raises(KeyboardInterrupt):
            start(folder, one)
    with RunFolder.resume(root) as folder:
        start(folder, proposer(server, root))
        assert decisions(folder) == expected
        assert folder.record.total == spent_in(read_exchanges(root))
    assert decisions(replay(root, tmp_path / "again")) == expected


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        (Limits(tokens=70_000), {"max_tokens": 70_000}),
        (Limits(money=0.9), {"max_money": 0.9, "price": Price(input=1, output=20)}),
    ],
)
def test_a_limit_is_never_passed_and_its_run_replays(server, tmp_path, limits, options):
    model = server.model

    def costly(request):
        answer = model(request)
        answer.body["usage"] = {"prompt_tokens": 4000, "completion_tokens": 3000}
        return answer

    server.model = costly
    folder, found = run(server, tmp_path / "run", limits, **options)
    spent = folder.record.total
    assert 0 < spent.tokens_in + spent.tokens_out <= 70_000
    assert spent.money <= 0.9
    failures = [each.failure.kind for each in read_exchanges(tmp_path / "run") if each.failure]
    assert "BudgetSpentError" in failures
    assert found.best is not None
    again = replay(tmp_path / "run", tmp_path / "again")
    assert decisions(again) == decisions(folder)


def test_an_endpoint_that_dies_in_the_middle_leaves_a_run_with_what_was_found(server, tmp_path):
    model = server.model
    server.model = lambda request: (
        model(request) if len(server.requests) < 6 else error(503, "overloaded")
    )
    folder, found = run(server, tmp_path / "run")
    assert found.better
    told = json.dumps([e.proposed.failures for e in folder.record.rounds.values() if e.proposed])
    assert "answered 503" in told
    again = replay(tmp_path / "run", tmp_path / "again")
    assert decisions(again) == decisions(folder)


def test_a_model_that_never_answers_usefully_ends_with_the_start(server, tmp_path):
    server.model = lambda request: Answer(completion("I would rather talk about the weather."))
    folder, found = run(server, tmp_path / "run")
    assert not found.better
    assert "unusable answer 2 times" in folder.record.stopped.detail
