"""Turns on a card that others use as well, and a clock that stands still while they do."""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Final

from judge.evaluate.gpulock import locked
from judge.progress import Say, silent

# What the clock jumps by once the card was held for as long as it may: past every deadline.
_SPENT: Final = 1e9


class Turns:
    """Counts how long a card is held and waited for.

    Parameters
    ----------
    card
        Named as its lock is; None where there is nothing to lock.
    say
        Is told who holds it meanwhile.
    patience
        Seconds of waiting that the clock leaves out; it runs on while more are waited. None: all.
    hold_seconds
        How long the card may be held; then every deadline on the clock has passed.
    """

    def __init__(
        self,
        card: str | None,
        say: Say = silent,
        *,
        patience: float | None = None,
        hold_seconds: float = math.inf,
    ) -> None:
        self._card = card
        self._say = say
        self._patience = math.inf if patience is None else patience
        self._may_hold = hold_seconds
        self._held = self._excluded = 0.0
        self.overdue = 0.0
        """Seconds waited beyond `patience`."""
        self._since: float | None = None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the card."""
        requested = time.monotonic()
        with contextlib.ExitStack() as stack:
            if self._card is not None:
                stack.enter_context(locked(self._card, say=self._say))
            self._since = time.monotonic()
            waited = self._since - requested
            left_out = min(waited, self._patience)
            self._patience -= left_out
            self._excluded += left_out
            self.overdue += waited - left_out
            try:
                yield
            finally:
                self._held += time.monotonic() - self._since
                self._since = None

    @contextlib.contextmanager
    def pause_clock(self) -> Iterator[None]:
        """Leave what is done meanwhile out of `clock`."""
        began, excluded, overdue = time.monotonic(), self._excluded, self.overdue
        yield
        self._excluded = excluded + time.monotonic() - began - (self.overdue - overdue)

    def lift_limits(self) -> None:
        """Leave all further waiting out of `clock`, and hold the card for as long as it takes."""
        self._patience = self._may_hold = math.inf

    @property
    def held_seconds(self) -> float:
        """How long the card was held so far."""
        return self._held + (0.0 if self._since is None else time.monotonic() - self._since)

    def clock(self) -> float:
        """Seconds, without those in which others held the card, as far as there is patience."""
        spent = _SPENT if self.held_seconds >= self._may_hold else 0.0
        return time.monotonic() - self._excluded + spent

    @property
    def hold_left(self) -> float:
        """Seconds that the card may still be held."""
        return max(0.0, self._may_hold - self.held_seconds)
