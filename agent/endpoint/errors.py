"""Errors of a model's endpoint. Each message is one line for the user."""

from kb.errors import KbError


class LlmError(KbError):
    """A model could not be used."""

    status = 503


class EndpointError(LlmError):
    """The endpoint cannot be reached or used, refused the request, or answers something else."""

    def __init__(self, message: str, *, status_code: int | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.status_code = status_code
        """HTTP status of the answer; None if there was none."""
        self.detail = detail
        """The endpoint's own words, which tell what it does not support."""


class BudgetSpentError(LlmError):
    """The next request could exceed a limit on tokens or money."""


class ReplayError(LlmError):
    """The record does not hold the answer to this request."""


class RefusedError(LlmError):
    """The model refused this one request, or the endpoint's filter held the answer."""


class UnusableReplyError(LlmError):
    """The model's answer to this one request cannot be used, even after a correction."""


class CancelledError(LlmError):
    """The run is being ended: no further request is sent."""


def one_line(text: object, max_chars: int = 300) -> str:
    """Text as one line of at most `max_chars` characters."""
    return " ".join(str(text).split())[:max_chars]
