"""The search as a whole, with a judge and proposers that follow a script."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from scripted import (
    PROBLEM,
    Listener,
    Scripted,
    ScriptedAdvisor,
    ScriptedJudge,
    config,
    kernel,
    proposal,
    search,
    start,
)

from agent.optimize.candidate import Judged, Outcome, Proposal, SearchState, Stage, digest_id
from agent.optimize.config import Limits
from agent.optimize.events import Confirmed, Proposed, WasJudged
from agent.optimize.progress import line_of, lines_of
from agent.optimize.run import RunFolder, read_run
from agent.optimize.summary import render, summarise
from agent.report.report import write_report
from agent.report.story import round_stories
from kb.errors import KbError
from kb.printable import WIDTH


def test_the_fastest_right_candidate_leads_and_is_kept_as_a_file(tmp_path: Path) -> None:
    rounds = [[proposal(0.9), proposal(0.5, "fusion")], [proposal(0.4)], [], []]
    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds)).run()
    assert found.better
    assert found.confirmed
    assert found.given_back is None
    assert found.best.candidate.source == kernel(0.4)
    assert (tmp_path / "run" / "best.py").read_text().endswith(kernel(0.4))
    rows = {row.name: row for row in found.rows}
    assert rows["start"].ratio == pytest.approx(2.5)
    assert rows["torch.compile"].ratio == pytest.approx(2.0)
    assert "best" in rows
    text = render(found)
    assert max(map(len, text.splitlines()[:-1])) <= WIDTH
    assert "2.50x faster than the start" in text
    assert str(tmp_path / "run") in text


def test_proposals_are_told_before_they_are_judged(tmp_path: Path) -> None:
    listener = Listener()
    given = [proposal(0.5, note="matmul: matmul-tma-fused"), proposal(0.6)]
    with RunFolder.create(tmp_path / "run", config()) as folder:
        search(folder, ScriptedJudge(), Scripted([given]), progress=listener).run()
    proposed = next(each for each in listener.events if isinstance(each, Proposed))
    first = proposed.candidates[0].id
    assert list(lines_of(proposed)) == ["  2 proposals", f"  {first}: matmul: matmul-tma-fused"]


def test_where_nothing_is_better_the_start_is_given_back(tmp_path: Path) -> None:
    rounds = [[proposal(0.83), proposal(0.699, "fusion")], [proposal(0.9, "tune")]]
    with RunFolder.create(tmp_path / "run", config(first=start(0.7))) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds)).run()
    assert not found.better
    assert found.given_back is None
    assert found.best.candidate.source == start(0.7).source
    assert "no candidate is faster" in render(found)
    assert (tmp_path / "run" / "best.py").read_text().endswith(start(0.7).source)


@pytest.mark.parametrize("proposed", [[0.9], [1.3], []])
def test_where_pytorchs_own_form_is_faster_it_is_given_back(
    tmp_path: Path, proposed: list[float]
) -> None:
    """The scripted torch.compile takes 0.8 ms, the start 1 ms."""
    rounds = [[proposal(each) for each in proposed]]
    root = tmp_path / "run"
    with RunFolder.create(root, config()) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds)).run()
    assert found.better is (proposed == [0.9])
    assert found.given_back == "compile"
    text = render(found)
    said = "no candidate is faster than torch.compile, which is now in best.py (1.25x faster"
    assert said in " ".join(text.split())
    assert max(map(len, text.splitlines()[:-1])) <= WIDTH
    given = (root / "best.py").read_text()
    assert PROBLEM in given
    assert given.endswith("        self.compile(dynamic=False)\n")
    assert ("The best candidate: kernels/" in given) is found.better
    # Read again, it comes to the same, and the report says so.
    known, record = read_run(root)
    assert summarise(known, record, root).given_back == "compile"
    written = write_report(root)
    for path in (written.markdown, written.html):
        told = path.read_text()
        assert "Returned: the problem" in told
        assert "with torch.compile, 1.25x over the start" in told
    with RunFolder.resume(root, config(Limits(rounds=9))) as folder:
        found = search(
            folder, ScriptedJudge(), Scripted([[proposal(0.5)], [proposal(0.5)], [], []])
        ).run()
    assert (found.best.outcome.median_ms, found.given_back) == (0.5, None)
    assert (root / "best.py").read_text().endswith(kernel(0.5))


def test_a_failure_is_repaired_by_its_proposer_as_often_as_allowed(tmp_path: Path) -> None:
    class Stubborn(Scripted):
        def repair(self, proposal: Proposal, failure: Outcome) -> Proposal | None:
            # Fails once more in another way, then is right.
            mark = "wrong" if failure.attempts == 1 else ""
            return proposal.model_copy(update={"source": kernel(0.5, mark)})

    rounds = [[proposal(0.5, mark="compile")]]
    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, ScriptedJudge(), Stubborn(rounds)).run()
    history = folder.record.history
    assert [each.outcome.stage for each in history] == [Stage.COMPILE, Stage.VERIFY, Stage.DONE]
    assert [each.outcome.attempts for each in history] == [1, 2, 3]
    assert [each.candidate.repairs for each in history] == [None, history[0].id, history[1].id]
    assert found.best.id == history[2].id

    with RunFolder.create(tmp_path / "once", config(repairs=1)) as folder:
        search(folder, ScriptedJudge(), Stubborn(rounds)).run()
    assert [each.outcome.attempts for each in folder.record.history] == [1, 2]


def test_a_repair_that_is_what_waits_to_be_judged_is_not_judged_twice(tmp_path: Path) -> None:
    rounds = [[proposal(0.5, mark="wrong"), proposal(0.5, "fusion")]]
    judge = ScriptedJudge()
    with RunFolder.create(tmp_path / "run", config()) as folder:
        search(folder, judge, Scripted(rounds)).run()
    assert len(judge.asked) == len(set(judge.asked)) == 2
    (repaired,) = folder.record.rounds[1].repaired.values()
    assert "the same program as" in repaired.why


def test_a_cheat_is_not_repaired(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", config()) as folder:
        search(folder, ScriptedJudge(), Scripted([[proposal(0.1, mark="cheat")]])).run()
    assert len(folder.record.history) == 1
    assert folder.record.best.id == folder.record.start.id


def test_no_failure_of_a_candidate_ends_the_search(tmp_path: Path) -> None:
    broken = Proposal(source="def kernel_function(:", proposer="scripted", family="a")
    surrogate = Proposal(source="x = '\udc80'\n", proposer="scripted", family="b")
    deep = Proposal(source="x = " + "(" * 5000 + ")" * 5000, proposer="scripted", family="c")
    huge = Proposal(source="#" * (2 << 20), proposer="scripted", family="d")
    rounds = [
        [broken, surrogate],
        [deep, huge, proposal(0.7, mark="crash"), proposal(0.8, "fusion")],
        [proposal(0.5)],
    ]
    chosen = config(repairs=0, patience=9, branching=4)
    with RunFolder.create(tmp_path / "run", chosen) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds, fix=False)).run()
    stages = [each.outcome.stage for each in folder.record.history]
    assert stages[:4] == [Stage.SYNTAX] * 4
    assert stages[4] is Stage.TIME
    crash = folder.record.history[4].outcome
    assert "illegal memory access" in crash.reasons[0]
    assert "\n" not in crash.reasons[0]
    assert found.best.candidate.source == kernel(0.5)


def test_the_same_program_is_not_judged_twice(tmp_path: Path) -> None:
    renamed = proposal(0.5).model_copy(
        update={"source": "# another comment\n" + kernel(0.5).replace("return x", "return (x)")}
    )
    judge = ScriptedJudge()
    with RunFolder.create(tmp_path / "run", config(patience=3)) as folder:
        search(folder, judge, Scripted([[proposal(0.5), renamed], [renamed, proposal(1.0)]])).run()
    assert judge.asked == [digest_id(kernel(0.5))]
    dropped = folder.record.rounds[1].proposed
    assert dropped is not None
    assert [each.outcome.stage for each in dropped.dropped] == [Stage.DUPLICATE]


def test_a_proposer_that_fails_is_told_and_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    class Failing(Scripted):
        asked = 0

        def propose(self, state: SearchState) -> list[Proposal]:
            self.asked += 1
            raise KbError("the endpoint does not answer")

    failing = Failing([], "llm")
    good = Scripted([[proposal(1 - n / 10)] for n in range(1, 6)])
    listener = Listener()
    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, ScriptedJudge(), failing, good, progress=listener).run()
    assert failing.asked == 2
    assert found.best.candidate.source == kernel(0.5)
    proposed = [each for each in listener.events if isinstance(each, Proposed)]
    assert proposed[0].failures == {"llm": "the endpoint does not answer"}
    assert (failing.closed, good.closed) == (1, 1)


def test_when_all_proposers_fail_the_end_says_why(tmp_path: Path) -> None:
    class Broken(Scripted):
        def propose(self, state: SearchState) -> list[Proposal]:
            raise ValueError("mistake in the proposer")

    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, ScriptedJudge(), Broken([])).run()
    assert "nothing more to try (scripted: ValueError: mistake in the proposer)" in found.stopped


def test_of_many_reasons_the_end_names_the_first(tmp_path: Path) -> None:
    class Noted(Scripted):
        notes = ("kernel 1 is slower", "kernel 2 is slower", "kernel 3 is slower")

    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, ScriptedJudge(), Noted([], "recipe")).run()
    assert found.stopped == "nothing more to try (recipe: kernel 1 is slower (and 2 more))"


def test_why_a_proposer_has_nothing_is_recorded_and_told(tmp_path: Path) -> None:
    class Noted(Scripted):
        notes = ("no kernel fits: the stride is 3",)

    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, ScriptedJudge(), Noted([[proposal(0.9)]], "recipe")).run()
    assert "(recipe: no kernel fits: the stride is 3)" in found.stopped
    proposed = folder.record.rounds[1].proposed
    assert proposed is not None
    assert proposed.notes == {"recipe": ("no kernel fits: the stride is 3",)}
    assert round_stories(folder.record)[0].notes == ("recipe: no kernel fits: the stride is 3",)


def test_proposers_take_turns_within_the_round(tmp_path: Path) -> None:
    many = Scripted([[proposal(0.90 + n / 100, f"a{n}") for n in range(20)]], "many")
    few = Scripted([[proposal(0.80, "b")]], "few")
    with RunFolder.create(tmp_path / "run", config(branching=3, width=2)) as folder:
        search(folder, ScriptedJudge(), many, few).run()
    proposed = folder.record.rounds[1].proposed
    assert proposed is not None
    assert [each.proposer for each in proposed.candidates] == ["many", "few", "many", "many"]


def test_every_candidate_is_compared_with_the_leader_of_its_round(tmp_path: Path) -> None:
    rounds = [[proposal(0.5), proposal(0.8, "fusion")], [proposal(0.45)], [proposal(0.449)], []]
    with RunFolder.create(tmp_path / "run", config(patience=3)) as folder:
        search(folder, ScriptedJudge(), Scripted(rounds)).run()
    over = [each.outcome.over("leader") for each in folder.record.history]
    assert [round(each.ratio, 3) for each in over if each] == [2.0, 1.25, 1.111, 1.002]
    # 0.2 % is within the noise of a kernel of this time: no new leader.
    assert folder.record.leader.candidate.source == kernel(0.45)


def test_no_context_holds_what_an_earlier_one_had(tmp_path: Path) -> None:
    advisor = ScriptedAdvisor()
    rounds = [[proposal(0.9)], [proposal(0.8)], [proposal(0.7)]]
    with RunFolder.create(tmp_path / "run", config()) as folder:
        search(folder, ScriptedJudge(), Scripted(rounds), advisor=advisor).run()
    assert advisor.shown[:3] == [(), ("chunk1",), ("chunk1", "chunk2")]


def test_reflection_has_the_profile_of_the_new_leader_and_later_rounds_its_notes(
    tmp_path: Path,
) -> None:
    scripted = Scripted([[proposal(0.5), proposal(0.7, "fusion")], [proposal(0.4)]])
    judge = ScriptedJudge()
    with RunFolder.create(tmp_path / "run", config()) as folder:
        search(folder, judge, scripted).run()
    profiled = {each.id: each.outcome.profile for each in scripted.reflected[0]}
    assert profiled[digest_id(kernel(0.5))] == {"gpu__time_duration.sum": 0.5e6}
    assert profiled[digest_id(kernel(0.7))] is None
    assert scripted.states[1].notes == ("round 1: 2 judged",)
    assert scripted.states[1].leader.outcome.profile is not None
    assert judge.profiled == [digest_id(kernel(ms)) for ms in (1.0, 0.5, 0.4)]


def test_crossover_is_asked_for_once_a_pair(tmp_path: Path) -> None:
    rounds = [[proposal(0.5), proposal(0.6, "fusion")], [proposal(0.7, "c")], [proposal(0.8, "d")]]
    scripted = Scripted(rounds)
    with RunFolder.create(tmp_path / "run", config(patience=5)) as folder:
        search(folder, ScriptedJudge(), scripted).run()
    pairs = [s.crossover and {each.family for each in s.crossover} for s in scripted.states]
    assert pairs[:3] == [None, {"tiling", "fusion"}, {"tiling", "c"}]
    without = Scripted(rounds)
    with RunFolder.create(tmp_path / "off", config(patience=5, crossover=False)) as folder:
        search(folder, ScriptedJudge(), without).run()
    assert not any(state.crossover for state in without.states)


@pytest.mark.parametrize(
    ("limits", "strategy", "told"),
    [
        (Limits(rounds=2), {}, "all rounds done (2 of 2)"),
        (Limits(rounds=0), {}, "all rounds done"),
        (Limits(gpu_seconds=75), {}, "out of GPU time"),
        (Limits(tokens=150), {}, "out of tokens"),
        (Limits(money=0.9), {}, "out of money"),
        (Limits(floor_target=0.12), {}, "the floor was reached"),
        (Limits(), {"least_gain": 0.5}, "no gain (2 rounds"),
    ],
)
def test_each_limit_ends_the_run_and_is_named(
    tmp_path: Path, limits: Limits, strategy: dict[str, object], told: str
) -> None:
    rounds = [[proposal(round(0.9**n, 4)), proposal(2.0 + n, "slow")] for n in range(1, 8)]
    with RunFolder.create(tmp_path / "run", config(limits, **strategy)) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds)).run()
    assert told in found.stopped
    # What was judged counts, wherever the limit fell.
    timed = [each.outcome.median_ms or 9 for each in folder.record.history]
    assert found.best.outcome.median_ms == min([1.0, *timed])


def test_a_limit_of_gpu_time_holds_with_the_last_session_and_profile(tmp_path: Path) -> None:
    rounds = [[proposal(round(0.9**n, 4), f"f{n}")] for n in range(1, 8)]
    with RunFolder.create(tmp_path / "run", config(Limits(gpu_seconds=90))) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds)).run()
    assert "s reserved for the last session" in found.stopped
    assert found.confirmed
    assert 60 < found.gpu_seconds <= 90
    with RunFolder.create(tmp_path / "off", config(Limits(gpu_seconds=90), confirm=False)) as off:
        more = search(off, ScriptedJudge(), Scripted(rounds)).run()
    assert more.judged > found.judged


def test_a_slow_start_under_a_short_limit_leaves_time_for_the_search(tmp_path: Path) -> None:
    """Judging the start takes a third of the limit, and a whole last session more than is left."""
    judge = ScriptedJudge(start_seconds=28)
    limits = Limits(gpu_seconds=75)
    with RunFolder.create(tmp_path / "run", config(limits)) as folder:
        proposer = Scripted([[proposal(0.5)], [proposal(0.4)]])
        found = search(folder, judge, proposer).run()
    left = proposer.states[0].seconds_left
    assert left is not None and 5 < left < 75 - 28
    assert found.best.outcome.median_ms == 0.5
    assert found.confirmed
    assert [each.short for each in judge.allowed] == [True], "the last session had to be short"
    assert "a short session" in found.notes, "and the reader is told"


def test_the_last_session_is_a_whole_one_where_the_search_left_the_time(tmp_path: Path) -> None:
    judge = ScriptedJudge(start_seconds=28)
    with RunFolder.create(tmp_path / "run", config(Limits(gpu_seconds=150))) as folder:
        search(folder, judge, Scripted([[proposal(0.5)]])).run()
    assert [each.short for each in judge.allowed] == [False]
    judge = ScriptedJudge()
    with RunFolder.create(tmp_path / "without", config()) as folder:
        search(folder, judge, Scripted([[proposal(0.5)]])).run()
    assert [each.short for each in judge.allowed] == [False], "there is no limit"


def test_the_last_chance_is_judged_once_and_in_full(tmp_path: Path) -> None:
    """Beside the start's 12 s and what a last session takes there is no time for another one."""
    judge = ScriptedJudge()
    proposers = Scripted([[proposal(0.9, mark="wrong"), proposal(0.5), proposal(0.4, "fusion")]])
    limits = Limits(gpu_seconds=40)
    with RunFolder.create(tmp_path / "run", config(limits)) as folder:
        found = search(folder, judge, proposers).run()
    assert judge.asked == [], "all were judged in last sessions"
    assert found.best.outcome.median_ms == 0.5, "the first that is right"
    assert found.confirmed
    record = folder.record
    assert list(record.confirmed) == [found.best.id]
    assert [each.outcome.right for each in record.history] == [False, True]
    assert record.history[1].outcome.gpu_seconds == 0, "one evaluation is counted once"
    assert found.stopped.startswith("out of GPU time")
    assert "another candidate and last session" in found.stopped, "it has had one"
    again = [(each.round, each.leader) for each in record.closed]
    assert again == [(1, found.best.id)]


