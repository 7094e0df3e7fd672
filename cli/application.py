"""What `kb serve` and `kb mcp` put together: the server with the parts that it knows nothing of."""

from typing import TYPE_CHECKING

from server.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from server.mounting import Mounting

APPLICATION = f"{__name__}:app_from_environment"
"""Makes a worker's application."""


def app_from_environment() -> "FastAPI":
    """The application of a worker process, whose settings come as `KB_…` variables."""
    # The workers' parent, and `kb mcp`, do without these, which take longer to load than the rest.
    from cli.profiles import diagnosis
    from server.app import create_app

    settings = Settings()
    return create_app(settings, mountings(settings), diagnosis)


def mountings(settings: Settings) -> "list[Mounting]":
    """What is mounted beside the server's own routes and tools."""
    if not settings.allow_evaluate:
        return []
    from cli.evaluate_api.mount import EvaluationMount

    return [EvaluationMount]
