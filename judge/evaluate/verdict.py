"""From evidence to one verdict, with reasons and what should be known beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from judge.evaluate.correctness import Observations
from judge.evaluate.finding import Finding
from judge.evaluate.power import why_unproven
from judge.evaluate.prepared import Outcome
from judge.evaluate.result import Case, Fault, PowerCheck, Verdict
from judge.problem.kernel import Language
from judge.worker.messages import Observed, ValueKind

# Operators that move, fill, cast or combine values: an honest kernel uses them around its own
# work, so they alone do not make it a library's.
_BESIDE = frozenset({
    "copy", "_to_copy", "clone", "fill", "zero", "zeros", "ones", "full", "zeros_like",
    "ones_like", "full_like", "arange", "empty_like", "constant_pad_nd", "cat", "stack",
    "slice_scatter", "add", "sub", "mul", "div", "neg", "abs", "maximum", "minimum", "where",
    "eq", "ne", "lt", "le", "gt", "ge", "sum", "any", "all", "rsqrt", "sqrt", "reciprocal", "exp",
    "log", "item", "_local_scalar_dense", "isnan", "isinf", "bitwise_and", "bitwise_or", "random",
    "randint", "rand", "randn", "normal",
})  # fmt: skip
# Operators that are the work of whatever problem they appear in.
_WORK = frozenset({
    "mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "_scaled_mm", "convolution",
    "cudnn_convolution", "linear", "matmul", "_softmax", "_log_softmax", "native_layer_norm",
    "native_batch_norm", "native_group_norm", "_fused_rms_norm", "rms_norm", "cumsum", "cumprod",
    "sort", "topk", "argmax", "argmin", "embedding", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "gelu", "silu",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_flash_attention_forward", "_efficient_attention_forward",
})  # fmt: skip
# Libraries that compute; others in Python's packages are loaded for many reasons.
_COMPUTING = ("libcublas", "libcudnn", "libcusparse", "libcusolver", "libcufft", "libcutlass")
_SHOWN = 5
# Seen in Triton 3.9: its interpreter keeps bfloat16 as bits and computes with them as integers.
CONVERTED_TO_BFLOAT16 = (
    "the kernel converts to bfloat16, in which Triton's interpreter computes wrongly: check on a "
    "GPU, or use float16 instead"
)
INTERPRETED_BFLOAT16 = (
    "Triton's interpreter computes wrongly in bfloat16: check with --dtype float16 or float32, or "
    "on a GPU, unless the kernel converts to float32 first"
)
_TELLING = (ValueKind.GIVEN, ValueKind.NORMAL)


@dataclass(slots=True)
class Evidence:
    """Everything that the verdict is made of."""

    outcomes: list[Outcome] = field(default_factory=list)
    power: list[PowerCheck] = field(default_factory=list)
    scan: list[Finding] = field(default_factory=list)
    """What the syntax tree shows."""
    cheats: list[str] = field(default_factory=list)
    """Of the timing."""
    wrong: list[str] = field(default_factory=list)
    """It does not load, or timed launches were wrong."""
    faults: list[Fault] = field(default_factory=list)
    """Why there are no results, outside of any case."""
    observations: Observations = field(default_factory=Observations)
    eager: Observed | None = None
    """What eager was seen to run."""
    language: Language = Language.TORCH
    device: str = "cpu"
    is_own_model: bool = False
    """The kernel file is the problem's own model and nothing else (`forms.as_kernel`)."""
    smaller: list[PowerCheck] = field(default_factory=list)
    """As `power`, at smaller shapes."""
    given_shape: bool = True
    """The given shape is among the cases; not so in Triton's interpreter at reduced sizes."""
    machine_faults: list[str] = field(default_factory=list)
    """Failures of the problem's side that the problem does not explain."""
    untested: list[str] = field(default_factory=list)
    """Parts of the kernel that no tested size reaches."""
    value_caveat: str | None = None
    """Why wrong values may not be the kernel's fault here; nobody is called wrong for them then."""
    why_untimed: str | None = None
    """Why the candidate could not be timed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and what is said with it."""

    verdict: Verdict
    reasons: tuple[str, ...]
    disclosures: tuple[str, ...]
    fault: Fault | None = None
    """Of a kernel that is wrong."""


def require_exact(outcomes: Sequence[Outcome]) -> None:
    """Hold the candidate to equality where eager has it.

    Where in every counted case an output's values all exist in its dtype and eager equals the
    oracle (pooling, copies, argmax), a candidate has no rounding to excuse a difference.
    """
    counted = [outcome for outcome in outcomes if outcome.exact is not None]
    exact = [outcome.exact for outcome in counted if outcome.exact is not None]
    common = frozenset.intersection(*exact) if exact else frozenset()
    if not common:
        return
    for outcome in counted:
        outcome.note(bit_exact_required=True)
        wrong = [outcome.inexact[index] for index in sorted(common & outcome.inexact.keys())]
        if wrong and outcome.case.passed:
            outcome.note(passed=False, problem=wrong[0][0], counterexamples=wrong[0][1])


