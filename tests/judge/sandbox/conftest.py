"""A zygote without torch, and short ways to run a script in a sandbox."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from judge.sandbox.launch import Exit, Sandboxed, Zygote, session_folder
from judge.sandbox.layers import LayerName
from judge.sandbox.policy import Policy
from judge.sandbox.script import request

SCRIPT = "judge.sandbox.script:main"


@dataclass
class Ran:
    """A script that came to its end."""

    exit: Exit
    output: str
    answer: str  # what it sent over the channel
    process: Sandboxed


class Sandbox:
    """Runs scripts, each in a sandbox of its own with a new scratch folder."""

    def __init__(self, zygote: Zygote, session: Path) -> None:
        self.zygote, self.session = zygote, session
        self._numbers = itertools.count()

    def folder(self, name: str = "scratch") -> Path:
        folder = self.session / f"{name}{next(self._numbers)}"
        folder.mkdir(mode=0o700)
        return folder

    def start(self, source: str, *, pid_namespace: bool = True, **policy: object) -> Sandboxed:
        policy.setdefault("scratch", self.folder())
        if not pid_namespace:
            policy["without"] = {LayerName.PROCESSES, *policy.get("without", ())}
        process = self.zygote.spawn(SCRIPT, Policy.model_validate(policy))
        process.channel.sendall(request(source))
        return process

    def run(self, source: str, timeout: float = 60, **policy: object) -> Ran:
        with self.start(source, **policy) as process:
            process.channel.settimeout(timeout)
            with process.channel.makefile() as answer:
                text = answer.read()
            ended = process.wait(timeout)
            assert ended is not None, process.output()
            return Ran(ended, process.output(), text, process)


@pytest.fixture(scope="module")
def session() -> Iterator[Path]:
    # Not below pytest's own folder, which only its owner may pass through.
    folder = session_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def sandbox(session: Path) -> Iterator[Sandbox]:
    with Zygote(torch=False) as zygote:
        yield Sandbox(zygote, session)


@pytest.fixture(params=[True, False], ids=["process namespace", "subreaper"])
def pid_namespace(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def until() -> Callable[[Callable[[], object], float], bool]:
    """Wait until a condition holds."""
    import time

    def wait(condition: Callable[[], object], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return bool(condition())

    return wait
