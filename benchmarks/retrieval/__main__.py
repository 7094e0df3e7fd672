"""KernelRetrieve in one command: `python -m benchmarks.retrieval`.

While tuning: `python -m benchmarks.retrieval --half dev --parts functions-small --failures 20`.
`--half dev` leaves the test half unscored; the score of a query of the test half is never shown.
`--write` puts the figures of a whole run into results/.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.results import machine, publish
from benchmarks.retrieval.baselines import CONTENDERS
from benchmarks.retrieval.cases import Case, Part
from benchmarks.retrieval.context import context_recall
from benchmarks.retrieval.evaluate import Run, evaluate
from benchmarks.retrieval.fitting import make_parser
from benchmarks.retrieval.functions import function_cases
from benchmarks.retrieval.indexes import BuiltIndex, Corpus, build_index, open_index
from benchmarks.retrieval.judgements import kernel_cases, technique_cases, unanswerable_cases
from benchmarks.retrieval.packages import pinned_packages
from benchmarks.retrieval.report import abstention_page, part_page
from benchmarks.retrieval.summary import PRODUCT, abstention, summarize
from kb.embedders import Embedder, load_embedder
from kb.errors import KbError
from kb.records import Kind

RESULTS = Path(__file__).with_name("results")
_CODE: frozenset[Kind] = frozenset({"code"})


@dataclass(frozen=True, slots=True)
class _PartPlan:
    """A part before its index is open."""

    name: str
    title: str
    index: str
    cases: Callable[[BuiltIndex, Corpus], list[Case]]
    kinds: frozenset[Kind] = frozenset()

    def part(self, built: BuiltIndex, corpus: Corpus, half: str) -> Part:
        """The part over an open index: its `dev` half alone, or `all` of it."""
        cases = [case for case in self.cases(built, corpus) if half in {"all", case.half}]
        return Part(self.name, self.title, tuple(cases), self.kinds)


def _adapt(cases: Callable[[Corpus], list[Case]]) -> Callable[[BuiltIndex, Corpus], list[Case]]:
    return lambda _built, corpus: cases(corpus)


_SMALL, _FULL = (partial(function_cases, name) for name in ("small", "full"))
_TECHNIQUES, _UNANSWERABLE = _adapt(technique_cases), _adapt(unanswerable_cases)
_BESIDE, _ALONE = "beside all packages", "shipped corpus alone"
PARTS = (
    _PartPlan("functions-small", "Function search, 160 queries", "small", _SMALL, _CODE),
    _PartPlan("functions", "Function search, all packages", "full", _FULL, _CODE),
    _PartPlan("kernels", "Kernel to analogous kernel", "full", _adapt(kernel_cases), _CODE),
    _PartPlan("techniques", f"Technique queries, {_BESIDE}", "full", _TECHNIQUES),
    _PartPlan("techniques-corpus", f"Technique queries, {_ALONE}", "corpus", _TECHNIQUES),
    _PartPlan("unanswerable", f"Unanswerable queries, {_BESIDE}", "full", _UNANSWERABLE),
    _PartPlan("unanswerable-corpus", f"Unanswerable queries, {_ALONE}", "corpus", _UNANSWERABLE),
)


def main() -> int:
    """Run the parts asked for and print their tables."""
    arguments = _arguments()
    host = machine()
    try:
        embedder = load_embedder(arguments.embedder)
        runs, record = _run(arguments, embedder)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    pages = [part_page(part["title"], part) for part in record["parts"].values() if part["rows"]]
    for title, figures in _abstentions(runs).items():
        record.setdefault("abstention", {})[title] = figures
        pages.append(abstention_page(title, figures))
        print(pages[-1], end="\n\n")
    for run in runs.values():
        _show_failures(run, arguments.failures)
    if arguments.write:
        packages = ", ".join(
            f"{name} {package['version']}" for name, package in record["packages"].items()
        )
        footer = f"Embedder {embedder.name}; {packages}. Intervals are 95 % bootstrap intervals."
        text = "\n\n".join(["# KernelRetrieve", *pages, footer])
        record = {"machine": host, "embedder": embedder.name, **record}
        publish(RESULTS / "retrieval", "python -m benchmarks.retrieval --write", text, record)
    return 0


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__, write="publish a whole run in results/")
    names = [part.name for part in PARTS]
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="PART")
    parser.add_argument("--half", choices=("dev", "all"), default="all")
    contenders = list(CONTENDERS)
    parser.add_argument("--contenders", nargs="+", choices=contenders, default=contenders)
    parser.add_argument("--embedder", help="as `kb ingest --embedder`; by default the shipped one")
    parser.add_argument("--failures", type=int, default=0, metavar="N", help="of the dev half")
    arguments = parser.parse_args()
    is_complete = arguments.half == "all" and len(arguments.parts) == len(names)
    if arguments.write and not (is_complete and len(arguments.contenders) == len(CONTENDERS)):
        parser.error("--write publishes a whole run: leave --half, --parts and --contenders out")
    return arguments


def _run(
    arguments: argparse.Namespace, embedder: Embedder
) -> tuple[dict[str, dict[str, Run]], dict[str, Any]]:
    runs: dict[str, dict[str, Run]] = {}
    parts: dict[str, Any] = {}
    planned = [part for part in PARTS if part.name in arguments.parts]
    for set_name in dict.fromkeys(part.index for part in planned):
        built = build_index(set_name, arguments.work, embedder)
        with open_index(built.folder) as corpus:
            for plan in (part for part in planned if part.index == set_name):
                part = plan.part(built, corpus, arguments.half)
                part_runs = evaluate(part, corpus, embedder, arguments.contenders)
                runs[plan.name] = {run.contender: run for run in part_runs}
                parts[plan.name] = _figures(part, part_runs, corpus, embedder)
                if part.cases:  # a whole run takes a while
                    print(part_page(plan.title, parts[plan.name]), end="\n\n", flush=True)
    packages = {
        package.name: {"version": package.version, "sha256": package.sha256}
        for package in pinned_packages().values()
    }
    return runs, {"parts": parts, "packages": packages}


def _figures(part: Part, runs: list[Run], corpus: Corpus, embedder: Embedder) -> dict[str, Any]:
    techniques = part.name.startswith("techniques")
    context = context_recall(part.cases, corpus, embedder) if techniques else {}
    figures: dict[str, Any] = {
        "title": part.title,
        "rows": len(part.cases),
        "chunks": int(corpus.of_kinds(part.kinds).sum()),
        "content": corpus.generation.manifest.content,
    }
    return figures | (summarize(runs, context) if part.cases else {})


def _abstentions(runs: dict[str, dict[str, Run]]) -> dict[str, Any]:
    titles = {"": f"Abstention, {_BESIDE}", "-corpus": f"Abstention, {_ALONE}"}
    results: dict[str, Any] = {}
    for suffix, title in titles.items():
        answerable = runs.get(f"techniques{suffix}", {}).get(PRODUCT)
        unanswerable = runs.get(f"unanswerable{suffix}", {}).get(PRODUCT)
        if answerable and unanswerable and answerable.outcomes and unanswerable.outcomes:
            results[title] = abstention(answerable, unanswerable)
    return results


def _show_failures(runs: dict[str, Run], count: int) -> None:
    """The queries of the development half that the product answers worst."""
    run = runs.get(PRODUCT)
    if not run or not count:
        return
    dev = [outcome for outcome in run.outcomes if outcome.case.half == "dev" and outcome.metrics]
    for outcome in sorted(dev, key=lambda outcome: outcome.metrics["nDCG@10"])[:count]:
        print(f"\n{outcome.metrics['nDCG@10']:.3f} {outcome.case.id}")
        print(f"  asked: {outcome.case.query[:300]!r}")
        print(f"  answers: {', '.join(answer.name for answer in outcome.case.answers)}")
        print(f"  found: {', '.join(outcome.top_results[:5]) or 'abstained'}")


if __name__ == "__main__":
    sys.exit(main())
