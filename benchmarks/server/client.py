"""A load generator that costs little: `python -m benchmarks.server.client PORT QUERIES CLIENTS`.

Each client keeps one connection and asks the next question as soon as it has an answer. Prints one
JSON object: every answer's status, time measured by the client and by the server (ms).
"""

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

_TIMING = re.compile(rb"app;dur=([0-9.]+)")


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: str
) -> dict[str, Any]:
    """One request on an open connection."""
    content = json.dumps({"query": query}).encode()
    started = time.perf_counter()
    writer.write(
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
    )
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    milliseconds = (time.perf_counter() - started) * 1e3
    timing = _TIMING.search(head)
    return {
        "status": int(head.split(b" ", 2)[1]),
        "ms": milliseconds,
        "server_ms": float(timing[1]) if timing else None,
    }


async def run(port: int, queries: list[str], clients: int) -> dict[str, Any]:
    """Ask every question once, shared among the clients."""
    waiting = iter(queries)
    records: list[dict[str, Any]] = []
    errors: list[str] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for query in waiting:
            try:
                records.append(await ask(reader, writer, query))
            except (OSError, asyncio.IncompleteReadError) as error:
                errors.append(repr(error))
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return {"seconds": time.perf_counter() - started, "errors": errors, "records": records}


if __name__ == "__main__":
    port, path, count = sys.argv[1:]
    texts = json.loads(Path(path).read_text())
    print(json.dumps(asyncio.run(run(int(port), texts, int(count)))))