def test_a_last_round_in_order_by_quick_times_is_judged_in_full_at_once(tmp_path: Path) -> None:
    judge = ScriptedJudge()
    tuned = [proposal(ms, params={"BLOCK": 64}) for ms in (0.5, 0.6)]
    with RunFolder.create(tmp_path / "run", config(Limits(rounds=1))) as folder:
        found = search(folder, judge, Scripted([tuned])).run()
    assert judge.asked == []
    assert found.best.outcome.median_ms == 0.5
    assert found.confirmed
    with RunFolder.create(tmp_path / "two", config(Limits(rounds=2), branching=4)) as folder:
        search(folder, judge, Scripted([tuned])).run()
    assert len(judge.asked) == 2, "there is another round to come"


def test_quick_times_need_no_other_session_where_no_model_is_asked(tmp_path: Path) -> None:
    class Model(Scripted):
        asks_model = True

    timed = [proposal(ms, quick_ms=ms) for ms in (0.6, 0.5)]
    for kind, asked in ((Scripted, 0), (Model, 2)):
        judge = ScriptedJudge()
        with RunFolder.create(tmp_path / kind.__name__, config(Limits(rounds=2))) as folder:
            found = search(folder, judge, kind([timed])).run()
        assert len(judge.asked) == asked
        assert found.best.outcome.median_ms == 0.5
        assert list(folder.record.confirmed) == [found.best.id]


