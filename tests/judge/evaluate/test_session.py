"""The judge's handle on workers that misbehave: it never hangs, and says what happened."""

import socket
import threading
import time

import pytest
import torch

from judge.evaluate.exchange import Exchange
from judge.evaluate.session import (
    CommandFailedError,
    Session,
    Worker,
    WorkerDiedError,
    WorkerTimedOutError,
)
from judge.sandbox.launch import Exit, ExitReason
from judge.sandbox.layers import Layer
from judge.worker import messages as m
from tests.judge.worker.little import (
    SOFTMAX,
    load_kernel,
    load_problem,
    make_inputs,
    outputs_of,
    share,
)

CHANNEL = """
import os, socket, stat

def channel():
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                return socket.socket(fileno=os.dup(number))
        except OSError:
            pass
"""


def call(evaluation: Session, body: str, before: str = "", timeout: float = 60.0) -> Worker:
    """Call a candidate whose function has this body; the worker it ran in."""
    problem, _ = load_problem(evaluation, SOFTMAX)
    given = make_inputs(evaluation, problem)
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"import torch\n{before}\ndef kernel_function(x):\n{lines}\n    return x + 1\n"
    candidate, _ = load_kernel(evaluation, source)
    candidate.call(share(candidate, given), timeout=timeout)
    return candidate


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("import sys; sys.exit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise BaseException('base')", "BaseException"),
        ("def f(): f()\nf()", "RecursionError"),
        ("x.data_ptr.nonsense", "AttributeError"),
        (
            "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "signal.raise_signal(signal.SIGINT)",
            "KeyboardInterrupt",
        ),
    ],
)
def test_whatever_a_candidate_raises_is_a_failed_command(
    evaluation: Session, body: str, kind: str
) -> None:
    with pytest.raises(CommandFailedError) as caught:
        call(evaluation, body)
    assert caught.value.kind.startswith(kind)


def test_a_worker_goes_on_after_a_failed_command(evaluation: Session) -> None:
    candidate, _ = load_kernel(
        evaluation,
        """
import signal
calls = 0

def kernel_function(x):
    global calls
    calls += 1
    if calls == 1:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        raise ValueError("the first call fails\\n" + "and tells much about it " * 1000)
    return x + calls
""",
    )
    problem, _ = load_problem(evaluation, SOFTMAX)
    arguments = share(candidate, make_inputs(evaluation, problem))
    with pytest.raises(CommandFailedError) as caught:
        candidate.call(arguments)
    assert len(caught.value.message) <= m.MAX_ERROR_CHARS
    assert "\n" not in str(caught.value)
    time.sleep(0.3)  # the timer that it set would have gone off by now
    assert candidate.alive
    assert candidate.call(arguments).outputs[0].shape == (8, 20)


UNPRINTABLE = """
class Bad(Exception):
    def __str__(self):
        raise RuntimeError("no")

"""


def test_an_exception_that_cannot_be_printed_is_reported(evaluation: Session) -> None:
    with pytest.raises(CommandFailedError, match="Bad: its message cannot be printed"):
        call(evaluation, "raise Bad", UNPRINTABLE)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os._exit(3)", "exited with code 3"),
        ("os.kill(os.getpid(), 9)", "died of SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "died of SIGSEGV"),
        ("os.closerange(3, 4096)", "exited|closed its channel"),
        ("channel().sendall(b'{}\\n')", "invalid reply|more than one"),
        ("channel().sendall(b'\\xff\\x00garbage\\n')", "invalid reply|more than one"),
        ("channel().sendall(b'[' * 100000 + b'\\n')", "invalid reply|more than one"),
        ("channel().sendall(b'x' * (2 << 20) + b'\\n')", "longer than 1048576 bytes"),
        (
            'channel().sendall(b\'{"id":1,"ok":true}\\n{"id":2,"ok":true}\\n\')',
            "more than one reply",
        ),
        (
            'channel().sendall(b\'{"id":999,"ok":true,"call":1,"outputs":[]}\\n\')',
            "invalid reply|more than one",
        ),
    ],
)
def test_a_worker_that_ends_or_sends_nonsense_is_ended(
    evaluation: Session, body: str, reason: str
) -> None:
    with pytest.raises(WorkerDiedError, match=reason):
        call(evaluation, body, CHANNEL)


def test_a_forged_reply_to_a_later_command_is_noticed(evaluation: Session) -> None:
    # The forger waits until the true reply is gone, so that the forged one comes unasked.
    thread = """
import threading, time
def later():
    time.sleep(0.3)
    channel().sendall(b'{"id":4,"ok":true}\\n')
threading.Thread(target=later, daemon=True).start()
"""
    candidate = call(evaluation, thread, CHANNEL)
    time.sleep(0.8)
    with pytest.raises(WorkerDiedError, match="it sent an unexpected message"):
        candidate.drop()
    assert not candidate.alive
    with pytest.raises(WorkerDiedError, match="unexpected message"):
        candidate.drop()


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nwhile True: pass",
    ],
)
def test_a_call_that_does_not_return_is_ended_in_time(evaluation: Session, body: str) -> None:
    start = time.monotonic()
    with pytest.raises(WorkerTimedOutError, match="call took more than 1 s"):
        call(evaluation, body, timeout=1.0)
    assert time.monotonic() - start < 15