def decide(evidence: Evidence) -> Decision:
    """The verdict: cheat before wrong, inconclusive, specialised, library and correct."""
    reasons: dict[Verdict, list[str]] = {
        Verdict.CHEAT: _cheat_reasons(evidence),
        Verdict.WRONG: _wrong_reasons(evidence),
        Verdict.INCONCLUSIVE: _inconclusive_reasons(evidence),
        Verdict.SPECIALISED: _specialised_reasons(evidence),
        Verdict.LIBRARY: _library_reasons(evidence),
    }
    if evidence.is_own_model and not evidence.faults:
        return _own_model_decision(evidence, reasons)
    if evidence.value_caveat and _only_values_are_wrong(evidence):
        reasons[Verdict.INCONCLUSIVE][:0] = [evidence.value_caveat, *reasons[Verdict.WRONG]]
        reasons[Verdict.WRONG] = []
    for verdict, matching_reasons in reasons.items():
        if matching_reasons:
            shown_reasons = [*matching_reasons]
            if verdict is Verdict.CHEAT:
                shown_reasons += reasons[Verdict.WRONG]
            # A library's work is always disclosed.
            library_reasons = [] if verdict is Verdict.LIBRARY else reasons[Verdict.LIBRARY]
            return Decision(
                verdict,
                tuple(dict.fromkeys(shown_reasons))[:_SHOWN],
                (*library_reasons, *_disclosures(evidence)),
                _fault(evidence) if verdict is Verdict.WRONG else None,
            )
    return Decision(Verdict.CORRECT, (), tuple(_disclosures(evidence)))


def _own_model_decision(evidence: Evidence, reasons: dict[Verdict, list[str]]) -> Decision:
    """PyTorch itself is right by definition; what could not be shown is disclosed."""
    doubts = [f"not verified: {reason}" for reason in reasons[Verdict.WRONG][:_SHOWN]]
    doubts += [f"not verified: {reason}" for reason in reasons[Verdict.INCONCLUSIVE][:_SHOWN]]
    own_model = "it is the problem's own model, run by PyTorch"
    why_untimed = evidence.why_untimed
    if why_untimed is None:
        why_untimed = next(iter(evidence.machine_faults), None)
    why = (own_model,) if why_untimed is None else (why_untimed, own_model)
    return Decision(Verdict.LIBRARY, why, (*doubts, *_disclosures(evidence)))


def describe(case: Case) -> str:
    """Which case it is, in words."""
    shape = f"{case.shape} shape"
    if case.constants:
        shape += f" ({', '.join(f'{k}={v}' for k, v in case.constants.items())})"
    return f"{shape}, {case.kind} values"


def is_wrong(case: Case) -> bool:
    """Whether a case makes the kernel wrong: it counts, failed, and was not declined."""
    return case.counted and not case.passed and not case.refused


def _only_values_are_wrong(evidence: Evidence) -> bool:
    """Whether outputs of the right form were compared with the oracle wherever it is wrong."""
    wrong = [outcome.case for outcome in evidence.outcomes if is_wrong(outcome.case)]
    return bool(wrong) and not evidence.wrong and all(c.norm_ratio is not None for c in wrong)


def _cheat_reasons(evidence: Evidence) -> list[str]:
    cheats = [cheat for outcome in evidence.outcomes for cheat in outcome.cheats]
    cheats += evidence.cheats
    cheats += [str(finding) for finding in evidence.scan if finding.severity == "cheat"]
    cheats += [f"{name} was replaced" for name in evidence.observations.all("patched")]
    if any(observed.other_card for observed in evidence.observations.reports):
        cheats.append("it also works on another GPU, which the baselines do not")
    if no_launch := _no_kernel_launched(evidence):
        cheats.append(no_launch)
    return list(dict.fromkeys(cheats))


def _no_kernel_launched(evidence: Evidence) -> str | None:
    """Whether an observed call launched nothing on the GPU although it was right.

    Only where the process could see eager's kernels: the profiler may be kept from the GPU.
    """
    if evidence.device == "cpu" or not evidence.observations.watched:
        return None
    eager_unseen = evidence.eager is None or not evidence.eager.kernels
    if eager_unseen or not any(outcome.case.passed for outcome in evidence.outcomes):
        return None
    if evidence.observations.names("kernels"):
        return None
    return "no kernel was launched on the GPU during a call"


def _wrong_reasons(evidence: Evidence) -> list[str]:
    reasons = list(evidence.wrong)
    for outcome in evidence.outcomes:
        if is_wrong(outcome.case):
            text = f"{describe(outcome.case)}: {outcome.case.problem}"
            if outcome.case.counterexamples:
                example = outcome.case.counterexamples[0]
                where = f"output {example.output}{list(example.index)}"
                text += f"; {where} is {example.got:.6g}, not {example.expected:.6g}"
            reasons.append(text)
    return reasons