def test_proposals_that_took_the_wall_time_get_a_last_chance(tmp_path: Path) -> None:
    """As those that took the GPU time do: what was found is not left unjudged."""
    now = [0.0]

    class Slow(Scripted):
        def propose(self, state: SearchState) -> Sequence[Proposal]:
            now[0] += 60.0
            return super().propose(state)

    judge, limits = ScriptedJudge(), Limits(seconds=100)
    with RunFolder.create(tmp_path / "run", config(limits)) as folder:
        found = search(folder, judge, Slow([[proposal(0.5)]]), clock=lambda: now[0]).run()
    assert judge.asked == [], "it was judged in the last session at once"
    assert found.best.outcome.median_ms == 0.5
    assert found.confirmed


def test_the_last_chance_goes_to_the_fastest_in_quick_timings_whoever_proposed_it(
    tmp_path: Path,
) -> None:
    tuned = proposal(0.7, params={"BLOCK": 64}, quick_ms=0.71)
    wrong = proposal(0.3, "split", mark="wrong", quick_ms=0.3, note="wrong")
    found = proposal(0.5, "fusion", quick_ms=0.52, note="right")
    unknown = proposal(0.4, "guess")
    for given in ([found, wrong], [wrong, found, unknown]):
        both = [Scripted([[tuned]], name="tune"), Scripted([given], name="recipe")]
        folder = tmp_path / f"{len(given)}"
        # With one that has no quick time it is the limit that leaves one session.
        limits = Limits(rounds=1) if unknown not in given else Limits(gpu_seconds=40)
        with RunFolder.create(folder, config(limits)) as run:
            ended = search(run, ScriptedJudge(), *both).run()
        assert ended.best.candidate.proposer == "recipe"
        assert ended.best.outcome.median_ms == 0.5
        judged = {each.candidate.note for each in run.record.history}
        assert judged == {"wrong", "right"}


