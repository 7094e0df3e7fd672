"""Memory, processes, output and file sizes end at their limits."""

import subprocess
import sys
import time

import pytest

from judge.sandbox.capture import KEPT_BYTES
from judge.sandbox.launch import ExitReason
from judge.sandbox.layers import LayerName
from judge.sandbox.removal import remove

MIB = 1 << 20
HOG = """
import subprocess
import sys
import time
held = []
for _ in range(40):
    held.append(bytearray(b"x" * (16 << 20)))
    time.sleep(0.02)
time.sleep(60)
"""


def test_a_process_that_hoards_memory_is_ended(sandbox, pid_namespace):
    ran = sandbox.run(HOG, memory_bytes=200 * MIB, pid_namespace=pid_namespace)
    assert ran.exit.reason is ExitReason.MEMORY
    assert "limit 200 MiB" in ran.exit.detail


def test_memory_of_descendants_counts(sandbox, pid_namespace):
    source = f"import os\nif os.fork() == 0:\n    os.setsid()\n    exec({HOG!r})\nos.wait()"
    ran = sandbox.run(source, memory_bytes=200 * MIB, pid_namespace=pid_namespace)
    assert ran.exit.reason is ExitReason.MEMORY


def test_shared_memory_counts(sandbox):
    source = f"import mmap, time\nm = mmap.mmap(-1, 1 << 30)\nm.write(b'x' * (400 << 20))\n{HOG}"
    assert sandbox.run(source, memory_bytes=200 * MIB).exit.reason is ExitReason.MEMORY


def test_memory_within_the_limit_is_left_alone(sandbox):
    source = "held = b'x' * (100 << 20)\nimport time; time.sleep(0.4)"
    assert sandbox.run(source, memory_bytes=400 * MIB).exit.code == 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_printing_without_end_is_ended_and_the_output_bounded(sandbox, stream):
    source = "import sys\nprint('the beginning')\n"
    source += f"while True: print('y' * 100_000, file=sys.{stream})"
    ran = sandbox.run(source, output_bytes=2 * MIB)
    assert ran.exit.reason is ExitReason.OUTPUT
    assert ran.output.startswith("the beginning")
    assert "bytes ...]" in ran.output
    assert len(ran.output) < 2 * KEPT_BYTES + 100


def test_output_within_the_limit_is_whole(sandbox):
    assert sandbox.run("print('y' * 50_000)").output == "y" * 50_000 + "\n"


def test_the_end_of_long_output_is_kept(sandbox):
    ran = sandbox.run("print('y' * 300_000)\nprint('the end')")
    assert ran.exit.code == 0
    assert ran.output.endswith("the end\n")


def test_a_fork_bomb_is_ended(sandbox, pid_namespace, until):
    source = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    began = time.monotonic()
    ran = sandbox.run(source, max_processes=40, max_threads=80, pid_namespace=pid_namespace)
    assert ran.exit.reason is ExitReason.PROCESSES
    assert time.monotonic() - began < 30


def test_threads_are_limited(sandbox):
    source = """
import threading, time
count = 0
try:
    for count in range(200):
        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
except RuntimeError:
    pass
print(count)
"""
    ran = sandbox.run(source, max_threads=50)
    limits = next(layer for layer in ran.process.layers if layer.name is LayerName.LIMITS)
    # The kernel does not count the threads of a user that is root outside of its namespace.
    least, most = (40, 50) if limits.detail.startswith("threads") else (199, 199)
    assert least <= int(ran.output) <= most


def test_files_have_a_largest_size(sandbox):
    source = "f = open('big', 'wb', buffering=0)\nf.write(b'x' * 1000)\n"
    source += "try: f.seek(1 << 20); f.write(b'x')\nexcept OSError as e: print(e.strerror)"
    assert sandbox.run(source, file_bytes=1 << 20).output == "File too large\n"


def test_core_files_are_off(sandbox):
    # Where they go is the machine's matter, so the limit itself is looked at.
    source = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    assert sandbox.run(source).output == "(0, 0)\n"


UNMAPPED = """
import mmap, os, time
held = []
for _ in range(40):
    {make}
    time.sleep(0.05)
time.sleep(60)
"""
BY_DESCRIPTOR = "held.append(os.memfd_create('x')); os.write(held[-1], bytes(16 << 20))"
LET_GO = (
    "held.append(mmap.mmap(-1, 16 << 20)); held[-1].write(b'x' * (16 << 20)); "
    "held[-1].madvise(mmap.MADV_DONTNEED)"
)


@pytest.mark.parametrize(("make", "gpu"), [(BY_DESCRIPTOR, True), (LET_GO, False), (LET_GO, True)])
def test_shared_memory_that_is_not_resident_counts(sandbox, make, gpu):
    ran = sandbox.run(UNMAPPED.format(make=make), memory_bytes=200 * MIB, gpu=gpu)
    assert ran.exit.reason is ExitReason.MEMORY


def test_without_a_gpu_there_is_no_memory_by_descriptor(sandbox):
    source = "import os\ntry: os.memfd_create('x')\nexcept OSError as e: print(e.strerror)"
    assert sandbox.run(source).output == "Operation not permitted\n"


FILL = """
import itertools
try:
    for number in itertools.count():
        with open(f"big{number}", "wb", buffering=0) as file:
            file.write(bytes(8 << 20))
except OSError as error:
    print(error.strerror)
import time; time.sleep(5)
"""


def test_a_private_scratch_folder_is_bounded_and_leaves_nothing(sandbox):
    scratch = sandbox.folder()
    ran = sandbox.run(FILL, scratch=scratch, private_scratch=True, scratch_bytes=64 * MIB)
    if not ran.process.scratch_on_disk:
        assert ran.output == "No space left on device\n"
        assert list(scratch.rglob("big*")) == []
    else:
        assert ran.exit.reason is ExitReason.FILES


@pytest.mark.parametrize("left_out", [[], [LayerName.MOUNTS]])
def test_a_scratch_folder_on_a_disk_is_watched(sandbox, left_out):
    policy = {"scratch_bytes": 128 * MIB, "private_scratch": bool(left_out), "without": left_out}
    ran = sandbox.run(FILL, **policy)
    assert ran.exit.reason is ExitReason.FILES
    assert "MiB in the scratch folder, limit 128 MiB" in ran.exit.detail


def test_folders_of_any_depth_are_removed(tmp_path):
    source = """
import os, pathlib, sys
pathlib.Path("kept").symlink_to(sys.argv[1])
for number in range(30):
    pathlib.Path(f".removing-{number}/x").mkdir(parents=True)
for number in range(4000):
    os.mkdir("nested" * 8); os.chdir("nested" * 8)
    open("file", "w").close()
os.chmod(".", 0)
"""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "file").touch()
    subprocess.run([sys.executable, "-c", source, str(outside)], cwd=folder, check=True)
    remove(folder)
    assert not folder.exists()
    assert (outside / "file").exists()
