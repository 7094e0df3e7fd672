"""Filtered search against unfiltered: `python -m benchmarks.index.filtered`.

The server's time of `Searcher.search` over indexes of `SIZES` chunks, for filters that keep from
one chunk in a hundred to all of them; queries and filters in turns.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.index.material import ARCHITECTURES, RememberedQueries, questions, sized_index
from benchmarks.results import Figure, machine, publish, table
from kb.embedders.onnx import OnnxEmbedder
from kb.index.reader import Generation, open_generation
from kb.search.engine import Searcher
from kb.search.filtering import filter_mask
from kb.search.models import Filters

RESULTS = Path(__file__).with_name("results")
SIZES = (20_000, 100_000)
QUERIES = 40
ROUNDS = 5
TARGET = 2.0
UNFILTERED = "none"


def conditions(generation: Generation) -> dict[str, Filters]:
    """The filters measured, by what they keep; the first keeps all because there is none."""
    everything = list(generation.sources)
    devices = {label: name.rstrip("a") for label, name in ARCHITECTURES.items()}
    return {
        UNFILTERED: Filters(),
        "1 % in one stretch (source)": Filters(sources=["one"]),
        "1 % scattered (architecture)": Filters(architectures=[devices["one"]]),
        "30 % in one stretch (source)": Filters(sources=["thirty"]),
        "30 % scattered (architecture)": Filters(architectures=[devices["thirty"]]),
        "all (every source)": Filters(sources=everything),
        "all but 1 % (sources)": Filters(sources=[s for s in everything if s != "one"]),
        "three fields at once": Filters(
            languages=["triton", "python"],
            architectures=[devices["thirty"]],
            kinds=["code", "kernel", "technique"],
        ),
    }


def measure(
    searcher: Searcher, filters: dict[str, Filters], queries: list[str]
) -> dict[str, list[float]]:
    """Milliseconds of every search, by filter."""
    took: dict[str, list[float]] = {name: [] for name in filters}
    names = list(filters)
    for turn in range(ROUNDS + 1):
        for number, query in enumerate(queries):
            shift = (turn + number) % len(names)
            for name in names[shift:] + names[:shift]:
                answer = searcher.search(query, 10, filters[name])
                if turn:  # the first round warms up
                    took[name].append(answer.took_ms)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="chunks")
    sizes = parser.parse_args().sizes
    where = machine()
    queries = questions(QUERIES)
    figures: list[Figure] = []
    text = [
        f"{len(queries)} questions, {ROUNDS} rounds, k = 10, in one process. The last column "
        "leaves out the query's embedding, which no filter changes. Vectors of code are stand-ins "
        "(`material.StandIns`); texts, tags and the queries' vectors are real."
    ]
    record: dict[str, Any] = {"machine": where}
    for size in sizes:
        generation = open_generation(sized_index(size))
        filters = conditions(generation)
        real = OnnxEmbedder()
        searcher = Searcher(generation, real)
        shares = {name: _share(each, generation) for name, each in filters.items()}
        abstained = {
            name: sum(searcher.search(query, 10, each).abstained for query in queries)
            for name, each in filters.items()
        }
        took = measure(searcher, filters, queries)
        without = measure(Searcher(generation, RememberedQueries(real, queries)), filters, queries)
        p50 = {name: float(np.median(values)) for name, values in took.items()}
        bare = {name: float(np.median(values)) for name, values in without.items()}
        rows = []
        for name in filters:
            ratio = p50[name] / p50[UNFILTERED]
            if name != UNFILTERED:
                label = f"filtered ÷ unfiltered at {size:,} chunks: {name}"
                figures.append(Figure(label, ratio, TARGET, at_least=False))
            rows.append([
                name, f"{shares[name]:.1%}", f"{ratio:.2f}", f"{p50[name]:.2f}",
                f"{np.percentile(took[name], 95):.2f}", f"{abstained[name]} of {len(queries)}",
                f"{bare[name] / bare[UNFILTERED]:.2f} ({bare[name]:.2f} ms)",
            ])  # fmt: skip
        head = ["filter", "keeps", "÷ unfiltered (p50)", "p50 ms", "p95 ms", "abstained"]
        text.append(f"{size:,} chunks:\n\n" + table([*head, "without embedding"], rows))
        record[str(size)] = {
            "shares": shares, "p50_ms": p50, "p50_ms_without_embedding": bare, "took_ms": took,
        }  # fmt: skip
    command = "python -m benchmarks.index.filtered"
    publish(RESULTS / "filtered", command, "\n\n".join(text), record, figures)


def _share(filters: Filters, generation: Generation) -> float:
    mask = filter_mask(filters, generation.columns)
    return 1.0 if mask is None else float(mask.mean())


if __name__ == "__main__":
    main()
