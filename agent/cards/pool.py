"""Cards lent to runs; a lost card is taken out, and its work is done on another of its kind.

A run searches in the process that lends, where its folder is; only requests to the judge reach a
card. A card that dies therefore costs the request in progress and nothing else.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel

from agent.optimize.judge_pool import Worker
from agent.optimize.judge_process import JudgeLostError
from agent.optimize.judge_requests import Request
from agent.pause import NeedsGpuError, PausedError
from judge.progress import Say
from kb.errors import KbError

R = TypeVar("R", bound=BaseModel)

# A request is tried once more on another card. If that is lost as well, the request is the cause,
# and it must not take down all cards.
_MAX_LOST: Final = 2


class CardLostError(KbError):
    """The card faults, or its machine is gone."""


class Card(Worker, Protocol):
    """One card and the judging process that holds it alone.

    Its `ask` raises `CardLostError` where the card does not work, and `JudgeError` or
    `JudgeLostError` where the request alone failed. After `cancel` it takes further requests.
    """

    name: str
    """For people, such as `node7 GPU 0`."""
    kind: str | None
    """Name of the model, as its driver reports it; None on a CPU."""


class CardPool:
    """Cards, of which a run holds one at a time; a context manager that closes them all."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self._all = list(cards)
        self._free = list(cards)
        self._changed = threading.Condition()
        self.is_cancelled = False
        """Whether `cancel` was called."""
        self.lost: list[str] = []
        """Why cards were taken out, a line each."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Card]:
        return iter(list(self._all))

    @property
    def kinds(self) -> set[str]:
        """Kinds of the cards that are left."""
        return {card.kind for card in self._all if card.kind is not None}

    def take(self, kind: str | None = None) -> Card:
        """A free card, of a kind where one is named; waits for it.

        Raises
        ------
        PausedError
            There is none left, or the pool was cancelled.
        """
        with self._changed:
            while True:
                if self.is_cancelled:
                    raise PausedError("interrupted")
                of_kind = [card for card in self._all if kind is None or card.kind == kind]
                if not of_kind:
                    why = f" ({self.lost[-1]})" if self.lost else ""
                    raise NeedsGpuError(f"no {kind or 'device'} is left{why}")
                for card in of_kind:
                    if card in self._free:
                        self._free.remove(card)
                        return card
                self._changed.wait()

    def give_back(self, card: Card) -> None:
        """Let others have a card."""
        with self._changed:
            self._free.append(card)
            self._changed.notify_all()

    def drop(self, card: Card, why: str) -> None:
        """Take out a card that is lost."""
        with self._changed:
            self._all.remove(card)
            self.lost.append(f"{card.name}: {why}")
            self._changed.notify_all()
        card.close()

    @contextmanager
    def lend(self, kind: str | None = None) -> Iterator["LentCard"]:
        """A card for one run, and others of its kind where it is lost; see `take`."""
        worker = LentCard(self, self.take(kind))
        try:
            yield worker
        finally:
            card, worker.card = worker.card, None
            if card is not None:
                self.give_back(card)

    def cancel(self) -> None:
        """End all requests in progress, from another thread; no further one is begun."""
        with self._changed:
            self.is_cancelled = True
            self._changed.notify_all()
        for card in list(self._all):
            card.cancel()

    def __enter__(self) -> "CardPool":
        return self

    def __exit__(self, *_: object) -> None:
        for card in self._all:
            card.close()


class LentCard:
    """Stands in for a `JudgeProcess`: asks a card, and another one if that is lost."""

    def __init__(self, pool: CardPool, card: Card) -> None:
        self._pool = pool
        self.card: Card | None = card
        """None once no card of its kind is left."""

    def ask(self, request: Request[R], say: Say) -> R:
        """The answer to a request, of a card of the same kind as the first.

        Raises
        ------
        JudgeError, JudgeLostError
            See `Card.ask`; or several cards were lost on this request.
        PausedError
            No card of the kind is left, or the pool was cancelled.
        """
        lost = ""
        for _ in range(_MAX_LOST):
            card = self.card
            if card is None:
                raise PausedError("the run has no device left")
            try:
                return card.ask(request, say)
            except CardLostError as error:
                lost = str(error)
                self.card = None
                self._pool.drop(card, lost)
                self.card = self._pool.take(card.kind)
            except JudgeLostError:
                if self._pool.is_cancelled:
                    raise PausedError("interrupted") from None
                raise
        raise JudgeLostError(f"{_MAX_LOST} devices were lost, the last because {lost}")

    def cancel(self) -> None:
        """See `Card.cancel`."""
        if self.card is not None:
            self.card.cancel()

    def close(self) -> None:
        """Nothing: the card outlives the run."""
