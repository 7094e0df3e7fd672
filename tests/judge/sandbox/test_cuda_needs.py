"""What CUDA does when it starts, and fails without: seen with a driver 580 on an H200."""

import json

import pytest

START = """
import json, socket, threading
found = {}

def attempt(name, action):
    try:
        action()
        found[name] = "ok"
    except OSError as error:
        found[name] = type(error).__name__ + " " + str(error.errno)

def rename():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write("cuda")

def offer():
    place = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    place.bind("\\0cuda-uvmfd-test")
    place.listen(1)
    attempt("connect", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(
        "\\0cuda-uvmfd-test"))

def configure():
    with open("/proc/sys/kernel/core_pattern", "w") as file:
        file.write("x")

attempt("rename", rename)
attempt("offer", offer)
attempt("configure", configure)
channel.sendall(json.dumps(found).encode())
"""


@pytest.fixture(scope="module")
def found(sandbox):
    ran = sandbox.run(START, gpu=True)
    assert ran.answer, ran.output
    return json.loads(ran.answer)


def test_it_names_its_threads_through_proc(found):
    assert found["rename"] == "ok"


def test_it_offers_a_unix_socket_that_nothing_inside_can_connect_to(found):
    assert found["offer"] == "ok"
    assert found["connect"] != "ok"


def test_the_settings_of_the_machine_stay_closed(found):
    assert found["configure"] != "ok"
