"""The process that checking processes fork from: loading PyTorch takes longer than most checks.

Started by `kb.verify.origin` as `python -m kb.verify.forking FD`. Takes one packet on the socket FD
for each process, the name of a module with three descriptors (stdin, stdout, stderr). The fork runs
the module's `main`, in a session of its own. Answers two packets: its process id, and when it has
ended, its exit status (minus the signal's number).
"""

import contextlib
import gc
import importlib
import os
import socket
import sys
import warnings

_PACKET_BYTES = 1 << 12


def main() -> None:
    """Fork a process for each packet until the socket ends."""
    parent = socket.socket(fileno=int(sys.argv[1]))
    parent.set_inheritable(False)
    gc.disable()  # nothing that is loaded is garbage: a search for some takes a sixth of the time
    with contextlib.suppress(ImportError):  # a missing package is a finding of every kernel
        importlib.import_module("torch")
        importlib.import_module("kb.verify.compare")
    gc.freeze()
    gc.enable()
    # Python 3.12 warns of forks beside threads; those of NumPy are restored in the child.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
    while True:
        packet, handles, _, _ = socket.recv_fds(parent, _PACKET_BYTES, 3)
        if not packet:
            return
        child = os.fork()
        if child == 0:
            parent.close()
            _become(packet.decode(), handles)
        for handle in handles:
            os.close(handle)
        parent.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        parent.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(module: str, handles: list[int]) -> None:
    """Run a module's `main` and end as a process that was started for it would."""
    os.setsid()  # so that what it starts can be ended with it
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    status = 1
    try:
        importlib.import_module(module).main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
