"""Puts steps in order and finds loops among them: what a model repeats for each time step.

An exported graph has such a loop unrolled. Steps that repeat, each a fixed number of places after
the one before, with loads and stores that move by the same amount each time, are one body again.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from agent.proposers.recipe.lanes.elements import Element, Load, Ref, Step, Steps

# Fewer repetitions are not worth a loop.
_LEAST_COUNT: Final = 4
_LONGEST_BODY: Final = 2000
# Periods that are looked at closer.
_TRIES: Final = 6


class Store(NamedTuple):
    """Writes an element of a result."""

    out: int
    at: tuple[int | None, ...]
    """By dimension; None where the lane says which."""
    args: tuple[Element, ...]
    """What is written: one."""


Item = Step | Store
"""Of a sequence: `Ref` is a place in it."""


class Moving(NamedTuple):
    """A number or load that changes by the same amount in each iteration."""

    first: float | Load
    delta: float | tuple[int, ...]


class Inner(NamedTuple):
    """What the body computed at a place, in this iteration."""

    place: int


class Carried(NamedTuple):
    """What the body computed at a place in the iteration before; `first` in the first one."""

    place: int
    first: Element


Operand = Element | Moving | Inner | Carried


@dataclass(frozen=True)
class Loop:
    """Items `start` to `start + period * count` of a sequence, as one body."""

    start: int
    period: int
    count: int
    operands: tuple[tuple[Operand, ...], ...]
    """Of each item of the body; of a store its value."""
    stores: dict[int, tuple[int, ...]]
    """By place in the body: how far a store moves in each iteration."""

    @property
    def end(self) -> int:
        """The first item after it."""
        return self.start + self.period * self.count


def arrange(steps: Steps, stores: Sequence[Store], small: Sequence[bool]) -> list[Item]:
    """The steps that stores need, and the stores, in an order in which loops are to be seen.

    Parameters
    ----------
    small
        By origin of a step: whether the operator has few elements. Those are the ones within
        loops; of the others (a whole sequence at once) each element is computed where the loop
        needs or has made what belongs to it.
    """
    users: dict[int, list[int]] = {}
    needed: set[int] = set()
    pending = [arg.step for store in stores for arg in store.args if isinstance(arg, Ref)]
    while pending:
        step = pending.pop()
        if step in needed:
            continue
        needed.add(step)
        for arg in steps.all[step].args:
            if isinstance(arg, Ref):
                users.setdefault(arg.step, []).append(step)
                pending.append(arg.step)
    late = len(small)
    times: dict[int, int] = {}
    for step in sorted(needed):
        before = [times[arg.step] for arg in steps.all[step].args if isinstance(arg, Ref)]
        own = steps.origins[step] if small[steps.origins[step]] else -1
        times[step] = max([*before, own])
    for step in sorted(needed, reverse=True):
        if times[step] < 0:
            times[step] = min((times[user] for user in users.get(step, ())), default=late)
    places = {step: place for place, step in enumerate(_depth_first(steps, stores))}
    keys = {step: (time, places[step] if time == late else step, 0) for step, time in times.items()}
    order: list[tuple[tuple[int, int, int], int | Store]] = [(keys[step], step) for step in needed]
    for number, store in enumerate(stores, start=1):
        (value,) = store.args
        time, place, _ = keys[value.step] if isinstance(value, Ref) else (late + 1, 0, 0)
        order.append(((time, place, number), store))
    order.sort(key=lambda entry: entry[0])
    place_of = {item: place for place, (_, item) in enumerate(order) if isinstance(item, int)}
    items = [steps.all[item] if isinstance(item, int) else item for _, item in order]
    return [
        item._replace(
            args=tuple(Ref(place_of[a.step]) if isinstance(a, Ref) else a for a in item.args)
        )
        for item in items
    ]


def _depth_first(steps: Steps, stores: Sequence[Store]) -> Iterator[int]:
    """Steps, each after those that it needs, as the stores ask for them."""
    done: set[int] = set()
    for store in stores:
        pending = [arg.step for arg in store.args if isinstance(arg, Ref)]
        while pending:
            step = pending[-1]
            missing = [
                arg.step
                for arg in steps.all[step].args
                if isinstance(arg, Ref) and arg.step not in done
            ]
            if step in done or not missing:
                pending.pop()
                if step not in done:
                    done.add(step)
                    yield step
            else:
                pending += reversed(missing)


def find_loops(items: Sequence[Item]) -> list[Loop]:
    """Loops in a sequence, in its order; none where nothing repeats."""
    known: dict[Any, int] = {}
    tokens = np.array(
        [known.setdefault(_token(item), len(known)) for item in items], dtype=np.int64
    )
    loops: list[Loop] = []
    pending = [(0, len(items))]
    while pending:
        first, end = pending.pop()
        loop = _largest_loop(items, tokens, first, end)
        if loop is not None:
            loops.append(loop)
            pending += [(first, loop.start), (loop.end, end)]
    return sorted(loops, key=lambda loop: loop.start)


def _token(item: Item) -> Any:
    """Equal where items can be the same one of a loop's body."""
    does = item.out if isinstance(item, Store) else item.template
    return (does, *map(_kind, item.args))


