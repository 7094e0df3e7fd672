"""The cards of this machine."""

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from pydantic import BaseModel

from agent.cards.pool import CardLostError, CardPool
from agent.optimize.judge_process import SILENCE_S, JudgeError, JudgeLostError, JudgeProcess
from agent.optimize.judge_requests import Describe, JudgeState, Request
from judge.profile.profiler import has_gpu
from judge.progress import Say, silent
from kb.errors import InvalidInputError, KbError

R = TypeVar("R", bound=BaseModel)

# What can be checked at once without a GPU: each process holds torch, about 1 GB.
_DRY_RUN_CARDS: Final = 2


class ProbeReply(BaseModel):
    """A device computes."""


class Probe(Request[ProbeReply]):
    """Compute on the device: fails where it faults."""

    reply = ProbeReply

    device: str

    def answer(self, state: JudgeState, say: Say) -> ProbeReply:  # noqa: ARG002 (see `Request`)
        """See `Request.answer`."""
        import torch  # noqa: PLC0415 (slow to load)

        count = 1 << 20
        if int(torch.ones(count, device=self.device).sum()) != count:
            raise InvalidInputError(f"{self.device} computes wrong sums")
        return ProbeReply()


@dataclass(eq=False)
class LocalCard:
    """A card of this machine; see `Card`."""

    name: str
    kind: str | None
    start_process: Callable[[], JudgeProcess] = JudgeProcess
    device: str = "cuda:0"
    """The card's name in that process."""

    def __post_init__(self) -> None:
        self._process = self.start_process()

    def ask(self, request: Request[R], say: Say) -> R:
        """See `Card.ask`. After a failure the card is probed."""
        process = self._process
        try:
            return process.ask(request, say)
        except (JudgeError, JudgeLostError) as error:
            if process is self._process and not self._passes_probe():
                raise CardLostError(f"it faults: {error}") from error
            raise

    def _passes_probe(self) -> bool:
        for _ in range(2):  # a CUDA context that a candidate broke ends with its process
            try:
                self._process.ask(Probe(device=self.device), silent)
            except (JudgeError, JudgeLostError):
                self.cancel()
            else:
                return True
        return False

    def cancel(self) -> None:
        """See `Card.cancel`."""
        process, self._process = self._process, self.start_process()
        process.cancel()

    def close(self) -> None:
        """See `Card.close`."""
        self._process.close()


def local_cards(
    gpus: str = "all", *, interpret: bool = False, per_card: int = 1, silence: float = SILENCE_S
) -> CardPool:
    """Cards of this machine: all of the first one's kind, or the first N.

    Parameters
    ----------
    gpus
        `all`, or how many.
    interpret
        Take processes that use Triton's interpreter in place of cards.
    per_card
        Judging processes of each card. They take turns on it, and compile meanwhile.
    silence
        See `JudgeProcess`.

    Raises
    ------
    KbError
        There are not so many, or there is no GPU.
    """
    if gpus != "all" and not (gpus.isdecimal() and int(gpus) >= 1):
        raise InvalidInputError(f"the number of GPUs must be a number or 'all', not '{gpus}'")
    if interpret:
        count = _DRY_RUN_CARDS if gpus == "all" else int(gpus)
        return CardPool([LocalCard(f"CPU {n}", None, device="cpu") for n in range(count)])
    if not has_gpu():
        raise KbError("no GPU was found; --interpret does a dry run without one")
    with closing(JudgeProcess()) as first:
        host = first.ask(Describe(), silent)
    count = len(host.devices) if gpus == "all" else int(gpus)
    if count > len(host.devices):
        raise InvalidInputError(f"{count} GPUs were requested, but there are {len(host.devices)}")
    visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu.strip()]
    numbers = [int(device.removeprefix("cuda:")) for device in host.devices[:count]]
    names = [visible[n].strip() if n < len(visible) else str(n) for n in numbers] * per_card
    cards = []
    for place, name in enumerate(names):
        environment, cores = {"CUDA_VISIBLE_DEVICES": name}, share_of_cores(place, len(names))
        start_process = partial(JudgeProcess, silence=silence, environment=environment, cores=cores)
        cards.append(LocalCard(f"GPU {name}", host.gpu, start_process))
    return CardPool(cards)


def share_of_cores(place: int, places: int) -> frozenset[int]:
    """Numbers of the cores of one judging process: compilers of all get in each other's way."""
    cores = sorted(os.sched_getaffinity(0))
    count = max(1, len(cores) // places)
    return frozenset(cores[place * count % len(cores) :][:count])
