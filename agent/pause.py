"""Errors that pause a run because something it needs is not here. Everything so far is recorded;
``--resume`` continues the run where the missing thing is available."""

from kb.errors import KbError


class PausedError(KbError):
    """A run cannot continue here and now, although nothing failed."""


class WaitingError(PausedError):
    """A reply of a language model is not there yet; the request is written down."""


class NeedsGpuError(PausedError):
    """The next step needs a GPU, and this machine has none."""
