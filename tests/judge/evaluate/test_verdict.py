"""One verdict out of the evidence: which comes first, and what each needs."""

import pytest

from judge.evaluate.correctness import Observations
from judge.evaluate.finding import Finding
from judge.evaluate.prepared import Outcome
from judge.evaluate.result import Case, Counterexample, PowerCheck, Verdict
from judge.evaluate.verdict import Evidence, decide, require_exact
from judge.problem.kernel import Language
from judge.worker.messages import Observed


def case(**changed):
    values = {
        "shape": "full", "kind": "given", "seed_index": 0, "counted": True, "passed": True,
    }  # fmt: skip
    return Case(**values | changed)


def outcome(**changed):
    return Outcome(case(**changed), exact=frozenset())


def evidence(*outcomes, **changed):
    given = {
        "outcomes": list(outcomes) or [outcome(), outcome(shape="variant", kind="normal")],
        "power": [PowerCheck(mutation="zeros", rejected_by="full shape, normal values")],
        "language": Language.TRITON,
        "observations": seen(triton_launches={"kernel": 1}, kernels={"kernel": 1}),
        "eager": Observed(aten={"aten.mm": 1, "aten.add": 1}, kernels={"gemm": 1}),
        "device": "cuda:0",
    }
    return Evidence(**given | changed)


def seen(**fields):
    return Observations([Observed(**fields)], watched=True)


DECLINED = {"shape": "variant", "passed": False, "refused": True, "problem": "it raises ValueError"}
OFF = {"passed": False, "problem": "3 of 9 elements are off"}
CHEAT = Finding("patched-measurement", "cheat", 4, "torch.cuda.Event = X", "replaces the timer")


def test_all_right_is_correct():
    decision = decide(evidence())
    assert (decision.verdict, decision.reasons) == (Verdict.CORRECT, ())


@pytest.mark.parametrize(
    ("changed", "verdict", "said"),
    [
        ({"scan": [CHEAT]}, Verdict.CHEAT, "line 4: torch.cuda.Event = X: replaces the timer"),
        ({"cheats": ["launches were skipped"]}, Verdict.CHEAT, "skipped"),
        (
            {"observations": seen(kernels={"k": 1}, patched=["torch.equal"])},
            Verdict.CHEAT,
            "torch.equal was replaced",
        ),
        (
            {"observations": seen(kernels={"k": 2}, other_card=True)},
            Verdict.CHEAT,
            "on another GPU, which the baselines",
        ),
        ({"observations": seen()}, Verdict.CHEAT, "no kernel was launched"),
        ({"wrong": ["it cannot be loaded: x"]}, Verdict.WRONG, "cannot be loaded"),
        (
            {"power": [PowerCheck(mutation="mean", detail="every output its mean")]},
            Verdict.INCONCLUSIVE,
            "a wrong kernel would pass every case that counts: mean",
        ),
        (
            {"observations": seen(triton_launches={"k": 1}, aten={"aten.mm": 2}, kernels={"k": 1})},
            Verdict.LIBRARY,
            "aten.mm",
        ),
        (
            {"observations": seen(aten={"aten.mul_": 2}, kernels={"k": 1})},
            Verdict.LIBRARY,
            "all of the work: aten.mul_",
        ),
    ],
)
def test_each_verdict_has_its_evidence(changed, verdict, said):
    decision = decide(evidence(**changed))
    assert decision.verdict is verdict
    assert said in " ".join(decision.reasons)


def test_the_graver_verdict_comes_first_and_a_library_is_always_told():
    library = seen(aten={"aten.mm": 1}, kernels={"k": 1})
    everything = {"observations": library, "power": [PowerCheck(mutation="mean")]}
    outcomes = [outcome(), outcome(**DECLINED)]
    order = []
    for more in (
        {"cheats": ["x"], "wrong": ["y"], **everything},
        {"wrong": ["y"], **everything},
        everything,
        {"observations": library},
    ):
        decision = decide(evidence(*outcomes, **more))
        order.append(decision.verdict)
        assert any("aten.mm" in text for text in decision.disclosures)
    assert order == [
        Verdict.CHEAT, Verdict.WRONG, Verdict.INCONCLUSIVE, Verdict.SPECIALISED,
    ]  # fmt: skip