def _kind(element: Element) -> Any:
    if isinstance(element, Load):
        return element.name
    return 0 if isinstance(element, Ref) else 1


def _largest_loop(items: Sequence[Item], tokens: Any, first: int, end: int) -> Loop | None:
    """The loop that saves the most within a part of the sequence."""
    part = tokens[first:end]
    found: list[tuple[int, int, int, int]] = []
    for period in range(1, min(_LONGEST_BODY, len(part) // _LEAST_COUNT) + 1):
        same = np.flatnonzero(np.diff(np.concatenate([[0], part[period:] == part[:-period], [0]])))
        lengths = same[1::2] - same[::2]
        if len(lengths):
            longest = int(np.argmax(lengths))
            count = int(lengths[longest]) // period + 1
            if count >= _LEAST_COUNT:
                found.append((-(count - 1) * period, period, int(same[2 * longest]), count))
    for _, period, start, count in sorted(found)[:_TRIES]:
        for skipped in range(min(3, count - _LEAST_COUNT + 1)):
            loop = _loop(items, first + start + skipped * period, period, count - skipped)
            if loop is not None and _only_last_is_used(items, loop):
                return loop
    return None


def _only_last_is_used(items: Sequence[Item], loop: Loop) -> bool:
    last = loop.end - loop.period
    return not any(
        isinstance(arg, Ref) and loop.start <= arg.step < last
        for item in items[loop.end :]
        for arg in item.args
    )


def _loop(items: Sequence[Item], start: int, period: int, count: int) -> Loop | None:
    """Repetitions as a loop; None where they differ by more than a loop can."""
    operands: list[tuple[Operand, ...]] = []
    stores: dict[int, tuple[int, ...]] = {}
    for place in range(period):
        same = [items[start + place + period * i] for i in range(count)]
        columns = zip(*(item.args for item in same), strict=True)
        forms = [_operand(column, start, period, place) for column in columns]
        found = tuple(form for form in forms if form is not None)
        if len(found) < len(forms):
            return None
        operands.append(found)
        if isinstance(same[0], Store):
            moves = _deltas([item.at for item in same if isinstance(item, Store)])
            if moves is None:
                return None
            stores[place] = moves
    return Loop(start, period, count, tuple(operands), stores)


def _operand(values: Sequence[Element], start: int, period: int, place: int) -> Operand | None:
    first, rest = values[0], values[1:]
    if all(value == first for value in rest) and not (
        isinstance(first, Ref) and first.step >= start
    ):
        return first
    if all(isinstance(value, Ref) for value in rest):
        offsets = {
            value.step - start - period * i
            for i, value in enumerate(rest, start=1)
            if isinstance(value, Ref)
        }
        offset = offsets.pop()
        if not offsets and 0 <= offset < place and first == Ref(start + offset):
            return Inner(offset)
        before = offset + period
        own = isinstance(first, Ref) and first.step >= start
        return Carried(before, first) if not offsets and 0 <= before < period and not own else None
    if all(isinstance(value, Load) for value in values):
        loads = [value for value in values if isinstance(value, Load)]
        moves = _deltas([load.at for load in loads])
        same = all(load.name == loads[0].name for load in loads)
        return Moving(loads[0], moves) if same and moves is not None else None
    numbers = [value for value in values if not isinstance(value, Load | Ref)]
    if len(numbers) == len(values):
        delta = numbers[1] - numbers[0]
        if all(b - a == delta for a, b in itertools.pairwise(numbers)):
            return Moving(numbers[0], delta)
    return None


def _deltas(indices: Sequence[tuple[int | None, ...]]) -> tuple[int, ...] | None:
    """By how much an index moves each time; None where that differs."""
    moves = {
        tuple(0 if a is None or b is None else b - a for a, b in zip(one, other, strict=True))
        for one, other in itertools.pairwise(indices)
    }
    return moves.pop() if len(moves) == 1 else None
