"""What `--allow-evaluate` mounts into the server: a queue of evaluations, its routes and tools."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from agent.diagnose.techniques import Catalog, catalog_or_corpus
from agent.service.runner import QueueLimits
from agent.service.service import EvaluationService
from cli.evaluate_api.routes import build_router
from kb.context.models import ContextRequest, ContextResponse
from kb.gpus import device_of
from server.mounting import Permit
from server.state import Host

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


class EvaluationMount:
    """Evaluations in one process of the server. All processes share one queue on disk."""

    def __init__(self, host: Host) -> None:
        settings = host.settings
        self._host = host
        self._service = EvaluationService(
            settings.state_dir,
            _Index(host),
            QueueLimits(
                waiting=settings.max_evaluations,
                seconds=settings.evaluate_timeout,
                keep=settings.evaluate_keep,
            ),
            device=settings.evaluate_device,
            on_finished=lambda outcome: host.metrics.evaluations.labels(outcome).inc(),
        )

    def router(self) -> APIRouter:
        """See `server.mounting.Mount`."""
        return build_router(self._service, self._host.pool)

    def add_tools(self, server: "MCPServer[Any]", permit: Permit) -> None:
        """See `server.mounting.Mount`."""
        from cli.evaluate_api.tools import add_tools

        add_tools(server, self._service, self._host.pool, permit)

    @contextmanager
    def running(self) -> Iterator[None]:
        """See `server.mounting.Mount`."""
        self._service.runner.start()
        try:
            yield
        finally:
            self._service.runner.stop()


class _Index:
    """The server's own index and limits, as `agent.service` asks for knowledge."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def check(self, request: ContextRequest) -> None:
        self._host.service.check_context(request)
        device_of(request.gpu)

    def context(self, request: ContextRequest) -> ContextResponse:
        response = self._host.service.context(request)
        self._host.metrics.searches.labels("evaluate", str(response.abstained).lower()).inc()
        return response

    def techniques(self) -> Catalog:
        return catalog_or_corpus(self._host.settings.index)
