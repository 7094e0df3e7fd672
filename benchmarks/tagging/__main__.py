"""Precision and recall of technique tags on real code.

`python -m benchmarks.tagging` tags the curated packages with the shipped corpus's patterns, scores
the sample of `sample.py` and the labels of `recall.yaml`, and writes `results/tagging.json`, `.md`.
"""

import argparse
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import machine, publish, table
from benchmarks.tagging.sample import Place, labels, sample, tags, verdicts
from kb.corpus.detection import Detector
from kb.corpus.loader import load_shipped_corpus

TARGET_PRECISION = 0.9
TARGET_RECALL = 0.7
_HALVES = ("development", "test")


def _share(count: int, total: int) -> str:
    return f"{count / total:.2f} ({count} of {total})" if total else "–"


def precision(tagged: Mapping[Place, tuple[str, ...]]) -> dict[str, Any]:
    """By technique and half: how many tags of the sample were looked at, and how many are right."""
    known_verdicts = verdicts()
    rows: dict[str, Any] = {}
    for technique, sampled in sample(tagged).items():
        judged = [tag for tag in sampled if tag in known_verdicts]
        rows[technique] = {"unseen": len(sampled) - len(judged)}
        for half in _HALVES:
            correct = [known_verdicts[tag] for tag in judged if tag.half == half]
            rows[technique][half] = [sum(correct), len(correct)]
    return rows


def recall(tagged: Mapping[Place, tuple[str, ...]], slugs: Collection[str]) -> dict[str, Any]:
    """By technique: how many of the labelled chunks that show it are tagged with it."""
    rows: dict[str, list[int]] = {}
    for place, shown_techniques in labels().items():
        assigned = tagged.get(place)
        if assigned is None:
            raise SystemExit(f"{place.package} has no chunk {place.path}:{place.lines} any more")
        for technique in shown_techniques.intersection(slugs):
            row = rows.setdefault(technique, [0, 0])
            row[0] += technique in assigned
            row[1] += 1
    return dict(sorted(rows.items()))


def _sum(rows: Iterable[Sequence[int]]) -> tuple[int, int]:
    pairs = list(rows)
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


def main() -> None:
    """Measure, write, print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    techniques = [technique.entry for technique in load_shipped_corpus().techniques]
    slugs = [entry.slug for entry in techniques]
    detector = Detector(techniques)
    tagged = tags(detector)
    counts = Counter(slug for assigned in tagged.values() for slug in assigned)
    by_technique, recalled = precision(tagged), recall(tagged, slugs)
    halves = {half: _sum(row[half] for row in by_technique.values()) for half in _HALVES}
    correct = _sum(halves.values())
    unseen = sum(row["unseen"] for row in by_technique.values())
    hits = _sum(recalled.values())
    record: dict[str, Any] = {
        "machine": machine(),
        "packages": sorted({place.package for place in tagged}),
        "chunks": len(tagged),
        "techniques": len(techniques),
        "tags": dict(sorted(counts.items())),
        "precision": by_technique,
        "recall": recalled,
    }
    body = []
    for slug in sorted(slugs):
        judged = by_technique.get(slug, dict.fromkeys(_HALVES, (0, 0)))
        both, recall_count = _sum(judged[half] for half in _HALVES), recalled.get(slug, (0, 0))
        shares = [_share(*counts) for counts in (both, judged["test"], recall_count)]
        body.append([slug, str(counts[slug]), *shares])
    figures = [
        ["precision, whole sample", f"≥ {TARGET_PRECISION}", _share(*correct)],
        ["precision, test half", f"≥ {TARGET_PRECISION}", _share(*halves["test"])],
        ["recall, labels made before tagging", f"≥ {TARGET_RECALL}", _share(*hits)],
    ]
    text = [
        table(["figure", "target", "measured"], figures),
        f"{len(tagged):,} chunks of {', '.join(record['packages'])}; patterns of "
        f"{len(techniques)} techniques. Of each technique's tags the first "
        "eight in the order of a hash were read; patterns were changed by the development half "
        "only. "
        f"{unseen} tags of the sample have no verdict yet and are left out. Recall counts the "
        f"{hits[1]} labels for techniques that have an entry, on {len(labels())} chunks drawn "
        "at random from kernel-looking ones and labelled by one reader before any was tagged.",
        table(["technique", "tags", "precision", "test half", "recall"], body),
    ]
    stem = Path(__file__).parent / "results" / "tagging"
    publish(stem, "python -m benchmarks.tagging", "\n\n".join(text), record)


if __name__ == "__main__":
    main()
