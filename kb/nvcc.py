"""Compile CUDA sources with nvcc into a content-addressed cache, load them, read their SASS."""

import ctypes
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from kb.architectures import parse_architecture
from kb.errors import KbError

_BASE_FLAGS = ("-O3", "-std=c++17")
_LOCAL_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
_ERROR_LINE = re.compile(r"(?i)\b(?:fatal|error)\b")
_PTXAS_FUNCTION = re.compile(r"Compiling entry function '([^']+)'")
_PTXAS_SPILLS = re.compile(r"\b(\d+) bytes spill stores, (\d+) bytes spill loads")
_PTXAS_REGISTERS = re.compile(r"Used (\d+) registers")
_PTXAS_SHARED = re.compile(r"\b(\d+) bytes smem")
# The largest kernels here take 20 s on one slow core; past this nvcc is stuck.
_COMPILE_TIMEOUT_S = 300


class NvccError(KbError):
    """nvcc or a disassembler is missing, or a CUDA source does not compile."""

    status = 422


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What ptxas gave one `__global__` function."""

    function: str
    """Mangled name."""
    registers: int
    """Registers per thread."""
    spill_store_bytes: int
    """Bytes that spills write to local memory, in the code, per thread."""
    spill_load_bytes: int
    """Bytes that spills read back, in the code, per thread."""
    shared_bytes: int
    """Static shared memory per block, in bytes."""

    @property
    def spill_bytes(self) -> int:
        """Bytes spilled to local memory: stores plus loads in the code, per thread."""
        return self.spill_store_bytes + self.spill_load_bytes


def find_nvcc() -> Path:
    """The nvcc on PATH, under `$CUDA_HOME`, `$CUDA_PATH` or /usr/local/cuda, or from its wheel.

    Raises
    ------
    NvccError
        If there is none.
    """
    if nvcc := find_tool("nvcc"):
        return nvcc
    raise NvccError(
        "nvcc was not found: run `pip install 'kernel-kb[cuda]'`, or install the CUDA toolkit "
        "and put nvcc on PATH or set CUDA_HOME"
    )


def find_tool(name: str, folder: str = "bin") -> Path | None:
    """The program on PATH, in this folder of the CUDA toolkit, or in a wheel that carries it."""
    if on_path := shutil.which(name):
        return Path(on_path)
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [Path(home) / folder for home in homes if home]
    # NVIDIA's wheels put the toolkit below the namespace package `nvidia`.
    wheels = importlib.util.find_spec("nvidia")
    if wheels is not None:
        for place in wheels.submodule_search_locations or ():
            folders += [path / "bin" for path in sorted(Path(place).glob("cu[0-9]*"), reverse=True)]
    # Triton's wheel carries NVIDIA's disassemblers; find_spec does not import it.
    spec = importlib.util.find_spec("triton")
    if spec is not None and spec.origin:
        folders.append(Path(spec.origin).parent / "backends" / "nvidia" / "bin")
    candidates = (folder / name for folder in folders)
    return next((path for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)


@functools.cache
def _version(nvcc: Path) -> str:
    return _checked_run([nvcc, "--version"], f"{nvcc} --version failed").stdout


def toolkit_version() -> str:
    """The CUDA toolkit's version, such as `13.0`."""
    match = re.search(r"release (\d+\.\d+)", _version(find_nvcc()))
    return match[1] if match else "unknown"


def cache_folder() -> Path:
    """Where compiled kernels are kept: `nvcc` under the platform's cache folder."""
    return Path(platformdirs.user_cache_dir("kernel-kb", appauthor=False)) / "nvcc"


def compile_shared(source: Path, architecture: str) -> Path:
    """Compile `source` into a shared library for one architecture; a cached one is reused.

    Parameters
    ----------
    source
        A `.cu` file.
    architecture
        Target such as `sm_90a`.

    Returns
    -------
    Path
        The `.so` in the cache folder, named by the hash of source, flags and nvcc version.

    Raises
    ------
    NvccError
        If nvcc is missing or the source does not compile.
    """
    return _compile(source, architecture, ("-shared", "-Xcompiler", "-fPIC"), ".so")


def compile_cubin(source: Path, architecture: str) -> Path:
    """Compile `source` into a cubin; parameters, cache and errors as in `compile_shared`.

    ptxas's resource report is kept beside it, for `resource_usage`.
    """
    return _compile(source, architecture, ("-cubin", "-Xptxas", "-v"), ".cubin")


def _compile(source: Path, architecture: str, flags: Sequence[str], suffix: str) -> Path:
    nvcc = find_nvcc()
    target = str(parse_architecture(architecture)).removeprefix("sm_")
    command = [*_BASE_FLAGS, f"-gencode=arch=compute_{target},code=sm_{target}", *flags]
    libraries = nvcc.parent.parent / "lib"
    if (libraries / "libcudart_static.a").is_file():
        command.append(f"-L{libraries}")  # nvcc's own wheel: it looks in lib64 only
    digest = hashlib.sha256()
    for part in (_version(nvcc), *command):
        digest.update(part.encode() + b"\0")
    _hash_source(source, digest, set())
    folder = cache_folder()
    name = f"{source.stem}-{architecture}-{digest.hexdigest()[:24]}"
    result = folder / f"{name}{suffix}"
    if result.is_file():
        return result
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as scratch:
            built = Path(scratch) / f"{name}{suffix}"
            log = Path(scratch) / f"{name}.log"
            log.write_text(_run([nvcc, *command, "-o", built, source], source), encoding="utf-8")
            # The log first: whoever finds the result finds its log too.
            log.replace(folder / log.name)
            built.replace(result)
    except OSError as error:
        raise NvccError(f"cannot write compiled kernels to {folder}: {error.strerror}") from error
    return result