def test_a_wrong_case_shows_where():
    example = Counterexample(output=0, index=(2, 3), got=1.5, expected=2.0)
    decision = decide(evidence(outcome(**OFF, counterexamples=(example,))))
    assert decision.verdict is Verdict.WRONG
    assert decision.reasons == (
        "full shape, given values: 3 of 9 elements are off; output 0[2, 3] is 1.5, not 2",
    )


def test_a_case_that_eager_fails_makes_nobody_wrong_but_is_told():
    off = outcome(counted=False, why_not="eager itself is wrong", passed=False)
    decision = decide(evidence(outcome(), off))
    assert decision.verdict is Verdict.CORRECT
    assert "1 of 2 cases do not count" in decision.disclosures[-1]
    assert decide(evidence(off)).verdict is Verdict.INCONCLUSIVE


def test_the_given_shape_has_to_be_among_the_cases_that_count():
    small = outcome(shape="reduced")
    full = outcome(counted=False, why_not="out of memory", passed=False)
    assert decide(evidence(small, full)).verdict is Verdict.INCONCLUSIVE
    assert decide(evidence(small, given_shape=False)).verdict is Verdict.CORRECT
    assert decide(evidence(outcome(**DECLINED))).verdict is Verdict.INCONCLUSIVE


def test_power_that_does_not_apply_is_not_missed():
    same = PowerCheck(mutation="mean", applies=False)
    assert decide(evidence(power=[same])).verdict is Verdict.CORRECT


def test_what_cannot_be_seen_is_no_evidence():
    blind = {"observations": seen(), "eager": Observed()}
    assert decide(evidence(**blind)).verdict is Verdict.CORRECT
    assert decide(evidence(observations=seen(), device="cpu")).verdict is Verdict.CORRECT


def test_small_operators_beside_own_kernels_are_disclosed_only():
    ran = seen(triton_launches={"k": 1}, aten={"aten.add": 1}, kernels={"k": 1}, other_stream=True)
    decision = decide(evidence(observations=ran))
    assert decision.verdict is Verdict.CORRECT
    assert any("aten.add" in text for text in decision.disclosures)
    assert any("stream of its own" in text for text in decision.disclosures)


def test_equality_is_required_only_where_every_counted_case_has_it():
    inexact = {0: ("1 of 9 elements differ", ())}
    both = [
        Outcome(case(), exact=frozenset({0, 1})),
        Outcome(case(kind="normal"), exact=frozenset({0}), inexact=dict(inexact)),
    ]
    require_exact(both)
    assert [each.case.passed for each in both] == [True, False]
    assert both[1].case.bit_exact_required
    one = [
        Outcome(case(), exact=frozenset({1})),
        Outcome(case(kind="normal"), exact=frozenset({0}), inexact=dict(inexact)),
        Outcome(case(counted=False, passed=False), exact=None),
    ]
    require_exact(one)
    assert one[1].case.passed


def test_where_the_machine_computes_wrongly_nobody_is_called_wrong():
    off = OFF | {"norm_ratio": 0.9}
    decision = decide(evidence(outcome(**off), value_caveat="the interpreter is wrong in bfloat16"))
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.reasons[0] == "the interpreter is wrong in bfloat16"
    assert any("3 of 9 elements are off" in reason for reason in decision.reasons)
    assert decide(evidence(value_caveat="the same")).verdict is Verdict.CORRECT
    assert decide(evidence(outcome(**off), value_caveat="x", scan=[CHEAT])).verdict is Verdict.CHEAT
    shape = OFF | {"problem": "its output has shape [3] instead of [4]", "norm_ratio": None}
    assert decide(evidence(outcome(**shape), value_caveat="x")).verdict is Verdict.WRONG


def test_why_the_problem_s_own_model_was_not_timed_comes_first():
    fault = "the reference failed (RuntimeError) while the kernel's process ran, but alone it ran"
    decision = decide(evidence(is_own_model=True, machine_faults=[fault]))
    assert (decision.verdict, decision.reasons[0]) == (Verdict.LIBRARY, fault)
