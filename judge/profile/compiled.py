"""Facts of what a process has compiled: Triton's kernels, and nvcc's libraries."""

import os
import tempfile
from pathlib import Path
from typing import Any

from judge.profile.result import StaticFacts
from judge.profile.static import facts_of
from kb import nvcc
from kb.errors import KbError
from kb.verify.compile_target import WARP_THREADS


def triton_facts(launched: list[Any], notes: list[str]) -> list[StaticFacts]:
    """Facts of each different compiled kernel among `launched`; what fails becomes a note."""
    facts: list[StaticFacts] = []
    distinct = {id(kernel): kernel for kernel in launched}.values()
    with tempfile.TemporaryDirectory(prefix="kb-static-") as folder:
        for number, kernel in enumerate(distinct):
            metadata = kernel.metadata
            code = kernel.asm.get("cubin") if hasattr(kernel.asm, "get") else kernel.asm["cubin"]
            if code is None:
                notes.append(f"{metadata.name}: Triton kept no machine code")
                continue
            path = Path(folder) / f"{number}.cubin"
            path.write_bytes(code)
            try:
                facts += facts_of(
                    path,
                    "triton",
                    f"sm_{metadata.target.arch}",
                    shared_bytes=int(metadata.shared),
                    threads_per_block=WARP_THREADS * int(metadata.num_warps),
                )
            except KbError as error:
                notes.append(f"{metadata.name}: {error}")
    return _once(facts)


def _once(facts: list[StaticFacts]) -> list[StaticFacts]:
    """Drop facts of the same code, as of two launches with other constants that do not matter."""
    return list({f.model_dump_json(): f for f in facts}.values())


def library_facts(architecture: str, notes: list[str]) -> list[StaticFacts]:
    """Facts of the libraries that this process had nvcc build, inline or with `kb.nvcc`."""
    folders = [nvcc.cache_folder()]
    if extensions := os.environ.get("TORCH_EXTENSIONS_DIR"):
        folders.append(Path(extensions))
    facts: list[StaticFacts] = []
    for folder in folders:
        for library in sorted(folder.rglob("*.so")) if folder.is_dir() else []:
            try:
                facts += facts_of(library, "nvcc", architecture)
            except KbError as error:
                notes.append(f"{library.name}: {error}")
    return _once(facts)
