"""What a sandboxed process may use: folders, devices, memory, processes, output."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from judge.sandbox.layers import LayerName

GIB = 1 << 30


class Policy(BaseModel):
    """What one sandboxed process may use. Paths are absolute."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scratch: Path
    """An empty folder made for this process: its home, temporary folder and caches. Writable."""
    read: tuple[Path, ...] = ()
    """Files and folders that may be read and executed besides Python, torch, CUDA and compilers."""
    gpu: bool = False
    """Whether /dev/nvidia* may be opened."""
    loopback: bool = False
    """Internet sockets inside an own network namespace with nothing but loopback (Nsight Compute
    talks to its target over it). Without it, or a mount namespace, they stay refused."""
    memory_bytes: int = Field(default=32 * GIB, gt=0)
    """Resident anonymous and shared memory of the process and its descendants, together."""
    max_processes: int = Field(default=256, gt=0)
    """Processes, threads not counted."""
    max_threads: int = Field(default=8192, gt=0)
    """Threads of all its processes (RLIMIT_NPROC)."""
    output_bytes: int = Field(default=4 << 20, gt=0)
    """Bytes on standard output and error, together; more kills the process."""
    file_bytes: int = Field(default=8 * GIB, gt=0)
    """Size of one file that it writes (RLIMIT_FSIZE)."""
    scratch_bytes: int = Field(default=8 * GIB, gt=0)
    """All that lies in the scratch folder, together. The kernel holds a private one to it; in
    another the watch looks from outside, and ends the process that has more."""
    private_scratch: bool = False
    """The scratch folder is a memory file system that nobody else sees and that ends with the
    process, where there is a mount namespace: no disk can be filled, and nothing is left. What it
    holds takes memory beside `memory_bytes`."""
    without: frozenset[LayerName] = frozenset()
    """Layers left out, to find which one a driver or tool cannot live with; reported inactive."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables set in addition to the allow-list of `environment.allowed_variables`."""
