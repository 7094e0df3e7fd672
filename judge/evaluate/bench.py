"""The workers of one evaluation, each with the memory that the judge lends to it."""

import contextlib
import itertools
import re
from collections.abc import Sequence
from typing import Any

from judge.evaluate.buffers import Exported, Exporter, copy, refill
from judge.evaluate.session import Session, Worker, WorkerError
from judge.sandbox.launch import Zygote
from judge.sandbox.layers import Layer
from judge.worker.messages import TensorSpec

Lent = list[Exported | None]


class Desk:
    """One worker and the buffers that it shares with the judge, in named groups.

    A group keeps its memory as long as the specs stay the same, so that a kernel sees new contents
    at old addresses.

    Parameters
    ----------
    number
        Unlike that of any other desk with the same exporter: it is part of the buffers' names.
    """

    def __init__(self, worker: Worker, exporter: Exporter, number: int = 0) -> None:
        self.worker = worker
        self._prefix = f"{number}-{re.sub(r'[^A-Za-z0-9_-]', '_', worker.name)[:40]}"
        self._exporter = exporter
        self._groups: dict[str, tuple[list[TensorSpec | None], Lent]] = {}
        self._made = 0

    def lend(self, group: str, specs: Sequence[TensorSpec | None]) -> Lent:
        """Buffers for `specs`, None where there is no tensor; known to the worker."""
        plain = [None if s is None else TensorSpec(shape=s.shape, dtype=s.dtype) for s in specs]
        known = self._groups.get(group)
        if known is not None and known[0] == plain:
            return known[1]
        self.take_back(group)
        self._made += 1
        lent: Lent = []
        # Kept before it is complete: what was allocated is freed if the rest cannot be had.
        self._groups[group] = (plain, lent)
        for index, spec in enumerate(plain):
            name = f"{self._prefix}.{group}.{self._made}.{index}"
            lent.append(None if spec is None else self._exporter.allocate(name, spec))
        self.worker.open([each for each in lent if each is not None])
        return lent

    def take_back(self, group: str) -> None:
        """Free a group; its tensors must not be used again."""
        _, lent = self._groups.pop(group, ([], []))
        names = [each.name for each in lent if each is not None]
        if names and self.worker.alive:
            with contextlib.suppress(WorkerError):
                self.worker.close_buffers(names)
        self._exporter.free(names)

    def close(self) -> None:
        """End the worker and free all groups."""
        self.worker.stop()
        for group in list(self._groups):
            self.take_back(group)


class Bench(Session):
    """A session whose workers come with a desk.

    Parameters
    ----------
    device
        "cuda:N" or "cpu"; on the CPU Triton kernels are interpreted.
    zygote
        To fork from; None starts one.
    """

    def __init__(self, device: str, zygote: Zygote | None = None) -> None:
        super().__init__(device, interpret=device == "cpu", zygote=zygote)
        self.layers: list[Layer] = []
        """What holds the workers."""
        self._numbers = itertools.count()

    def start(self, name: str) -> Desk:
        """Start one more worker, called `name` in messages."""
        worker = self.worker(name)
        self.layers = self.layers or worker.process.layers
        return Desk(worker, self.buffers, next(self._numbers))


def names(lent: Lent) -> list[str | None]:
    """Names of buffers by position."""
    return [None if each is None else each.name for each in lent]


def tensors(lent: Lent) -> list[Any]:
    """The judge's views of buffers that are all there."""
    return [each.tensor for each in lent if each is not None]


def write(lent: Lent, values: Sequence[Any]) -> None:
    """Copy tensors into buffers by position."""
    for each, tensor in zip(lent, values, strict=True):
        if each is not None:
            copy(tensor, each)


def disturb(lent: Lent, seed: int) -> None:
    """Write other contents into buffers; see `buffers.refill`."""
    for number, each in enumerate(lent):
        if each is not None:
            refill(each, seed + number)
