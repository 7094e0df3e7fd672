"""A Triton kernel file and what can be changed in it."""

from dataclasses import dataclass
from enum import StrEnum

from agent.proposers.tune.rewrite import Site, Value, rewrite


class Role(StrEnum):
    """What a parameter means to the compiler."""

    TILE = "tile"
    """Elements of a block along one axis."""
    COUNT = "count"
    """How many of something: a group, splits, programs."""
    WARPS = "warps"
    STAGES = "stages"
    LOOP_STAGES = "loop_stages"
    """Of one loop, `tl.range(..., num_stages=...)`."""
    CTAS = "ctas"
    CHOICE = "choice"
    """One of a list that the file gives."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that can be changed, at all places that have to agree."""

    name: str
    role: Role
    value: Value
    """As the file has it, or what Triton takes where it has nothing."""
    sites: tuple[Site, ...]
    least: int = 1
    choices: tuple[Value, ...] | None = None
    """No other values make sense."""
    aliases: frozenset[str] = frozenset()
    """`kernel.constexpr` names that it sets."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """A block of values: the parameters whose product is its number of elements."""

    names: frozenset[str]
    in_loop: bool
    """Loaded inside of a loop, where the compiler may keep several."""
    loaded: bool
    """From memory; else an accumulator."""
    hidden: bool = False
    """It has a further side that is computed when it runs, such as a whole row."""


@dataclass(frozen=True, slots=True)
class Tunable:
    """A file and its parameters."""

    text: str
    parameters: tuple[Parameter, ...]
    tiles: tuple[TileShape, ...] = ()
    dots: bool = False

    @property
    def start(self) -> dict[str, Value]:
        """The values that the file has."""
        return {parameter.name: parameter.value for parameter in self.parameters}

    def write(self, values: dict[str, Value]) -> str:
        """The file with these values; what is not named, or equal, stays byte for byte."""
        edits = [
            (site, values[parameter.name])
            for parameter in self.parameters
            if parameter.name in values and values[parameter.name] != parameter.value
            for site in parameter.sites
        ]
        return rewrite(self.text, edits)
