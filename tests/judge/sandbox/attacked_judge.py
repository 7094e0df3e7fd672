"""A judge with a secret, a victim and servers, that runs all attacks under several policies.

``python -m tests.judge.sandbox.attacked_judge`` prints {variant: {attack: outcome}} as JSON. A
program of its own, so that it can also be run as an ordinary user.
"""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from judge.sandbox.launch import Zygote, session_folder
from judge.sandbox.layers import LayerName, missing
from judge.sandbox.policy import Policy
from tests.judge.sandbox import attacks

VICTIM = """
import ctypes, os, signal, sys
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
libc = ctypes.CDLL(None)
libc.prctl(4, 1, 0, 0, 0)  # dumpable, as any program that was executed is
libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # Yama: any process may trace it
memory = ctypes.create_string_buffer(b"the-secret")
descriptor = os.open(sys.argv[1], os.O_RDONLY)
print(descriptor, ctypes.addressof(memory), flush=True)
sys.stdin.read()
"""

NAMESPACES = {LayerName.MOUNTS, LayerName.PROCESSES, LayerName.NETWORK, LayerName.USER}
VARIANTS: dict[str, dict] = {
    "all layers": {},
    "no process namespace": {"without": {LayerName.PROCESSES}},
    # What a container that forbids namespaces leaves.
    "no namespaces": {"without": NAMESPACES},
    "no namespaces but another user": {"without": NAMESPACES - {LayerName.USER}},
    # What an old kernel, or gVisor, leaves.
    "no Landlock": {"without": {LayerName.LANDLOCK}},
    "no Landlock, the judge's user": {"without": {LayerName.LANDLOCK, LayerName.USER}},
    "no Landlock nor seccomp": {"without": {LayerName.LANDLOCK, LayerName.SECCOMP}},
}
# What CUDA needs must open nothing.
VARIANTS |= {f"{name}, GPU": policy | {"gpu": True} for name, policy in VARIANTS.items()}


def main() -> None:
    session = session_folder()
    kept = session / "kept"
    kept.mkdir()
    for name in ("secret", "truncated", "renamed"):
        (kept / name).write_text("the-secret")
        (kept / name).chmod(0o666)  # so that permissions are not what protects it
    kept.chmod(0o777)
    (session / "hard").hardlink_to(kept / "secret")
    os.environ["API_TOKEN"] = "the-secret"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, session, ignore_errors=True)
        options = {"judge": os.getpid(), "secret": str(kept / "secret"), "judge_sees": True}
        options |= {name: str(kept / name) for name in ("truncated", "renamed")}
        options["hard_link"] = str(session / "hard")
        options |= _serve(stack, kept)
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, options["secret"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=kept,
        )
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        descriptor, address = map(int, victim.stdout.readline().split())
        options |= {"victim": victim.pid, "descriptor": descriptor, "address": address}
        read: tuple[Path, ...] = (Path(attacks.__file__).parent,)
        if os.geteuid() == 0:
            program = session / "id"
            shutil.copy(shutil.which("id"), program)
            program.chmod(0o4755)
            options["set_user_id"] = str(program)
            read += (program,)
        zygote = stack.enter_context(Zygote(torch=False))
        options["zygote"] = zygote.pid
        plain = session / "plain"
        plain.mkdir()
        found = {"no sandbox": attacks.run_all(options | {"scratch": str(plain)})}
        # It traced the victim; what follows must be able to, too.
        for number, (variant, policy) in enumerate(VARIANTS.items()):
            scratch = session / f"scratch{number}"
            scratch.mkdir(mode=0o700)
            given = options | {"scratch": str(scratch), "judge_sees": False}
            found[variant] = _inside(zygote, Policy(scratch=scratch, read=read, **policy), given)
    print(json.dumps(found))


def _inside(zygote: Zygote, policy: Policy, options: dict) -> dict:
    source = f"import json, sys\nsys.path.insert(0, {str(Path(attacks.__file__).parent)!r})\n"
    source += f"import attacks\nchannel.sendall(json.dumps(attacks.run_all({options!r})).encode())"
    with zygote.spawn("judge.sandbox.script:main", policy) as process:
        process.channel.sendall(json.dumps({"source": source}).encode() + b"\n")
        with process.channel.makefile() as answer:
            text = answer.read()
        assert text, (process.wait(5), process.output())
        outcome = json.loads(text)
        outcome["layers"] = [layer.name for layer in process.layers if layer.active]
        outcome["sufficient"] = not missing(process.layers)
        return outcome


def _serve(stack: ExitStack, folder: Path) -> dict:
    """Servers of every kind; their queues take the attacks' connections."""
    abstract = f"kernel-kb-test-{os.getpid()}"
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    for kind, address in (
        (socket.SOCK_STREAM, "\0" + abstract),
        (socket.SOCK_DGRAM, "\0" + abstract + "-datagram"),
        (socket.SOCK_STREAM, str(folder / "socket")),
    ):
        server = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
        server.bind(address)
        if kind == socket.SOCK_STREAM:
            server.listen(64)
    (folder / "socket").chmod(0o777)
    ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
    return ports | {"abstract": abstract, "socket_file": str(folder / "socket")}


if __name__ == "__main__":
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    main()