def test_what_quick_timings_put_behind_one_that_is_right_is_not_judged(tmp_path: Path) -> None:
    """Unless a model is asked, which learns from it. What is wrong puts nothing behind."""

    class Model(Scripted):
        asks_model = True

    wrong = proposal(0.3, mark="wrong", quick_ms=0.3)
    first, close = proposal(0.5, quick_ms=0.5), proposal(0.504, quick_ms=0.504)
    behind = proposal(0.8, "fusion", quick_ms=0.8)
    later = proposal(0.9, quick_ms=0.9)
    for kind, judged in ((Scripted, {0.3, 0.5, 0.504}), (Model, {0.3, 0.5, 0.504, 0.8, 0.9})):
        proposer = kind([[first, wrong], [behind, close, later]], fix=False)
        with RunFolder.create(
            tmp_path / kind.__name__, config(Limits(rounds=2), branching=4)
        ) as folder:
            found = search(folder, ScriptedJudge(), proposer).run()
        history = folder.record.history
        assert found.best.outcome.median_ms == 0.5
        assert found.judged == len(judged)
        assert {
            one.candidate.quick_ms for one in history if one.outcome.stage is not Stage.SLOWER
        } == judged
        told = line_of(next(one for one in history if one.candidate.quick_ms == 0.8))
        assert ("slower: 0.8 ms in quick timings, where" in told) == (kind is Scripted)


