"""Compile every configuration that tuning will try, on all cores, before the GPU is timed.

Triton compiles on the first launch, one configuration at a time. Here worker processes call each
kernel with launching turned off, which leaves the compiled code in Triton's cache on disk.
"""

import functools
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.kernels.tuning import CANDIDATES, Params, candidates
from kb import nvcc
from kb.verify.channel import torch_dtype
from kb.verify.kernel_module import KernelModule, load_kernel_module

# Every worker holds a CUDA context and a set of inputs: on one card, memory for so many.
_WORKERS_A_CARD = 14


def compile_ahead(
    jobs: Sequence[tuple[Path, str, list[int], str]], limit_s: float, cards: int = 1
) -> dict[str, Any]:
    """Compile each job (kernel file, language, size, dtype) for all its candidates.

    Inputs are spread over `cards` cards, those that CUDA_VISIBLE_DEVICES names.

    Returns how many compilations ran, how many failed, and the seconds taken. Those that do not
    finish within `limit_s` are left to the first launch.
    """
    start = time.monotonic()
    # One configuration of every kernel before the second of any: if time runs out, all have some.
    tasks = [
        (str(path), language, size, dtype, index)
        for index in range(CANDIDATES + 1)
        for path, language, size, dtype in jobs
    ]
    compiled = failed = 0
    worker_count = max(1, min(_WORKERS_A_CARD * cards, (os.cpu_count() or 2) - 1))
    pool = ProcessPoolExecutor(worker_count, mp_context=get_context("spawn"))
    futures = [pool.submit(_compile, *task) for task in tasks]
    try:
        for future in as_completed(futures, timeout=limit_s):
            compiled += 1
            failed += future.exception() is not None
    except TimeoutError:
        pass
    workers = list(pool._processes.values())  # shutdown forgets them
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.kill()  # none may use the GPU while it is timed
    return {"compiled": compiled, "failed": failed, "seconds": round(time.monotonic() - start, 1)}


def _compile(path: str, language: str, size: list[int], dtype: str, index: int) -> None:
    if language == "cuda":
        if index == 0:
            nvcc.compile_shared(Path(path).with_suffix(".cu"), nvcc.device_architecture())
        return
    import torch

    # Worker processes have numbers in a row: their inputs spread over the cards.
    torch.cuda.set_device(os.getpid() % torch.cuda.device_count())
    _disable_launches()
    module, inputs = _load(path, tuple(size), dtype)
    configurations: list[Params] = candidates(module.tunables, module.defaults())
    if index < len(configurations):
        module.kernel_function(*inputs, **configurations[index])


@functools.lru_cache(maxsize=1)  # inputs of one kernel at a time
def _load(path: str, size: tuple[int, ...], dtype: str) -> tuple[KernelModule, list[Any]]:
    module = load_kernel_module(Path(path))
    return module, module.make_inputs(list(size), torch_dtype(dtype), "cuda", 0)


@functools.cache
def _disable_launches() -> None:
    from triton.runtime.jit import JITFunction

    original = JITFunction.run

    def compile_only(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = original(self, *args, **{**kwargs, "warmup": True})
        # The launcher of each set of argument types is built by the C compiler, and cached: with
        # host descriptors every block shape has its own.
        kernel._init_handles()
        return kernel

    JITFunction.run = compile_only
