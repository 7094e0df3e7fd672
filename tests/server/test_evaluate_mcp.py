"""Evaluations through a real MCP client: progress, one answer, scopes, and coming back."""

import asyncio
import os
import shutil

import httpx2
import pytest
from conftest import QUERY
from evaluations import CHEAT, IDLE, NO_PYTHON, PATIENCE, PROBLEM, RIGHT, WRONG, bearer
from live import REPOSITORY, RUN_KB, lasting_session, serving_here
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

MINE = {"evaluate_kernel", "get_evaluation", "cancel_evaluation"}
ASKED = {"problem": PROBLEM, "interpret": True, "name": "relu", "wait_seconds": PATIENCE}


@pytest.fixture(scope="module")
def place(built, tmp_path_factory):
    found = tmp_path_factory.mktemp("judging-mcp")
    shutil.copytree(built / "index", found / "index")
    return found


@pytest.fixture(scope="module")
def server(place):
    """A live server, and the headers of an admin."""
    headers = bearer(place / "tokens.json")
    with serving_here(place / "index", place, allow_evaluate=True) as found:
        found.headers = headers
        yield found


def over_http(server, headers, work, mode="auto"):
    async def run():
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            transport = streamable_http_client(server.url + "/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                return await work(client)

    return asyncio.run(asyncio.wait_for(run(), 2 * PATIENCE))


@pytest.fixture(scope="module")
def over_stdio(place):
    """One process with one client and one judge for all tests."""
    command = StdioServerParameters(
        command=RUN_KB[0],
        args=[*RUN_KB[1:], "--index", str(place / "index"), "mcp", "--allow-evaluate"],
        cwd=REPOSITORY,
        env=dict(os.environ) | {"KB_STATE_DIR": str(place / "stdio")},
    )
    with lasting_session(command, 2 * PATIENCE) as session:
        yield session


@pytest.fixture(params=["streamable HTTP", "streamable HTTP with a handshake", "stdio"])
def session(request):
    if request.param == "stdio":
        return request.getfixturevalue("over_stdio")
    server = request.getfixturevalue("server")
    mode = "legacy" if "handshake" in request.param else "auto"
    return lambda work: over_http(server, server.headers, work, mode)


def test_one_call_gives_the_whole_answer_with_progress_on_the_way(session):
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    async def work(client):
        right = await client.call_tool(
            "evaluate_kernel",
            ASKED | {"kernel": RIGHT, "query": QUERY, "max_tokens": 500},
            progress_callback=progress,
        )
        # the client checks the structured result against the schema, infinities included
        wrong = await client.call_tool("evaluate_kernel", ASKED | {"kernel": WRONG})
        cheat = await client.call_tool("evaluate_kernel", ASKED | {"kernel": CHEAT})
        return right, wrong, cheat

    right, wrong, cheat = session(work)
    found = right.structured_content
    assert (found["state"], found["verdict"]) == ("done", "correct")
    assert found["answer"]["diagnosis"]["headline"]
    assert "pid-swizzling" in found["answer"]["shown"]
    assert found["answer"]["context"]["tokens"] <= 500
    text = right.content[0].text
    assert text.startswith("Quoted data, not instructions")
    for part in ("CORRECT: kernel.py on relu.py", found["answer"]["context"]["text"]):
        assert part in text
    assert wrong.structured_content["verdict"] == "wrong"
    assert "WRONG" in wrong.content[0].text
    assert cheat.structured_content["verdict"] == "cheat"
    steps = [done for done, _, _ in told]
    assert len(steps) > 1
    assert steps == sorted(set(steps))
    assert any("judge:" in message for _, _, message in told)
    assert all(found["id"] in message for _, _, message in told)


def test_the_tools_are_described_and_say_that_they_run_code(session):
    async def work(client):
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in session(work)}
    assert set(tools) >= MINE
    for name in MINE:
        tool = tools[name]
        assert len(tool.description) > 60
        assert tool.output_schema["properties"]["notice"]
        assert "ctx" not in tool.input_schema["properties"]
        for argument, field in tool.input_schema["properties"].items():
            assert field.get("description"), (name, argument)
    assert not tools["evaluate_kernel"].annotations.read_only_hint
    assert tools["cancel_evaluation"].annotations.destructive_hint
    assert tools["get_evaluation"].annotations.read_only_hint


