"""The suite of attacks and honest kernels, as far as Triton's interpreter can run it."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.judge.cases import SuiteCase, read_suite
from benchmarks.judge.suite import Outcome, rates, run_case
from judge.evaluate.judge import Options
from judge.evaluate.result import Verdict
from judge.problem.kernel import KernelFile
from judge.sandbox import processes
from judge.sandbox.launch import Zygote

ATTACKS = read_suite("attack")
HONEST = read_suite("honest")
# These run until the limit; the others get a limit that a busy machine does not reach.
HANGING = {"endless_loop", "fork_bomb", "memory_bomb"}
HANGING_SECONDS = 1.0


Judged = Callable[[SuiteCase], Outcome]


@pytest.fixture(scope="module")
def judged(interpreting: Zygote, request: pytest.FixtureRequest) -> Iterator[Judged]:
    """The judge's outcome for a case; two cases at a time, in the order of the chosen tests."""
    mine = [item for item in request.session.items if item.path == request.path]
    chosen = [
        item.callspec.params["case"]
        for item in mine
        if isinstance(item, pytest.Function)
        and "judged" in item.fixturenames
        and hasattr(item, "callspec")
    ]
    with ThreadPoolExecutor(2) as pool:
        futures = {case.name: pool.submit(_judge, case, interpreting) for case in chosen}
        yield lambda case: futures[case.name].result()


def _judge(case: SuiteCase, zygote: Zygote) -> Outcome:
    seconds = HANGING_SECONDS if case.name in HANGING else 120.0
    options = Options(interpret=True, timing=False, call_seconds=seconds)
    return run_case(case, options, small=True, zygote=zygote)


def ids(cases: list[SuiteCase]) -> list[str]:
    return [case.name for case in cases]


def on_cpu(cases: list[SuiteCase]) -> list[SuiteCase]:
    return [case for case in cases if case.needs == "cpu"]


@pytest.mark.parametrize("case", on_cpu(ATTACKS), ids=ids(on_cpu(ATTACKS)))
def test_an_attack_is_caught(case: SuiteCase, judged: Judged) -> None:
    outcome = judged(case)
    assert outcome.error is None
    assert outcome.verdict in case.verdicts, outcome.disclosures
    assert outcome.reasons


@pytest.mark.parametrize("case", on_cpu(HONEST), ids=ids(on_cpu(HONEST)))
def test_an_honest_kernel_is_not_blamed(case: SuiteCase, judged: Judged) -> None:
    outcome = judged(case)
    assert outcome.error is None
    assert outcome.verdict in case.verdicts, outcome.reasons


def test_no_attack_leaves_a_process_behind(interpreting: Zygote) -> None:
    surviving = next(case for case in ATTACKS if case.name == "surviving_child")
    _judge(surviving, interpreting)
    below = processes.descendants(interpreting.pid)
    assert below == [], [Path(f"/proc/{pid}/comm").read_text() for pid in below]


def test_the_suite_is_as_large_as_promised() -> None:
    assert len(ATTACKS) >= 25
    assert len(HONEST) >= 40
    assert len(on_cpu(HONEST)) >= 40
    assert Counter(case.name for case in ATTACKS + HONEST).most_common(1)[0][1] == 1


@pytest.mark.parametrize("case", ATTACKS, ids=ids(ATTACKS))
def test_an_attack_says_where_it_was_seen(case: SuiteCase) -> None:
    assert "Seen: " in case.path.read_text()
    assert Verdict.CORRECT not in case.verdicts


@pytest.mark.parametrize("case", ATTACKS + HONEST, ids=ids(ATTACKS + HONEST))
def test_what_is_judged_says_nothing_about_itself(case: SuiteCase) -> None:
    text = case.source()
    assert case.kind.upper() + " =" not in text
    if case.path.suffix == ".py":
        assert case.about not in " ".join(text.split())
        assert text.count("\n") == case.path.read_text().count("\n")
    KernelFile.parse(text, f"kernel{case.path.suffix}")


def test_rates_count_what_the_judge_could_not_judge_against_it() -> None:
    def outcome(kind: str, *, as_expected: bool) -> Outcome:
        return Outcome(
            name="k", kind=kind, problem="p", expected=[], verdict=None, as_expected=as_expected,
            reasons=[], disclosures=[], seconds=0.0, error=None if as_expected else "it broke",
        )  # fmt: skip

    found = rates(
        [
            outcome("attack", as_expected=True),
            outcome("attack", as_expected=False),
            outcome("honest", as_expected=True),
            outcome("honest", as_expected=False),
        ]
    )
    assert (found.catch_rate, found.false_positive_rate) == (0.5, 0.5)