def _hash_source(source: Path, digest: "hashlib._Hash", visited: set[Path]) -> None:
    """Add a source and the files that it includes by a quoted path."""
    path = source.resolve()
    if path in visited:
        return
    visited.add(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise NvccError(f"cannot read {source}: {error.strerror}") from error
    digest.update(text + b"\0")
    for name in _LOCAL_INCLUDE.findall(text.decode("utf-8", errors="replace")):
        if (path.parent / name).is_file():
            _hash_source(path.parent / name, digest, visited)


def _run(command: Sequence[str | Path], source: Path) -> str:
    """Run nvcc; its messages, or NvccError with the first line that tells of an error."""
    try:
        run = _checked_run(command, f"{source.name} does not compile", _COMPILE_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise NvccError(
            f"{source.name}: nvcc did not finish within {_COMPILE_TIMEOUT_S} s"
        ) from error
    return run.stdout + run.stderr


def _checked_run(
    command: Sequence[str | Path], problem: str, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """A finished command; one that fails is an `NvccError` with its first line of error."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    if run.returncode != 0:
        lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR_LINE.search(line)]
        raise NvccError(f"{problem}: {next(iter(errors or lines), '')}")
    return run


def device_architecture(device: int | None = None) -> str:
    """The architecture of a CUDA device with its full feature set, such as `sm_90a`.

    Raises
    ------
    NvccError
        If PyTorch is missing or sees no CUDA device.
    """
    try:
        import torch  # noqa: PLC0415 (only launching needs it; compiling does not)
    except ImportError as error:
        raise NvccError(
            "PyTorch is not installed: pip install 'kernel-kb[gpu]' to launch CUDA kernels"
        ) from error
    if not torch.cuda.is_available():
        raise NvccError("PyTorch sees no CUDA device: CUDA kernels are launched on a GPU only")
    major, minor = torch.cuda.get_device_capability(device)
    # Architecture-specific features exist from compute capability 9.0 on.
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def load(path: Path, arch: str | None = None) -> ctypes.CDLL:
    """Compile `path` for `arch` (the current CUDA device's by default) and load the library."""
    library = compile_shared(path, arch or device_architecture())
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise NvccError(f"{library.name} cannot be loaded: {error}") from error


def load_text(text: str, name: str, arch: str | None = None) -> ctypes.CDLL:
    """As `load`, from the text of a source that includes no files of its own; messages call it
    `name`."""
    with tempfile.TemporaryDirectory(prefix="kb-cuda-") as folder:
        source = Path(folder) / f"{name}.cu"
        source.write_text(text, encoding="utf-8")
        return load(source, arch)


@functools.cache
def disassemble(cubin: Path) -> str:
    """The SASS of a cubin, from cuobjdump or nvdisasm.

    Raises
    ------
    NvccError
        If there is neither, or it fails.
    """
    if tool := find_tool("cuobjdump"):
        command: list[str | Path] = [tool, "--dump-sass", cubin]
    elif tool := find_tool("nvdisasm"):
        command = [tool, cubin]
    else:
        raise NvccError(
            "neither cuobjdump nor nvdisasm was found: install the CUDA toolkit's binary "
            "utilities, or triton, which carries them"
        )
    return _checked_run(command, f"{tool.name} failed on {cubin.name}").stdout


def resource_listing(cubin: Path) -> str:
    """Registers, stack and shared memory of each function of a cubin, as cuobjdump lists them.

    Works on any cubin, also one that another compiler made; spills are not in it.

    Raises
    ------
    NvccError
        If there is no cuobjdump, or it fails.
    """
    tool = find_tool("cuobjdump")
    if tool is None:
        raise NvccError(
            "cuobjdump was not found: install the CUDA toolkit's binary utilities, or triton, "
            "which carries it"
        )
    failed = f"{tool.name} failed on {cubin.name}"
    return _checked_run([tool, "--dump-resource-usage", cubin], failed).stdout


def resource_usage(cubin: Path) -> tuple[ResourceUsage, ...]:
    """Registers, spills and shared memory of each kernel in a cubin of `compile_cubin`."""
    log = cubin.with_suffix(".log").read_text(encoding="utf-8")
    parts = _PTXAS_FUNCTION.split(log)[1:]
    return tuple(_usage(name, report) for name, report in zip(parts[::2], parts[1::2], strict=True))


def _usage(function: str, report: str) -> ResourceUsage:
    def figure(pattern: re.Pattern[str], group: int = 1) -> int:
        match = pattern.search(report)
        return int(match[group]) if match else 0

    return ResourceUsage(
        function=function,
        registers=figure(_PTXAS_REGISTERS),
        spill_store_bytes=figure(_PTXAS_SPILLS),
        spill_load_bytes=figure(_PTXAS_SPILLS, 2),
        shared_bytes=figure(_PTXAS_SHARED),
    )
