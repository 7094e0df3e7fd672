"""A recorded run is replayed without endpoint and index; an interrupted one goes on."""

import json

import pytest
from scripted_endpoint import Answer, calls, completion, error, says
from search_states import L2, START, a_plan, code, judged, kernel, plans, run_config, state

from agent.endpoint.errors import BudgetSpentError, EndpointError, RefusedError, ReplayError
from agent.optimize.candidate import Outcome, Stage
from agent.proposers.llm.gateway import Gateway
from agent.proposers.llm.proposer import LlmProposer, open_proposer
from agent.proposers.llm.record import read_exchanges
from judge.evaluate.result import Verdict

WRONG = Outcome(candidate="x", stage=Stage.VERIFY, verdict=Verdict.WRONG, reasons=("by one",))


def case_of(proposal):
    return judged(
        proposal.source, proposal.family, 1.0, round_=1, parents=proposal.parents,
        claim=proposal.hypothesis.claim, metric=L2, expected=80.0, profile={L2: 70.0},
    )  # fmt: skip


def two_rounds(one):
    """What the loop does with a proposer in two rounds: proposals, repairs and notes."""
    first = one.propose(state())
    repaired = one.repair(first[0], WRONG)
    notes = one.reflect(state(), [case_of(first[0])])
    second = one.propose(state(2, notes=tuple(notes)))
    return first, repaired, notes, second


def reflected(request):
    case = judged(kernel("3"), "pid-swizzling", 1.0)
    return says({"reflections": [{"candidate": case.id, "finding": "confirmed",
                                  "action": "focus", "lesson": "More."}]})  # fmt: skip


@pytest.fixture
def full(endpoint):
    """An endpoint at which a bit of everything happens."""
    return lambda: endpoint(
        planner=[
            error(429, "slow down"), calls("persistent kernel", "pid"), says("no JSON"),
            says(plans(a_plan(), a_plan("split-k"), a_plan("async-copy"))), says(plans(a_plan())),
        ],
        coder=[calls("plain"), says(code()), Answer(completion(None, refusal="No.")),
               says(code("7")), says(code("8"))],
        fixer=[says("```python\nx = 1\n```"), says(code("4"))],
        reflector=[reflected],
        refuse={"response_format": error(400, "response_format is not supported")},
    )  # fmt: skip


@pytest.fixture
def recorded(full, live, searcher, tmp_path):
    """A recorded run: its folder and its results."""
    server = full()
    one = LlmProposer(live(server, tmp_path / "old"), searcher, parallel=1)
    results = two_rounds(one)
    assert len(results[0]) == 1
    return tmp_path / "old", results


def replayed(old, new, **options):
    return LlmProposer(Gateway.open_replay(old, new, **options))


def test_a_replay_gives_the_same_without_endpoint_and_index(recorded, tmp_path):
    old, results = recorded
    one = replayed(old, tmp_path / "new")
    assert two_rounds(one) == results
    assert one.spent.tokens_in == sum(each.tokens_in for each in read_exchanges(old))
    assert "at no cost" in one.summary()
    assert "replayed" in one.summary()
    before, after = read_exchanges(old), read_exchanges(tmp_path / "new")
    assert all(each.replayed for each in after)
    kept = {"number": 0, "replayed": False}
    assert sorted(each.model_copy(update=kept).model_dump_json() for each in after) == sorted(
        each.model_copy(update=kept).model_dump_json() for each in before
    )


def test_a_replay_of_a_replay_is_one(recorded, tmp_path):
    old, results = recorded
    two_rounds(replayed(old, tmp_path / "new"))
    assert two_rounds(replayed(tmp_path / "new", tmp_path / "newer")) == results


def test_a_run_names_the_record_to_replay(recorded, tmp_path):
    old, results = recorded
    config = run_config(model=f"replay:{old}")
    one = open_proposer(config, tmp_path / "new")
    assert two_rounds(one) == results


