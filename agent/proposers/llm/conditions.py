"""What a kernel is judged by, in lines for a prompt: errors allowed, shapes, card, versions."""

from collections.abc import Iterator
from typing import Final

from agent.optimize.candidate import SearchState
from judge.problem.source import ProblemFile
from judge.problem.variants import why_none
from kb.dtypes import full_dtype
from kb.errors import KbError
from kb.gpus import GpuSpec, find_spec
from kb.problems.analysis import analyse
from kb.problems.plan import fact_sheet
from kb.problems.reading import read_problem

# Norm-wise error that a result may have against the exact one, and that of its worst element:
# `judge.evaluate.tolerance.candidate_limits` for short sums. A test holds them together.
LIMITS: Final = {
    "float64": (1e-14, 1e-13),
    "float32": (5e-6, 5e-5),
    "float16": (1e-3, 2e-3),
    "bfloat16": (7.5e-3, 1.5e-2),
}
TF32_LIMITS: Final = (2e-3, 4e-3)
_RATES: Final = ("fp32", "tf32", "bf16", "fp16", "fp8")
_VERSIONS: Final = ("torch", "triton", "cuda")
_EXACT: Final = (
    "An element's error is |got − exact| / (|exact| + rms(exact)). Integers and booleans must be "
    "equal, and results without rounding (maxima, copies, indices) bit for bit: among equal values "
    "the first one's index, and NaN as PyTorch treats it."
)
_TIMES: Final = (
    "medians of the GPU time of a call, interleaved with PyTorch's, on inputs that rotate so that "
    "the L2 is cold; calls of less than 20 us as CUDA graphs. First calls and compilation are not "
    "timed. Work on the host counts only where the GPU has to wait for it. A file may use "
    "`triton.autotune`, but it runs again at every checked shape, so give few configurations, or "
    "none: other values are tried later for the integers that reach a constexpr parameter, "
    "`num_warps` or `num_stages`, whether defaults of a host function or literals of a launch."
)


def conditions(state: SearchState) -> tuple[str, ...]:
    """All lines; what is not known is said, and never guessed."""
    return (
        f"Errors: {_errors(state)} {_EXACT}",
        f"Shapes: {_shapes(state)}",
        f"Times: {_TIMES}",
        *_card(state),
        f"Versions: {_versions(state)}",
    )


def facts(state: SearchState) -> tuple[str, ...]:
    """What can be read of the problem: operators, work, floor. Empty where it cannot be read."""
    return fact_sheet(state.problem.source, state.problem.stem, state.dtype, _spec(state))


def dtype_of(state: SearchState) -> str | None:
    """PyTorch's name of the dtype in which the run is, None where the file says it."""
    return None if state.dtype is None else str(full_dtype(state.dtype))


def _errors(state: SearchState) -> str:
    if state.tf32:
        norm, worst = TF32_LIMITS
        return (
            f"float32 products may use TF32. ‖got − exact‖ / ‖exact‖ at most about {norm:g}, the "
            f"worst element {worst:g}."
        )
    dtype = dtype_of(state) or _own_dtype(state)
    norm, worst = LIMITS.get(dtype, LIMITS["bfloat16"])
    limits = f"{norm:g} for {dtype} results, the worst element {worst:g}"
    words = (
        f"‖got − exact‖ / ‖exact‖ at most about {limits}, or twice eager PyTorch's own error if "
        "that is more."
    )
    if dtype == "float32":
        words += (
            " float32 products are IEEE: a single TF32 product errs by 1e-3 and is refused; use "
            '`tl.dot(..., input_precision="tf32x3")` or "ieee".'
        )
    return words


def _own_dtype(state: SearchState) -> str:
    try:
        return analyse(read_problem(state.problem.source)).dtype
    except KbError:
        return "float32"


def _shapes(state: SearchState) -> str:
    try:
        problem = ProblemFile.parse(state.problem.source, state.problem.name)
    except KbError:
        return "those of the problem file."
    if why_none(problem) is not None:
        return "those of the problem file alone; times are for these."
    free = [name for name, constant in problem.constants.items() if not constant.structural]
    fixed = [name for name, constant in problem.constants.items() if constant.structural]
    words = "times are of those in the problem file. Results are also checked at smaller sizes and "
    words += "at sizes that are odd, 1, or no multiple of a tile"
    parts = [f"by changing {', '.join(free)}"] if free else []
    if fixed:
        start = "and, where the model can be built so," if free else "by changing"
        parts.append(f"{start} {', '.join(fixed)}")
    follows = "Values computed from these, or assigned with them, follow"
    return f"{words}, {' '.join(parts)}. {follows}; other sizes stay as they are."


def _spec(state: SearchState) -> GpuSpec | None:
    try:
        return find_spec(state.gpu) if state.gpu is not None else None
    except KbError:
        return None


def _card(state: SearchState) -> Iterator[str]:
    spec = _spec(state)
    if spec is None:
        target = f" ({state.architecture})" if state.architecture else ""
        yield f"GPU: {state.gpu or 'not known'}{target}."
        return
    rates = ", ".join(
        f"{name} {spec.dense_tflops[name]:g}" for name in _RATES if name in spec.dense_tflops
    )
    yield (
        f"GPU: {spec.name} ({spec.architecture}), {spec.sms} SMs; shared memory "
        f"{spec.shared_kib_per_block:g} KiB a block, {spec.shared_kib_per_sm:g} KiB an SM; "
        f"{spec.registers_per_sm:,} registers an SM, 255 a thread; {spec.threads_per_sm:,} threads "
        f"an SM; L2 {spec.l2_mib:g} MiB; memory {spec.memory_gbps:,.0f} GB/s; dense TFLOP/s: "
        f"{rates}."
    )


def _versions(state: SearchState) -> str:
    pairs = [f"{name} {state.versions[name]}" for name in _VERSIONS if name in state.versions]
    return f"{', '.join(pairs)}." if pairs else "not known yet; use nothing that is new or removed."
