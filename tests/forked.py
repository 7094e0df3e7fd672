"""Tests in several processes, forked from the one that collected them: `--workers`.

So they share what it loads, six seconds of processor time. A worker runs whole files, in the order
of the collection. If it dies, the test that ran fails, and a new worker runs the rest of the file.
"""

import atexit
import gc
import importlib
import itertools
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection, wait

import pytest
from _pytest.capture import FDCapture, MultiCapture
from _pytest.runner import runtestprotocol

# What nearly all workers would load, for two seconds of processor time each. Not chromadb, whose
# runtime of threads is not made to be forked.
PRELOADED = ("torch._dynamo", "torch._inductor")
FORK = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="Run tests in so many processes.")


class Worker:
    """A process that runs the tests at the places it is given, and the parent's end of its pipe."""

    def __init__(self, session: pytest.Session, name: str, others: list["Worker"]) -> None:
        self.name, self.places = name, range(0)
        self.pipe, theirs = FORK.Pipe()
        closed = [self.pipe, *(other.pipe for other in others)]
        self.process = FORK.Process(target=_work, args=(session, name, theirs, closed))
        self.process.start()
        theirs.close()

    def give(self, places: range) -> None:
        self.places = places
        self.pipe.send(places)

    def end(self, items: list[pytest.Item]) -> list[pytest.TestReport]:
        """What is to be reported of a process that ended: nothing if it had run what it was given.

        What fixtures of the session raise at its end is on the standard error.
        """
        self.process.join()
        why = f"{self.name} ended with status {self.process.exitcode}"
        nodeid, location, when = self.name, (self.name, None, self.name), "teardown"
        if self.places:
            item = items[self.places[0]]
            nodeid, location, when = item.nodeid, item.location, "call"
        elif not self.process.exitcode:
            return []
        return [pytest.TestReport(nodeid, location, {}, "failed", why, when)]


class _Sender:
    """In a worker: sends the reports of a test instead of printing them."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item) -> bool:
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        serializable = item.config.hook.pytest_report_to_serializable
        self.pipe.send([serializable(config=item.config, report=report) for report in reports])
        return True


def _work(session: pytest.Session, name: str, pipe: Connection, closed: list[Connection]) -> None:
    for each in closed:  # or a worker would not notice that the parent is gone
        each.close()
    os.environ["PYTEST_WORKER"] = name
    config, temporary = session.config, session.config._tmp_path_factory
    capture = config.pluginmanager.getplugin("capturemanager")
    parents, capture._global_capturing = capture._global_capturing, None
    capture.start_global_capturing()
    # Modules that were imported while the parent captured may hold its sys.stderr: what they write
    # there is this worker's. All workers would share that file.
    for theirs, own in zip(_captures(parents), _captures(capture._global_capturing), strict=True):
        os.dup2(own.tmpfile.fileno(), theirs.tmpfile.fileno())
    capture.suspend_global_capture(in_=True)
    temporary._basetemp = temporary.getbasetemp() / name
    temporary._basetemp.mkdir()
    config.pluginmanager.register(_Sender(pipe))
    try:
        while places := pipe.recv():
            for place in places:
                # Behind the last test of a file only what is the session's is kept.
                after = session.items[place + 1] if place + 1 in places else session
                config.hook.pytest_runtest_protocol(item=session.items[place], nextitem=after)
    except (KeyboardInterrupt, OSError, EOFError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        session._setupstate.teardown_exact(None)


def _captures(capture: MultiCapture[str]) -> list[FDCapture]:
    return [each for each in (capture.out, capture.err) if isinstance(each, FDCapture)]


def _leave(session: pytest.Session, pid: int) -> None:
    """End at once: giving back all that was loaded takes three seconds."""
    if os.getpid() == pid:
        sys.stdout.flush()
        os._exit(session.exitstatus)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config, hook, items = session.config, session.config.hook, session.items
    if not config.option.workers or session.testsfailed or config.option.collectonly:
        return None
    for module in () if config.option.fast else PRELOADED:
        importlib.import_module(module)
    gc.freeze()
    atexit.register(_leave, session, os.getpid())  # before what clears folders, to run after it
    config._tmp_path_factory.getbasetemp()
    groups = itertools.groupby(range(len(items)), lambda at: items[at].nodeid.partition("::")[0])
    files = (range((places := list(group))[0], places[-1] + 1) for _, group in groups)
    names = (f"worker-{number}" for number in itertools.count())
    load = hook.pytest_report_from_serializable
    workers: list[Worker] = []

    def start(places: range) -> None:
        workers.append(Worker(session, next(names), workers))
        workers[-1].give(places)

    try:
        for _ in range(config.option.workers):
            start(next(files, range(0)))
        while workers:
            ready = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                try:
                    reports = [load(config=config, data=data) for data in worker.pipe.recv()]
                except (EOFError, ConnectionError):
                    workers.remove(worker)
                    reports = worker.end(items)
                    if worker.places:
                        start(worker.places[1:] or next(files, range(0)))
                else:
                    if len(worker.places) > 1:
                        worker.places = worker.places[1:]
                    else:
                        worker.give(next(files, range(0)))
                for report in reports:
                    hook.pytest_runtest_logreport(report=report)
            if stop := session.shouldfail or session.shouldstop:
                raise session.Failed(stop)
    finally:
        for worker in workers:  # they are interrupted, so that fixtures end
            os.kill(worker.process.pid, signal.SIGINT)
        for worker in workers:
            worker.process.join(timeout=20)
            worker.process.kill()
    return True
