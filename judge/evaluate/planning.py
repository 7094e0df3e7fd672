"""Choose one method, one hold and one number of input sets for all contenders of a problem."""

import os
from typing import Any, Final

import torch

from judge.evaluate.interleave import Contender, Interleaver, Plan
from judge.evaluate.session import WorkerError
from judge.evaluate.sets import InputSets, caches_matter, l2_bytes, sets_fitting, sets_needed
from judge.progress import Progress, Say

# Below this a launch is too short for events, which resolve half a microsecond and add one or two.
GRAPH_BELOW_MS: Final = 0.020
# A replay starts with some 5 µs of its own: 32 launches keep that at a few percent of the shortest.
GRAPH_LAUNCHES: Final = 32
# A batch of so many replays is long enough for the judge's clock to tell a third of 2 µs launches.
GRAPH_REPLAYS: Final = 4
# Cycles to hold the stream: 0.5 ms at 2 GHz, enough to queue most launches; slow hosts get more.
HOLDS: Final = (1_000_000, 4_000_000, 16_000_000)
# A longer hold is taken where it makes a contender faster by this share and this many ms.
_HOLD_SHARE: Final = 0.03
_HOLD_MS: Final = 0.002


def choose(interleaver: Interleaver, say: Say) -> tuple[Plan, list[str]]:
    """Warm all contenders up and settle the plan; the second value says in words what was chosen.

    Parameters
    ----------
    interleaver
        Runs the contenders. Its sets are still empty; afterwards they are as many as the plan says.
    """
    notes: list[str] = []
    sets = interleaver.sets
    cuda = sets.device.type == "cuda"
    grow(interleaver, 2)
    plan = Plan("events" if cuda else "clock", len(sets.seeds), HOLDS[0] if cuda else 0)
    say(Progress("warming up"))
    interleaver.warm_up(plan)  # compiles, tunes, allocates
    medians = interleaver.warm_up(plan)
    least_sets = 2
    if cuda:
        plan, medians = _lengthen_hold(interleaver, plan, medians)
        # Sets that fill the memory are not read in 20 µs, whatever is claimed.
        graph_fits = _most_sets(interleaver) >= GRAPH_LAUNCHES
        if medians and min(medians.values()) < GRAPH_BELOW_MS and graph_fits:
            reasons = [
                reason for contender in interleaver.running if (reason := _why_not(contender, sets))
            ]
            notes += reasons
            if not reasons:
                least_sets = GRAPH_LAUNCHES
                plan = Plan("graph", plan.sets, plan.hold_cycles)
    l2 = l2_bytes(sets.device)
    set_bytes = sets.nbytes + interleaver.output_bytes
    cold_matters = not cuda or caches_matter(set_bytes, min(medians.values(), default=0.0))
    grow(interleaver, sets_needed(set_bytes, l2, least_sets, cold=cold_matters))
    count = len(sets.seeds)
    cold = count * set_bytes >= 2 * l2
    if not cold and cold_matters:
        notes.append(
            f"caches may be warm: {count} sets of inputs and outputs are {count * set_bytes >> 20} "
            f"MiB, the L2 has {l2 >> 20} MiB"
        )
    # The first pass over the sets is cold by eviction, further ones only by rotation.
    replays = GRAPH_REPLAYS if plan.method == "graph" and cold else 1
    plan = _warm_up_final(interleaver, Plan(plan.method, count, plan.hold_cycles, replays), notes)
    if not sets.depend_on_seed():
        notes.append(
            "the problem makes the same inputs for every seed, so a result kept from an earlier "
            "launch cannot be distinguished from a computed one"
        )
    return plan, notes


def grow(interleaver: Interleaver, count: int) -> None:
    """Add sets up to `wanted`, as far as memory allows; at least one."""
    sets = interleaver.sets
    granted = max(1, min(count, _most_sets(interleaver)))
    if granted > len(sets.seeds):
        sets.grow(granted, [contender.worker for contender in interleaver.running])


def _most_sets(interleaver: Interleaver) -> int:
    """How many sets there can be, those that are there among them."""
    sets = interleaver.sets
    if sets.device.type == "cuda":
        free = int(torch.cuda.mem_get_info(sets.device)[0])
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # The judge's copy, the buffer, and an output of every contender, held until the next batch.
    per_set = 2 * sets.nbytes + interleaver.output_bytes * len(interleaver.running)
    return len(sets.seeds) + sets_fitting(per_set, free)


def _lengthen_hold(
    interleaver: Interleaver, plan: Plan, medians: dict[str, float]
) -> tuple[Plan, dict[str, float]]:
    """Lengthen the hold while that makes any contender faster: its host was late before."""
    for cycles in HOLDS[1:]:
        longer = Plan(plan.method, plan.sets, cycles)
        # Twice, and the better of both: one disturbed batch would decide otherwise.
        tries = [interleaver.warm_up(longer) for _ in range(2)]
        improved = {
            name: min(try_[name] for try_ in tries)
            for name in medians
            if all(name in try_ for try_ in tries)
        }
        faster = [
            name
            for name, ms in improved.items()
            if medians[name] - ms > max(_HOLD_MS, _HOLD_SHARE * medians[name])
        ]
        if not faster:
            break
        plan, medians = longer, improved
    return plan, medians


def _why_not(contender: Contender, sets: InputSets) -> str | None:
    """Why a contender keeps the problem from being timed by graphs."""
    try:
        reply = contender.worker.probe(sets.arguments[0])
        if reply.capturable:
            return None
        why = reply.reason
    except WorkerError as error:
        why = str(error)
    return f"{contender.name} cannot be captured in a CUDA graph ({why}): events are used"


def _warm_up_final(interleaver: Interleaver, plan: Plan, notes: list[str]) -> Plan:
    """Warm up under the final plan; fall back to events where the whole graph is not captured."""
    before: list[Any] = interleaver.running
    interleaver.warm_up(plan)
    uncaptured = [c for c in before if c not in interleaver.running and c.worker.alive]
    if plan.method != "graph" or not uncaptured:
        return plan
    for contender in uncaptured:
        track = interleaver.tracks[contender.name]
        notes.append(
            f"{contender.name} could not be captured {plan.sets} times in one graph "
            f"({track.failed}): events are used"
        )
        track.failed = None
    plan = Plan("events", plan.sets, plan.hold_cycles)
    interleaver.warm_up(plan)
    return plan
