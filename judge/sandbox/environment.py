"""The environment of a sandboxed process: an allow-list, and folders inside its scratch."""

import os
from pathlib import Path

ALLOWED = frozenset({
    "CC", "CPATH", "CXX", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LIBRARY_PATH", "PATH",
    "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_MODULE_LOADING", "CUDA_PATH", "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES",
    "TORCH_CUDA_ARCH_LIST", "TRITON_CUOBJDUMP_PATH", "TRITON_NVDISASM_PATH", "TRITON_PTXAS_PATH",
    "TZ", "VIRTUAL_ENV",
})  # fmt: skip
# Not among them: in the user's environment it would turn a GPU evaluation into something else.
INTERPRET = "TRITON_INTERPRET"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FOLDERS = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": "cache",
    "CUDA_CACHE_PATH": "cache/cuda",
    "TORCHINDUCTOR_CACHE_DIR": "cache/inductor",
    "TORCH_EXTENSIONS_DIR": "cache/extensions",
    "TRITON_CACHE_DIR": "cache/triton",
}


def allowed_variables() -> dict[str, str]:
    """Return the allowed part of the process's own variables."""
    variables = {name: value for name, value in os.environ.items() if name in ALLOWED}
    variables.setdefault("PATH", DEFAULT_PATH)
    # Nothing outside of the scratch folder can be written, so do not try to leave bytecode there.
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    return variables


def folders(scratch: Path) -> dict[str, str]:
    """Return the variables that lead programs to folders inside `scratch`, see `FOLDERS`."""
    variables = {name: str(scratch / subfolder) for name, subfolder in FOLDERS.items()}
    # The user id need not be in /etc/passwd; Inductor and others ask for a name.
    return variables | {"USER": "sandbox", "LOGNAME": "sandbox"}