def test_a_start_beyond_its_floor_is_not_at_it(tmp_path: Path) -> None:
    for ms, reason in ((0.1, "floor"), (0.08, "no proposals")):
        first = Proposal(source=kernel(ms), proposer="start", family="baseline")
        with RunFolder.create(tmp_path / f"{ms}", config(first=first)) as folder:
            search(folder, ScriptedJudge(), Scripted([])).run()
        assert folder.record.stopped is not None
        assert folder.record.stopped.reason == reason


def test_where_nothing_is_better_the_start_is_compared_once_with_all_baselines(
    tmp_path: Path,
) -> None:
    asked: list[str] = []
    judge = ScriptedJudge(before=asked.append)
    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, judge, Scripted([[proposal(1.5)]])).run()
    assert not found.better
    assert asked.count("confirm") == 1
    assert [each.name for each in found.rows if each.ratio is not None] == [
        "eager", "torch.compile",
    ]  # fmt: skip
    with RunFolder.resume(tmp_path / "run") as folder:
        search(folder, judge, Scripted([[], [proposal(1.6)]])).run()
    assert asked.count("confirm") == 1
    known = config().model_copy(update={"baselines": ("eager", "compile")})
    with RunFolder.create(tmp_path / "known", known) as folder:
        search(folder, judge, Scripted([[proposal(1.5)]])).run()
    assert asked.count("confirm") == 1