def test_prints_do_not_reach_the_channel(evaluation: Session) -> None:
    body = "import os\nprint('{}')\nos.write(1, b'direct\\n')\nos.system('echo from a child')"
    candidate = call(evaluation, body)
    assert candidate.alive
    # A thread of the judge reads what is printed.
    deadline = time.monotonic() + 20
    while "from a child" not in candidate.process.output():
        assert time.monotonic() < deadline, candidate.process.output()
        time.sleep(0.01)
    for text in ("{}", "direct"):
        assert text in candidate.process.output()


def test_temporary_files_can_be_written(evaluation: Session) -> None:
    # The process that workers fork from has looked its own temporary folder up before.
    assert call(evaluation, "import tempfile\ntempfile.mkdtemp()").alive


def test_a_candidate_finds_no_problem_file_in_its_process(evaluation: Session) -> None:
    text = SOFTMAX + "\nsecret_of_the_reference = 8731\n"
    problem, _ = load_problem(evaluation, text)
    source = """
import gc, os

def search():
    wanted = "".join(["secret_of", "_the_reference"])  # found nowhere in this file
    found = []
    for each in gc.get_objects():
        if isinstance(each, (dict, list, tuple, set)) and len(each) < 10000:
            parts = [*each, *each.values()] if type(each) is dict else list(each)
            found += [1 for part in parts if type(part) is str and wanted in part]
            found += [1 for part in parts if type(part) is bytes and wanted.encode() in part]
    for folder, _, names in os.walk(os.path.dirname(os.getcwd())):
        for name in names:
            try:
                with open(os.path.join(folder, name), errors="replace") as file:
                    found += [name for line in file if wanted in line]
            except OSError:
                pass
    return found

found = search()

def kernel_function(x):
    return x + len(found)
"""
    given = make_inputs(evaluation, problem)
    candidate, _ = load_kernel(evaluation, source)
    called = candidate.call(share(candidate, given))
    (actual,) = outputs_of(evaluation, candidate, called, "out")
    assert torch.equal(actual, given.tensors[0])


def test_many_buffers_are_opened_in_one_go(evaluation: Session) -> None:
    worker = evaluation.worker("candidate")
    spec = m.TensorSpec(shape=(2,), dtype="float32")
    lent = [evaluation.buffers.allocate(f"b{index}", spec) for index in range(150)]
    worker.open(lent)
    lent[149].tensor.copy_(torch.tensor([1.0, 2.0]))
    command = m.LoadKernel(
        source="def kernel_function(x):\n    return x * 2\n",
        module_name="kernel",
        form="kernel_function",
        device="cpu",
        input_names=["x"],
    )
    worker.load_kernel(command)
    called = worker.call([m.BufferArgument(buffer="b149")])
    worker.fetch(["b0"], call=called.call)
    assert lent[0].tensor.tolist() == [2.0, 4.0]
    worker.close_buffers(["b149"])
    with pytest.raises(CommandFailedError, match="no buffer 'b149' is open"):
        worker.call([m.BufferArgument(buffer="b149")])


class Silent:
    """A process whose channel nobody reads."""

    pid = 1
    layers: list[Layer] = []  # noqa: RUF012
    exit: Exit | None = None

    def __init__(self) -> None:
        self.channel, self.other = socket.socketpair()

    def output(self) -> str:
        return ""

    def kill(self, reason: ExitReason = ExitReason.KILLED) -> Exit:
        self.exit = Exit(reason, None, 9)
        return self.exit


def test_a_worker_that_does_not_read_cannot_hold_the_judge_up() -> None:
    process = Silent()
    command = m.LoadKernel(source="#" * (4 << 20), module_name="k", form="cuda", device="cpu")
    start = time.monotonic()
    with pytest.raises(WorkerTimedOutError):
        Exchange(process, "candidate").ask(command, m.Kernel, 0.3)
    assert time.monotonic() - start < 3
    assert process.exit is not None
    assert process.exit.reason is ExitReason.TIME


def test_a_reply_that_trickles_in_is_bounded_by_the_whole_limit() -> None:
    process = Silent()
    stop = threading.Event()

    def trickle() -> None:
        process.other.recv(1)  # the command has come
        while not stop.wait(0.05):
            process.other.send(b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        start = time.monotonic()
        with pytest.raises(WorkerTimedOutError):
            Exchange(process, "candidate").ask(m.Drop(), m.Done, 0.5)
        assert 0.4 < time.monotonic() - start < 3
    finally:
        stop.set()
        thread.join()