def test_side_by_side_or_one_by_one_a_replay_is_the_same(live, endpoint, tmp_path):
    techniques = ("pid-swizzling", "split-k", "async-copy", "loop-unrolling")
    beam = (START, judged(kernel("9"), "fast-math", 3.0))

    def answer(request):
        name = next(each for each in techniques if f"Technique: {each}\n" in str(
            request["messages"][1]["content"]))  # fmt: skip
        return Answer(completion(json.dumps(code(name.replace("-", "_")))), wait=0.1)

    server = endpoint(
        planner=[says(plans(*(a_plan(each) for each in techniques)))], coder=[answer] * 4
    )
    wide = LlmProposer(live(server, tmp_path / "old"), parallel=4).propose(state(beam=beam))
    assert len(wide) == 4
    assert server.most_concurrent > 1
    for parallel in (1, 4):
        gateway = Gateway.open_replay(tmp_path / "old", tmp_path / f"new{parallel}")
        assert LlmProposer(gateway, parallel=parallel).propose(state(beam=beam)) == wide


def test_a_replay_that_diverges_says_where(recorded, tmp_path):
    old, _ = recorded
    one = replayed(old, tmp_path / "new")
    first = one.propose(state())
    with pytest.raises(ReplayError, match="the record has no request 1 of 'fixer") as raised:
        one.repair(first[0].model_copy(update={"source": "x"}), WRONG)
    other = WRONG.model_copy(update={"reasons": ("by two",)})
    with pytest.raises(ReplayError, match=r"request 1 of 'fixer\.\w+' \(llm/0\d+\.json\)") as found:
        one.repair(first[0], other)
    assert "by two" in str(found.value)
    assert "by one" in str(found.value)
    assert "\n" not in f"{raised.value}{found.value}"
    with pytest.raises(ReplayError, match=r"diverges at request 1 of 'r02\.planner'"):
        one.propose(state(2, notes=("another note",)))
    with pytest.raises(ReplayError, match=r"has no request 1 of 'r03\.planner'"):
        one.propose(state(3))


def test_replies_alone_may_be_replayed_where_times_are_new(recorded, tmp_path):
    old, results = recorded
    one = replayed(old, tmp_path / "new", exact=False)
    slower = START.model_copy(
        update={"outcome": START.outcome.model_copy(update={"median_ms": 2.5})}
    )
    found = one.propose(state(beam=(slower,), start=slower))
    assert found == results[0]
    assert "requests differed from the record" in one.summary()


def test_recorded_failures_are_replayed(live, endpoint, tmp_path):
    refused = Answer(completion(None, refusal="No."))
    for number, (script, kind) in enumerate([
        ([error(401, "key")], EndpointError), ([refused], RefusedError),
    ]):  # fmt: skip
        old = tmp_path / f"old{number}"
        with pytest.raises(kind) as raised:
            LlmProposer(live(endpoint(planner=script), old)).propose(state())
        with pytest.raises(kind) as again:
            replayed(old, tmp_path / f"new{number}").propose(state())
        assert str(again.value) == str(raised.value)


def test_the_end_of_a_budget_is_replayed(live, endpoint, tmp_path):
    server = endpoint(planner=[says(plans(), usage=(50_000, 100))], default=says(code()))
    with pytest.raises(BudgetSpentError) as raised:
        LlmProposer(live(server, tmp_path / "old", max_tokens=60_000)).propose(state())
    assert len(server.requests) == 1
    with pytest.raises(BudgetSpentError) as again:
        replayed(tmp_path / "old", tmp_path / "new").propose(state())
    assert str(again.value) == str(raised.value)


def test_a_record_that_is_missing_or_damaged_is_told(recorded, tmp_path):
    old, _ = recorded
    with pytest.raises(ReplayError, match="holds no record"):
        replayed(tmp_path, tmp_path / "new")
    (old / "llm" / ".tmp.part").write_text("{half")
    assert len(read_exchanges(old)) > 10
    (old / "llm" / "0003.json").write_text('{"conversation": "r01')
    with pytest.raises(ReplayError, match=r"0003\.json is damaged") as raised:
        replayed(old, tmp_path / "new")
    assert "\n" not in str(raised.value)


