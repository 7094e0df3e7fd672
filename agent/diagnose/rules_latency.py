"""Rules about waiting: on loads, on shared memory, at barriers, and for the launch itself."""

from agent.diagnose.result import Bottleneck
from agent.diagnose.rules import Case, Draft, Rule, clamp
from agent.diagnose.units import launch_part

_LONG_STALL = 30.0
_LOW_OCCUPANCY = 50.0
# With DRAM this busy, waiting for loads is waiting for bandwidth.
_DRAM_BUSY = 75.0
_BARRIER_STALL = 15.0
_SHORT_STALL = 25.0
# Launch latency and the ramp of a kernel are a few microseconds.
_SHORT_KERNEL_NS = 6000.0


def _long_scoreboard(case: Case) -> Draft | None:
    stall, occupancy = case.get("stall_long_scoreboard"), case.get("achieved_occupancy")
    busy = case.get("dram_throughput")
    if stall is None or stall < _LONG_STALL:
        return None
    if busy is not None and busy >= _DRAM_BUSY:
        return None
    evidence = [case.cite("stall_long_scoreboard", "of the warps wait for a load at any time")]
    evidence += case.also("dram_throughput", "DRAM could serve more requests")
    if occupancy is not None and occupancy < _LOW_OCCUPANCY:
        evidence.append(case.cite("achieved_occupancy", "too few other warps to switch to"))
        cause = "Warps wait for global loads, and too few others are resident to cover the wait."
    elif occupancy is not None:
        evidence.append(case.cite("achieved_occupancy", "warps are there, and wait as well"))
        cause = "Warps wait for global loads: each has too few bytes in flight."
    else:
        cause = "Warps wait for global loads, and bandwidth is left."
    headroom = 1.0 if busy is None else 1 - busy / 100
    return Draft(cause, Bottleneck.LATENCY, clamp(stall / 100 * headroom + 0.1), tuple(evidence))


def _barriers(case: Case) -> Draft | None:
    stall = case.get("stall_barrier")
    if stall is None or stall < _BARRIER_STALL:
        return None
    static = case.facts.static
    evidence = [case.cite("stall_barrier", "of the warps wait at a block barrier")]
    evidence += case.also("block_size", "warps that have to meet")
    count = static.mix.get("barrier") if static is not None else None
    where = f" ({count} in the code)" if count else ""
    cause = f"Warps wait for each other at barriers{where}."
    return Draft(cause, Bottleneck.LATENCY, clamp(stall / 100 + 0.1), tuple(evidence))


def _short_scoreboard(case: Case) -> Draft | None:
    stall = case.get("stall_short_scoreboard")
    if stall is None or stall < _SHORT_STALL:
        return None
    special = case.get("xu_pipe")
    evidence = (
        case.cite("stall_short_scoreboard", "wait for shared memory or a special function"),
        *case.also("stall_mio_throttle", "the queue to them is full"),
        *case.also("xu_pipe", "special functions (exp, rsqrt, conversions)"),
    )
    target = "special functions" if special is not None and special >= 30.0 else "shared memory"
    cause = f"Warps wait for {target}."
    return Draft(cause, Bottleneck.LATENCY, clamp(stall / 100), evidence)


def _short_kernel(case: Case) -> Draft | None:
    duration = case.get("duration")
    if duration is None or not 0 < duration < _SHORT_KERNEL_NS:
        return None
    cause = (
        "The kernel ends after a few microseconds: launch and ramp-up are a large part of its time."
    )
    evidence = (case.cite("duration", "a kernel that does nothing takes about two microseconds"),)
    return Draft(cause, Bottleneck.LATENCY, clamp(launch_part(case.facts)), evidence)


RULES = (
    Rule(
        "load-latency", "loads",
        ("software-pipelining", "vectorized-access", "loop-unrolling", "occupancy-tuning",
         "tma-host-descriptor", "async-copy", "split-k"),
        _long_scoreboard, ("stall_long_scoreboard",), refuted_by="active ceiling",
    ),
    Rule(
        "barrier-stalls", "barriers",
        ("synchronization-reduction", "warp-shuffle-reduction", "register-caching",
         "warp-specialization"),
        _barriers, ("stall_barrier",), refuted_by="active ceiling",
    ),
    Rule(
        "short-scoreboard", "shared",
        ("bank-conflict-avoidance", "fast-math", "register-caching", "warp-shuffle-reduction"),
        _short_scoreboard, ("stall_short_scoreboard",), refuted_by="active ceiling",
    ),
    Rule(
        "short-kernel", "launch",
        ("kernel-fusion", "cuda-graphs", "programmatic-dependent-launch", "persistent-kernel"),
        _short_kernel, ("duration",), refuted_by="ceiling",
    ),
)  # fmt: skip