@pytest.mark.parametrize(("profiling", "times"), [(True, 4), (False, 0)])
def test_leaders_are_profiled_where_that_is_asked_for(
    profiling: bool, times: int, tmp_path: Path
) -> None:
    rounds = [[proposal(0.9)], [proposal(0.7, "fusion")], [proposal(0.5, "split")]]
    judge = ScriptedJudge()
    with RunFolder.create(tmp_path / "run", config(profiling=profiling)) as folder:
        found = search(folder, judge, Scripted(rounds)).run()
    assert len(judge.profiled) == times
    assert (found.best.outcome.profile is not None) == profiling


def test_wall_time_ends_the_run(tmp_path: Path) -> None:
    moments = iter(range(0, 100_000, 10))
    rounds = [[proposal(round(0.9**n, 4))] for n in range(1, 8)]
    with RunFolder.create(tmp_path / "run", config(Limits(seconds=300))) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds), clock=lambda: next(moments)).run()
    assert "out of time" in found.stopped
    assert 0 < found.rounds < 7


def test_a_start_that_is_wrong_is_refused_in_one_line(tmp_path: Path) -> None:
    judge = ScriptedJudge()
    wrong = Proposal(source=kernel(1.0, "wrong"), proposer="start", family="baseline")
    with (
        RunFolder.create(tmp_path / "run", config(first=wrong)) as folder,
        pytest.raises(KbError, match=r"^the start is wrong: full shape: 3 of 4") as caught,
    ):
        search(folder, judge, Scripted([])).run()
    assert "\n" not in str(caught.value)
    assert judge.closed


def test_a_best_that_does_not_hold_in_the_last_evaluation_gives_way(tmp_path: Path) -> None:
    judge = ScriptedJudge()
    judge.refuted = {0.4}
    with RunFolder.create(tmp_path / "run", config()) as folder:
        found = search(folder, judge, Scripted([[proposal(0.6, "fusion"), proposal(0.4)]])).run()
    assert found.best.candidate.source == kernel(0.6)
    assert found.confirmed
    refuted = folder.record.find(digest_id(kernel(0.4)))
    assert not refuted.outcome.right
    kinds = [type(e) for e in folder.record.confirmed.values()]
    assert kinds == [Confirmed, Confirmed]


