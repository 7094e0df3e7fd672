"""Answers requests to the model from a record or through the ledger and endpoint; records all."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.endpoint import errors
from agent.endpoint.batch import BatchEndpoint, digest_of
from agent.endpoint.client import Completion, Endpoint
from agent.endpoint.errors import CancelledError, EndpointError, LlmError, ReplayError
from agent.optimize.proposers import Spending
from agent.pause import WaitingError
from agent.proposers.llm.accounting import Charge, Ledger, Price
from agent.proposers.llm.record import (
    Exchange,
    Failure,
    Past,
    read_exchanges,
    spent_in,
    write_exchange,
)


class Gateway:
    """Sends requests of conversations, and keeps account and record of them.

    Use `open_live` or `open_replay`. Safe to use from several threads, one a conversation.
    """

    def __init__(
        self,
        endpoint: Endpoint | BatchEndpoint | None,
        run: Path,
        recorded: Sequence[Exchange],
        ledger: Ledger,
        past: Past,
    ) -> None:
        self._endpoint, self._run, self._ledger = endpoint, run, ledger
        self._number = max((exchange.number for exchange in recorded), default=0)
        # A run holds the lock of its folder, so its threads alone write here.
        self._recording = threading.Lock()
        self._cancelled = threading.Event()
        self.past = past
        """What is recorded already: of this run before it was interrupted, or of the replayed."""
        self._url = endpoint.url if endpoint else ""
        self.model = endpoint.model if endpoint else ""
        """The model's name; in a replay that of the recorded one."""

    @classmethod
    def open_live(
        cls,
        endpoint: Endpoint | BatchEndpoint,
        run: Path,
        *,
        price: Price | None = None,
        max_tokens: int | None = None,
        max_money: float | None = None,
    ) -> "Gateway":
        """A gateway to an endpoint. What `run` has of an interrupted round is used again.

        Raises
        ------
        InvalidInputError
            Money is limited, but the price is not known.
        ReplayError
            The run's record is damaged.
        """
        record = read_exchanges(run)
        if price is not None and isinstance(endpoint, BatchEndpoint):
            price = price.batch_price
        ledger = Ledger(price, max_tokens=max_tokens, max_money=max_money, already=spent_in(record))
        return cls(endpoint, run, record, ledger, Past(record))

    @classmethod
    def open_replay(cls, recorded: Path, run: Path, *, exact: bool = True) -> "Gateway":
        """A gateway that answers from the record of another run; `run` records it again.

        `exact` compares each request with the recorded one. Without it replies are taken in their
        order, and `summary` says how many requests differed: for where times are measured anew,
        since prompts hold them.

        Raises
        ------
        ReplayError
            There is no record, or it is damaged.
        """
        exchanges = read_exchanges(recorded)
        if not exchanges:
            raise ReplayError(f"{recorded} holds no recorded model replies to replay")
        past = Past(exchanges, exact=exact)
        gateway = cls(None, run, read_exchanges(run), Ledger(), past)
        gateway.model, gateway._url = exchanges[0].model, exchanges[0].url
        return gateway

    @property
    def waits(self) -> bool:
        """Whether replies arrive as files, for a later process."""
        return isinstance(self._endpoint, BatchEndpoint)

    @property
    def searches(self) -> bool | None:
        """In a replay, whether the recorded run could search an index; None otherwise."""
        return None if self._endpoint is not None else self.past.searches

    @property
    def spent(self) -> Spending:
        """By this process; in a replay what the recorded run had spent for the same."""
        return self._ledger.spent

    @property
    def counts_money(self) -> bool:
        """Whether the model's price is known, or there is nothing to pay."""
        return self._endpoint is None or self._ledger.price is not None

    def summary(self) -> str:
        """What the run spent, in words."""
        if self._endpoint is None:
            words = "replayed from a record at no cost"
            if self.past.differing:
                words += f"; {self.past.differing} requests differed from the record"
            return words
        return self._ledger.summary()

    def send(self, conversation: str, turn: int, request: Mapping[str, Any]) -> Completion:
        """The answer to request `turn` of a conversation.

        Raises
        ------
        EndpointError
            No usable reply came.
        BudgetSpentError
            It was not sent, since it could exceed a limit.
        ReplayError
            The record holds no such request.
        WaitingError
            Replies come by files, and this one is not there yet; nothing is recorded.
        CancelledError
            The run is being ended.
        RunFolderError
            The exchange cannot be recorded.
        """
        if self._cancelled.is_set():
            raise CancelledError("the run is being ended")
        if self._endpoint is None:
            return self._replay(conversation, turn, request)
        exchange = Exchange(
            conversation=conversation,
            turn=turn,
            model=self.model,
            url=self._url,
            digest=digest_of(request),
            request=dict(request),
        )
        earlier = self.past.reusable(exchange)
        if earlier is None:
            return self._send_live(self._endpoint, exchange)
        if earlier.failure is None:
            self._ledger.carry_over(earlier.spending)
        return _recorded_reply(earlier)

    def tool_answer(self, conversation: str, turn: int, call: str) -> str | None:
        """In a replay, what a tool answered, so that it needs no index; None otherwise."""
        if self._endpoint is not None:
            return None
        return self.past.tool_answer(conversation, turn, call)

    def close(self) -> None:
        """Send nothing more, and record nothing more."""
        self._cancelled.set()
        if self._endpoint is not None:
            self._endpoint.close()

    def _send_live(self, endpoint: Endpoint | BatchEndpoint, exchange: Exchange) -> Completion:
        text = json.dumps(exchange.request, ensure_ascii=False)
        limit = int(exchange.request.get("max_completion_tokens") or exchange.request["max_tokens"])
        charge: Charge | None = None
        try:
            reservation = self._ledger.reserve(text, limit)
        except LlmError as error:
            self._write(exchange, failure=_failure(error))
            raise
        deferred = False
        try:
            reply = endpoint.complete(exchange.request)
            charge = Charge.of(reply.completion, text, self._ledger.price)
        except EndpointError as error:
            self._write(exchange, failure=_failure(error))
            raise
        except WaitingError:
            deferred = True
            raise
        finally:
            # Also after Ctrl-C: what is not known to have cost anything is not counted.
            if deferred:
                self._ledger.defer(reservation)
            else:
                self._ledger.settle(reservation, charge)
        self._write(
            exchange,
            reply=reply.body,
            **asdict(charge),
            seconds=round(reply.seconds, 3),
            retries=reply.retries,
        )
        return reply.completion

    def _replay(self, conversation: str, turn: int, request: Mapping[str, Any]) -> Completion:
        exchange = self.past.replay(conversation, turn, request)
        self._write(exchange.model_copy(update={"replayed": True}))
        self._ledger.repeat(exchange.spending)
        return _recorded_reply(exchange)

    def _write(self, exchange: Exchange, **changes: Any) -> None:
        # A request that ends after the run did must not touch its folder: it may be gone, or
        # another process may go on in it.
        if self._cancelled.is_set():
            raise CancelledError("the run is being ended")
        with self._recording:
            numbered = changes | {"number": self._number + 1}
            write_exchange(self._run, exchange.model_copy(update=numbered))
            self._number += 1


def _failure(error: LlmError) -> Failure:
    return Failure(
        kind=type(error).__name__,
        message=str(error),
        status_code=getattr(error, "status_code", None),
        detail=getattr(error, "detail", ""),
    )


def _recorded_reply(exchange: Exchange) -> Completion:
    """The recorded reply, or the error that the recorded failure was."""
    failure = exchange.failure
    if failure is None:
        return Completion.model_validate(exchange.reply)
    if failure.kind == EndpointError.__name__:
        raise EndpointError(failure.message, status_code=failure.status_code, detail=failure.detail)
    kind = getattr(errors, failure.kind, LlmError)
    is_known = isinstance(kind, type) and issubclass(kind, LlmError)
    raise kind(failure.message) if is_known else LlmError(failure.message)
