"""The card that a profile was taken on, as far as the profile says."""

import re
from dataclasses import dataclass

from kb.architectures import parse_architecture
from kb.errors import InvalidInputError
from kb.gpus import GpuSpec, all_specs, find_spec

NAME = "device__attribute_display_name"
MAJOR = "device__attribute_compute_capability_major"
MINOR = "device__attribute_compute_capability_minor"
CAPABILITY = "CC"
_KEYS = frozenset({NAME, MAJOR, MINOR, CAPABILITY})
# An SM has four schedulers since Volta (tuning guides of CUDA, "Occupancy").
_SCHEDULERS, _THREADS_PER_WARP = 4, 32
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)")
_LONGEST_NAME = 100


@dataclass(slots=True)
class Device:
    """A card's name and compute capability; each is empty where the profile does not say."""

    name: str = ""
    """What the driver calls it: `NVIDIA H100 80GB HBM3`."""
    capability: str = ""
    """`9.0`."""

    def add(self, key: str, value: object) -> bool:
        """Take an attribute of the device; False where the key is none."""
        if key not in _KEYS:
            return False
        text = "" if value is None else str(value).strip()
        whole = text.partition(".")[0]
        if not text or text.lower() == "n/a":
            return True
        if key == NAME:
            self.name = "".join(char for char in text if char.isprintable())[:_LONGEST_NAME]
        elif key == MAJOR:
            self.capability = f"{whole}.{self.capability.partition('.')[2] or 0}"
        elif key == MINOR:
            self.capability = f"{self.capability.partition('.')[0]}.{whole}"
        else:
            self.capability = self.capability or text
        return True

    @property
    def spec(self) -> GpuSpec | None:
        """The card of this name; None where it is not in the table."""
        try:
            return find_spec(self.name) if self.name else None
        except InvalidInputError:
            return None

    @property
    def warps_per_scheduler(self) -> float | None:
        """Warps that one scheduler can hold: the same on all cards of a compute capability."""
        spec = self.spec
        match = _CAPABILITY.fullmatch(self.capability)
        if spec is None and match is not None:
            number = 10 * int(match[1]) + int(match[2])
            cards = all_specs().values()
            alike = (
                card for card in cards if parse_architecture(card.architecture).capability == number
            )
            spec = next(alike, None)
        return None if spec is None else spec.threads_per_sm / _THREADS_PER_WARP / _SCHEDULERS
