"""The compiling process: builds Triton kernels for sm_90 on a machine without a GPU.

The interpreter runs much that the compiler refuses. Forked by `kb.verify.worker`
(`kb.verify.forking`), it calls each kernel on CPU tensors, with launching turned off and a stand-in
for the GPU's driver that knows the target alone.
"""

import functools
from pathlib import Path
from typing import Any

from kb.verify.channel import Channel, FailedError, require, start, torch_dtype
from kb.verify.compile_target import CompileTarget, recorded
from kb.verify.kernel_module import load_kernel_module

_TARGET = 90
# CUDA C++ Programming Guide, technical specifications: shared memory per block on 9.0, 227 KB.
_SHARED_BYTES = 227 * 1024
# bfloat16 compiles as float16 does; one dtype of each width shows what differs.
_SAME_CODE = {"bfloat16": "float16"}


def main() -> None:
    """Read the jobs and compile each kernel in turn."""
    channel, jobs = start(interpret=False)
    for job in jobs:
        run = functools.partial(_compile, channel, job)
        channel.check(job["slug"], f"compile sm_{_TARGET}", run)
    channel.send(event="done")


def _compile(channel: Channel, job: dict[str, Any]) -> str:
    require("torch", "triton")
    from triton.runtime.driver import driver  # noqa: PLC0415 (triton may be missing)

    driver.set_active(CompileTarget(_TARGET))
    module = load_kernel_module(Path(job["path"]))
    largest = 0
    dtypes = dict.fromkeys(_SAME_CODE.get(name, name) for name in job["dtypes"])
    for dtype in dtypes:
        channel.send(event="begin", slug=job["slug"], check=f"compile sm_{_TARGET}", case=dtype)
        with recorded(compile_only=True) as compiled:
            inputs = module.make_inputs(list(job["sizes"][0]), torch_dtype(dtype), "cpu", 0)
            module.kernel_function(*inputs)
        if not compiled:
            raise FailedError(f"{dtype}: kernel_function launched no Triton kernel")
        shared = max(kernel.metadata.shared for kernel in compiled)
        if shared > _SHARED_BYTES:
            raise FailedError(
                f"{dtype}: the defaults take {shared} bytes of shared memory, and a block has "
                f"{_SHARED_BYTES}"
            )
        largest = max(largest, shared)
    return f"{', '.join(dtypes)} with the defaults, at most {largest} bytes of shared memory"
