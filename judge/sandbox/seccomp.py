"""seccomp-BPF: system calls that kernels, compilers and CUDA do not need are refused with EPERM.

A deny list: CUDA's driver, nvcc and Inductor use a wide and changing set of calls, so an allow
list would break with each of their releases; what is refused is what reaches other processes, the
network, or rarely exercised parts of the kernel. Sockets: only unix stream and seqpacket ones
exist (pairs between own processes), and they cannot connect or, without a GPU, be bound; datagrams
are refused because each can name its own destination. io_uring, which could do the same unseen, is
refused.
"""

import ctypes
import errno
import platform
import socket
import struct

from judge.sandbox import linux

# name -> (x86-64, aarch64); None where the architecture never had it.
Calls = dict[str, tuple[int | None, int | None]]
REFUSED: Calls = {
    # other processes' memory and descriptors
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # parts of the kernel with a history of holes
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "modify_ldt": (154, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    # the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # queues and memory shared by key with any process of the same user
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# Memory that need not be mapped, which the watch sees only where it looks for it. With a GPU it is
# left to the watch: CUDA's driver may want it.
UNMAPPED_MEMORY: Calls = {"memfd_create": (319, 279), "memfd_secret": (447, 447)}
# Refused unless the process has a network namespace to itself and may use its loopback. With a GPU
# only "connect" is refused.
SOCKETS: Calls = {
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
}
SOCKET, SOCKETPAIR = (41, 198), (53, 199)
CLONE, CLONE3, PRLIMIT, IOCTL = (56, 220), (435, 435), (302, 261), (16, 29)
MOVE_PAGES, MIGRATE_PAGES = (279, 239), (256, 238)

# AUDIT_ARCH values: ELF machine, 64 bit, little endian.
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32_BIT = 0x40000000
# CLONE_NEWNS | CGROUP | UTS | IPC | USER | PID | NET
NAMESPACE_FLAGS = 0x7E020000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # put characters into a terminal's input
SOCK_TYPE_MASK = 0xF

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH = 0, 4
_SECCOMP_SET_MODE_FILTER, _SPEC_ALLOW = 1, 1 << 2

Instruction = tuple[int, int, int, int]


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> Instruction:
    return (code, yes, no, value)


def _refuse(error: int = errno.EPERM) -> Instruction:
    return _op(_RETURN, _ERRNO | error)


def _argument(index: int, *, high: bool = False) -> Instruction:
    return _op(_LOAD, 16 + 8 * index + (4 if high else 0))


def _when(number: int, body: list[Instruction]) -> list[Instruction]:
    """Run `body` for system call `number`, then allow what it did not refuse."""
    body = [*body, _op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, 0, len(body)), *body]


def program(machine: str, *, loopback: bool = False, gpu: bool = False) -> list[Instruction]:
    """Return the BPF program for `machine` ("x86_64" or "aarch64").

    `gpu`: unix sockets may be bound and listened on, without which CUDA does not start (it offers
    an abstract `cuda-uvmfd-…` socket to its own process family). None can be connected.

    Raises
    ------
    KeyError
        Another architecture.
    """
    column, audit = ARCHITECTURES[machine]
    code = [_op(_LOAD, _ARCH), _op(_EQUAL, audit, 1, 0), _refuse(), _op(_LOAD, _NUMBER)]
    if machine == "x86_64":
        code += [_op(_AT_LEAST, X32_BIT, 0, 1), _refuse()]
    refused = dict(REFUSED)
    if not loopback:
        refused |= {name: call for name, call in SOCKETS.items() if name == "connect" or not gpu}
    if not gpu:
        refused |= UNMAPPED_MEMORY
    for numbers in refused.values():
        number = numbers[column]
        if number is not None:
            code += [_op(_EQUAL, number, 0, 1), _refuse()]
    stream = [
        _argument(1),
        _op(_AND, SOCK_TYPE_MASK),
        _op(_EQUAL, socket.SOCK_STREAM, 2, 0),
        _op(_EQUAL, socket.SOCK_SEQPACKET, 1, 0),
        _refuse(),
    ]
    unix_only = [_argument(0), _op(_EQUAL, socket.AF_UNIX, 1, 0), _refuse(), *stream]
    with_loopback = [
        _argument(0),
        _op(_EQUAL, socket.AF_UNIX, 3, 0),
        _op(_EQUAL, socket.AF_INET, 2, 0),
        _op(_EQUAL, socket.AF_INET6, 1, 0),
        _refuse(),
    ]
    code += _when(SOCKET[column], with_loopback if loopback else unix_only)
    code += _when(SOCKETPAIR[column], unix_only)
    code += _when(CLONE[column], [_argument(0), _op(_ANY_BIT, NAMESPACE_FLAGS, 0, 1), _refuse()])
    # Its flags are behind a pointer; the C library falls back to clone on ENOSYS.
    code += [_op(_EQUAL, CLONE3[column], 0, 1), _refuse(errno.ENOSYS)]
    # Another process (first argument not 0) may be read, not set (third argument not NULL).
    others_limits = [
        _argument(0),
        _op(_EQUAL, 0, 5, 0),
        _argument(2),
        _op(_EQUAL, 0, 0, 2),
        _argument(2, high=True),
        _op(_EQUAL, 0, 1, 0),
        _refuse(),
    ]
    code += _when(PRLIMIT[column], others_limits)
    for call in (MOVE_PAGES, MIGRATE_PAGES):  # own pages only
        code += _when(call[column], [_argument(0), _op(_EQUAL, 0, 1, 0), _refuse()])
    terminal = [_argument(1), _op(_EQUAL, TIOCSTI, 1, 0), _op(_EQUAL, TIOCLINUX, 0, 1), _refuse()]
    code += _when(IOCTL[column], terminal)
    return [*code, _op(_RETURN, _ALLOW)]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def restrict(*, loopback: bool = False, gpu: bool = False) -> str:
    """Install the filter for this process and all that it starts. Needs no_new_privs.

    Returns what is refused; raises OSError where the kernel does not take the filter.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(f"no filter for {machine}")
    code = program(machine, loopback=loopback, gpu=gpu)
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
    # A character pointer keeps `packed` alive; the kernel copies it during the call.
    filter_ = _Program(len(code), packed)
    # Without SPEC_ALLOW kernels before 5.16 slow the whole process down (speculative store bypass
    # off), which would be measured as the candidate's.
    install = (linux.number("seccomp"), _SECCOMP_SET_MODE_FILTER)
    try:
        linux.syscall(*install, _SPEC_ALLOW, ctypes.byref(filter_), what="seccomp")
    except OSError:
        linux.syscall(*install, 0, ctypes.byref(filter_), what="seccomp")
    sockets = "loopback sockets" if loopback else "no sockets but unix pairs"
    return f"{len(REFUSED)} calls refused, {sockets}"
