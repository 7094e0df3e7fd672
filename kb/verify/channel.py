"""How a checking process reports to its parent: one JSON event per line, and nothing else there."""

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from kb.verify.kernel_module import ExportError
from kb.verify.result import CheckResult

# Names of the corpus format that PyTorch spells differently.
_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn", "tf32": "float32"}

# Compilers quote whole functions in their errors; this much says what is wrong.
_MESSAGE_LENGTH = 300


class NotRunError(Exception):
    """A check that this machine cannot run."""


class FailedError(Exception):
    """A check that found a fault."""


class Channel:
    """Writes events to the parent; everything the kernels print goes to stderr."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def send(self, **event: Any) -> None:
        """Write one event."""
        print(json.dumps(event), file=self._stream, flush=True)

    def check(self, slug: str, name: str, run: Callable[[], str]) -> bool:
        """Run one check and send its outcome; whether later checks make sense."""
        self.send(event="begin", slug=slug, check=name, case="")
        start = time.perf_counter()
        passed = not_run = False
        try:
            detail, passed = run(), True
        except NotRunError as reason:
            detail, not_run = str(reason), True
        except (FailedError, ExportError) as error:
            detail = str(error)
        except Exception as error:
            detail = _describe(error)
        seconds = time.perf_counter() - start
        result = CheckResult(slug, name, passed, detail, seconds, not_run)
        self.send(event="end", **asdict(result))
        return passed


def _describe(error: Exception) -> str:
    """An unexpected exception as one line: type, message, and the kernel file's line."""
    root = error
    while root.__cause__ is not None and isinstance(root.__cause__, Exception):
        root = root.__cause__  # the interpreter wraps what a kernel raised
    message = " ".join(str(root).split())[:_MESSAGE_LENGTH] or "no message"
    frames = [*traceback.extract_tb(error.__traceback__), *traceback.extract_tb(root.__traceback__)]
    kernel_frames = [f for f in frames if f"{os.sep}kernels{os.sep}" in f.filename]
    where = ""
    if kernel_frames:
        where = f" ({Path(kernel_frames[-1].filename).name}:{kernel_frames[-1].lineno})"
    return f"{type(root).__name__}: {message}{where}"


def start(*, interpret: bool) -> tuple[Channel, list[dict[str, Any]]]:
    """Take over stdout, read the jobs from stdin, import Triton, say ready."""
    channel = Channel(os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: list[dict[str, Any]] = json.load(sys.stdin)
    os.environ.pop("TRITON_INTERPRET", None)
    if interpret:  # decided when Triton is loaded
        os.environ["TRITON_INTERPRET"] = "1"
    with contextlib.suppress(ImportError):  # from here on a case's time limit is fair
        importlib.import_module("triton")
    channel.send(event="ready")
    return channel, jobs


def require(*packages: str) -> None:
    """Fail the running check if a package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise FailedError(f"{package} is not installed: pip install 'kernel-kb[gpu]'")


def torch_dtype(name: str) -> Any:
    """The torch dtype of a name in the corpus format; formats torch lacks (nvfp4) stay names."""
    import torch  # noqa: PLC0415 (torch may be missing, which is a finding)

    spelled = _TORCH_NAMES.get(name, name)
    return getattr(torch, spelled, spelled)
