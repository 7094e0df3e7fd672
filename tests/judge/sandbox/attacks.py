"""Attacks on the judge, each a function that returns when it succeeded and raises otherwise.

Runs inside a sandbox, where all must fail, and as a plain process, where they must succeed: that is
what shows that the sandbox stopped them and not a mistake in the attack.
"""

# Attacks call the system, not a library.
# ruff: noqa: PTH104, PTH123, PTH208

import ctypes
import os
import resource
import signal
import socket
import subprocess
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17
CLONE_NEWUSER = 0x10000000


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def contains_secret(path: str | Path) -> None:
    content = Path(path).read_bytes()
    assert b"the-secret" in content, "read, but no secret in it"


# Files


def read_the_file(o):
    contains_secret(o["secret"])


def list_its_folder(o):
    assert Path(o["secret"]).name in os.listdir(Path(o["secret"]).parent)


def read_through_a_symbolic_link(o):
    link = Path(o["scratch"], "link")
    link.unlink(missing_ok=True)
    link.symlink_to(o["secret"])
    contains_secret(link)


def read_through_a_hard_link_made_before(o):
    contains_secret(o["hard_link"])


def make_a_hard_link(o):
    link = Path(o["scratch"], "hard")
    link.unlink(missing_ok=True)
    os.link(o["secret"], link)
    contains_secret(link)


def read_through_the_root_of_the_judge(o):
    contains_secret(f"/proc/{o['judge']}/root{o['secret']}")


def read_through_the_root_of_any_process(o):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            contains_secret(f"/proc/{pid}/root{o['secret']}")
        except OSError:
            continue
        return
    raise PermissionError("none")


def read_through_the_folder_of_the_victim(o):
    contains_secret(f"/proc/{o['victim']}/cwd/{Path(o['secret']).name}")


def read_an_open_file_of_the_victim(o):
    contains_secret(f"/proc/{o['victim']}/fd/{o['descriptor']}")


def read_through_an_open_folder(o):
    for number in range(3, 256):
        try:
            handle = os.open(o["secret"].lstrip("/"), os.O_RDONLY, dir_fd=number)
        except OSError:
            continue
        contains_secret(f"/proc/self/fd/{handle}")
        return
    # As a plain process there is no folder open: open one, as a leaked descriptor would be.
    handle = os.open("/", os.O_RDONLY)
    contains_secret(f"/proc/self/fd/{handle}{o['secret']}")


def write_over_the_file(o):
    with open(o["secret"], "r+b") as file:
        file.write(b"the-secret")


def make_a_file_beside_it(o):
    Path(o["secret"]).with_name("made").write_text("x")


def truncate_a_file(o):
    os.truncate(o["truncated"], 0)


def rename_a_file(o):
    os.rename(o["renamed"], o["renamed"] + "x")
    os.rename(o["renamed"] + "x", o["renamed"])


# Network


def connect_by_tcp(o):
    socket.create_connection(("127.0.0.1", o["tcp"]), timeout=5).close()


def send_by_udp(o):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", ("127.0.0.1", o["udp"]))


def serve_by_tcp(o):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # In a namespace of its own it may serve nobody: only reaching the judge's counts.
        assert o["judge_sees"] or port < 0, "nobody can reach it"


def connect_to_an_abstract_socket(o):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\0" + o["abstract"])


def send_to_an_abstract_socket(o):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", "\0" + o["abstract"] + "-datagram")


def send_from_a_pair_to_an_abstract_socket(o):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", "\0" + o["abstract"] + "-datagram")


def connect_to_a_socket_file(o):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(o["socket_file"])


# Other processes


def trace_the_victim(o):
    check(libc.ptrace(PTRACE_SEIZE, o["victim"], None, None))


