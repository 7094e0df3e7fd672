"""The checking process: runs kernels against their references, one JSON event per line.

Forked by `kb.verify.worker` (`kb.verify.forking`), with a list of jobs as JSON on stdin. It runs
the kernels' code in this process: it is no sandbox.
"""

import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kb.interpreter import make_faster
from kb.verify.channel import Channel, FailedError, NotRunError, require, start, torch_dtype
from kb.verify.kernel_module import KernelModule, check_exports, load_kernel_module


def main() -> None:
    """Read the jobs and check each kernel in turn."""
    channel, jobs = start(interpret=True)
    with contextlib.suppress(ImportError):  # a missing triton is a finding of every kernel
        from triton.runtime import interpreter  # noqa: PLC0415

        make_faster(interpreter)
    for job in jobs:
        _check_kernel(channel, job)
    channel.send(event="done")


def _check_kernel(channel: Channel, job: dict[str, Any]) -> None:
    loaded: list[KernelModule] = []

    def exports() -> str:
        require("torch", *(["triton"] if job["language"] == "triton" else []))
        module = load_kernel_module(Path(job["path"]))
        check_exports(module, job["check_params"])
        loaded.append(module)
        return f"{len(module.tunables)} tunables"

    if not channel.check(job["slug"], "exports", exports):
        return
    channel.check(job["slug"], "result", lambda: _check_result(channel, job, loaded[0]))
    channel.check(job["slug"], "power", lambda: _check_power(channel, job, loaded[0]))


def _device(job: dict[str, Any]) -> str:
    """Where the kernel can run: the interpreter needs no GPU, CUDA code does."""
    if job["language"] == "triton" and job["interpretable"]:
        return "cpu"
    import torch  # noqa: PLC0415 (torch may be missing, which is a finding)

    if job["language"] == "cuda" and torch.cuda.is_available():
        return "cuda"
    raise NotRunError(
        "needs a GPU: not run"
        if job["language"] == "cuda"
        else "the CPU interpreter cannot run it, and under the interpreter no GPU is used: not run"
    )


def _cases(
    channel: Channel, job: dict[str, Any], check: str
) -> Iterator[tuple[str, list[int], Any, int]]:
    """Every check size and dtype: label, size, torch dtype, seed."""
    for size in job["sizes"]:
        for dtype in job["dtypes"]:
            label = f"{'x'.join(map(str, size))} {dtype}"
            channel.send(event="begin", slug=job["slug"], check=check, case=label)
            # Every case draws its own inputs, the same on every run.
            seed = zlib.crc32(f"{job['slug']} {label}".encode())
            yield label, list(size), torch_dtype(dtype), seed


def _check_result(channel: Channel, job: dict[str, Any], module: KernelModule) -> str:
    device = _device(job)
    import torch  # noqa: PLC0415 (torch may be missing, which is a finding)

    from kb.verify.compare import compare  # noqa: PLC0415 (imports torch)

    # Fills fresh memory with NaN (integers: the largest value), so that an element which the
    # kernel never writes cannot hold the right value left over from an earlier run.
    # (`use_deterministic_algorithms` does the same and loads the compiler, which takes a second.)
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = True
    cases, worst, worst_label = 0, 0.0, ""
    for label, size, dtype, seed in _cases(channel, job, "result"):
        inputs = module.make_inputs(size, dtype, device, seed)
        # The kernel goes first and both get copies: neither sees what the other left.
        arguments = _clone(inputs)
        actual = module.kernel_function(*arguments, **job["check_params"])
        changed = _first_changed(inputs, arguments)
        if changed is not None:
            raise FailedError(f"{label}: the kernel modified its input {changed}")
        comparison = compare(actual, module.reference(*_clone(inputs)), agrees=module.agrees)
        if comparison.problem is not None:
            raise FailedError(f"{label}: {comparison.problem}")
        cases += 1
        if comparison.norm_error >= worst:
            worst, worst_label = comparison.norm_error, label
    return f"{cases} cases agree, largest relative error {worst:.1e} ({worst_label})"


def _check_power(channel: Channel, job: dict[str, Any], module: KernelModule) -> str:
    """The inputs must be such that wrong outputs are refused; runs the reference alone."""
    from kb.verify.compare import lacks_power  # noqa: PLC0415 (imports torch)

    cases = 0
    for label, size, dtype, seed in _cases(channel, job, "power"):
        expected = module.reference(*module.make_inputs(size, dtype, "cpu", seed))
        reason = lacks_power(expected, module.agrees)
        if reason is not None:
            raise FailedError(f"{label}: {reason}")
        cases += 1
    return f"zeros and a shifted output are refused in {cases} cases"


def _clone(values: list[Any]) -> list[Any]:
    return [value.clone() if hasattr(value, "clone") else value for value in values]


def _first_changed(before: list[Any], after: list[Any]) -> int | None:
    import torch  # noqa: PLC0415 (torch may be missing, which is a finding)

    for index, (left, right) in enumerate(zip(before, after, strict=True)):
        if isinstance(left, torch.Tensor) and not torch.equal(_bytes(left), _bytes(right)):
            return index
    return None


def _bytes(tensor: Any) -> Any:
    """The raw bytes, so that NaN equals itself."""
    import torch  # noqa: PLC0415 (torch may be missing, which is a finding)

    return tensor.detach().contiguous().flatten().view(torch.uint8)
