"""Prometheus metrics, added up over the workers of one server."""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A search takes milliseconds; the last bounds are where requests time out.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
_SHARED = "PROMETHEUS_MULTIPROC_DIR"


def share(folder: Path) -> None:
    """Make the workers that are started from now on count in files of this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[_SHARED] = str(folder)


class Metrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        self.requests = Counter(
            "kb_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self._own,
        )
        self.seconds = Histogram(
            "kb_http_request_seconds",
            "Time from a request's headers to the end of its answer.",
            ("route",),
            buckets=_BOUNDS,
            registry=self._own,
        )
        self.searches = Counter(
            "kb_searches",
            "Searches and contexts answered, by surface and by whether nothing was relevant.",
            ("surface", "abstained"),
            registry=self._own,
        )

        self.evaluations = Counter(
            "kb_evaluations",
            "Evaluations that ended, by verdict, or as failed or cancelled.",
            ("outcome",),
            registry=self._own,
        )

    def render(self, generation: str | None, chunks: int) -> bytes:
        """All metrics as Prometheus reads them, with what the index is at this moment."""
        now = CollectorRegistry()
        ready = Gauge("kb_index_ready", "1 if an index is open.", registry=now)
        ready.set(0 if generation is None else 1)
        Gauge("kb_index_chunks", "Chunks of the open index.", registry=now).set(chunks)
        info = Gauge("kb_index_info", "The open generation.", ("generation",), registry=now)
        if generation is not None:
            info.labels(generation).set(1)
        return generate_latest(self._counted()) + generate_latest(now)

    def _counted(self) -> CollectorRegistry:
        folder = os.environ.get(_SHARED)
        if folder is None:
            return self._own
        shared = CollectorRegistry()
        MultiProcessCollector(shared, folder)  # type: ignore[no-untyped-call]
        return shared
