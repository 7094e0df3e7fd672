"""Input sets for timing: enough to keep the cache cold, with new contents before every batch.

Every set is a buffer per input that all contenders have open, at addresses that never change. The
problem worker makes the contents into a buffer that only it and the judge have; the judge keeps a
pristine copy of every set and writes the sets from these copies just before a contender's turn, so
that no contents come twice, and what one contender writes over does no harm to the next.
"""

import contextlib
import secrets
from collections.abc import Sequence
from typing import Any, Final

import torch

from judge.evaluate.buffers import (
    Exported,
    Exporter,
    Lent,
    arguments,
    as_bytes,
    names,
    tensors,
    unchanged,
)
from judge.evaluate.session import CommandFailedError, Worker, WorkerError
from judge.worker.buffers import synchronize
from judge.worker.messages import Argument, InputSpec, ValueKind
from kb.errors import KbError

# Rotated sets hold this many times the L2 together, so that none of a set is still there when its
# turn comes again (the caches keep no strict order, so more than once).
L2_MULTIPLE: Final = 4
# Making the contents of a set costs a command and a launch or more, once a round.
MAX_SETS: Final = 64
# Where memory is plentiful, batches of some launches make better use of a round.
_COMFORTABLE_BYTES: Final = 4 << 30
_COMFORTABLE_SETS: Final = 8
# The rest is for the oracle, for what contenders allocate inside, and for other users of the card.
_MEMORY_SHARE: Final = 0.5
_SEED_BITS: Final = 48
# What the problem's buffer for new contents is lent as.
_INCOMING: Final = "made"
_FEW_SETS: Final = 4
_READING_SHARE: Final = 0.005
# A terabyte a second: less than what cards read whose L2 is large.
_BYTES_PER_MS: Final = 1e9


def caches_matter(set_bytes: int, fastest_ms: float) -> bool:
    """Whether it matters that inputs and outputs, `set_bytes`, come from DRAM and not from the L2.

    It does not where reading them takes at most half a percent of the fastest contender's time:
    then a few sets do, and slow contenders are timed in seconds.
    """
    return set_bytes / _BYTES_PER_MS > _READING_SHARE * fastest_ms