class Interrupted:
    """A gateway's client that is interrupted at its nth request, as Ctrl-C does."""

    def __init__(self, client, at):
        self.client, self.left = client, at
        self.model, self.url = client.model, client.url

    def complete(self, payload):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.client.complete(payload)

    def close(self):
        self.client.close()


def interrupted(live, server, folder, searcher, at):
    gateway = live(server, folder)
    gateway._endpoint = Interrupted(gateway._endpoint, at)
    return LlmProposer(gateway, searcher, parallel=1)


@pytest.mark.parametrize("at", [0, 1, 2, 4, 5, 7, 8, 10])
def test_a_run_that_is_interrupted_anywhere_ends_as_if_it_was_not(
    full, live, searcher, recorded, tmp_path, at
):
    _, results = recorded
    server, folder = full(), tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        two_rounds(interrupted(live, server, folder, searcher, at))
    assert len(read_exchanges(folder)) == at
    one = LlmProposer(live(server, folder), searcher, parallel=1)
    assert two_rounds(one) == results
    exchanges = read_exchanges(folder)
    assert [each.number for each in exchanges] == list(range(1, len(exchanges) + 1))
    total = sum(each.tokens_in for each in exchanges)
    assert one.spent.tokens_in == total  # replies that were paid before are counted now
    assert two_rounds(replayed(folder, tmp_path / "again")) == results


def test_only_what_is_missing_is_asked_again(live, endpoint, tmp_path):
    server = endpoint(planner=[says(plans())], coder=[says(code())])
    with pytest.raises(KeyboardInterrupt):
        interrupted(live, server, tmp_path / "run", None, 1).propose(state())
    (proposal,) = LlmProposer(live(server, tmp_path / "run")).propose(state())
    assert proposal.source == kernel("3")
    assert server.asked == ["planner", "coder"]


def test_another_question_is_asked_anew(live, endpoint, tmp_path):
    server = endpoint(default=says(plans()), coder=[says(code()), says(code("5"))])
    LlmProposer(live(server, tmp_path / "run")).propose(state())
    again = LlmProposer(live(server, tmp_path / "run"))
    (proposal,) = again.propose(state(notes=("something else",)))
    assert proposal.source == kernel("5")
    assert server.asked == ["planner", "coder"] * 2
    # Of a turn that was recorded twice the later one is replayed.
    one = replayed(tmp_path / "run", tmp_path / "new")
    assert one.propose(state(notes=("something else",))) == [proposal]


def test_a_repair_after_a_resume_knows_the_endpoint_as_the_replay_will(live, endpoint, tmp_path):
    def script(**roles):
        no = error(400, "response_format is not supported")
        return endpoint(refuse={"response_format": no}, **roles)

    folder = tmp_path / "run"
    server = script(planner=[says(plans())], coder=[says(code())])
    (proposal,) = LlmProposer(live(server, folder)).propose(state())
    server = script(fixer=[says(code("4"))])
    resumed = LlmProposer(live(server, folder))
    resumed.attend(state())
    repaired = resumed.repair(proposal, WRONG)
    assert server.asked == ["fixer"]
    one = replayed(folder, tmp_path / "new")
    one.attend(state())
    assert one.propose(state()) == [proposal]
    assert one.repair(proposal, WRONG) == repaired


def test_files_hold_requests_and_replies_as_they_were(recorded):
    old, _ = recorded
    names = sorted(path.name for path in (old / "llm").iterdir())
    assert names[0] == "0001.json"
    assert len(names) == int(names[-1].removesuffix(".json"))
    first, *_ = (json.loads((old / "llm" / name).read_text()) for name in names)
    assert first["conversation"] == "r01.planner"
    assert first["request"]["messages"][0]["role"] == "system"
    assert "headers" not in json.dumps(first)
