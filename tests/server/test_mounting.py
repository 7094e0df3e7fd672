"""What a command mounts into the server: routes, tools, and work that ends with the server."""

import asyncio
import contextlib

import pytest
from fastapi import APIRouter, Depends
from mcp import Client
from mcp.server.mcpserver import Context
from starlette.testclient import TestClient
from test_endpoints import assert_problem

from kb.errors import InvalidInputError
from server.app import create_app
from server.middleware.auth import require_admin
from server.settings import Settings
from server.tokens import TokenFile


class Bell:
    """Rings: over HTTP, and for admins as a tool that reports progress."""

    def __init__(self, host):
        self.host = host
        self.events = []

    def router(self):
        router = APIRouter(prefix="/v1/bell")

        @router.get("")
        async def ring():
            return {"rings": await self.host.pool.run(lambda: len(self.events))}

        @router.get("/cracked")
        async def crack():
            raise InvalidInputError("the bell is cracked")

        @router.get("/inner", dependencies=[Depends(require_admin)])
        async def inner():
            return {}

        return router

    def add_tools(self, server, permit):
        @server.tool()
        async def ring_bell(times: int, ctx: Context) -> str:
            permit(ctx)
            for number in range(times):
                await ctx.report_progress(number + 1, times, "ding")
            return "dong"

    @contextlib.contextmanager
    def running(self):
        self.events.append("started")
        yield
        self.events.append("ended")


@pytest.fixture
def made(built, tmp_path):
    """A client of an application with a bell, and the bell."""
    bells = []

    def make(host):
        bells.append(Bell(host))
        return bells[0]

    settings = Settings(
        index=built / "index", state_dir=tmp_path, tokens=tmp_path / "t.json", rate_per_second=0
    )
    app = create_app(settings, [make])
    return TestClient(app, base_url="http://localhost"), bells[0]


def test_its_work_lasts_as_long_as_the_application(made):
    client, bell = made
    assert bell.events == []
    with client:
        assert client.get("/v1/bell").json() == {"rings": 1}
        assert bell.events == ["started"]
    assert bell.events == ["started", "ended"]


def test_its_routes_have_the_errors_scopes_and_metrics_of_the_servers_own(made, tmp_path):
    client, _ = made
    with client:
        cracked = client.get("/v1/bell/cracked")
        assert cracked.status_code == 422
        assert_problem(cracked)
        assert client.get("/v1/bell/inner").status_code == 403
        _, secret = TokenFile(tmp_path / "t.json").create("admin")
        headers = {"Authorization": f"Bearer {secret}"}
        assert client.get("/v1/bell").status_code == 401
        assert client.get("/v1/bell/inner", headers=headers).status_code == 200
        assert 'route="/v1/bell/inner"' in client.get("/metrics", headers=headers).text
        assert "/v1/bell" in client.get("/openapi.json", headers=headers).json()["paths"]


def test_its_tools_stand_beside_the_servers_and_report_progress(built):
    from server.mcp.tools import build_mcp
    from server.metrics import Metrics
    from server.pool import WorkPool
    from server.service import KnowledgeService
    from server.state import Host

    settings = Settings(index=built / "index")
    service = KnowledgeService(settings)
    pool = WorkPool(1, 8, 30)
    server = build_mcp(service, pool.run, lambda _abstained: None)
    asked = []
    Bell(Host(settings, service, pool, Metrics())).add_tools(server, asked.append)
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    async def work():
        async with Client(server) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            answer = await client.call_tool("ring_bell", {"times": 3}, progress_callback=progress)
            return names, answer

    names, answer = asyncio.run(asyncio.wait_for(work(), 60))
    assert names >= {"ring_bell", "search_kernels"}
    assert answer.content[0].text == "dong"
    assert told == [(1, 3, "ding"), (2, 3, "ding"), (3, 3, "ding")]
    assert len(asked) == 1
