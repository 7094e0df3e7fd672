"""Rules about instructions that fill a pipe or the issue slots."""

from collections.abc import Callable
from typing import NamedTuple

from agent.diagnose.result import Bottleneck
from agent.diagnose.rules import Case, Draft, Rule, clamp
from kb.profiles.derived import FEW_LANES

_ISSUE_FULL = 75.0
_PIPE_FULL = 70.0
_MATH_STALL = 10.0
_LANES = 32.0


class _Pipe(NamedTuple):
    """An arithmetic pipe, what fills it, and what relieves it."""

    rule: str
    alias: str
    cause: str
    techniques: tuple[str, ...]


# What each pipe executes: Nsight Compute's Profiling Guide, "Metrics Decoder", Pipelines.
_PIPES = (
    _Pipe(
        "fma-pipe", "fma_pipe",
        "The FMA pipe is full: FP32 products and sums, and integer products, set the time.",
        ("tensor-cores", "mixed-precision-math", "fast-math"),
    ),
    _Pipe(
        "alu-pipe", "alu_pipe",
        "The ALU pipe is full of integer and logic instructions, such as index arithmetic: use "
        "32-bit indices, constant divisors, and increments instead of products.",
        ("shape-specialization", "loop-unrolling", "vectorized-access", "thread-coarsening"),
    ),
    _Pipe(
        "special-function-pipe", "xu_pipe",
        "The special-function pipe is full: use fewer or cheaper exponentials, reciprocals, roots "
        "and conversions.",
        ("fast-math", "recomputation"),
    ),
    _Pipe(
        "fp64-pipe", "fp64_pipe",
        "The FP64 pipe is full: a double literal or a double math function in float code can do "
        "that by accident; where it is intended, use a narrower type.",
        ("mixed-precision-math",),
    ),
)  # fmt: skip


def few_lanes(case: Case) -> bool:
    """Whether instructions were seen to run with many lanes idle.

    Such an instruction does the work of a part of a warp: that is why so many run.
    """
    lanes = case.get("threads_per_inst")
    return lanes is not None and lanes < FEW_LANES


def _issue_bound(case: Case) -> Draft | None:
    busy, tensor = case.get("issue_slots_busy"), case.get("tensor_utilization")
    if busy is None or busy < _ISSUE_FULL or (tensor is not None and tensor >= 30.0):
        return None
    if few_lanes(case):
        return None  # full lanes would need a part of the instructions
    evidence = (
        case.cite("issue_slots_busy", "schedulers issue nearly every cycle"),
        *case.also("dram_throughput", "while memory has headroom"),
        *case.also("stall_not_selected", "ready warps that have to wait for a slot"),
    )
    cause = "The schedulers are full: the number of instructions sets the time."
    return Draft(cause, Bottleneck.COMPUTE, clamp(busy / 100 - 0.15), evidence)


def _check_of(pipe: _Pipe) -> Callable[[Case], Draft | None]:
    def check(case: Case) -> Draft | None:
        busy, lanes = case.get(pipe.alias), case.get("threads_per_inst")
        if busy is None or busy < _PIPE_FULL:
            return None
        evidence = (
            case.cite(pipe.alias, "one kind of arithmetic fills its pipe"),
            *case.also("stall_math_pipe_throttle", "warps queue for a math pipe"),
            *case.also("sm_throughput", "the busiest pipe of the SM"),
        )
        active = 1.0 if lanes is None or not few_lanes(case) else lanes / _LANES
        return Draft(pipe.cause, Bottleneck.COMPUTE, clamp((busy / 100 - 0.1) * active), evidence)

    return check


def _math_stall(case: Case) -> Draft | None:
    """Warps that queue for a pipe, where none is known to be full."""
    stall = case.get("stall_math_pipe_throttle")
    if stall is None or stall < _MATH_STALL:
        return None
    if any((case.get(pipe.alias) or 0.0) >= _PIPE_FULL for pipe in _PIPES):
        return None
    evidence = (
        case.cite("stall_math_pipe_throttle", "warps queue for a math pipe"),
        *case.also("sm_throughput", "the busiest pipe of the SM"),
    )
    cause = "One arithmetic pipe is full while others idle."
    return Draft(cause, Bottleneck.COMPUTE, clamp(stall / 50), evidence)


def _sm_ceiling(case: Case) -> Draft | None:
    unit = case.decision.unit
    if unit is None or unit.alias != "sm_throughput" or few_lanes(case):
        return None
    value = case.get("sm_throughput") or 0.0
    evidence = (
        case.cite("sm_throughput", "the busiest of its pipes; which one was not measured"),
        *case.also("dram_throughput", "memory keeps up"),
    )
    cause = (
        "The SM is at the ceiling of one of its pipes: only less work, or work that another pipe "
        "does, is faster."
    )
    return Draft(cause, Bottleneck.COMPUTE, clamp(value / 100), evidence)


RULES = (
    Rule(
        "issue-bound", "issue",
        ("vectorized-access", "loop-unrolling", "fast-math", "thread-coarsening",
         "shape-specialization", "fp4-intrinsics"),
        _issue_bound, ("issue_slots_busy",),
    ),
    *(
        Rule(pipe.rule, "issue", pipe.techniques, _check_of(pipe), (pipe.alias,)) for pipe in _PIPES
    ),
    Rule(
        "math-pipe", "issue", ("fast-math", "mixed-precision-math", "tensor-cores"),
        _math_stall, ("stall_math_pipe_throttle",),
    ),
    Rule(
        "sm-ceiling", "issue", ("mixed-precision-math", "fast-math", "structural-sparsity"),
        _sm_ceiling, ("sm_throughput",), open=False,
    ),
)  # fmt: skip
