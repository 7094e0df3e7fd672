"""What the parts of one process share."""

from dataclasses import dataclass
from typing import Self, TypeVar

from fastapi import Request

from kb.context.diagnosing import Diagnose
from kb.context.models import ContextResponse
from kb.search.models import SearchResponse
from server.metrics import Metrics
from server.pool import WorkPool
from server.service import KnowledgeService
from server.settings import Settings

_R = TypeVar("_R", SearchResponse, ContextResponse)


@dataclass(frozen=True, slots=True)
class Host:
    """A process's service, threads, counters and settings, for its own surfaces and what is added.

    `app.state.server` holds it.
    """

    settings: Settings
    service: KnowledgeService
    pool: WorkPool
    metrics: Metrics

    @classmethod
    def of(cls, settings: Settings, diagnose: Diagnose | None) -> Self:
        """A new one, with threads and counters of its own."""
        pool = WorkPool(settings.threads, settings.max_pending, settings.request_timeout)
        return cls(settings, KnowledgeService(settings, diagnose), pool, Metrics())

    def count(self, surface: str, response: _R) -> _R:
        """Count a search or context, and hand it on."""
        self.metrics.searches.labels(surface, str(response.abstained).lower()).inc()
        return response


def state_of(request: Request) -> Host:
    """What the application that answers this request shares."""
    host: Host = request.app.state.server
    return host
