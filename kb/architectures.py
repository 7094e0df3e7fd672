"""NVIDIA architecture names such as `sm_90a`, and which code runs on which of them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import AfterValidator

from kb.errors import InvalidInputError

_PATTERN = re.compile(r"sm_(\d{2,3})([af]?)\Z")


@dataclass(frozen=True, slots=True)
class Architecture:
    """One compile target: compute capability as one number, and its suffix.

    `a` code runs on exactly that capability, `f` code within the same major family from that
    minor version on, code without a suffix on that capability and every later one (CUDA C++
    Programming Guide, "Family-specific and architecture-specific features").
    """

    capability: int
    suffix: str = ""

    def runs_on(self, device: "Architecture") -> bool:
        """Whether code built for this target runs on `device`."""
        if self.suffix == "a":
            return device.capability == self.capability
        if self.suffix == "f":
            same_family = device.capability // 10 == self.capability // 10
            return same_family and device.capability >= self.capability
        return device.capability >= self.capability

    def __str__(self) -> str:
        return f"sm_{self.capability}{self.suffix}"


@cache
def parse_architecture(name: str) -> Architecture:
    """Parse `sm_80`, `sm_90a`, `sm_100f`, …

    Raises
    ------
    InvalidInputError
        If `name` is not written that way.
    """
    match = _PATTERN.match(name)
    if match is None:
        raise InvalidInputError(
            f"'{name}' is not an architecture: write it like sm_80, sm_90a or sm_100a"
        )
    return Architecture(int(match[1]), match[2])


def checked_architecture(name: str) -> str:
    """The name itself. For models, whose validators raise `ValueError`.

    Raises
    ------
    ValueError
        As `parse_architecture`.
    """
    try:
        parse_architecture(name)
    except InvalidInputError as error:
        raise ValueError(str(error)) from error
    return name


ArchitectureName = Annotated[str, AfterValidator(checked_architecture)]


def any_runs_on(names: tuple[str, ...] | list[str], device: str) -> bool:
    """Whether code that lists the targets `names` runs on `device`. No target means any."""
    return not names or any(
        parse_architecture(name).runs_on(parse_architecture(device)) for name in names
    )


_REACH = {"": "and later", "a": "only", "f": "and later ones of its family"}


def describe_targets(names: Iterable[str]) -> str:
    """Compile targets with what else their code runs on: `sm_90 and later`, `sm_90a only`."""
    return "; ".join(f"{name} {_REACH[parse_architecture(name).suffix]}" for name in names)
