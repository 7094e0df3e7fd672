"""The time as stores and answers write it."""

from datetime import UTC, datetime


def now() -> str:
    """The time, UTC, ISO 8601, in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
