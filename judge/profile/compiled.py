"""What a process has compiled: Triton's kernels as they are launched, and nvcc's libraries."""

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judge.profile.result import StaticFacts
from judge.profile.static import facts_of
from kb import nvcc
from kb.errors import KbError
from kb.verify.compile_target import WARP_THREADS


@contextlib.contextmanager
def recorded(*, compile_only: bool = False, notes: list[str] | None = None) -> Iterator[list[Any]]:
    """Collect the Triton kernels that are launched meanwhile, one for each launch.

    Parameters
    ----------
    compile_only
        Compile each launch instead of making it. An autotuned kernel is then compiled with the
        first of its configurations, since there is nothing to time, and a note says so.
    notes
        Takes such notes.
    """
    launched: list[Any] = []
    try:
        from triton.runtime.autotuner import Autotuner  # noqa: PLC0415 (triton may be missing)
        from triton.runtime.jit import JITFunction  # noqa: PLC0415
    except ImportError:
        yield launched
        return
    run, tune = JITFunction.run, Autotuner.run

    @functools.wraps(run)
    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = run(self, *args, **{**kwargs, "warmup": True} if compile_only else kwargs)
        if kernel is not None and not (kwargs.get("warmup") and not compile_only):
            launched.append(kernel)
        return kernel

    @functools.wraps(tune)
    def first(self: Any, *args: Any, **kwargs: Any) -> Any:
        configs, self.configs = self.configs, self.configs[:1]
        note = f"{self.base_fn.__name__} is autotuned: facts of configuration 1 of {len(configs)}"
        if notes is not None and len(configs) > 1 and note not in notes:
            notes.append(note)
        try:
            return tune(self, *args, **kwargs)
        finally:
            self.configs = configs

    JITFunction.run = launch
    if compile_only:
        Autotuner.run = first
    try:
        yield launched
    finally:
        JITFunction.run, Autotuner.run = run, tune


def triton_facts(launched: list[Any], notes: list[str]) -> list[StaticFacts]:
    """Facts of each different compiled kernel among `launched`; what fails becomes a note."""
    found: list[StaticFacts] = []
    different = {id(kernel): kernel for kernel in launched}.values()
    with tempfile.TemporaryDirectory(prefix="kb-static-") as folder:
        for number, kernel in enumerate(different):
            metadata = kernel.metadata
            code = kernel.asm.get("cubin") if hasattr(kernel.asm, "get") else kernel.asm["cubin"]
            if code is None:
                notes.append(f"{metadata.name}: Triton kept no machine code")
                continue
            path = Path(folder) / f"{number}.cubin"
            path.write_bytes(code)
            try:
                found += facts_of(
                    path,
                    "triton",
                    f"sm_{metadata.target.arch}",
                    shared_bytes=int(metadata.shared),
                    threads_per_block=WARP_THREADS * int(metadata.num_warps),
                )
            except KbError as error:
                notes.append(f"{metadata.name}: {error}")
    return _once(found)


def _once(found: list[StaticFacts]) -> list[StaticFacts]:
    """Drop facts of the same code, as of two launches with other constants that do not matter."""
    return list({each.model_dump_json(): each for each in found}.values())


def library_facts(architecture: str, notes: list[str]) -> list[StaticFacts]:
    """Facts of the libraries that this process had nvcc build, inline or with `kb.nvcc`."""
    folders = [nvcc.cache_folder()]
    if extensions := os.environ.get("TORCH_EXTENSIONS_DIR"):
        folders.append(Path(extensions))
    found: list[StaticFacts] = []
    for folder in folders:
        for library in sorted(folder.rglob("*.so")) if folder.is_dir() else []:
            try:
                found += facts_of(library, "nvcc", architecture)
            except KbError as error:
                notes.append(f"{library.name}: {error}")
    return _once(found)
