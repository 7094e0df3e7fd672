"""Which files a sandboxed process needs: Python, torch, Triton, CUDA, compilers, devices."""

import functools
import importlib.util
import os
import shutil
import site
import sys
from collections.abc import Iterable
from pathlib import Path

# Read-only parts of the system. Of /etc only what loaders, compilers and name look-ups read.
SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/opt/nvidia",
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/localtime", "/etc/nsswitch.conf", "/etc/nvidia", "/etc/passwd", "/sys",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
COMPILERS = ("nvcc", "ptxas", "gcc", "g++", "c++", "cc", "clang", "ld", "as", "ninja", "ncu")
# Packages that workers import although they may live outside of any site-packages.
PACKAGES = ("judge", "kb")


def readable(extra: Iterable[Path] = ()) -> list[Path]:
    """Return what may be read and executed: existing absolute paths, none inside another."""
    return _outermost([*of_machine(), *extra])


@functools.cache
def of_machine() -> list[Path]:
    """Return what every sandbox may read: looked for once, before there is any."""
    return _outermost([*map(Path, SYSTEM), *_python(), *_toolchains()])


def _outermost(found: Iterable[Path]) -> list[Path]:
    kept: list[Path] = []
    for path in sorted({path for path in found if path.exists()}):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def devices(*, gpu: bool) -> list[Path]:
    """Return the device files that may be opened for reading and writing."""
    found = [Path(name) for name in DEVICES]
    if gpu:
        found += sorted(Path("/dev").glob("nvidia*"))
    return [path for path in found if path.exists()]


def _python() -> list[Path]:
    found = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    found += map(Path, site.getsitepackages())
    for entry in map(Path, sys.path):
        # A folder of installed packages, not a checkout that happens to be importable.
        if entry.is_absolute() and any(entry.glob("*.dist-info")):
            found.append(entry)
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec and spec.origin:
            found.append(Path(spec.origin).parent)
    return found


def _toolchains() -> list[Path]:
    found = []
    chosen = (os.environ.get(variable, "") for variable in ("CC", "CXX", "CUDAHOSTCXX"))
    for name in (*COMPILERS, *chosen):
        command = shutil.which(name)
        if command:
            program = Path(command).resolve()
            found += [program, Path(command)]
            if program.parent.name == "bin" and program.parent.parent != Path("/"):
                found.append(program.parent.parent)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            found.append(Path(os.environ[variable]).resolve())
    for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if entry.startswith("/") and any(Path(entry).glob("*.so*")):
            found.append(Path(entry).resolve())
    try:
        home = Path.home()
    except RuntimeError:  # a user id that nobody has
        return found
    return [path for path in found if not home.is_relative_to(path)]
