"""Tokens and money: what a request may cost at most, checked before it is sent, and what it cost.

A limit holds: a request is not sent when what was spent, what other requests may still cost, and
the most that this one may cost exceed it together.
"""

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.endpoint.client import Completion
from agent.endpoint.errors import BudgetSpentError, one_line
from agent.optimize.proposers import Spending
from agent.pause import WaitingError
from kb.errors import InvalidInputError
from kb.vocabulary import load_yaml

# Tokenizers of today's models make 2.5 to 4.5 bytes of English and code into a token. Two is less
# than any of them, so a limit is kept before the endpoint has counted; three stands in where an
# endpoint never tells, since then the limit should err to the safe side as well.
_LEAST_BYTES_PER_TOKEN = 2
_ASSUMED_BYTES_PER_TOKEN = 3
_PER = 1e6  # prices are given for a million tokens

# What OpenAI and others take for a request that may wait for a day.
BATCH_RATE: Final = 0.5
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel):
    """What a model costs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: _Amount
    """Per million tokens of requests."""
    output: _Amount
    """Per million tokens of replies, those of its thinking among them."""
    batch: _Amount = BATCH_RATE
    """What a request in a batch costs, as a part of these."""

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """The price of so many tokens."""
        return (tokens_in * self.input + tokens_out * self.output) / _PER

    @property
    def batch_price(self) -> "Price":
        """The price of requests in a batch."""
        return Price(input=self.input * self.batch, output=self.output * self.batch, batch=1.0)


class PriceList(BaseModel):
    """A user's file of prices, in YAML or JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    currency: str = "USD"
    models: dict[str, Price]
    """By the model's name at the endpoint."""


