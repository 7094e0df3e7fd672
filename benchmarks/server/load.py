"""The server's figures: `python -m benchmarks.server.load`.

Server and load share one machine. Every question is asked once, and nothing caches results or
query embeddings. Times are compared within a run only.
"""

import argparse
import asyncio
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from benchmarks.index.material import sized_index
from benchmarks.results import Figure, machine, publish
from benchmarks.server.bare import bare_search
from benchmarks.server.processes import bare_on_all_cores, kb_server, load, wait_ready
from kb.index.reader import Generation, open_generation
from server.app import create_app
from server.connections import GuardedProtocol
from server.settings import Settings

CHUNKS = 20_000
REQUESTS = 20_000
CLIENTS = 8
# Pairs of one search by the server and one bare search, in turns.
PAIRS = 600
BARE_SECONDS = 20.0
RESULTS = Path(__file__).with_name("results")
_FORMS = (
    "how does {symbol} work in {place}",
    "faster {symbol} with fewer memory transactions",
    "{title}: what limits it",
    "example of {symbol} for {place} on hopper",
    "why is {symbol} slow and how can {place} hide latency",
)


def distinct_queries(generation: Generation, count: int) -> list[str]:
    """`count` different questions; the forms take turns."""
    queries: dict[str, None] = {}
    chunks = list(generation.store.all())
    for form_number in range(len(_FORMS)):
        for number, chunk in enumerate(chunks):
            form = _FORMS[(number + form_number) % len(_FORMS)]
            place = chunk.path.rpartition("/")[2].removesuffix(".py").replace("_", " ")
            text = form.format(symbol=chunk.symbol or chunk.title, place=place, title=chunk.title)
            queries.setdefault(text[:300])
            if len(queries) == count:
                return list(queries)
    raise SystemExit(f"the index gives {len(queries)} of {count} distinct questions")


@contextmanager
def in_this_process(index: Path) -> Iterator[int]:
    """The server in a thread; yields its port."""
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings(
            index=index, rate_per_second=0, tokens=Path(scratch) / "t", state_dir=Path(scratch)
        )
        config = uvicorn.Config(
            create_app(settings), port=0, http=GuardedProtocol, ws="none", log_level="error"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        wait_ready(port)
        yield port
        server.should_exit = True
        thread.join()


def pairs(index: Path, queries: Sequence[str]) -> tuple[list[float], list[float]]:
    """Milliseconds of a search by the server and of a bare one, in turns in one process."""
    ours: list[float] = []
    bare: list[float] = []
    headers = {"Content-Type": "application/json"}
    with in_this_process(index) as port, bare_search(index) as search:
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def ask_server(query: str) -> None:
            connection.request("POST", "/v1/search", json.dumps({"query": query}), headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            ours.append(float(answer.getheader("Server-Timing", "").rpartition("=")[2]))

        def ask_bare(query: str) -> None:
            started = time.perf_counter()
            search(query)
            bare.append((time.perf_counter() - started) * 1e3)

        for number, query in enumerate(queries):
            for ask in (ask_bare, ask_server) if number % 2 else (ask_server, ask_bare):
                ask(query)
    warm = len(queries) // 10
    return ours[warm:], bare[warm:]


def _errors(result: dict[str, Any]) -> int:
    failed: int = sum(record["status"] != 200 for record in result["records"])
    return failed + len(result["errors"])


def main() -> None:
    """Measure, and write `results/load.{json,md}`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path, nargs="?", help="by default one made for it")
    index_option: Path | None = parser.parse_args().index
    host = machine()
    index = index_option or sized_index(CHUNKS)
    generation = open_generation(index)
    chunks = generation.manifest.chunks
    queries = distinct_queries(generation, REQUESTS + PAIRS)
    generation.close()

    ours, bare = pairs(index, queries[REQUESTS:])
    p50, bare_p50 = statistics.median(ours), statistics.median(bare)
    _log(f"one client: {p50:.1f} ms, bare {bare_p50:.1f} ms, ratio {p50 / bare_p50:.2f}")
    rate_before = bare_on_all_cores(index, queries, BARE_SECONDS / 2)
    with kb_server(index, host["cores"]) as port:
        load(port, queries[:200], CLIENTS)
        under_load = load(port, queries[:REQUESTS], CLIENTS)
    rate_after = bare_on_all_cores(index, queries, BARE_SECONDS / 2)
    bare_rate = (rate_before + rate_after) / 2
    records, errors = under_load["records"], _errors(under_load)
    server, user = (_spread([record[key] for record in records]) for key in ("server_ms", "ms"))
    rate = len(records) / under_load["seconds"]
    _log(f"{CLIENTS} clients: {rate:.0f}/s, bare {bare_rate:.0f}/s, errors {errors}")
    _log(f"p50 {user['p50']:.0f} ms, p99 {user['p99']:.0f} ms")

    figures = [
        Figure("server time p50 over embedding + bare Chroma", p50 / bare_p50, 1.5, False),
        Figure(f"p99 over p50 as {CLIENTS} clients see it", user["p99"] / user["p50"], 4, False),
        Figure(
            f"throughput of {CLIENTS} clients over bare on all cores", rate / bare_rate, 0.4, True
        ),
        Figure(f"errors in {len(records)} requests", errors, 0, False, ""),
    ]
    record = {
        "machine": host,
        "chunks": chunks,
        "server_ms": _spread(ours),
        "bare_ms": _spread(bare),
        "under_load_server_ms": server,
        "under_load_client_ms": user,
        "requests_per_second": {"server": rate, "bare": bare_rate},
    }
    text = f"""{chunks} chunks: the shipped corpus and real code of installed packages, most of
whose vectors are stand-ins near real ones. Each of {REQUESTS} questions is asked once. The first
figure is measured in turns in one process; the others with `kb serve --workers {host["cores"]}`
and the load generator on the same {host["cores"]} cores, which the bare loop (one process a core)
has for itself."""
    publish(RESULTS / "load", "python -m benchmarks.server.load", text, record, figures)


def _spread(ms: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": float(np.percentile(ms, share)) for share in (50, 99)}


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