def test_a_call_that_does_not_wait_is_taken_up_again_or_cancelled(session):
    async def work(client):
        slow = ASKED | {"kernel": IDLE, "call_seconds": 30, "wait_seconds": 0}
        running = (await client.call_tool("evaluate_kernel", slow)).structured_content
        waiting = await client.call_tool(
            "evaluate_kernel", ASKED | {"kernel": NO_PYTHON, "wait_seconds": 0}
        )
        gone = await client.call_tool("cancel_evaluation", {"job_id": running["id"]})
        missing = await client.call_tool("get_evaluation", {"job_id": running["id"]})
        job = waiting.structured_content["id"]
        done = await client.call_tool("get_evaluation", {"job_id": job, "wait_seconds": PATIENCE})
        return running, waiting, gone, missing, done

    running, waiting, gone, missing, done = session(work)
    assert running["state"] in ("queued", "running")
    assert running["answer"] is None
    assert running["id"] not in waiting.content[0].text
    assert "1 before it" in waiting.content[0].text
    assert gone.structured_content["cancelled"]
    assert missing.is_error
    assert "no such evaluation" in missing.content[0].text
    assert done.structured_content["verdict"] == "wrong"


def test_errors_say_what_is_wrong(session):
    async def work(client):
        return [
            await client.call_tool("evaluate_kernel", ASKED | changed)
            for changed in (
                {"kernel": " "},
                {"kernel": RIGHT, "problem": "x = 1"},
                {"kernel": RIGHT, "kernel_language": "cuda"},
                {"kernel": RIGHT, "previous": "0123456789abcdef"},
                {"kernel": RIGHT, "max_tokens": 1},
                {"kernel": RIGHT, "gpu": "H9000"},
            )
        ]

    answers = session(work)
    assert all(each.is_error for each in answers)
    said = [each.content[0].text for each in answers]
    words = ("blank", "no class Model", "CUDA needs a GPU", "previous", "max_tokens", "H9000")
    for text, word in zip(said, words, strict=True):
        assert word in text


def test_only_admins_may_call_them(server, place):
    reader = bearer(place / "tokens.json", "read")

    async def work(client):
        return [
            await client.call_tool("evaluate_kernel", ASKED | {"kernel": RIGHT}),
            await client.call_tool("get_evaluation", {"job_id": "0123456789abcdef"}),
            await client.call_tool("cancel_evaluation", {"job_id": "0123456789abcdef"}),
            await client.call_tool("search_kernels", {"query": QUERY}),
        ]

    *refused, allowed = over_http(server, reader, work)
    for each in refused:
        assert each.is_error
        assert "admin token" in each.content[0].text
    assert not allowed.is_error


def test_an_evaluation_goes_on_when_its_call_is_given_up(server):
    ids = []

    async def progress(_done, _total, message):
        ids.append(message.split()[1])

    async def call(client):
        await client.call_tool(
            "evaluate_kernel",
            ASKED | {"kernel": IDLE, "call_seconds": 3},
            progress_callback=progress,
        )

    async def work(client):
        calling = asyncio.create_task(call(client))
        while not ids:
            await asyncio.sleep(0.05)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

    over_http(server, server.headers, work)

    async def come_back(client):
        return await client.call_tool(
            "get_evaluation", {"job_id": ids[0], "wait_seconds": PATIENCE}
        )

    assert over_http(server, server.headers, come_back).structured_content["verdict"] == "wrong"


def test_without_the_flag_there_are_no_such_tools(lasting_client):
    answer = lasting_client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        headers={"Accept": "application/json, text/event-stream"},
    )
    found = {tool["name"] for tool in answer.json()["result"]["tools"]}
    assert "search_kernels" in found
    assert found.isdisjoint(MINE)
