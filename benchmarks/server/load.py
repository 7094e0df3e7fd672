"""The server's figures: `python -m benchmarks.server.load`.

Server and load share one machine. Every question is asked once, and nothing caches results or
query embeddings. Times are compared within a run only.
"""

import argparse
import asyncio
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import uvicorn

from benchmarks.index.material import sized_index
from benchmarks.results import Figure, machine, publish
from benchmarks.server.bare import bare_search
from benchmarks.server.client import STAMPED
from benchmarks.server.processes import (
    bare_on_all_cores,
    load,
    publish_stamped,
    served,
    wait_ready,
)
from benchmarks.server.queries import distinct_queries
from kb.index.reader import open_generation
from server.app import create_app
from server.connections import GuardedProtocol
from server.settings import Settings

CHUNKS = 20_000
REQUESTS = 20_000
RELOAD_REQUESTS = 10_000
# A small index is published every few seconds, a large one only a few times in the whole test. The
# corpus alone has 2,400 chunks.
RELOAD_CHUNKS = 4_000
CLIENTS = 8
# Pairs of one search by the server and one bare search, in turns.
PAIRS = 600
BARE_SECONDS = 20.0
RESULTS = Path(__file__).with_name("results")


@contextmanager
def in_this_process(index: Path) -> Iterator[int]:
    """The server in a thread; yields its port."""
    with tempfile.TemporaryDirectory() as place:
        settings = Settings(
            index=index, rate_per_second=0, tokens=Path(place) / "t", state_dir=Path(place)
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
    ours, bare = [], []
    with in_this_process(index) as port, bare_search(index) as search:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for number, query in enumerate(queries):
            for turn in (number % 2, 1 - number % 2):
                if turn:
                    started = time.perf_counter()
                    search(query)
                    bare.append((time.perf_counter() - started) * 1e3)
                else:
                    headers = {"Content-Type": "application/json"}
                    body = json.dumps({"query": query})
                    connection.request("POST", "/v1/search", body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    assert answer.status == 200
                    timing = answer.getheader("Server-Timing", "")
                    ours.append(float(timing.rpartition("=")[2]))
    warm = len(queries) // 10
    return ours[warm:], bare[warm:]


def reloads(index: Path, count: int) -> dict[str, Any]:
    """Requests while an ingest publishes in a loop: errors, and answers of mixed generations."""
    with tempfile.TemporaryDirectory() as place:
        copy = copytree(index, Path(place) / "index")
        folder = Path(place) / "stamps"
        stamps = {publish_stamped(copy, folder, 0): 0}
        stop = threading.Event()

        def publish() -> None:
            while not stop.is_set():
                number = len(stamps)
                # the stamp is known only when the generation is already served
                stamps[publish_stamped(copy, folder, number)] = number

        with served(copy, len(os.sched_getaffinity(0))) as (port, _):
            publisher = threading.Thread(target=publish)
            publisher.start()
            # its words are the answer's, so that no number makes it one that nothing answers
            asked = f"{STAMPED} crossing, numbered stamp: what `stamped` returns for a value, "
            queries = [asked + str(n) for n in range(count)]
            result = load(port, queries, CLIENTS)
            stop.set()
            publisher.join()
    records = result["records"]
    seen = Counter(record.get("generation") for record in records)
    mixed = [
        record for record in records if record.get("stamps") != [stamps.get(record["generation"])]
    ]
    bad = [record for record in records if record["status"] != 200]
    return {
        "requests": count,
        "answers": len(records),
        "errors": len(result["errors"]) + len(bad),
        "mixed": len(mixed),
        "generations_published": len(stamps),
        "generations_seen": len(seen),
    }


def recovery(index: Path) -> dict[str, float]:
    """Seconds from killing the only worker to ready again, and to import chromadb."""
    code = "import time; t = time.perf_counter(); import chromadb; print(time.perf_counter() - t)"
    imports, ready = [], []
    with served(index, 1) as (port, process):
        for _ in range(5):
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            imports.append(float(done.stdout))
            started = time.monotonic()
            os.kill(_worker(process.pid), signal.SIGKILL)
            time.sleep(0.01)
            wait_ready(port)
            ready.append(time.monotonic() - started)
    return {"ready": statistics.median(ready), "import_chromadb": statistics.median(imports)}


def _worker(parent: int) -> int:
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text():
            return int(pid)
    raise SystemExit("the server has no worker")


def main() -> None:
    """Measure, and write `results/load.{json,md}`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path, nargs="?", help="by default one made for it")
    given: Path | None = parser.parse_args().index
    where = machine()
    index = given or sized_index(CHUNKS)
    generation = open_generation(index)
    chunks = generation.manifest.chunks
    queries = distinct_queries(generation, REQUESTS + PAIRS)
    generation.close()

    ours, bare = pairs(index, queries[REQUESTS:])
    p50, bare_p50 = statistics.median(ours), statistics.median(bare)
    _say(f"one client: {p50:.1f} ms, bare {bare_p50:.1f} ms, ratio {p50 / bare_p50:.2f}")
    rate_before = bare_on_all_cores(index, queries, BARE_SECONDS / 2)
    with served(index, where["cores"]) as (port, _):
        load(port, queries[:200], CLIENTS)
        under_load = load(port, queries[:REQUESTS], CLIENTS)
    rate_after = bare_on_all_cores(index, queries, BARE_SECONDS / 2)
    bare_rate = (rate_before + rate_after) / 2
    records = under_load["records"]
    bad = sum(record["status"] != 200 for record in records) + len(under_load["errors"])
    loaded = np.array([record["server_ms"] for record in records])
    seen = np.array([record["ms"] for record in records])
    p50_load, p99_load = (float(np.percentile(loaded, q)) for q in (50, 99))
    p50_seen, p99_seen = (float(np.percentile(seen, q)) for q in (50, 99))
    rate = len(records) / under_load["seconds"]
    _say(f"{CLIENTS} clients: {rate:.0f}/s, bare {bare_rate:.0f}/s, errors {bad}")
    _say(f"p50 {p50_seen:.0f} ms, p99 {p99_seen:.0f} ms")
    reload = reloads(sized_index(RELOAD_CHUNKS), RELOAD_REQUESTS)
    _say(f"reload: {reload}")
    again = recovery(index)

    figures = [
        Figure("server time p50 over embedding + bare Chroma", p50 / bare_p50, 1.5, False),
        Figure(f"p99 over p50 as {CLIENTS} clients see it", p99_seen / p50_seen, 4, False),
        Figure(
            f"throughput of {CLIENTS} clients over bare on all cores", rate / bare_rate, 0.4, True
        ),
        Figure(f"errors in {len(records)} requests", bad, 0, False, ""),
        Figure("errors while generations are published", reload["errors"], 0, False, ""),
        Figure("answers of mixed generations", reload["mixed"], 0, False, ""),
    ]
    record = {
        "machine": where,
        "chunks": chunks,
        "server_ms": {"p50": p50, "p99": float(np.percentile(ours, 99))},
        "bare_ms": {"p50": bare_p50, "p99": float(np.percentile(bare, 99))},
        "under_load_server_ms": {"p50": p50_load, "p99": p99_load},
        "under_load_client_ms": {"p50": p50_seen, "p99": p99_seen},
        "requests_per_second": {"server": rate, "bare": bare_rate},
        "reload": reload,
        "recovery_seconds": again,
    }
    text = f"""{chunks} chunks: the shipped corpus and real code of installed packages, most of
whose vectors are stand-ins near real ones. Each of {REQUESTS} questions is asked once. The first
figure is measured in turns in one process; the others with `kb serve --workers {where["cores"]}`
and the load generator on the same {where["cores"]} cores, which the bare loop (one process a core)
has for itself. While {reload["generations_published"]} generations of {RELOAD_CHUNKS} chunks were
published, {reload["answers"]} answers came from {reload["generations_seen"]} of them. From the kill
of the only worker to ready again took {again["ready"] / again["import_chromadb"]:.2f}× the time to
import chromadb ({again["ready"]:.2f} s and {again["import_chromadb"]:.2f} s)."""
    publish(RESULTS / "load", "python -m benchmarks.server.load", text, record, figures)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