def test_a_judge_that_fails_again_and_again_ends_the_run(tmp_path: Path) -> None:
    rounds = [[proposal(0.5 + n / 100, f"f{n}", "crash") for n in range(8)]]
    with RunFolder.create(tmp_path / "run", config(branching=8, repairs=0)) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds, fix=False)).run()
    assert "the judge failed (4 times in a row" in found.stopped
    assert found.judged == 4


def test_several_cards_judge_at_once_and_decide_the_same(tmp_path: Path) -> None:
    rounds = [[proposal(0.9 - n / 50, f"f{n}", "wrong" if n % 3 else "") for n in range(8)]] * 2
    results = []
    for slots in (1, 3):
        listener = Listener()
        with RunFolder.create(tmp_path / f"run{slots}", config(branching=8)) as folder:
            found = search(folder, ScriptedJudge(slots), Scripted(rounds), progress=listener).run()
        results.append((found.best.id, folder.record.beam, folder.record.history))
        assert len([e for e in listener.events if isinstance(e, WasJudged)]) == len(
            folder.record.history
        )
    assert results[0] == results[1]


def test_a_finished_run_is_read_without_the_lock_and_continued_with_more_rounds(
    tmp_path: Path,
) -> None:
    root = tmp_path / "run"
    rounds = [[proposal(round(0.9**n, 4))] for n in range(1, 8)]
    with RunFolder.create(root, config(Limits(rounds=2), branching=4)) as folder:
        search(folder, ScriptedJudge(), Scripted(rounds)).run()
        _, record = read_run(root)
        assert len(record.closed) == 2
    judge = ScriptedJudge()
    with RunFolder.resume(root, config(Limits(rounds=4))) as folder:
        found = search(folder, judge, Scripted(rounds)).run()
    assert found.rounds == 4
    assert len(judge.asked) == 2
    assert found.best.outcome.median_ms == pytest.approx(0.9**4, abs=1e-4)


def test_a_run_that_ended_without_gain_gets_its_patience_anew(tmp_path: Path) -> None:
    root = tmp_path / "run"
    rounds = [[proposal(1.5)], [proposal(1.6)], [proposal(1.7)], [proposal(0.5, "fusion")]]
    with RunFolder.create(root, config()) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds)).run()
        assert "no gain" in found.stopped
    with RunFolder.resume(root) as folder:
        found = search(folder, ScriptedJudge(), Scripted(rounds)).run()
    assert found.best.outcome.median_ms == 0.5


def test_the_beam_has_one_survivor_of_each_family(tmp_path: Path) -> None:
    rounds = [
        [proposal(0.9, "a"), proposal(0.8, "a"), proposal(0.7, "b"), proposal(0.95, "c")],
        [proposal(0.85, "a")],
    ]
    scripted = Scripted(rounds)
    with RunFolder.create(tmp_path / "run", config(branching=4, width=3)) as folder:
        search(folder, ScriptedJudge(), scripted).run()
    beam: tuple[Judged, ...] = scripted.states[1].beam
    assert [(each.family, each.outcome.median_ms) for each in beam] == [
        ("b", 0.7), ("a", 0.8), ("c", 0.95),
    ]  # fmt: skip


class Model(Scripted):
    """A proposer that asks a model."""

    asks_model = True


@pytest.mark.parametrize("others", [[proposal(0.8)], []])
def test_a_model_goes_on_from_what_the_others_reached(
    tmp_path: Path, others: list[Proposal]
) -> None:
    tuned = Scripted([others, [], []], "tune")
    model = Model([[proposal(0.7, "fusion")], [proposal(0.5, "fusion")]], "llm")
    with RunFolder.create(tmp_path / "run", config(Limits(rounds=3))) as folder:
        search(folder, ScriptedJudge(), tuned, model).run()
    first = model.states[0]
    if others:
        assert first.round == 2
        assert first.leader.candidate.source == kernel(0.8)
        # What it writes is there for the others in the next round.
        assert tuned.states[2].leader.candidate.proposer == "llm"
    else:
        assert first.round == 1


def test_in_a_run_of_one_round_all_are_asked(tmp_path: Path) -> None:
    model = Model([[proposal(0.7, "fusion")]], "llm")
    with RunFolder.create(tmp_path / "run", config(Limits(rounds=1))) as folder:
        search(folder, ScriptedJudge(), Scripted([[proposal(0.8)]], "tune"), model).run()
    assert [each.round for each in model.states] == [1]
