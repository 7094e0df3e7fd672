"""Read clocks, temperature, power and throttle reasons before, during and after timing.

Reads only, through `nvidia-smi`; nothing is ever set, locked or reset. Without `nvidia-smi` the
result says so and the evaluation goes on.
"""

import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Self

from judge.evaluate.result import Clocks, ClockSample

Phase = Literal["before", "during", "after"]

# Bits of nvmlClocksEventReasons (nvml.h). Idle is no reason for concern and is left out.
REASONS: Final = {
    0x002: "applications clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
}
# Set by an administrator or by the display, the same for every contender: not throttling.
_STEADY: Final = frozenset({"applications clocks setting", "sync boost", "display clock setting"})
# Drivers since 535 call throttle reasons event reasons; older ones know only the second name.
_REASON_FIELDS: Final = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_FIELDS: Final = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
# Each reading starts a process that asks the driver: once a second does not disturb a median.
PERIOD_S: Final = 1.0
_QUERY_TIMEOUT_S: Final = 10.0

Query = Callable[[Sequence[str]], str]
"""Runs a command and returns what it prints; raises OSError or subprocess.SubprocessError."""


def card_id(device: str) -> str:
    """Return the UUID of the physical card behind "cuda:N" as nvidia-smi writes it ("GPU-…").

    CUDA_VISIBLE_DEVICES changes N but not the UUID.
    """
    import torch  # noqa: PLC0415 - nothing else here needs it

    index = int(device.partition(":")[2] or 0)
    uuid = str(torch.cuda.get_device_properties(index).uuid)
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def run_query(command: Sequence[str]) -> str:
    """Run `command` and return its output."""
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=True
    )
    return completed.stdout


def read(card: str, when: Phase, query: Query = run_query) -> ClockSample:
    """Read one sample of the card with this UUID.

    Raises
    ------
    OSError, subprocess.SubprocessError
        nvidia-smi is not there or does not answer.
    """
    for reasons in _REASON_FIELDS:
        fields = ",".join((*_FIELDS, reasons))
        command = [
            "nvidia-smi", f"--id={card}", f"--query-gpu={fields}", "--format=csv,noheader,nounits",
        ]  # fmt: skip
        try:
            return _sample(query(command), when)
        except subprocess.CalledProcessError as error:
            failure = error
    raise failure


def _sample(output: str, when: Phase) -> ClockSample:
    lines = output.strip().splitlines()
    values = [part.strip() for part in lines[0].split(",")] if lines else []
    values += [""] * (len(_FIELDS) + 1 - len(values))
    *integers, power = (_number(value) for value in values[:4])
    sm, memory, temperature = (None if value is None else round(value) for value in integers)
    return ClockSample(
        when=when,
        sm_mhz=sm,
        memory_mhz=memory,
        temperature_c=temperature,
        power_w=power,
        throttle=_reasons(values[4]),
    )


def _number(text: str) -> float | None:
    """Parse a figure; nvidia-smi writes [N/A] or [Not Supported] where there is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _reasons(text: str) -> tuple[str, ...]:
    try:
        mask = int(text, 16)
    except ValueError:
        return ()
    return tuple(name for bit, name in REASONS.items() if mask & bit)


def throttling(clocks: Clocks) -> tuple[str, ...]:
    """Reasons that lowered the clocks while contenders were timed."""
    during = (sample.throttle for sample in clocks.samples if sample.when == "during")
    return tuple(sorted({reason for reasons in during for reason in reasons} - _STEADY))


class ClockWatch:
    """Reads the card of this UUID once on entry, every second inside, once on exit."""

    def __init__(self, card: str, query: Query = run_query, period_s: float = PERIOD_S) -> None:
        self._card = card
        self._query = query
        self._period_s = period_s
        self._samples: list[ClockSample] = []
        self._note = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="clocks")

    def __enter__(self) -> Self:
        if self._read("before"):
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_QUERY_TIMEOUT_S + 1)
        if self._samples:
            self._read("after")

    @property
    def clocks(self) -> Clocks:
        """What was read so far."""
        clocks = Clocks(samples=tuple(self._samples), note=self._note)
        reasons = throttling(clocks)
        if reasons and not self._note:
            note = f"clocks were lowered during the timing: {', '.join(reasons)}"
            return clocks.model_copy(update={"note": note})
        return clocks

    def _watch(self) -> None:
        while not self._ended.wait(self._period_s):
            if not self._read("during"):
                return

    def _read(self, when: Phase) -> bool:
        try:
            self._samples.append(read(self._card, when, self._query))
        except (OSError, subprocess.SubprocessError) as error:
            self._note = f"clocks could not be read {when} the timing: {_line(error)}"
            return False
        return True


def _line(error: BaseException) -> str:
    detail: Any = getattr(error, "stdout", "") or getattr(error, "stderr", "") or str(error)
    return " ".join(str(detail).split())[:200]
