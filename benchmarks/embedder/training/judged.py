"""KernelRetrieve as texts and judgements, so that a model can be scored where the product is not.

`python -m benchmarks.embedder.training.judged --out FILE` writes the development half only: what
trials are compared on. The test half is scored once, by `python -m benchmarks.retrieval`, on the
exported model.
"""

import argparse
import json
import lzma
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from benchmarks.retrieval.indexes import Corpus
    from kb.records import Chunk

CUT = 10
_DEPTH = 400
# Documents looked at for the first ten: entries and copies are several documents each.


@dataclass(slots=True)
class JudgedQuery:
    """One query of a part."""

    query: str
    label: str
    answers: dict[str, int]
    """Answer → grade."""
    units: dict[str, str]
    """Unit → the answer that it is."""
    excluded: list[int] = field(default_factory=list)
    """Documents that are not to be found."""


@dataclass(slots=True)
class JudgedPart:
    """One part: its documents, by what they count as, and its queries."""

    name: str
    documents: list[int]
    """Places in the list of texts."""
    units: list[str]
    queries: list[JudgedQuery]


@dataclass(slots=True)
class Judged:
    """All parts over one list of texts."""

    texts: list[str]
    parts: list[JudgedPart]

    @classmethod
    def read(cls, path: Path) -> "Judged":
        """What was written."""
        data = json.loads(lzma.decompress(path.read_bytes()))
        parts = [
            JudgedPart(
                each["name"],
                each["documents"],
                each["units"],
                [JudgedQuery(**query) for query in each["queries"]],
            )
            for each in data["parts"]
        ]
        return cls(data["texts"], parts)

    def write(self, path: Path) -> None:
        """Write as compressed JSON."""
        content = json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))
        path.write_bytes(lzma.compress(content.encode("utf-8", "surrogatepass")))


def ndcg(scores: NDArray[np.float32], part: JudgedPart, query: JudgedQuery) -> float:
    """nDCG@10 of a query, with units collapsed as `benchmarks.retrieval.metrics` collapses them."""
    scores = scores.copy()
    scores[query.excluded] = -2
    ranked: list[str] = []
    depth = min(_DEPTH, len(scores) - 1)
    best = np.argpartition(-scores, depth)[:depth]
    for row in best[np.argsort(-scores[best], kind="stable")]:
        unit = part.units[row]
        name = query.units.get(unit, f"unit {unit}")
        if name not in ranked:
            ranked.append(name)
        if len(ranked) == CUT:
            break
    gains = [query.answers.get(name, 0) for name in ranked]
    return discounted(gains) / discounted(sorted(query.answers.values(), reverse=True)[:CUT])


def discounted(gains: Sequence[int]) -> float:
    """Gains over the binary logarithm of rank + 1, added up (Järvelin and Kekäläinen 2002)."""
    return float(sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains)))


def main() -> None:
    """Write the development half."""
    from benchmarks.retrieval.work import default_work

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=default_work())
    arguments = parser.parse_args()
    judged = _export(arguments.work)
    judged.write(arguments.out)
    for part in judged.parts:
        print(f"{part.name}: {len(part.queries)} queries over {len(part.documents):,} documents")


def _export(work: Path) -> Judged:
    from benchmarks.embedder.training.code import embedded
    from benchmarks.retrieval.__main__ import PARTS
    from benchmarks.retrieval.indexes import BuiltIndex
    from benchmarks.retrieval.material import read_material
    from benchmarks.retrieval.packages import index_set, pinned_packages
    from ingest.corpus_source import corpus_state
    from ingest.tagging import detector_of
    from kb.corpus.loader import shipped_corpus

    entries = corpus_state(shipped_corpus())
    detector = detector_of(entries)
    material = {
        name: read_material(package, detector, work) for name, package in pinned_packages().items()
    }
    texts: dict[str, int] = {}
    parts: list[JudgedPart] = []
    for plan in PARTS:
        if plan.name.startswith("unanswerable"):
            continue
        chosen = index_set(plan.index)
        chunks = list(entries.chunks)
        for package in chosen.take:
            chunks += [
                chunk
                for chunk in material[package].state.chunks
                if chosen.takes(package, chunk.path) and (chunk.symbol or not chosen.functions_only)
            ]
        corpus = unindexed(chunks)
        built = BuiltIndex(work, {name: material[name] for name in chosen.take})
        rows = np.flatnonzero(corpus.of_kinds(plan.kinds))
        place = {int(row): at for at, row in enumerate(rows)}
        queries = [
            JudgedQuery(
                case.query,
                case.labels.get("style") or case.labels.get("language", ""),
                {answer.name: answer.grade for answer in case.answers},
                {unit: answer.name for answer in case.answers for unit in answer.units},
                [place[row] for row in sorted(case.excluded) if row in place],
            )
            for case in plan.cases(built, corpus)
            if case.half == "dev"
        ]
        documents = [texts.setdefault(embedded(chunks[row]), len(texts)) for row in rows]
        units = [corpus.units[row] for row in rows]
        parts.append(JudgedPart(plan.name, documents, units, queries))
    return Judged(list(texts), parts)


def unindexed(chunks: Sequence["Chunk"]) -> "Corpus":
    """Chunks as KernelRetrieve sees an index, without one: nothing is embedded to read texts."""
    from types import SimpleNamespace

    from benchmarks.retrieval.indexes import Corpus

    kinds = np.array([chunk.kind for chunk in chunks])

    class Column:
        def mask(self, chosen: Callable[[list[str]], bool]) -> NDArray[np.bool_]:
            return np.array([chosen([kind]) for kind in kinds.tolist()])

    generation = SimpleNamespace(
        store=SimpleNamespace(all=lambda: chunks),
        columns={"kinds": Column()},
        techniques={},
        kernels={},
    )
    return Corpus(generation)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
