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


def _outermost(paths: Iterable[Path]) -> list[Path]:
    outermost: list[Path] = []
    for path in sorted({path for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in outermost):
            outermost.append(path)
    return outermost


def devices(*, gpu: bool) -> list[Path]:
    """Return the device files that may be opened for reading and writing."""
    paths = [Path(name) for name in DEVICES]
    if gpu:
        paths += sorted(Path("/dev").glob("nvidia*"))
    return [path for path in paths if path.exists()]


def _python() -> list[Path]:
    paths = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    paths += map(Path, site.getsitepackages())
    for entry in map(Path, sys.path):
        # A folder of installed packages, not a checkout that happens to be importable.
        if entry.is_absolute() and any(entry.glob("*.dist-info")):
            paths.append(entry)
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec and spec.origin:
            paths.append(Path(spec.origin).parent)
    return paths


def _toolchains() -> list[Path]:
    paths = []
    configured = (os.environ.get(variable, "") for variable in ("CC", "CXX", "CUDAHOSTCXX"))
    for name in (*COMPILERS, *configured):
        command = shutil.which(name)
        if command:
            program = Path(command).resolve()
            paths += [program, Path(command)]
            if program.parent.name == "bin" and program.parent.parent != Path("/"):
                paths.append(program.parent.parent)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            paths.append(Path(os.environ[variable]).resolve())
    for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if entry.startswith("/") and any(Path(entry).glob("*.so*")):
            paths.append(Path(entry).resolve())
    try:
        home = Path.home()
    except RuntimeError:  # a user id that nobody has
        return paths
    return [path for path in paths if not home.is_relative_to(path)]
