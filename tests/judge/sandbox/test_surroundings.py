"""What a sandboxed process finds around it: variables, descriptors, folders, buffers."""

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from judge.sandbox.environment import FOLDERS

LOOK = """
import json, os
with open("/proc/self/environ", "rb") as file:
    inherited = file.read().decode()
links = {n: os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
         if os.path.lexists(f"/proc/self/fd/{n}")}
channel.sendall(json.dumps([dict(os.environ), inherited, links, os.getcwd()]).encode())
"""


@pytest.fixture(scope="module", autouse=True)
def _secrets():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OPENAI_API_KEY", "KB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"):
            patch.setenv(name, "the-secret")
        patch.setenv("LD_PRELOAD", "")
        patch.setenv("CUDA_VISIBLE_DEVICES", "0")
        yield


@pytest.fixture(scope="module")
def found(sandbox, _secrets):
    ran = sandbox.run(LOOK, environment={"ADDED": "yes"})
    assert ran.answer, ran.output
    return (*json.loads(ran.answer), ran)


def test_no_secret_is_in_the_environment(found):
    variables, inherited, *_ = found
    assert "the-secret" not in json.dumps(variables) + inherited
    assert variables["ADDED"] == "yes"
    assert variables["CUDA_VISIBLE_DEVICES"] == "0"


def test_homes_and_caches_are_in_the_scratch_folder(found):
    variables, _, _, folder, ran = found
    assert folder == str(ran.process.policy.scratch)
    for name in FOLDERS:
        assert variables[name].startswith(folder + "/")


def test_only_the_standard_streams_and_the_channel_are_open(found):
    links = {int(number): aim for number, aim in found[2].items()}
    assert links.pop(0) == "/dev/null"
    assert links.pop(1) == links.pop(2)
    others = [aim for aim in links.values() if not aim.endswith("/fd")]
    assert len(others) <= 2, "the channel, and the script's copy of nothing else"
    assert all(aim.startswith("socket:") or "/proc/" in aim for aim in others)


def test_standard_input_is_empty(sandbox):
    assert sandbox.run("import sys; print(repr(sys.stdin.read()))").output == "''\n"


def test_it_cannot_write_outside_of_its_scratch_folder(sandbox):
    source = """
import os, tempfile
tempfile.NamedTemporaryFile().write(b"x")
wrote = []
for top in ("/", "/tmp", "/var/tmp", "/etc", "/usr", "/home", "/root", "/run", "/dev", "/sys",
            os.path.dirname(os.getcwd()), os.path.dirname(os.__file__)):
    try:
        open(top + "/kernel-kb-attack", "w").close()
    except OSError:
        continue
    wrote.append(top)
for path in ("/proc/sys/kernel/hostname", "/proc/self/oom_score_adj", "/dev/null/x"):
    try:
        open(path, "r+").close()
    except OSError:
        continue
    wrote.append(path)
print(wrote)
"""
    # A shared memory folder of its own is memory of its own.
    ran = sandbox.run(source)
    assert ran.output == "[]\n"


def test_shared_memory_files_stay_inside(sandbox):
    name = f"kernel-kb-test-{os.getpid()}"
    source = f"open('/dev/shm/{name}', 'w').write('x')\nprint(open('/dev/shm/{name}').read())"
    ran = sandbox.run(source)
    assert ran.output == "x\n"
    assert not Path("/dev/shm", name).exists()


def test_a_sandbox_does_not_reach_another_ones_folder(sandbox, pid_namespace):
    folder = sandbox.folder()
    (folder / "one").write_bytes(b"judge")
    (folder / "one").chmod(0o666)
    waiting = sandbox.start("channel.recv(1)", pid_namespace=pid_namespace)
    source = f"""
import os
for attempt in (lambda: open({str(folder / "one")!r}, "rb"),
                lambda: os.listdir({str(folder)!r}),
                lambda: os.listdir({str(waiting.policy.scratch)!r})):
    try:
        attempt()
        print("opened")
    except OSError:
        pass
"""
    with waiting:
        ran = sandbox.run(source, pid_namespace=pid_namespace)
        assert ran.exit.code == 0, ran.output
        assert ran.output == ""


def test_a_session_folder_lets_others_pass_but_not_look(session):
    assert stat.S_IMODE(session.stat().st_mode) == 0o711


@pytest.mark.parametrize("without", [[], ["mounts", "process namespace", "user"]])
def test_with_a_gpu_a_process_can_name_its_threads(sandbox, without):
    # CUDA does so when it starts, and gives up where it cannot.
    source = """
import threading
done = threading.Event()
other = threading.Thread(target=done.wait)
other.start()
channel.recv(1)
with open(f"/proc/self/task/{other.native_id}/comm", "w") as file:
    file.write("named")
print(open(f"/proc/self/task/{other.native_id}/comm").read().strip())
done.set()
"""
    with sandbox.start(source, gpu=True, without=without) as process:
        process.channel.sendall(b"x")
        assert process.wait(10).code == 0, process.output()
        assert process.output() == "named\n"


def test_a_loopback_of_its_own_leads_to_itself_only(sandbox, tmp_path_factory):
    place = tmp_path_factory.mktemp("judge")
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(place / "socket"))
        unix.listen()
        source = f"""
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
    print("itself")
for family, address in ((socket.AF_INET, {tcp.getsockname()!r}),
                        (socket.AF_UNIX, {str(place / "socket")!r})):
    try:
        socket.socket(family).connect(address)
        print("the judge")
    except OSError:
        pass
"""
        assert sandbox.run(source, loopback=True).output == "itself\n"
        refused = sandbox.run(source, loopback=True, without=["mounts"])
    assert "PermissionError" in refused.output
    assert "the judge" not in refused.output