def read_prices(path: Path) -> PriceList:
    """The price list in a file.

    Raises
    ------
    InvalidInputError
        It cannot be read, or has another form.
    """
    try:
        return PriceList.model_validate(load_yaml(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValidationError, RecursionError) as error:
        reason = one_line(error, 200)
        raise InvalidInputError(
            f"{path} is not a price list (models: {{NAME: {{input: 1.25, output: 10}}}}, "
            f"per million tokens): {reason}"
        ) from error


def parse_price(text: str) -> Price:
    """The price in an option such as `1.25,10` (input, output, per million tokens).

    Raises
    ------
    InvalidInputError
        It is not two amounts.
    """
    try:
        into, out = (float(part) for part in text.split(","))
        return Price(input=into, output=out)
    except ValueError as error:
        raise InvalidInputError(
            f"'{text}' is not a price: give input and output per million tokens, such as 1.25,10, "
            "or a file of prices"
        ) from error


def find_price(option: str, model: str) -> Price:
    """A model's price from an option: two amounts, or the name of a price list.

    No prices are shipped: they change, and differ between endpoints that serve one model.

    Raises
    ------
    InvalidInputError
        It is neither, or the list does not have the model.
    """
    if not Path(option).is_file():
        return parse_price(option)
    models = read_prices(Path(option)).models
    if model not in models:
        raise InvalidInputError(
            f"{option} has no price for '{model}', only: {', '.join(sorted(models)) or 'none'}"
        )
    return models[model]


def _tokens(text: str, bytes_per_token: int) -> int:
    return math.ceil(len(text.encode(errors="replace")) / bytes_per_token)


@dataclass(frozen=True, slots=True)
class Charge:
    """What one exchange cost."""

    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False
    """The endpoint did not tell; these are assumed from the lengths."""
    money: float | None = None
    """None: the model's price is not known."""

    @classmethod
    def of(cls, reply: Completion, request: str, price: Price | None) -> "Charge":
        """The cost of a request and its reply, given as the endpoint counts or by their lengths."""
        usage, message = reply.usage, reply.choices[0].message
        counted = usage is not None and usage.prompt_tokens > 0
        if usage is not None and counted:
            into, out = usage.prompt_tokens, max(usage.completion_tokens, 0)
        else:
            calls = [call.function for call in message.tool_calls or []]
            reply_text = (message.content or "") + "".join(c.name + c.arguments for c in calls)
            into, out = (_tokens(text, _ASSUMED_BYTES_PER_TOKEN) for text in (request, reply_text))
        return cls(into, out, not counted, price.of(into, out) if price else None)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that a request under way may cost."""

    tokens: int
    money: float


class Ledger:
    """What a run spends on a model; safe to use from several threads.

    Parameters
    ----------
    price : Price, optional
        None where it is not known: then tokens are counted alone.
    max_tokens, max_money : optional
        Limits on the whole run, tokens of requests and replies together.
    already : Spending
        What the run spent in earlier processes.

    Raises
    ------
    InvalidInputError
        Money is limited, but the price is not known.
    """

    def __init__(
        self,
        price: Price | None = None,
        *,
        max_tokens: int | None = None,
        max_money: float | None = None,
        already: Spending | None = None,
    ) -> None:
        if max_money is not None and price is None:
            raise InvalidInputError(
                "a limit on money needs the model's price: give it, or limit tokens instead"
            )
        self.price = price
        self._max_tokens, self._max_money = max_tokens, max_money
        self._already = already or Spending()
        self._spent = Spending()
        self._reserved: list[Reservation] = []
        self._deferred: list[Reservation] = []
        self._estimated = 0
        self._lock = threading.Condition()

    @property
    def spent(self) -> Spending:
        """By this process."""
        with self._lock:
            return self._spent

    def summary(self) -> str:
        """What the run spent, in words."""
        with self._lock:
            total, estimated = self._already + self._spent, self._estimated
        words = f"{total.tokens_in:,} tokens in, {total.tokens_out:,} out"
        if estimated:
            words += f" ({estimated} replies without a count: assumed from their length)"
        if self.price is None:
            return f"{words}; the price of this model is not known, so money was not counted"
        return f"{words}; {total.money:.4f} at the given prices"

    def reserve(self, request: str, max_reply_tokens: int) -> Reservation:
        """Set aside the most that a request may cost; give it to `settle` afterwards.

        Where only requests under way stand against it, it waits for them.

        Raises
        ------
        BudgetSpentError
            It could exceed a limit; nothing is set aside.
        WaitingError
            It could, because of requests whose replies this process does not live to see.
        """
        into = _tokens(request, _LEAST_BYTES_PER_TOKEN)
        money = self.price.of(into, max_reply_tokens) if self.price else 0.0
        reservation = Reservation(into + max_reply_tokens, money)
        with self._lock:
            while (problem := self._objection(reservation)) and self._reserved:
                # The requests under way will take less than what is set aside for them.
                self._lock.wait()
            if problem and self._deferred:
                raise WaitingError("the limits allow no further request until replies arrive")
            if problem:
                raise BudgetSpentError(problem)
            self._reserved.append(reservation)
        return reservation

    def _objection(self, new: Reservation) -> str:
        """Which limit would not hold; empty if all would."""
        total = self._already + self._spent
        tokens, money = total.tokens_in + total.tokens_out, total.money
        waiting = (*self._deferred, *self._reserved)
        pending, owed = (
            sum(reservation.tokens for reservation in waiting),
            sum(reservation.money for reservation in waiting),
        )
        most_tokens, most_money = self._max_tokens, self._max_money
        if most_tokens is not None and tokens + pending + new.tokens > most_tokens:
            return (
                f"the limit of {most_tokens:,} tokens may be exceeded: {tokens:,} are spent, and "
                f"the next request may take {new.tokens:,}; raise the limit"
            )
        if most_money is not None and money + owed + new.money > most_money:
            return (
                f"the limit of {most_money:g} on money may be exceeded: {money:.4f} is spent, and "
                f"the next request may cost {new.money:.4f}; raise the limit"
            )
        return ""

    def carry_over(self, part: Spending) -> None:
        """Count what an earlier process paid as this one's, which uses the reply.

        That process ended before it could report what it had spent; the sum stays the same.
        """
        with self._lock:
            self._already -= part
            self._spent += part

    def repeat(self, part: Spending) -> None:
        """Count what a replayed run paid, so that what depends on it is decided as it was."""
        with self._lock:
            self._spent += part

    def defer(self, reservation: Reservation) -> None:
        """Keep a reservation for as long as this process lives: its reply comes to another."""
        with self._lock:
            self._reserved.remove(reservation)
            self._deferred.append(reservation)
            self._lock.notify_all()

    def settle(self, reservation: Reservation, charge: Charge | None) -> None:
        """End a reservation with what the request did cost; None: nothing that is known of."""
        with self._lock:
            self._reserved.remove(reservation)
            if charge is not None:
                self._estimated += charge.estimated
                self._spent += Spending(
                    tokens_in=charge.tokens_in,
                    tokens_out=charge.tokens_out,
                    money=charge.money or 0.0,
                )
            self._lock.notify_all()
