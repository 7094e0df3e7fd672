"""A recorded run comes to the same decisions again, without a GPU."""

import json
import shutil
from pathlib import Path

import pytest
from scripted import (
    Scripted,
    ScriptedJudge,
    Wandering,
    config,
    decisions,
    proposal,
    search,
)

from agent.optimize.candidate import Proposal, SearchState, Stage
from agent.optimize.config import Limits
from agent.optimize.loop import Search
from agent.optimize.proposers import Proposer
from agent.optimize.replay import ReplayAdvisor, ReplayJudge, ReplayProposer
from agent.optimize.run import RunFolder, read_run
from agent.optimize.summary import render
from kb.errors import InvalidInputError, KbError


def replay(recorded: Path, root: Path, *live: Proposer) -> RunFolder:
    known, record = read_run(recorded)
    names = [each for each in known.proposers if each not in {one.name for one in live}]
    proposers = [*live, *(ReplayProposer(name, record) for name in names)]
    with RunFolder.create(root, known) as folder:
        Search(folder, ReplayJudge(record), ReplayAdvisor(record), proposers).run()
    return folder


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "limits", [Limits(rounds=5), Limits(gpu_seconds=120), Limits(money=3.0)], ids=str
)
def test_a_record_comes_to_the_same_decisions(tmp_path: Path, seed: int, limits: Limits) -> None:
    asked = config(limits, patience=4).model_copy(
        update={"seed": seed, "proposers": ("wandering", "scripted")}
    )
    judge = ScriptedJudge()
    judge.refuted = {0.45}
    scripted = Scripted([[proposal(0.45, "fusion")], [], [proposal(0.5, "b", "wrong")]])
    with RunFolder.create(tmp_path / "run", asked) as folder:
        found = search(folder, judge, Wandering(), scripted).run()
        expected = decisions(folder)
    again = replay(tmp_path / "run", tmp_path / "replayed")
    assert decisions(again) == expected
    assert again.record.spent == folder.record.spent
    assert again.record.gpu_seconds == folder.record.gpu_seconds
    assert [each.advised for each in again.record.rounds.values()] != []
    best = (tmp_path / "replayed" / "best.py").read_bytes()
    assert best == (tmp_path / "run" / "best.py").read_bytes()
    # A proposer that thinks anew comes to the same, too, where it is the same.
    live = replay(tmp_path / "run", tmp_path / "live", Wandering())
    assert decisions(live) == expected
    assert render(found).splitlines()[0].startswith("little.py on H200")


def test_a_failure_to_propose_is_repeated(tmp_path: Path) -> None:
    class Failing(Scripted):
        def propose(self, state: SearchState) -> list[Proposal]:
            if state.round == 1:
                raise KbError("no answer")
            return list(super().propose(state))

    asked = config().model_copy(update={"proposers": ("scripted", "llm")})
    good = Scripted([[proposal(0.9)], [proposal(0.8)]])
    with RunFolder.create(tmp_path / "run", asked) as folder:
        failing = Failing([[], [proposal(0.7, "fusion")]], "llm")
        search(folder, ScriptedJudge(), good, failing).run()
        expected = decisions(folder)
    again = replay(tmp_path / "run", tmp_path / "replayed")
    assert decisions(again) == expected
    proposed = again.record.rounds[1].proposed
    assert proposed is not None
    assert proposed.failures == {"llm": "no answer"}


def test_an_order_with_left_out_proposals_is_repeated(tmp_path: Path) -> None:
    asked = config(branching=2).model_copy(update={"proposers": ("a", "b")})
    one = Scripted([[proposal(1.0), proposal(0.9)]], "a")
    two = Scripted([[proposal(0.8, "x"), proposal(0.7, "y")]], "b")
    with RunFolder.create(tmp_path / "run", asked) as folder:
        search(folder, ScriptedJudge(), one, two).run()
        expected = decisions(folder)
    first = folder.record.rounds[1].proposed
    assert first is not None
    assert [each.proposer for each in first.candidates] == ["b", "a", "b"]
    assert first.dropped[0].outcome.stage is Stage.DUPLICATE
    assert decisions(replay(tmp_path / "run", tmp_path / "replayed")) == expected


def test_what_the_record_does_not_know_ends_the_replay_and_is_told(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", config()) as folder:
        search(folder, ScriptedJudge(), Scripted([[proposal(0.9)]])).run()
    other = Scripted([[proposal(0.9), proposal(0.3, "new")]])
    again = replay(tmp_path / "run", tmp_path / "replayed", other)
    assert again.record.stopped is not None
    assert "the recorded run did not judge" in again.record.stopped.detail
    assert again.record.best.outcome.median_ms == 0.9


def test_a_record_of_a_run_that_was_killed_is_replayed_as_far_as_it_goes(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", config()) as folder:
        rounds = [[proposal(0.9)], [proposal(0.8), proposal(0.7, "fusion")], [proposal(0.6)]]
        search(folder, ScriptedJudge(), Scripted(rounds)).run()
    path = tmp_path / "run" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    kinds = [json.loads(line)["event"] for line in lines]
    cut = [n for n, kind in enumerate(kinds) if kind == "judged"][1] + 1
    path.write_text("".join(lines[:cut]))
    again = replay(tmp_path / "run", tmp_path / "replayed")
    assert again.record.best.outcome.median_ms == 0.8
    path.write_text("")
    with pytest.raises(InvalidInputError, match="never evaluated its start"):
        replay(tmp_path / "run", tmp_path / "nothing")


def test_replaying_leaves_the_recorded_run_as_it_is(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", config()) as folder:
        search(folder, ScriptedJudge(), Scripted([[proposal(0.9)]])).run()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    replay(tmp_path / "run", tmp_path / "replayed")
    for path in (tmp_path / "copy").rglob("*"):
        if path.is_file():
            original = tmp_path / "run" / path.relative_to(tmp_path / "copy")
            assert original.read_bytes() == path.read_bytes()
