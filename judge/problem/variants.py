"""Other shapes for a problem: its source with some module-level integer constants changed.

They are proposals. The whole source is executed again with the new constants, so channels and
windows change consistently wherever the file uses them; but a choice may still be invalid for the
operator (a window larger than the image), and only the worker that runs the problem can tell.
"""

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from judge.problem.judge import SizeRule
from judge.problem.shapes import Shape, input_shapes
from judge.problem.source import Constant, ProblemFile

# A constant up to this is a window, stride, padding, dimension or group count as likely as a size.
SMALL = 8
# Enough elements for many tiles of any kernel; float64 copies of a few such tensors are 100 MB.
REDUCED_ELEMENTS = 1 << 22
# What Triton's interpreter gets through in seconds.
INTERPRET_ELEMENTS = 1 << 12
# Smaller inputs leave nothing for a window to slide over or a group to hold.
_FEWEST_ELEMENTS = 1 << 10
# Beside a dimension that is enlarged: the interpreter's time is the number of blocks.
_FEWEST_BESIDE = 1 << 7
# Each further reduced shape has about this share of the one before.
_STEP = 16
# Down to which size the first dimension, the second and the others go before any becomes 1.
_LEAST = (1, 2, 4)
# What a batch of images, sequences or matrices keeps as long as the other sizes are above `SMALL`.
_LEAST_BATCH = 2
# Times what is given: a dimension that is no longer than that is not a long one.
_LEAST_LONG = 2
# Few enough for the last step to depend on the first, and more than one, so that there are steps.
_FEW_STEPS = 3
_MOST_SHORTENED = 2
# How often a kind of variant is tried before the choices count as exhausted.
_ATTEMPTS = 40

Values = dict[str, int]


@dataclass(frozen=True, slots=True)
class Variant:
    """Changed constants; those not named stay as they are."""

    constants: Mapping[str, int]
    label: Literal["reduced", "variant"]
    """`reduced`: the same proportions, smaller. `variant`: sizes that are odd, 1, or no multiple
    of a tile."""


def why_none(problem: ProblemFile) -> str | None:
    """Why no other shapes can be made, in a sentence for the user; None where they can."""
    if not problem.constants:
        return (
            f"{problem.name}: get_inputs uses no module-level integer constants, so the kernel is "
            "judged at the given shape only"
        )
    if not Sizes(problem, REDUCED_ELEMENTS).free:
        return f"{problem.name}: no constant of get_inputs changes a size by itself"
    return None


