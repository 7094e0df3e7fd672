"""What a kernel worker must be able to do, and must not, tried from inside the sandbox."""

import ctypes
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agent.sandbox.cudart import check, runtime, take_handle

_ADDED = 1.0  # what each step that runs a kernel adds to its input
_SIZE = 1 << 20

CUDA_SOURCE = """
__global__ void add_one(float* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1.0f;
}
extern "C" int run(float* data, int n) {
  add_one<<<(n + 255) / 256, 256>>>(data, n);
  return static_cast<int>(cudaDeviceSynchronize());
}
"""

TRITON_SOURCE = """
import triton
import triton.language as tl

@triton.jit
def add_one(data, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(data + at, tl.load(data + at, mask=at < n) + 1.0, mask=at < n)
"""


def main(channel: socket.socket, options: dict[str, Any]) -> None:
    """Try every step and send {"step", "ok", "seconds", "detail"} for each, a line of JSON."""
    for step in steps(options):
        began = time.perf_counter()
        try:
            detail, ok = step(options), True
        except BaseException as error:
            detail, ok = f"{type(error).__name__}: {error}"[:600], False
        seconds = round(time.perf_counter() - began, 3)
        told = {"step": step.__name__, "ok": ok, "seconds": seconds, "detail": detail}
        channel.sendall(json.dumps(told).encode() + b"\n")


def steps(options: dict[str, Any]) -> list[Callable[[dict[str, Any]], str]]:
    """Return the steps to try, those on the GPU only where there is one."""
    always = [secret_hidden, network_closed, gcc, torch_cpu]
    gpu = [cuda_start, pinned_memory, ipc_buffer, triton_kernel, nvcc_kernel, cuda_graph]
    return [*always, *(gpu if options["gpu"] else [nvcc_compiles]), compiled]


def secret_hidden(options: dict[str, Any]) -> str:
    """Fail when the judge's secret file, or its process, can be read."""
    tried = [options["secret"], f"/proc/{options['judge']}/root{options['secret']}"]
    tried += [f"/proc/{options['judge']}/environ", f"/proc/{options['judge']}/mem"]
    for path in tried:
        try:
            Path(path).open("rb").close()
        except OSError:
            continue
        raise AssertionError(f"{path} can be read")
    return f"{len(tried)} ways closed"


def network_closed(_options: dict[str, Any]) -> str:
    """Fail when a socket to the judge can be made."""
    try:
        socket.create_connection(("127.0.0.1", _options["port"]), timeout=5).close()
    except OSError as error:
        return str(error)
    raise AssertionError("the judge's port can be reached")


def gcc(_options: dict[str, Any]) -> str:
    """Compile and run a C program."""
    Path("one.c").write_text("int main(void) { return 7; }")
    subprocess.run(["gcc", "one.c", "-o", "one"], check=True, capture_output=True, text=True)
    return f"returned {subprocess.run(['./one'], check=False).returncode}"


def torch_cpu(_options: dict[str, Any]) -> str:
    """Multiply on the CPU, with threads."""
    product = torch.ones(512, 512) @ torch.ones(512, 512)
    return f"{product[0, 0].item()} with {torch.get_num_threads()} threads"


def nvcc_compiles(_options: dict[str, Any]) -> str:
    """Compile CUDA without running it."""
    return _nvcc("75")


def _nvcc(architecture: str) -> str:
    Path("one.cu").write_text(CUDA_SOURCE)
    command = ["nvcc", f"-arch=sm_{architecture}", "-shared", "-Xcompiler", "-fPIC"]
    done = subprocess.run(
        [*command, "one.cu", "-o", "one.so"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"nvcc: {done.stderr[-400:]}")
    return f"{Path('one.so').stat().st_size} bytes"


def cuda_start(options: dict[str, Any]) -> str:
    """Initialise CUDA after the fork and run a matrix product."""
    torch.cuda.set_device(options["device"])
    ones = torch.ones(256, 256, device="cuda")
    assert (ones @ ones)[0, 0].item() == 256
    return f"{torch.cuda.get_device_name()}, {torch.cuda.get_device_capability()}"


def pinned_memory(_options: dict[str, Any]) -> str:
    """Allocate host memory through the driver."""
    host = torch.ones(_SIZE, pin_memory=True)
    assert host.to("cuda", non_blocking=True).sum().item() == _SIZE
    return "copied"


class _View:
    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


def ipc_buffer(options: dict[str, Any]) -> str:
    """Open the judge's buffer of zeros, add one to every float, and leave it so."""
    pointer = ctypes.c_void_p()
    cudart = runtime()
    handle = take_handle(bytes.fromhex(options["ipc"]))
    check(cudart.cudaIpcOpenMemHandle(ctypes.byref(pointer), handle, ctypes.c_uint(1)))
    assert pointer.value is not None
    view = torch.as_tensor(_View(pointer.value, options["bytes"]), device="cuda")
    floats = view.view(torch.float32)
    assert floats.sum().item() == 0
    floats += _ADDED
    torch.cuda.synchronize()
    return f"{floats.numel()} floats written"


def triton_kernel(_options: dict[str, Any]) -> str:
    """Compile a Triton kernel (ptxas, gcc for the launcher) and run it."""
    Path("one_triton.py").write_text(TRITON_SOURCE)
    sys.path.insert(0, str(Path.cwd()))
    add_one = importlib.import_module("one_triton").add_one
    data = torch.zeros(_SIZE, device="cuda")
    add_one[(_SIZE // 1024,)](data, _SIZE, BLOCK=1024)
    assert data.sum().item() == _SIZE
    return "right"


def nvcc_kernel(_options: dict[str, Any]) -> str:
    """Compile CUDA, load it, launch it on torch's memory."""
    major, minor = torch.cuda.get_device_capability()
    built = _nvcc(f"{major}{minor}")
    data = torch.zeros(_SIZE, device="cuda")
    torch.cuda.synchronize()
    check_result = ctypes.CDLL("./one.so").run(ctypes.c_void_p(data.data_ptr()), _SIZE)
    assert check_result == 0, f"CUDA error {check_result}"
    assert data.sum().item() == _SIZE
    return built


def cuda_graph(_options: dict[str, Any]) -> str:
    """Capture and replay a graph, timed by events."""
    data = torch.zeros(_SIZE, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        data += _ADDED
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    data.zero_()
    first.record()
    for _ in range(10):
        graph.replay()
    last.record()
    torch.cuda.synchronize()
    assert data[0].item() == 10
    return f"{first.elapsed_time(last) / 10:.4f} ms a replay"


def compiled(options: dict[str, Any]) -> str:
    """Run torch.compile with its default backend."""
    device = "cuda" if options["gpu"] else "cpu"

    def function(x: Any) -> Any:
        return torch.sin(x) * 2 + x.sum()

    data = torch.ones(1024, device=device)
    close = torch.allclose(torch.compile(function)(data), function(data), rtol=1e-4)
    assert close, "wrong result"
    return f"right, {os.environ.get('TORCHINDUCTOR_COMPILE_THREADS', 'default')} compile threads"
