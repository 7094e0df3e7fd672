"""What the card reaches in this session: bandwidths of large buffers, rates of matrix products.

Measured in the judge's own process with random data, the same CUDA-event timer that workers use,
and buffers far larger than any cache. A copy is torch's `copy_`, that is, the driver's
device-to-device copy; reading and writing take the best of a torch operator and a Triton kernel
(where Triton is installed).
"""

import contextlib
import datetime
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from judge.evaluate.result import Ceilings
from judge.worker.events import Timer

# A copy of 2 GiB takes some 1 ms at 4 TB/s, and 2 GiB is 16 times the largest L2 (B200: 126 MB).
COPY_BYTES: Final = 2**31
# Of the memory that is free, at most this share is used for each of the two buffers.
_MEMORY_SHARE: Final = 8
# A median of 15 differs by less than 1 % from run to run.
_REPEATS: Final = 15
_WARM_UPS: Final = 3
# An idle card clocks down (an H200 to 345 MHz) and takes some tenths of a second to come back:
# copies measured in that time were 11 % slow.
_RAMP_SECONDS: Final = 0.5
# About 0.5 ms at 2 GHz: longer than the host needs to queue a launch.
_HOLD_CYCLES: Final = 1_000_000
# Matrix products grow until one takes about this long: larger ones reach a higher share of the
# peak, but heat the card.
_MATMUL_MS: Final = 4.0
_MATMUL_SIZES: Final = (2048, 4096, 8192)


Launch = Callable[[], Any]
Prepare = Callable[[int, str], Launch]
"""Makes operands of n × n on a device and returns a launch of their product."""


def measure(
    device: str,
    *,
    nbytes: int = COPY_BYTES,
    sizes: Sequence[int] = _MATMUL_SIZES,
    repeats: int = _REPEATS,
) -> Ceilings:
    """Measure read, write and copy bandwidth and matmul rates on `device`; takes a second or two.

    Parameters
    ----------
    device
        "cuda:N"; "cpu" works and tells little.
    nbytes
        Size of each of two buffers, less where memory is short.
    sizes
        Edge lengths n of square products, rising.
    repeats
        Launches per median.
    """
    bench = _Bench(device, repeats)
    # The timer waits for the current device, which the judge's process sets nowhere else.
    with torch.cuda.device(device) if bench.cuda else contextlib.nullcontext():
        read, write, copy = _bandwidths(bench, nbytes)
        rates = {}
        for name, prepare in _products().items():
            with contextlib.suppress(RuntimeError, NotImplementedError, ValueError, AttributeError):
                rates[name] = _rate(bench, name, prepare, sizes)
        if bench.cuda:
            torch.cuda.empty_cache()
    return Ceilings(
        read_bps=read,
        write_bps=write,
        copy_bps=copy,
        matmul_flops=rates,
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _bandwidths(bench: "_Bench", nbytes: int) -> tuple[float, float, float]:
    """Bytes per second read, written, and read plus written by a copy."""
    size = bench.fitting(nbytes)
    # Random, since memory and buses draw less power, and so clock higher, on zeros.
    source = torch.empty(size, dtype=torch.uint8, device=bench.device).random_()
    target = torch.empty_like(source)
    bench.ramp_up(lambda: target.copy_(source))
    copies = [2 * size / bench.seconds(lambda: target.copy_(source))]
    readers, writers = _streams(source, target)
    read = max(size / bench.seconds(run) for run in readers)
    write = max(size / bench.seconds(run) for run in writers)
    # Once more, since a ceiling is the best that is seen, and the copy is the one that counts.
    copies.append(2 * size / bench.seconds(lambda: target.copy_(source)))
    return read, write, max(copies)


class _Bench:
    """Times launches without arguments on one device."""

    def __init__(self, device: str, repeats: int) -> None:
        self.cuda = torch.device(device).type == "cuda"
        self._timer = Timer(device)
        self._repeats = repeats
        self.device = device

    def fitting(self, nbytes: int) -> int:
        """Bytes of a buffer that fits, a multiple of 1 MiB."""
        if self.cuda:
            free, _ = torch.cuda.mem_get_info(torch.device(self.device))
            nbytes = min(nbytes, free // _MEMORY_SHARE)
        return max(1, nbytes >> 20) << 20

    def ramp_up(self, run: Launch) -> None:
        """Keep the device busy until its clocks are up."""
        end = time.monotonic() + (_RAMP_SECONDS if self.cuda else 0.0)
        while time.monotonic() < end:
            self.seconds(run)

    def seconds(self, run: Launch) -> float:
        """Median seconds of one launch."""
        method = "events" if self.cuda else "clock"
        hold = _HOLD_CYCLES if self.cuda else 0
        for repeats in (_WARM_UPS, self._repeats):
            order = [0] * repeats
            times = self._timer.time(run, [()], order, method, hold_cycles=hold)
        return statistics.median(times) * 1e-3


def _streams(source: Any, target: Any) -> tuple[list[Launch], list[Launch]]:
    """Launches that read all of `source`, and launches that write all of `target`."""
    readers: list[Launch] = [source.view(torch.float32).sum]
    writers: list[Launch] = [lambda: target.fill_(170), target.zero_]
    if source.is_cuda:
        # Triton may be missing, or unable to compile; torch's own operators come close.
        with contextlib.suppress(Exception):
            from judge.evaluate import stream_kernels as kernels  # noqa: PLC0415

            kernels.read(source, target)
            kernels.write(target)
            readers.append(lambda: kernels.read(source, target))
            writers.append(lambda: kernels.write(target))
    return readers, writers


def _products() -> dict[str, Prepare]:
    def plain(dtype: torch.dtype) -> Prepare:
        def prepare(n: int, device: str) -> Launch:
            a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
            return lambda: a @ b

        return prepare

    def scaled(n: int, device: str) -> Launch:
        a, b = (torch.randn(n, n, device=device).to(torch.float8_e4m3fn) for _ in range(2))
        unit_scale = torch.ones((), device=device)
        return lambda: torch._scaled_mm(
            a, b.t(), unit_scale, unit_scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return {
        "float64": plain(torch.float64),
        "float32": plain(torch.float32),
        "tf32": plain(torch.float32),
        "float16": plain(torch.float16),
        "bfloat16": plain(torch.bfloat16),
        "float8_e4m3fn": scaled,
    }


def _rate(bench: _Bench, name: str, prepare: Prepare, sizes: Sequence[int]) -> float:
    """FLOP/s of the largest product that is still short."""
    if name == "tf32" and not bench.cuda:
        raise NotImplementedError("a processor has no TF32")
    best = 0.0
    with _fp32_products("high" if name == "tf32" else "highest"):
        for n in sizes:
            seconds = bench.seconds(prepare(n, bench.device))
            best = max(best, 2 * n**3 / seconds)
            if 8 * seconds * 1e3 > _MATMUL_MS:  # twice the edge is eight times the work
                break
    return best


@contextlib.contextmanager
def _fp32_products(precision: str) -> Iterator[None]:
    """Let float32 products round to TF32, or not, meanwhile."""
    previous = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(previous)
