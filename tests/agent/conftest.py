"""Sandboxed workers for the tests of the judge: one process to fork from, a session per test."""

from collections.abc import Iterator

import pytest

from agent.evaluate.session import Session
from agent.sandbox.launch import Zygote


@pytest.fixture(scope="session")
def interpreting() -> Iterator[Zygote]:
    """Has torch and Triton's interpreter loaded: workers start in a tenth of a second."""
    with Zygote(interpret=True) as zygote:
        yield zygote


@pytest.fixture
def evaluation(interpreting: Zygote) -> Iterator[Session]:
    """A session on the CPU."""
    with Session("cpu", zygote=interpreting) as session:
        yield session
