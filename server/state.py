"""What the parts of one application share."""

from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from kb.context.models import ContextResponse
from kb.search.models import SearchResponse
from server.metrics import Metrics
from server.pool import WorkPool
from server.service import KnowledgeService
from server.settings import Settings
from server.tokens import TokenFile

_R = TypeVar("_R", SearchResponse, ContextResponse)


@dataclass(frozen=True, slots=True)
class ServerState:
    """One application's service, threads, counters and settings; `app.state.server` holds it."""

    settings: Settings
    service: KnowledgeService
    pool: WorkPool
    metrics: Metrics
    tokens: TokenFile

    def count(self, surface: str, response: _R) -> _R:
        """Count a search or context, and hand it on."""
        self.metrics.searches.labels(surface, str(response.abstained).lower()).inc()
        return response


def state_of(request: Request) -> ServerState:
    """The state of the application that answers this request."""
    state: ServerState = request.app.state.server
    return state
