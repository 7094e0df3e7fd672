"""Nothing outlives its sandbox, its zygote or its judge; ends are told as they were."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from judge.sandbox import processes
from judge.sandbox.launch import ExitReason, SandboxError, Zygote
from judge.sandbox.policy import Policy
from tests.judge.sandbox.conftest import SCRIPT, Sandbox

# A daemon as daemons are made: two forks, a session of its own; its heart beats in a file.
DAEMON = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        while True:
            with open("beats", "a") as file:
                file.write("x")
            time.sleep(0.01)
    os._exit(0)
os.wait()
while not os.path.exists("beats"):
    time.sleep(0.01)
channel.sendall(b"up")
"""
SLEEP = "\ntime.sleep(60)\n"


def beats(scratch: Path) -> int:
    return (scratch / "beats").stat().st_size


def is_dead(scratch: Path) -> bool:
    before = beats(scratch)
    time.sleep(0.2)
    return beats(scratch) == before


def test_a_daemon_ends_with_the_process_that_left_it(sandbox, pid_namespace):
    scratch = sandbox.folder()
    ran = sandbox.run(DAEMON, scratch=scratch, pid_namespace=pid_namespace)
    assert (ran.answer, ran.exit.reason, ran.exit.code) == ("up", ExitReason.EXITED, 0)
    assert is_dead(scratch)


def test_kill_ends_a_daemon_and_names_the_reason(sandbox, pid_namespace):
    scratch = sandbox.folder()
    process = sandbox.start(DAEMON + SLEEP, scratch=scratch, pid_namespace=pid_namespace)
    assert process.channel.recv(2) == b"up"
    assert not is_dead(scratch)
    began = time.monotonic()
    ended = process.kill(ExitReason.TIME)
    assert time.monotonic() - began < 3
    assert ended.reason is ExitReason.TIME
    assert is_dead(scratch)
    assert process.kill(ExitReason.MEMORY) == ended, "the first reason counts"


def test_closing_the_zygote_ends_a_daemon(session, pid_namespace):
    with Zygote(torch=False) as zygote:
        sandbox = Sandbox(zygote, session / f"close{pid_namespace}")
        sandbox.session.mkdir(mode=0o711)
        scratch = sandbox.folder()
        process = sandbox.start(DAEMON + SLEEP, scratch=scratch, pid_namespace=pid_namespace)
        assert process.channel.recv(2) == b"up"
    assert is_dead(scratch)
    assert process.exit.reason is ExitReason.KILLED


def test_a_killed_zygote_takes_everything_along(session, pid_namespace):
    with Zygote(torch=False) as zygote:
        sandbox = Sandbox(zygote, session / f"lost{pid_namespace}")
        sandbox.session.mkdir(mode=0o711)
        scratch = sandbox.folder()
        process = sandbox.start(DAEMON + SLEEP, scratch=scratch, pid_namespace=pid_namespace)
        assert process.channel.recv(2) == b"up"
        time.sleep(0.3)  # so that the watch has seen the daemon
        os.kill(zygote.pid, signal.SIGKILL)
        assert process.wait(10).reason is ExitReason.LOST
        assert is_dead(scratch)
        with pytest.raises(SandboxError, match="zygote"):
            zygote.spawn(SCRIPT, Policy(scratch=scratch))


def test_a_killed_judge_takes_everything_along(session, pid_namespace, until):
    place = session / f"judge{pid_namespace}"
    place.mkdir(mode=0o711)
    judge = f"""
    import sys, time
    from pathlib import Path
    from judge.sandbox.launch import Zygote
    from tests.judge.sandbox.conftest import Sandbox
    from tests.judge.sandbox.test_lifetime import DAEMON, SLEEP
    zygote = Zygote(torch=False)
    sandbox = Sandbox(zygote, Path({str(place)!r}))
    process = sandbox.start(DAEMON + SLEEP, pid_namespace={pid_namespace})
    assert process.channel.recv(2) == b"up"
    print(process.policy.scratch, zygote.pid, flush=True)
    time.sleep(60)
    """
    root = Path(__file__).resolve().parents[3]
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(judge)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    with running:
        scratch, zygote = running.stdout.readline().split()
        assert not is_dead(Path(scratch))
        running.kill()
    assert until(lambda: not processes.parent(int(zygote)), 5)
    assert is_dead(Path(scratch))


def test_killing_the_parent_process_frees_nobody(sandbox, pid_namespace):
    source = DAEMON + "\ntry:\n    os.kill(os.getppid(), signal.SIGKILL)\nexcept OSError:\n    pass"
    scratch = sandbox.folder()
    process = sandbox.start(source + SLEEP, scratch=scratch, pid_namespace=pid_namespace)
    assert process.channel.recv(2) == b"up"
    process.kill()
    assert is_dead(scratch)


@pytest.mark.parametrize(
    ("source", "code", "number"),
    [
        ("pass", 0, None),
        ("raise SystemExit(3)", 3, None),
        ("import os; os._exit(200)", 200, None),
        ("1 / 0", 1, None),
        ("import os; os.abort()", None, signal.SIGABRT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", None, signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None, signal.SIGKILL),
    ],
)
def test_ends_are_told_as_they_were(sandbox, pid_namespace, source, code, number):
    ended = sandbox.run(source, pid_namespace=pid_namespace).exit
    assert (ended.reason, ended.code, ended.signal) == (ExitReason.EXITED, code, number)


def test_a_traceback_is_in_the_output(sandbox):
    assert "ZeroDivisionError" in sandbox.run("1 / 0").output


def test_only_known_functions_and_existing_folders_are_accepted(sandbox):
    scratch = sandbox.folder()
    with pytest.raises(SandboxError, match="os:system"):
        sandbox.zygote.spawn("os:system", Policy(scratch=scratch))
    with pytest.raises(SandboxError, match="missing"):
        sandbox.zygote.spawn(SCRIPT, Policy(scratch=scratch / "missing"))


def test_a_program_can_take_the_place_of_the_process(sandbox):
    source = "import os\nos.execvp('sh', ['sh', '-c', 'echo $GREETING; exit 4'])\n"
    with sandbox.start(source, environment={"GREETING": "hi"}) as process:
        assert process.wait(10).code == 4
        assert process.output() == "hi\n"


def test_a_process_with_many_descriptors_open_can_start_sandboxes() -> None:
    """`select.select` would end at descriptor 1,023, which a server with many clients passes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] < 1100:
            taken.append(os.dup(taken[0]))
        with Zygote(torch=False) as zygote:
            assert zygote is not None
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
