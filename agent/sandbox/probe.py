"""Try what works inside the sandbox on this machine: ``python -m agent.sandbox``.

Prints the active layers, then tries compilers, torch and, with a GPU, CUDA start-up, memory shared
from this process by a CUDA IPC handle, Triton, nvcc and graphs, with and without a process
namespace. For a step that fails it names the layers without which it works.
"""

import argparse
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from agent.sandbox import landlock
from agent.sandbox.cudart import BUFFER_BYTES, Buffer
from agent.sandbox.launch import ExitReason, SandboxError, Zygote, session_folder
from agent.sandbox.layers import LayerName, is_sufficient, missing
from agent.sandbox.policy import Policy

STEP_SECONDS = 150.0
SUSPECTS = (
    LayerName.SECCOMP,
    LayerName.LANDLOCK,
    LayerName.MOUNTS,
    LayerName.NETWORK,
    LayerName.USER,
    LayerName.LIMITS,
)


def attempt(
    zygote: Zygote, session: Path, policy: dict[str, Any], options: dict[str, Any], *, show: bool
) -> list[dict[str, Any]]:
    """Run all steps in one sandbox; returns what each reported."""
    scratch = Path(tempfile.mkdtemp(prefix="probe-", dir=session))
    began = time.perf_counter()
    process = zygote.spawn("agent.sandbox.script:main", Policy(scratch=scratch, **policy))
    if show:
        print(f"  spawned in {time.perf_counter() - began:.3f} s, uid {process.uid}")
        for layer in process.layers:
            print(f"  {'active' if layer.active else '  --  '}  {layer.name:18} {layer.detail}")
        enough = is_sufficient(process.layers)
        print(f"  enough for untrusted code: {enough} {missing(process.layers) or ''}")
    source = f"from agent.sandbox.probe_steps import main\nmain(channel, {options!r})"
    results = []
    with process:
        process.channel.settimeout(STEP_SECONDS)
        process.channel.sendall(json.dumps({"source": source}).encode() + b"\n")
        try:
            with process.channel.makefile("r") as lines:
                for line in lines:
                    results.append(json.loads(line))
                    if show:
                        _print(results[-1])
        except TimeoutError:
            process.kill(ExitReason.TIME)
        ended = process.wait(10) or process.kill(ExitReason.TIME)
    if ended.code != 0:
        print(f"  {ended.describe()}\n{process.output()[-3000:]}")
    shutil.rmtree(scratch, ignore_errors=True)
    return results


def _print(result: dict[str, Any]) -> None:
    word = "works" if result["ok"] else "FAILS"
    print(f"  {word}  {result['step']:18} {result['seconds']:8.3f} s  {result['detail']}")


def _failed(results: list[dict[str, Any]]) -> set[str]:
    return {result["step"] for result in results if not result["ok"]}


def main() -> int:
    """Print the report; returns 0 when everything works with all layers in one of the modes."""
    parser = argparse.ArgumentParser(prog="python -m agent.sandbox", description=__doc__)
    parser.add_argument("--device", type=int, default=0, help="CUDA device")
    parser.add_argument(
        "--no-search", action="store_true", help="do not look for the layer at fault"
    )
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    gpu = torch.cuda.is_available()
    print(f"{platform.platform()} {platform.machine()}, uid {os.geteuid()}, Python {sys.version}")
    print(f"torch {torch.__version__}, GPU {gpu}, Landlock ABI {landlock.abi()}")
    began = time.perf_counter()
    session = session_folder()
    secret = session / "secret"
    secret.write_text("secret")
    everything: list[bool] = []
    with Zygote() as zygote, socket.create_server(("127.0.0.1", 0)) as server:
        print(f"zygote started in {time.perf_counter() - began:.1f} s")
        options: dict[str, Any] = {"gpu": gpu, "device": arguments.device, "judge": os.getpid()}
        options |= {"secret": str(secret), "port": server.getsockname()[1], "bytes": BUFFER_BYTES}
        buffer = Buffer(arguments.device) if gpu else None
        options["ipc"] = buffer.handle if buffer else None
        for pid_namespace in (True, False):
            print(f"process namespace {'on' if pid_namespace else 'off'}:")
            policy: dict[str, Any] = {"gpu": gpu, "pid_namespace": pid_namespace}
            try:
                results = attempt(zygote, session, policy, options, show=True)
            except SandboxError as error:
                print(f"  {error}")
                everything.append(False)
                continue
            if buffer:
                print(f"  judge reads {sorted(buffer.floats())} back from the shared buffer")
                buffer.clear()
            failed = _failed(results)
            everything.append(not failed and bool(results))
            if failed and not arguments.no_search:
                _search(zygote, session, policy, options, failed)
                if buffer:
                    buffer.clear()
    shutil.rmtree(session, ignore_errors=True)
    return 0 if any(everything) else 1


def _search(
    zygote: Zygote, session: Path, policy: dict[str, Any], options: dict[str, Any], failed: set[str]
) -> None:
    """Leave out one layer at a time, then all, and print which of `failed` works then."""
    for without in (*((name,) for name in SUSPECTS), SUSPECTS):
        left = policy | {"without": frozenset(without)}
        try:
            results = attempt(zygote, session, left, options, show=False)
        except SandboxError as error:
            print(f"  without {', '.join(without)}: {error}")
            continue
        works = failed - _failed(results)
        print(f"  without {', '.join(without)}: {sorted(works) or 'nothing more'} works")


if __name__ == "__main__":
    sys.exit(main())
