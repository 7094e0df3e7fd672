"""Why a run pauses: what it needs next is not here. All that it has is recorded, and it goes on
with ``--resume`` where the missing thing is."""

from kb.errors import KbError


class PausedError(KbError):
    """A run cannot go on here and now, and nothing is wrong with it."""


class WaitingError(PausedError):
    """A reply of a language model is not there yet; the request is written down."""


class NeedsGpuError(PausedError):
    """The next step needs a GPU, and this machine has none."""
