"""The errors a user can meet: one line each, saying what is wrong and what to do."""


class KbError(Exception):
    """A failure with a message meant for the user.

    The command line prints it as one line and exits with 1; the server turns it into a
    problem document with `status`.
    """

    status: int = 500


class InvalidInputError(KbError):
    """The request itself is wrong: a bad option, budget, filter or empty query."""

    status = 422


class NotFoundError(KbError):
    """What was asked for by name or id does not exist."""

    status = 404


class EntryError(KbError):
    """A corpus entry is malformed. The message names file and line."""

    status = 422


class IndexUnavailableError(KbError):
    """There is no usable index at the given place."""

    status = 503


class IndexMismatchError(IndexUnavailableError):
    """The index was made by another schema version or another embedder."""


class IndexBusyError(KbError):
    """Another process is writing to the index."""

    status = 409


class SourceError(KbError):
    """A source to ingest is missing, unreadable or empty."""

    status = 422


class EmbedderError(KbError):
    """An embedder cannot be loaded or failed to answer."""

    status = 503
