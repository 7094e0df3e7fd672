"""Rules about instructions: tensor pipes idle or full, emulated conversions, divergence."""

from agent.diagnose.facts import fact
from agent.diagnose.result import Bottleneck, Evidence
from agent.diagnose.rules import Case, Draft, Rule, clamp
from kb.profiles.derived import FEW_LANES

_TENSOR_IDLE = 5.0
_TENSOR_FULL = 80.0
# Uniform branches below this: lanes of a warp go different ways often.
_UNIFORM = 85.0
_LANES = 32.0
# Selects and compares of an emulated conversion keep the schedulers this busy.
_FP4_BUSY = 40.0
_FIRST_WITH_FP4 = 100


def _idle_tensor_pipe(case: Case) -> Draft | None:
    if not case.facts.has_matrix_product:
        return None
    tensor, static = case.get("tensor_utilization"), case.facts.static
    evidence: list[Evidence] = []
    if tensor is not None:
        if tensor >= _TENSOR_IDLE:
            return None
        evidence.append(case.cite("tensor_utilization", "the matrix units are almost idle"))
    elif static is not None and static.instructions:  # none of a compiler's log
        matrix_count = sum(static.mix.get(name, 0) for name in ("mma", "wgmma", "tcgen05"))
        if matrix_count:
            return None
        meaning = "the machine code has no matrix instruction"
        evidence.append(fact("static.tensor_instructions", "Matrix instructions", 0.0, "", meaning))
    else:
        return None
    if case.position.at_memory_roof:
        return None  # faster arithmetic would wait for the same bytes
    evidence += case.also("fma_pipe", "the ordinary pipe carries the products")
    evidence += case.also("sm_throughput", "busy with arithmetic of another kind")
    if case.position.intensity is not None:
        meaning = "operations per byte: enough reuse for matrix units to pay"
        value = round(case.position.intensity, 1)
        label = "Arithmetic intensity"
        evidence.append(fact("roofline.intensity", label, value, "FLOP/byte", meaning))
    cause = "A matrix product runs without the tensor cores, on pipes several times slower."
    return Draft(cause, Bottleneck.COMPUTE, 0.9, tuple(evidence))


def _tensor_roof(case: Case) -> Draft | None:
    tensor = case.get("tensor_utilization")
    if tensor is None or tensor < _TENSOR_FULL:
        return None
    evidence = (
        case.cite("tensor_utilization", "near the pipe's peak"),
        *case.also("dram_throughput", "memory keeps up"),
    )
    cause = "The tensor pipe is near its peak: only a lower precision or less work is faster."
    return Draft(cause, Bottleneck.COMPUTE, clamp(tensor / 100), evidence)


def _scalar_fp4(case: Case) -> Draft | None:
    """FP4 values packed or unpacked by compares and selects instead of one instruction for two."""
    static, source = case.facts.static, case.facts.source
    mentions_fp4 = (source is not None and source.fp4) or any(
        word in case.facts.words.lower() for word in ("fp4", "e2m1")
    )
    if static is None or not static.instructions or not mentions_fp4:
        return None
    if static.mix.get("convert_fp4", 0):
        return None
    if sum(static.mix.get(name, 0) for name in ("mma", "wgmma", "tcgen05")):
        return None  # matrix units read packed FP4 themselves
    meaning = "the code converts to or from FP4 without the instruction for it"
    evidence = [
        fact("static.fp4_conversions", "Hardware FP4 conversions", 0.0, "", meaning),
        fact(
            "static.instructions", "Instructions in the code", float(static.instructions), "",
            "compares, selects and shifts do the conversion instead",
        ),
    ]  # fmt: skip
    busy = case.get("issue_slots_busy")
    evidence += case.also(
        "issue_slots_busy", "a quantizer should wait for memory, not for issue slots"
    )
    evidence += case.also("dram_throughput", "of the bandwidth at which it could run")
    if busy is not None and busy < _FP4_BUSY and case.position.at_memory_roof:
        return None
    capability = int("".join(c for c in static.architecture if c.isdigit()) or 0)
    card = (
        "use the hardware conversion (built for a target with the suffix a or f)"
        if capability >= _FIRST_WITH_FP4
        else f"{static.architecture} has no such instruction: do less per value"
    )
    cause = f"FP4 values are converted one by one in ordinary arithmetic; {card}."
    severity = 0.6 if busy is None else 0.3 + 0.6 * busy / 100
    return Draft(cause, Bottleneck.COMPUTE, clamp(severity), tuple(evidence))


def _divergence(case: Case) -> Draft | None:
    uniform, lanes = case.get("branch_uniformity"), case.get("threads_per_inst")
    if uniform is None or uniform >= _UNIFORM:
        return None
    if lanes is not None and lanes >= FEW_LANES:
        return None  # branches diverge, but little runs under them
    evidence = (
        case.cite("branch_uniformity", "of branches send all lanes of a warp the same way"),
        *case.also("threads_per_inst", "of 32 lanes are active in an instruction"),
        *case.also("stall_branch_resolving", "warps wait for branches"),
    )
    cause = "Lanes of a warp take different branches, and the others idle while each side runs."
    lost = 1 - lanes / _LANES if lanes is not None else (1 - uniform / 100)
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(lost), evidence)


RULES = (
    Rule(
        "idle-tensor-pipe", "tensor", ("tensor-cores", "mixed-precision-math", "implicit-gemm"),
        _idle_tensor_pipe, ("tensor_utilization",),
    ),
    Rule(
        "tensor-roof", "tensor",
        ("mixed-precision-math", "structural-sparsity", "blackwell-tcgen05"),
        _tensor_roof, ("tensor_utilization",), open=False,
    ),
    Rule("scalar-fp4", "fp4", ("fp4-intrinsics", "fast-math"), _scalar_fp4),
    Rule(
        "divergence", "lanes", ("divergence-avoidance", "load-balancing", "thread-utilization"),
        _divergence, ("branch_uniformity",),
    ),
)  # fmt: skip