def sets_needed(set_bytes: int, l2_bytes: int, at_least: int = 2, *, cold: bool = True) -> int:
    """How many sets keep the cache cold, between `at_least` and `MAX_SETS`; a few if not `cold`.

    Parameters
    ----------
    set_bytes
        Inputs and outputs of one launch, in bytes.
    l2_bytes
        Size of the L2; 0 where there is none to speak of (CPU).
    at_least
        A lower limit, such as what makes a graph long enough to time.
    """
    if not cold:
        return max(_FEW_SETS, at_least)
    rotated = -(-L2_MULTIPLE * l2_bytes // max(set_bytes, 1))
    comfortable = min(_COMFORTABLE_SETS, _COMFORTABLE_BYTES // max(set_bytes, 1))
    return min(MAX_SETS, max(rotated, comfortable, at_least, 2))


def sets_fitting(per_set: int, free: int) -> int:
    """How many sets of `per_set` bytes fit into `free` bytes of memory; 0 where none does."""
    return int(_MEMORY_SHARE * free) // max(per_set, 1)


class SizesVaryError(KbError):
    """The problem's inputs have other sizes at each call, and so launches other work."""


class InputSets:
    """The sets of one problem at its full shape; close it before its workers stop."""

    def __init__(
        self,
        problem: Worker,
        inputs: Sequence[InputSpec],
        exporter: Exporter,
        kind: ValueKind = ValueKind.GIVEN,
    ) -> None:
        self.seeds: list[int] = []
        """Under which seed the problem made each set's contents."""
        self.spare_seed = 0
        """Of the contents that `disturb` writes, which are in no set before."""
        self.arguments: list[list[Argument]] = []
        """What commands call the sets."""
        self.problem = problem
        """The worker that makes the contents."""
        self._kind = kind
        self._inputs = list(inputs)
        self._exporter = exporter
        self._opened: list[tuple[Worker, list[str]]] = []
        self._sets: list[list[Exported]] = []
        self._pristine: list[list[Any]] = []
        self._incoming = problem.lend(_INCOMING, [spec.tensor for spec in self._inputs])
        self._spare = self._empty_set()
        self._eviction_buffer = _eviction_buffer(exporter.device)

    @property
    def device(self) -> torch.device:
        """Where the sets are."""
        return self._exporter.device

    @property
    def nbytes(self) -> int:
        """Bytes of one set."""
        return sum(spec.tensor.nbytes for spec in self._inputs if spec.tensor is not None)

    def grow(self, count: int, workers: Sequence[Worker]) -> None:
        """Allocate further sets until there are `count`, open in all `workers`; new contents."""
        added: list[Exported] = []
        for number in range(len(self._sets), count):
            lent: Lent = [
                None
                if spec.tensor is None
                else self._exporter.allocate(f"timing.{number}.{position}", spec.tensor)
                for position, spec in enumerate(self._inputs)
            ]
            exported = [buffer for buffer in lent if buffer is not None]
            self.arguments.append(arguments(self._inputs, lent))
            self._sets.append(exported)
            self._pristine.append(self._empty_set())
            added += exported
        for worker in {id(w): w for w in workers}.values():
            worker.open(added)
            self._opened.append((worker, [buffer.name for buffer in added]))
        self.renew()

    def renew(self) -> None:
        """Have the problem make contents that were never there before, under new secret seeds.

        The sets have them after `restore`.
        """
        self.seeds = [self._make(pristine) for pristine in self._pristine]
        self.spare_seed = self._make(self._spare)

    def restore(self) -> None:
        """Write the current contents into all sets, and leave none of them in the cache."""
        for exported, pristine in zip(self._sets, self._pristine, strict=True):
            _write(exported, pristine)
        if self._eviction_buffer is not None:
            # Read, not written: lines that are written would have to go to memory at the expense
            # of the first launch.
            self._eviction_buffer.sum()
        synchronize(self.device)

    def disturb(self) -> None:
        """Write other contents into all sets, so that outputs computed from now on come out wrong.

        They are inputs of the problem as well (an index stays in range), under `spare_seed`.
        """
        for exported in self._sets:
            _write(exported, self._spare)
        synchronize(self.device)

    def replace_first(self) -> None:
        """Write the contents under `spare_seed` into the first set only."""
        _write(self._sets[0], self._spare)
        synchronize(self.device)

    def unchanged(self, number: int) -> bool:
        """Whether a set has, bit for bit, the contents that the judge wrote."""
        pairs = zip(self._sets[number], self._pristine[number], strict=True)
        return all(unchanged(exported, original) for exported, original in pairs)

    def depend_on_seed(self) -> bool:
        """Whether the first two sets differ; constant inputs cannot expose a cached output."""
        if len(self._sets) < 2 or not self._sets[0]:
            return True
        self.restore()
        pairs = zip(self._sets[0], self._pristine[1], strict=True)
        return not all(unchanged(exported, original) for exported, original in pairs)

    def close(self) -> None:
        """Close the buffers in all workers that live, and free them."""
        for worker, opened in self._opened:
            if worker.alive:
                with contextlib.suppress(WorkerError):
                    worker.close_buffers(opened)
        self.problem.take_back(_INCOMING)
        self._exporter.free(exported.name for group in self._sets for exported in group)
        self._sets, self._pristine, self._spare, self._opened = [], [], [], []

    def _make(self, into: Sequence[Any]) -> int:
        """Have the problem make inputs, copy them out of its reach, and return their seed.

        Raises
        ------
        SizesVaryError
            Their sizes differ from call to call.
        """
        seed = secrets.randbits(_SEED_BITS)
        try:
            self.problem.make_inputs(seed, names(self._incoming), self._kind)
        except CommandFailedError as error:
            if error.kind != "BadBufferError":
                raise
            raise SizesVaryError(
                "get_inputs() makes tensors of other sizes at each call, so launches cannot be "
                f"compared ({error.message}): let sizes be constants, and only values be drawn"
            ) from None
        buffers = [buffer for buffer in self._incoming if buffer is not None]
        for copy, exported in zip(into, buffers, strict=True):
            as_bytes(copy).copy_(exported.flat)
        synchronize(self.device)  # the problem writes the next contents over these
        return seed

    def _empty_set(self) -> list[Any]:
        return [torch.empty_like(tensor) for tensor in tensors(self._incoming)]


def l2_bytes(device: Any) -> int:
    """Size of a device's L2; 0 on a CPU."""
    if torch.device(device).type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(torch.device(device)).L2_cache_size)


def _eviction_buffer(device: Any) -> Any:
    """Return what fills the L2 several times over when it is read; None on a CPU."""
    words = L2_MULTIPLE * l2_bytes(device) // 4
    return torch.zeros(words, dtype=torch.float32, device=device) if words else None


def _write(buffers: Sequence[Exported], contents: Sequence[Any]) -> None:
    for buffer, original in zip(buffers, contents, strict=True):
        buffer.flat.copy_(as_bytes(original))