def propose(
    problem: ProblemFile,
    seed: int,
    *,
    reduced: int = 2,
    variants: int = 5,
    limit_elements: int = REDUCED_ELEMENTS,
) -> list[Variant]:
    """Other shapes for `problem`, reduced ones first; the same for the same seed.

    Parameters
    ----------
    reduced, variants
        How many of each at most. There are no reduced ones of a problem below the limit.
    limit_elements
        The most elements of any input, as far as the syntax tree tells.

    Returns
    -------
    list[Variant]
        Empty where sizes are no module-level constants; `why_none` says so.
    """
    sizes = Sizes(problem, limit_elements)
    proposals: list[Variant] = []
    if not sizes.free:
        return proposals
    limit = limit_elements
    while len(proposals) < reduced:
        values = sizes.shrink(limit)
        if values and not any(variant.constants == values for variant in proposals):
            proposals.append(Variant(values, "reduced"))
        if limit <= _FEWEST_ELEMENTS:
            break
        limit = max(limit // _STEP, _FEWEST_ELEMENTS)
    # The secret seed decides; random() is enough, an attacker never sees the generator's output.
    generator = random.Random(seed)  # noqa: S311
    tried = [dict(variant.constants) for variant in proposals] + [{}]
    new: list[Variant] = []
    for kind in itertools.islice(itertools.cycle(_KINDS), _ATTEMPTS):
        if len(new) == variants:
            break
        proposal = sizes.admit(kind(sizes, generator))
        if proposal is not None and proposal not in tried:
            tried.append(proposal)
            new.append(Variant(proposal, "variant"))
    return proposals + new


def shorten(problem: ProblemFile) -> list[Variant]:
    """Shapes at which one long dimension has a few elements, two at most.

    After some tens of steps a recurrence has forgotten its first state, so at longer shapes no
    wrong use of it can be told. The first dimension and those of parameters stay.
    """
    sizes = Sizes(problem, REDUCED_ELEMENTS)
    first = min(sizes.places.values(), default=0)
    names = [n for n in sizes.large if not sizes.structural(n) and sizes.places[n] > first]
    variants = [sizes.admit(sizes.base | {name: _FEW_STEPS}) for name in names[:_MOST_SHORTENED]]
    return [Variant(values, "variant") for values in variants if values]


def partial_blocks(block: int) -> int:
    """Two blocks and a part of one; odd, so no multiple of anything that blocks are."""
    return 2 * block + max(block // 5, 2) | 1


class Sizes:
    """The constants of a problem that change shapes, and what they may become.

    Parameters
    ----------
    limit
        The most elements of any input, as far as the syntax tree tells.
    """

    def __init__(self, problem: ProblemFile, limit: int) -> None:
        self.problem = problem
        self.limit = limit
        self.shapes = input_shapes(problem.text, problem.name)
        self.rules = {
            name: problem.judge.constants.get(name, SizeRule()) for name in problem.constants
        }
        places = {name: self._place(constant) for name, constant in problem.constants.items()}
        self.places = {name: place for name, place in places.items() if place is not None}
        self.free = [
            name
            for name, constant in problem.constants.items()
            if constant.value > 0 and name in self.places and not self.rules[name].fixed
        ]
        self.large = [name for name in self.free if problem.constants[name].value > SMALL]
        self.base = self.shrink(max(limit // 4, 1))

    @property
    def last_first(self) -> list[str]:
        """The large ones; reductions go over the last dimensions more often than the first."""
        order = {name: number for number, name in enumerate(self.large)}
        return sorted(self.large, key=lambda name: (-self.places[name], -order[name]))

    def enlarge(self, block: int) -> tuple[dict[str, Variant], list[str]]:
        """Shapes at which a loop over blocks of one size turns twice, and once more over a part.

        Returns
        -------
        A shape by each constant that may be enlarged, the others small; and the constants that may
        not, by their rules or for the number of elements.
        """
        shapes: dict[str, Variant] = {}
        left_out: list[str] = []
        smallest = self.shrink(_FEWEST_BESIDE)
        size = partial_blocks(block)
        for name in self.last_first:
            ruled = self.apply_rules(smallest | {name: size})
            actual = ruled.get(name, self.given_value(name))
            if actual <= 2 * block or self.elements(ruled) > self.limit:
                left_out.append(name)
            elif ruled:
                shapes[name] = Variant(ruled, "variant")
        return shapes, left_out

    def lengthen(self, name: str, size: int, *, beside_given: bool) -> Variant | None:
        """One constant as large as `size`, or as large as the limit lets it be.

        Parameters
        ----------
        beside_given
            The others stay as they are given; else they are as small as they may be.

        Returns
        -------
        None where a rule or the limit leaves the constant about as it is given.
        """
        others = {} if beside_given else self.shrink(_FEWEST_BESIDE)
        while size > _LEAST_LONG * self.given_value(name):
            ruled = self.apply_rules(others | {name: size})
            if self.elements(ruled) <= self.limit:
                is_long = ruled.get(name, 0) > _LEAST_LONG * self.given_value(name)
                return Variant(ruled, "variant") if is_long else None
            size = size // 2 | size & 1
        return None

    def whole_blocks(self, block: int) -> Variant | None:
        """Three whole blocks along every dimension, for kernels that take no parts."""
        values = self.admit(dict.fromkeys(self.large, 3 * block))
        return None if values is None else Variant(values, "variant")

    def given_value(self, name: str) -> int:
        """The constant's value in the problem."""
        return self.problem.constants[name].value

    def structural(self, name: str) -> bool:
        """See `Constant.structural`."""
        return self.problem.constants[name].structural

    def _place(self, constant: Constant) -> int | None:
        """The first dimension that the constant changes; None if it changes no shape."""
        if self.shapes is None:
            return 0
        changed = self._shapes_with({constant.name: constant.value + 1})
        if changed is None:
            return 0
        places = [
            next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), 0)
            for a, b in zip(self.shapes, changed, strict=False)
            if a != b
        ]
        return min(places, default=None)

    def _shapes_with(self, values: Values) -> list[Shape] | None:
        return input_shapes(self.problem.with_constants(values), self.problem.name)

    def elements(self, values: Values) -> int:
        """Elements of the largest input; where it cannot be told, the product of all constants."""
        shapes = self._shapes_with(values)
        if shapes is not None:
            return max(math.prod(shape) for shape in shapes)
        return math.prod(max(values.get(name, self.given_value(name)), 1) for name in self.free)

    def shrink(self, limit: int) -> Values:
        """Halve the largest constants, equal ones together, until the inputs are within `limit`.

        Halving keeps what divides the sizes dividing them, as groups divide channels, and square
        matrices square. Below 8 the first dimensions go first, as no window slides over them.
        Answers only what changed.
        """
        values = {name: self.given_value(name) for name in self.large}
        movable = set(values)
        while movable and self.elements(values) > limit:
            batches = {name for name in movable if self._is_batch(name)}
            least = {name: _LEAST_BATCH if name in batches else SMALL for name in movable}
            halvable = [name for name in movable if values[name] > least[name]]
            if halvable:
                # A batch is halved before what windows slide over, down to a quarter of it.
                weights = {n: (values[n] * (4 if n in batches else 1), values[n]) for n in halvable}
                targets = [n for n in halvable if weights[n] == max(weights.values())]
            else:
                targets = [min(movable, key=lambda n: self._last_resort(n, values[n]))]
            for name in targets:
                halved = self.rules[name].nearest(values[name] // 2)
                if 1 <= halved < values[name]:
                    values[name] = halved
                else:
                    movable.discard(name)
        return {name: value for name, value in values.items() if value != self.given_value(name)}

    def _is_batch(self, name: str) -> bool:
        """Whether a constant is the first of at least three dimensions, and nothing else."""
        images = self.shapes is not None and max(len(shape) for shape in self.shapes) > 2
        return images and self.places[name] == 0 and not self.structural(name)

    def _last_resort(self, name: str, value: int) -> tuple[bool, int, str]:
        """What to halve first below `SMALL`: the batch to 1, channels to 2, images to 4."""
        place = self.places[name] - min(self.places.values())
        return value <= _LEAST[min(place, len(_LEAST) - 1)], place, name

    def admit(self, values: Values | None) -> Values | None:
        """`values` by their rules, without those that stay; None if none or above the limit."""
        changed = self.apply_rules(values or {})
        return changed if changed and self.elements(changed) <= self.limit else None

    def apply_rules(self, values: Values) -> Values:
        """`values` by their rules, without those that stay."""
        ruled = {name: self.rules[name].nearest(value) for name, value in values.items()}
        return {name: value for name, value in ruled.items() if value != self.given_value(name)}


def _odd(sizes: Sizes, generator: random.Random) -> Values | None:
    """Every size odd, so no multiple of a tile or a vector; channels and the like at times."""
    values = dict(sizes.base)
    odd_structural = generator.random() < 0.5  # groups seldom divide an odd number of channels
    for name in sizes.large:
        if sizes.structural(name) and not odd_structural:
            continue
        near = values.get(name, sizes.given_value(name))
        values[name] = _near(near, generator) | 1
    return values or None


def _ragged(sizes: Sizes, generator: random.Random) -> Values | None:
    """One size just above or below a multiple of 32, the others as they are."""
    if not sizes.large:
        return None
    name = generator.choice(sizes.large)
    near = sizes.base.get(name, sizes.given_value(name))
    return sizes.base | {name: max(round(near / 32), 1) * 32 + generator.choice((-1, 1, 3, 17))}


def _one(sizes: Sizes, generator: random.Random) -> Values | None:
    """One size that nothing else depends on is 1; a batch more often than the rest."""
    names = [name for name in sizes.free if not sizes.structural(name)]
    if not names:
        return None
    first = min(sizes.places[name] for name in names)
    leading = [name for name in names if sizes.places[name] == first]
    return sizes.base | {generator.choice(leading + names): 1}


def _unequal(sizes: Sizes, generator: random.Random) -> Values | None:
    """Sizes that were equal differ, which a square shape hides."""
    values = dict(sizes.base)
    for name in sizes.large:
        near = values.get(name, sizes.given_value(name))
        values[name] = max(near // generator.choice((1, 2, 3, 4)), 1)
    return values


def _few(sizes: Sizes, generator: random.Random) -> Values | None:
    """A small size that nothing else depends on is another small one, the rest odd."""
    names = [n for n in sizes.free if n not in sizes.large and not sizes.structural(n)]
    if not names:
        return None
    # No block divides them, and `_one` asks for 1.
    small = {name: generator.choice((3, 5, 7)) for name in names}
    return (_odd(sizes, generator) or {}) | small


def _near(value: int, generator: random.Random) -> int:
    """A random size within a quarter of `value`."""
    return max(value + generator.randint(-(value // 4), value // 4), 1)


_KINDS: tuple[Callable[[Sizes, random.Random], Values | None], ...] = (
    _odd, _one, _ragged, _few, _unequal,
)  # fmt: skip