def read_memory_by_system_call(o):
    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    into = ctypes.create_string_buffer(10)
    here = Vector(ctypes.addressof(into), 10)
    there = Vector(o["address"], 10)
    check(libc.process_vm_readv(o["victim"], ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
    assert into.raw == b"the-secret"


def read_memory_by_file(o):
    with open(f"/proc/{o['victim']}/mem", "rb", buffering=0) as memory:
        memory.seek(o["address"])
        assert memory.read(10) == b"the-secret"


def read_the_environment_of_any_process(o):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            contains_secret(f"/proc/{pid}/environ")
        except (OSError, AssertionError):
            continue
        return
    raise PermissionError("none")


def signal_the_victim(o):
    os.kill(o["victim"], signal.SIGUSR1)


def signal_the_judge(o):
    os.kill(o["judge"], 0)


def signal_the_zygote(o):
    os.kill(o["zygote"], 0)


def signal_by_descriptor(o):
    signal.pidfd_send_signal(os.pidfd_open(o["victim"]), signal.SIGUSR1)


def limit_the_victim(o):
    limit = resource.getrlimit(resource.RLIMIT_CPU)
    resource.prlimit(o["victim"], resource.RLIMIT_CPU, limit)


def offer_the_victim_to_the_memory_killer(o):
    with open(f"/proc/{o['victim']}/oom_score_adj", "r+b"):
        pass


# Privileges: succeed as root only


def take_back_the_user_id(o):
    os.setresuid(0, 0, 0)
    os.chown(o["scratch"], 12345, 12345)
    os.chown(o["scratch"], 0, 0)


def run_a_set_user_id_program(o):
    done = subprocess.run([o["set_user_id"], "-u"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0", done.stdout
    assert os.getuid(), "was root already"


def mount_something(o):
    check(libc.mount(b"none", o["scratch"].encode(), b"tmpfs", 0, None))
    check(libc.umount2(o["scratch"].encode(), 2))


def leave_by_a_user_namespace(o):
    pid = os.fork()
    if pid == 0:
        os._exit(libc.unshare(CLONE_NEWUSER) != 0)
    if os.waitpid(pid, 0)[1]:
        raise PermissionError("no user namespace")


def change_a_library(o):
    with open(os.__file__, "r+b"):
        pass


def change_a_kernel_setting(o):
    with open("/proc/sys/kernel/core_pattern", "r+b"):
        pass


ANYBODY = (
    read_the_file,
    list_its_folder,
    read_through_a_symbolic_link,
    read_through_a_hard_link_made_before,
    make_a_hard_link,
    read_through_the_root_of_the_judge,
    read_through_the_root_of_any_process,
    read_through_the_folder_of_the_victim,
    read_an_open_file_of_the_victim,
    read_through_an_open_folder,
    write_over_the_file,
    make_a_file_beside_it,
    truncate_a_file,
    rename_a_file,
    connect_by_tcp,
    send_by_udp,
    serve_by_tcp,
    connect_to_an_abstract_socket,
    send_to_an_abstract_socket,
    send_from_a_pair_to_an_abstract_socket,
    connect_to_a_socket_file,
    read_memory_by_system_call,
    read_memory_by_file,
    read_the_environment_of_any_process,
    signal_the_victim,
    signal_the_judge,
    signal_the_zygote,
    signal_by_descriptor,
    limit_the_victim,
    offer_the_victim_to_the_memory_killer,
    trace_the_victim,
    leave_by_a_user_namespace,
)
ROOT_ONLY = (take_back_the_user_id, mount_something, change_a_library, change_a_kernel_setting)
# Its success cannot be shown by a process that is root already.
WITHOUT_CONTROL = (run_a_set_user_id_program,)


def run_all(options: dict) -> dict[str, str]:
    """Try every attack; returns name -> "succeeded" or what stopped it."""
    outcome = {}
    for attack in (*ANYBODY, *ROOT_ONLY, *WITHOUT_CONTROL):
        if attack in WITHOUT_CONTROL and not options.get("set_user_id"):
            continue
        try:
            attack(options)
        except Exception as error:
            outcome[attack.__name__] = f"{type(error).__name__}: {error}"
        else:
            outcome[attack.__name__] = "succeeded"
    return outcome
