"""Kill an ingest at many points, and say what is left: `killing.py FOLDER POINTS TIMES`."""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Imported before the forks, the first two with what they load when they are used.
import bm25s  # noqa: F401
import chromadb.api.rust  # noqa: F401
from support import HashingEmbedder, add, function, opened, searcher

from ingest.corpus_source import corpus_state  # noqa: F401 - imported before the forks
from ingest.directory import directory_state
from ingest.reading import Reading
from ingest.report import SourceReport
from kb.corpus.detection import Detector
from kb.index import writer
from kb.index.cache import EmbeddingCache
from kb.index.check import problems_of
from kb.index.layout import IndexLayout
from kb.index.state import IndexState
from kb.records import text_hash

FILES = 24
EVENTS = ("open", "os.", "shutil.", "sqlite3.", "subprocess.", "kb.")
BATCHES = 4


class Audited(HashingEmbedder):
    """Tells audit hooks of every batch, since SQLite's own writes are not told."""

    def embed_documents(self, texts: Sequence[str]) -> Any:
        sys.audit("kb.embed")
        return super().embed_documents(texts)


def in_a_fork(action: Callable[[], Any]) -> tuple[Any, int]:
    """What an action returns in a forked child, and the child's status."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "w") as stream:
                json.dump(action(), stream)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read()
    _, state = os.waitpid(pid, 0)
    return (json.loads(text) if text else None), os.waitstatus_to_exitcode(state)


def stamp(code: Path, words: str) -> None:
    for number in range(FILES):
        (code / f"f{number}.py").write_text(function(f"fn{number}", words))


def stamps(index: Path) -> list[str]:
    with opened(index) as generation:
        found = [chunk.text for chunk in generation.store.all()]
    assert len(found) == FILES
    return sorted({"old" if " old." in text else "new" for text in found})


def kill_at(count: int, log: Path, events: tuple[str, ...]) -> None:
    """Let this process kill itself at its count-th event of some kinds."""
    seen = 0

    def hook(event: str, _arguments: object) -> None:
        nonlocal seen
        if event.startswith(events):
            seen += 1
            if seen == count:
                fd = os.open(log, os.O_WRONLY | os.O_CREAT, 0o644)
                os.write(fd, event.encode())
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def operations(code: Path, index: Path) -> int:
    def count() -> int:
        seen = 0

        def hook(event: str, _arguments: object) -> None:
            nonlocal seen
            seen += event.startswith(EVENTS)

        sys.addaudithook(hook)
        add(code, index)
        return seen

    return int(in_a_fork(count)[0])


def wanted(code: Path) -> list[str]:
    report = SourceReport("", "")
    state = directory_state(code, Reading("code", Detector([]), IndexState(), report))
    return [text_hash(chunk.embedding_text()) for chunk in state.chunks]


def aftermath(code: Path, index: Path) -> dict[str, Any]:
    found = stamps(index)
    layout = IndexLayout(index)
    name = layout.current()
    assert name is not None
    one = searcher(index)
    (best, *_) = one.search("Compute fn7 fn7_offset", 3).results
    one.generation.close()
    result = {
        "stamps": found,
        "problems": problems_of(layout.generation(name)),
        "found": "old" if " old." in best.text else "new",
    }
    cache = EmbeddingCache(layout.cache)
    hashes = wanted(code)
    result["missing"] = len(hashes) - len(cache.get("test:hashing", hashes))
    cache.close()
    embedder = HashingEmbedder()
    if not add(code, index, embedder).published:  # it was the new index already
        with (code / "f0.py").open("a") as stream:
            stream.write("\n\n" + function("extra", "new"))
        add(code, index)
    with opened(index) as generation:
        texts = [chunk.text for chunk in generation.store.all()]
    result |= {
        "embedded": len(embedder.embedded),
        "again": sorted({"old" if " old." in text else "new" for text in texts}),
        "generations": len(layout.names()),
        "staging": layout.staging.exists(),
    }
    return result


def main(place: Path, points: int, times: int) -> None:
    # In this process: Chroma's threads do not live on in a fork of it.
    writer.check_in_child = problems_of
    writer._EMBED_BATCH = 4
    code, before = place / "code", place / "before"
    code.mkdir()
    stamp(code, "old")
    in_a_fork(lambda: add(code, before).chunks)
    stamp(code, "new")
    shutil.copytree(before, place / "counted")
    total = operations(code, place / "counted")
    shutil.copytree(before, place / "timed")
    started = time.monotonic()
    in_a_fork(lambda: add(code, place / "timed").chunks)
    duration = time.monotonic() - started
    seeded = random.Random(20)
    plans: list[tuple[str, float]] = [
        ("operation", 1 + int((number + seeded.random()) * (total - 1) / points))
        for number in range(points)
    ]
    plans += [("time", duration * (number + seeded.random()) / times) for number in range(times)]
    plans += [("batch", float(2 + number)) for number in range(BATCHES)]
    outcomes = []
    for number, (how, amount) in enumerate(plans):
        index, log = place / f"index{number}", place / f"event{number}"
        stamp(code, "new")
        shutil.copytree(before, index)

        def killed(how=how, amount=amount, log=log, index=index) -> None:
            if how != "time":
                kill_at(int(amount), log, EVENTS if how == "operation" else ("kb.",))
            else:
                # The default action of SIGALRM ends the process at once, as SIGKILL does.
                signal.setitimer(signal.ITIMER_REAL, max(amount, 0.001))
            add(code, index, Audited())

        _, status = in_a_fork(killed)
        result, _ = in_a_fork(lambda index=index: aftermath(code, index))
        assert result is not None, (how, amount)
        result |= {"how": how, "at": amount, "killed": status < 0}
        result["event"] = log.read_text() if log.exists() else ""
        outcomes.append(result)
        shutil.rmtree(index)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
