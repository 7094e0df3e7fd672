"""The filter program does what it says, on every architecture, number by number."""

import errno
import json
import platform
import socket

import pytest

from judge.sandbox import linux, seccomp

ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
MACHINES = list(seccomp.ARCHITECTURES)


def decide(program, number, *arguments, audit):
    """Run the filter as the kernel does: 32-bit words of (number, architecture, ip, arguments)."""
    words = {0: number & 0xFFFFFFFF, 4: audit}
    for index, value in enumerate((*arguments, 0, 0, 0, 0, 0, 0)[:6]):
        words[16 + 8 * index] = value & 0xFFFFFFFF
        words[20 + 8 * index] = value >> 32 & 0xFFFFFFFF
    at = accumulator = 0
    while True:
        code, yes, no, value = program[at]
        at += 1
        if code == 0x20:
            accumulator = words[value]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return value
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            at += yes if holds else no


@pytest.fixture(params=MACHINES)
def ask(request):
    column, audit = seccomp.ARCHITECTURES[request.param]

    def ask(call, *arguments, loopback=False, gpu=False, audit=audit):
        number = call[column] if isinstance(call, tuple) else call
        program = seccomp.program(request.param, loopback=loopback, gpu=gpu)
        return decide(program, number, *arguments, audit=audit)

    ask.column, ask.machine = column, request.param
    return ask


def test_every_named_call_is_refused(ask):
    refused = {**seccomp.REFUSED, **seccomp.SOCKETS}
    for name, call in refused.items():
        if call[ask.column] is not None:
            assert ask(call) == REFUSE, name


def test_ordinary_calls_are_allowed(ask):
    ordinary = {"x86_64": (0, 1, 9, 11, 59, 61, 202, 257), "aarch64": (63, 64, 222, 215, 221)}
    for number in ordinary[ask.machine]:
        assert ask(number) == ALLOW


def test_other_architectures_and_x32_are_refused(ask):
    for audit in (0x40000003, 0x40000028, 0xC0000015):
        assert ask(0, audit=audit) == REFUSE
    if ask.machine == "x86_64":
        assert ask(0x40000000) == REFUSE
        assert ask(0x40000000 | 41) == REFUSE


@pytest.mark.parametrize("call", [seccomp.SOCKET, seccomp.SOCKETPAIR])
def test_sockets_are_unix_streams_only(ask, call):
    flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    assert ask(call, socket.AF_UNIX, socket.SOCK_STREAM | flags) == ALLOW
    assert ask(call, socket.AF_UNIX, socket.SOCK_SEQPACKET) == ALLOW
    assert ask(call, socket.AF_UNIX, socket.SOCK_DGRAM | flags) == REFUSE
    for family in (socket.AF_INET, socket.AF_INET6, 16, 17, 38, 40):
        assert ask(call, family, socket.SOCK_STREAM) == REFUSE


def test_loopback_adds_internet_sockets_and_no_others(ask):
    for family in (socket.AF_INET, socket.AF_INET6):
        assert ask(seccomp.SOCKET, family, socket.SOCK_STREAM, loopback=True) == ALLOW
    assert ask(seccomp.SOCKET, 16, socket.SOCK_RAW, loopback=True) == REFUSE
    assert ask(seccomp.SOCKETS["connect"], loopback=True) == ALLOW
    assert ask(seccomp.REFUSED["ptrace"], loopback=True) == REFUSE


def test_with_a_gpu_sockets_can_be_offered_and_not_connected(ask):
    allowed = {name for name, call in seccomp.SOCKETS.items() if ask(call, gpu=True) == ALLOW}
    assert allowed == set(seccomp.SOCKETS) - {"connect"}
    assert ask(seccomp.SOCKET, socket.AF_INET, socket.SOCK_STREAM, gpu=True) == REFUSE
    assert ask(seccomp.SOCKET, socket.AF_UNIX, socket.SOCK_DGRAM, gpu=True) == REFUSE


def test_processes_can_be_forked_but_not_namespaces(ask):
    assert ask(seccomp.CLONE, 0x01200011) == ALLOW
    for flag in (linux.CLONE_NEWNS, linux.CLONE_NEWUSER, linux.CLONE_NEWPID, linux.CLONE_NEWNET):
        assert ask(seccomp.CLONE, 0x11 | flag) == REFUSE
    assert ask(seccomp.CLONE3) == 0x00050000 | errno.ENOSYS


def test_only_own_limits_can_be_set(ask):
    pointer = 0x7F00_0000_0000
    assert ask(seccomp.PRLIMIT, 0, 7, pointer) == ALLOW
    assert ask(seccomp.PRLIMIT, 1234, 7, 0, pointer) == ALLOW
    assert ask(seccomp.PRLIMIT, 1234, 7, pointer) == REFUSE
    assert ask(seccomp.PRLIMIT, 1234, 7, 0x1000) == REFUSE


def test_only_own_pages_can_be_moved(ask):
    assert ask(seccomp.MOVE_PAGES, 0) == ALLOW
    assert ask(seccomp.MOVE_PAGES, 1234) == REFUSE


def test_nothing_can_be_typed_into_a_terminal(ask):
    assert ask(seccomp.IOCTL, 1, seccomp.TIOCSTI) == REFUSE
    assert ask(seccomp.IOCTL, 1, seccomp.TIOCLINUX) == REFUSE
    assert ask(seccomp.IOCTL, 1, 0x5401) == ALLOW


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter for this machine")
def test_the_kernel_refuses_what_the_program_refuses(sandbox):
    column, _ = seccomp.ARCHITECTURES[platform.machine()]
    calls = {n: c[column] for n, c in (seccomp.REFUSED | seccomp.SOCKETS).items() if c[column]}
    source = f"""
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
allowed = []
for name, number in {calls!r}.items():
    ctypes.set_errno(0)
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
        allowed.append((name, ctypes.get_errno()))
channel.sendall(json.dumps(allowed).encode())
"""
    assert json.loads(sandbox.run(source).answer) == []


def test_memory_by_descriptor_is_for_processes_with_a_gpu(ask):
    for name, call in seccomp.UNMAPPED_MEMORY.items():
        assert ask(call) == REFUSE, name
        assert ask(call, gpu=True) == ALLOW, name