def _fault(evidence: Evidence) -> Fault | None:
    """Why it gave no result; a compiler's refusal first."""
    cases = (outcome.case for outcome in evidence.outcomes if is_wrong(outcome.case))
    faults = [*evidence.faults, *(case.fault for case in cases if case.fault is not None)]
    return min(faults, key=lambda fault: not fault.compiling, default=None)


def _inconclusive_reasons(evidence: Evidence) -> list[str]:
    if evidence.machine_faults:
        return list(evidence.machine_faults)
    cases = [outcome.case for outcome in evidence.outcomes]
    counted = [case for case in cases if case.counted]
    if not counted:
        why = next((case.why_not for case in cases if case.why_not), "no case could be made")
        return [f"no case counts: {why}"]
    passed = [case for case in counted if case.passed]
    if not passed:
        problem = next((case.problem for case in counted if case.refused), None)
        if problem is None:
            return []  # it answers, and wrongly
        return [f"it raises an error at every shape that was tried: {problem}"]
    # On large values a random part of the result is too small to matter.
    decisive = [case for case in passed if case.kind in _TELLING]
    if evidence.given_shape and not any(case.shape == "full" for case in decisive):
        why = next((c.why_not for c in cases if c.shape == "full" and c.why_not), "not run")
        return [f"no case at the given shape counts: {why}"]
    unproven_power = why_unproven(evidence.power, evidence.smaller)
    return [*([unproven_power] if unproven_power else []), *evidence.untested]


def _specialised_reasons(evidence: Evidence) -> list[str]:
    declined = [outcome.case for outcome in evidence.outcomes if outcome.case.refused]
    if not declined:
        return []
    case = declined[0]
    count = len({tuple(sorted(c.constants.items())) for c in declined})
    return [f"it declines {count} other shape(s); the first: {describe(case)}: {case.problem}"]


def _library_reasons(evidence: Evidence) -> list[str]:
    ran = {_operator(name): name for name in evidence.observations.names("aten")}
    host_work = [outcome.host_ops for outcome in evidence.outcomes if outcome.host_ops is not None]
    if host_work:
        operators = f" ({host_work[0]})" if host_work[0] else ""
        if not evidence.observations.names("triton_launches"):
            return [f"the host does all of the work{operators}; no Triton kernel runs"]
        return [
            f"the host does part of the work{operators}: the result is wrong if only the loads of "
            "Triton kernels see the true input values"
        ]
    has_own = bool(evidence.observations.names("triton_launches"))
    has_own = has_own or evidence.language is Language.CUDA
    eager_ops = {_operator(name) for name in evidence.eager.aten} if evidence.eager else set()
    ops = [name for op, name in ran.items() if op in _WORK or op in eager_ops - _BESIDE]
    if ops:
        return [f"a library does part of the problem's work: {', '.join(sorted(ops)[:_SHOWN])}"]
    if ran and not has_own:
        return [f"a library does all of the work: {', '.join(sorted(ran.values())[:_SHOWN])}"]
    return []


def _disclosures(evidence: Evidence) -> list[str]:
    notes = []
    minor = [name for name in evidence.observations.names("aten") if _operator(name) in _BESIDE]
    if minor and evidence.observations.names("triton_launches"):
        notes.append(f"besides its own kernels, it calls {', '.join(sorted(minor)[:_SHOWN])}")
    if any(observed.other_stream for observed in evidence.observations.reports):
        notes.append("it issues work on a stream of its own")
    libraries = _foreign_libraries(evidence.observations.all("libraries"))
    if libraries:
        notes.append(f"it loads {', '.join(libraries[:_SHOWN])}")
    notes += evidence.observations.all("notes")[:_SHOWN]
    notes += [str(finding) for finding in evidence.scan if finding.severity != "cheat"][:_SHOWN]
    if unproven_power := why_unproven(evidence.power):
        notes.append(f"at the given shape {unproven_power}")
    uncounted = [outcome.case for outcome in evidence.outcomes if not outcome.case.counted]
    if uncounted:
        notes.append(
            f"{len(uncounted)} of {len(evidence.outcomes)} cases do not count; "
            f"the first: {describe(uncounted[0])}: {uncounted[0].why_not}"
        )
    return list(dict.fromkeys(notes))


def _foreign_libraries(paths: Sequence[str]) -> list[str]:
    """Names of libraries that compute, and of those that are no part of Python's packages."""
    names = []
    for path in paths:
        name = path.rpartition("/")[2]
        in_package = "/site-packages/" in path or "/lib-dynload/" in path or "/lib/" in path
        if not in_package or name.startswith(_COMPUTING):
            names.append(name)
    return list(dict.fromkeys(names))


def _operator(name: str) -> str:
    """`aten.add_` as `add`: whether in place makes no difference here."""
    return name.removeprefix("aten.").partition(".")[0].rstrip("_")
