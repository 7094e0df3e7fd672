"""The record of every exchange with a model, `llm/NNNN.json` of a run folder, and its replay.

Exchanges belong to conversations (`r02.coder.1`), whose turns follow each other; conversations run
side by side, so order is kept within each of them. Files hold bodies of requests and replies and
no headers, so no key is in them.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from agent.endpoint.batch import digest_of
from agent.endpoint.errors import ReplayError, one_line
from agent.optimize.files import write_atomically
from agent.optimize.proposers import Spending
from judge.evaluate.result import Model

FOLDER = "llm"
_MARK = re.compile(r"-----[0-9a-f]{12} ")
_SHOWN = 60  # characters of a difference: enough to see what it is about


class Failure(Model):
    """Why a request has no reply."""

    kind: str
    """Name of the error's class in `agent.endpoint.errors`."""
    message: str
    status_code: int | None = None
    detail: str = ""


class Exchange(Model):
    """One request and its reply or failure."""

    number: int = 0
    """Of its file; they count up in the order in which exchanges ended."""
    conversation: str
    turn: int
    """Within the conversation, from 0."""
    model: str
    url: str
    """Of the endpoint, without credentials."""
    time: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """When it ended."""
    digest: str
    """Of the request."""
    request: dict[str, Any]
    """Its body, without the model's name."""
    reply: dict[str, Any] | None = None
    """Its body."""
    failure: Failure | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False
    """The endpoint did not count: assumed from the lengths."""
    money: float | None = None
    seconds: float = 0.0
    retries: int = 0
    replayed: bool = False
    """It was taken from another run's record, and cost nothing."""

    @property
    def spending(self) -> Spending:
        """What it cost."""
        money = self.money or 0.0
        return Spending(tokens_in=self.tokens_in, tokens_out=self.tokens_out, money=money)


def read_exchanges(run: Path) -> list[Exchange]:
    """All exchanges of a run folder, in order; none if it has no record.

    Raises
    ------
    ReplayError
        A file is damaged.
    """
    exchanges = []
    for path in sorted((run / FOLDER).glob("[0-9]*.json"), key=lambda path: int(path.stem)):
        try:
            exchanges.append(Exchange.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError) as error:
            raise ReplayError(f"{path} is damaged: {one_line(error, 200)}") from error
    return exchanges


def spent_in(exchanges: Iterable[Exchange]) -> Spending:
    """What recorded exchanges cost."""
    return sum((exchange.spending for exchange in exchanges if not exchange.replayed), Spending())


def write_exchange(run: Path, exchange: Exchange) -> None:
    """Add an exchange to a run folder under its number.

    Raises
    ------
    RunFolderError
        The disk is full, or the folder cannot be written.
    """
    text = exchange.model_dump_json(indent=1) + "\n"
    write_atomically(run / FOLDER / f"{exchange.number:04d}.json", text)


class Past:
    """Recorded exchanges by conversation and turn.

    Where a turn was recorded twice, because a run was resumed, the later one counts.
    """

    def __init__(self, exchanges: Iterable[Exchange], *, exact: bool = True) -> None:
        self._turns = {(exchange.conversation, exchange.turn): exchange for exchange in exchanges}
        self.searches = any("tools" in turn.request for turn in self._turns.values())
        """Whether tools were offered in any request."""
        self._diverged: set[str] = set()
        self._exact = exact
        self.differing = 0
        """Requests that `replay` answered although they were not those of the record."""

    def last_request(self, conversation: str) -> Mapping[str, Any] | None:
        """The last request of a conversation; None if it has none."""
        turns = [turn for name, turn in self._turns if name == conversation]
        return self._turns[conversation, max(turns)].request if turns else None

    def reusable(self, exchange: Exchange) -> Exchange | None:
        """What an interrupted run already has of this request, if it is the same one.

        A failure is used again only if the conversation went on after it: then it told what the
        endpoint does not support. Others may have passed since.
        """
        name, turn = exchange.conversation, exchange.turn
        if name in self._diverged:
            return None
        earlier = self._turns.get((name, turn))
        if (
            earlier is not None
            and (earlier.digest, earlier.model) == (exchange.digest, exchange.model)
            and (earlier.reply or (name, turn + 1) in self._turns)
        ):
            return earlier
        # From here on the conversation takes another course than it did.
        self._diverged.add(name)
        return None

    def replay(self, conversation: str, turn: int, request: Mapping[str, Any]) -> Exchange:
        """The exchange that has to come next.

        Raises
        ------
        ReplayError
            There is none, or (if `exact`) its request was another one.
        """
        exchange = self._turns.get((conversation, turn))
        place = f"request {turn + 1} of '{conversation}'"
        if exchange is None:
            raise ReplayError(f"the replay diverges: the record has no {place}")
        if exchange.digest == digest_of(request):
            return exchange
        if self._exact:
            where = difference(exchange.request, request)
            raise ReplayError(
                f"the replay diverges at {place} ({FOLDER}/{exchange.number:04d}.json): {where}"
            )
        self.differing += 1
        return exchange

    def tool_answer(self, conversation: str, turn: int, call: str) -> str | None:
        """What a tool answered to the call of this id, as request `turn` has it."""
        exchange = self._turns.get((conversation, turn))
        for message in exchange.request.get("messages", []) if exchange is not None else []:
            if message.get("role") == "tool" and message.get("tool_call_id") == call:
                return str(message["content"])
        return None


def difference(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """Where two requests differ first, in words."""
    for key in sorted({*recorded, *current} - {"messages"}):
        if recorded.get(key) != current.get(key):
            return f"'{key}' is not as recorded"
    before, now = recorded.get("messages", []), current.get("messages", [])
    for number, (old, new) in enumerate(zip(before, now, strict=False)):
        if old != new:
            one, other = _first_difference(str(old.get("content")), str(new.get("content")))
            return f"message {number + 1} has '{other}' where the record has '{one}'"
    return f"{len(now)} messages instead of {len(before)}"


def _first_difference(recorded: str, current: str) -> tuple[str, str]:
    """The first lines that differ; marks of quotations differ with what they hold."""
    pairs = list(itertools.zip_longest(recorded.splitlines(), current.splitlines(), fillvalue=""))
    differing = [(old, new) for old, new in pairs if old != new]
    informative = [pair for pair in differing if not all(_MARK.match(line) for line in pair)]
    old, new = (informative or differing or [("", "")])[0]
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    at = sum(1 for _ in same)
    start = max(at - _SHOWN // 2, 0)
    return one_line(old[start : start + _SHOWN]), one_line(new[start : start + _SHOWN])
