"""KernelRetrieve in one command: `python -m benchmarks.retrieval`.

While tuning: `python -m benchmarks.retrieval --half dev --parts functions-small --failures 20`.
`--half dev` leaves the test half unscored; what a query of the test half scored is never shown.
`--write` puts the figures of a whole run into results/.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import machine
from benchmarks.retrieval.baselines import CONTENDERS
from benchmarks.retrieval.cases import Case, Part
from benchmarks.retrieval.context import context_recall
from benchmarks.retrieval.evaluate import Run, evaluate
from benchmarks.retrieval.fitting import parser
from benchmarks.retrieval.functions import function_cases
from benchmarks.retrieval.indexes import BuiltIndex, Corpus, build_index, opened
from benchmarks.retrieval.judgements import kernel_cases, technique_cases, unanswerable_cases
from benchmarks.retrieval.packages import pinned_packages
from benchmarks.retrieval.report import abstention_page, part_page
from benchmarks.retrieval.summary import PRODUCT, abstention, summarize
from kb.embedders import Embedder, load_embedder
from kb.errors import KbError
from kb.records import Kind

RESULTS = Path(__file__).with_name("results")
_CODE: frozenset[Kind] = frozenset({"code"})
_Cases = Callable[[BuiltIndex, Corpus], list[Case]]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A part before its index is open."""

    name: str
    title: str
    index: str
    cases: _Cases
    kinds: frozenset[Kind] = frozenset()


PARTS = (
    _Planned(
        "functions-small",
        "Function search, 160 queries",
        "small",
        lambda built, corpus: function_cases("small", built, corpus),
        _CODE,
    ),
    _Planned(
        "functions",
        "Function search, all packages",
        "full",
        lambda built, corpus: function_cases("full", built, corpus),
        _CODE,
    ),
    _Planned(
        "kernels",
        "Kernel to analogous kernel",
        "full",
        lambda _built, corpus: kernel_cases(corpus),
        _CODE,
    ),
    _Planned(
        "techniques",
        "Technique queries, beside all packages",
        "full",
        lambda _built, corpus: technique_cases(corpus),
    ),
    _Planned(
        "techniques-corpus",
        "Technique queries, shipped corpus alone",
        "corpus",
        lambda _built, corpus: technique_cases(corpus),
    ),
    _Planned(
        "unanswerable",
        "Unanswerable queries, beside all packages",
        "full",
        lambda _built, corpus: unanswerable_cases(corpus),
    ),
    _Planned(
        "unanswerable-corpus",
        "Unanswerable queries, shipped corpus alone",
        "corpus",
        lambda _built, corpus: unanswerable_cases(corpus),
    ),
)


def main() -> int:
    """Run the parts asked for and print their tables."""
    arguments = _arguments()
    where = machine()
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
    page = "\n\n".join(pages)
    for run in runs.values():
        _show_failures(run, arguments.failures)
    if arguments.write:
        _write(page, {"machine": where, "embedder": embedder.name, **record})
    return 0


def _arguments() -> argparse.Namespace:
    made = parser(__doc__, write="publish a whole run in results/")
    names = [part.name for part in PARTS]
    made.add_argument("--parts", nargs="+", choices=names, default=names, metavar="PART")
    made.add_argument("--half", choices=("dev", "all"), default="all")
    made.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    made.add_argument("--embedder", help="as `kb ingest --embedder`; by default the shipped one")
    made.add_argument("--corpus", type=Path, help="entries instead of the shipped corpus")
    made.add_argument("--failures", type=int, default=0, metavar="N", help="of the dev half")
    arguments = made.parse_args()
    whole = arguments.half == "all" and len(arguments.parts) == len(names)
    if arguments.write and not (whole and len(arguments.contenders) == len(CONTENDERS)):
        made.error("--write publishes a whole run: leave --half, --parts and --contenders out")
    return arguments


def _run(
    arguments: argparse.Namespace, embedder: Embedder
) -> tuple[dict[str, dict[str, Run]], dict[str, Any]]:
    runs: dict[str, dict[str, Run]] = {}
    parts: dict[str, Any] = {}
    planned = [part for part in PARTS if part.name in arguments.parts]
    for index in dict.fromkeys(part.index for part in planned):
        built = build_index(index, arguments.work, embedder, arguments.corpus)
        with opened(built.folder) as corpus:
            for plan in (part for part in planned if part.index == index):
                cases = plan.cases(built, corpus)
                if arguments.half == "dev":
                    cases = [case for case in cases if case.half == "dev"]
                part = Part(plan.name, plan.title, tuple(cases), plan.kinds)
                found = evaluate(part, corpus, embedder, arguments.contenders)
                runs[plan.name] = {run.contender: run for run in found}
                parts[plan.name] = _figures(part, found, corpus, embedder)
                if cases:  # a whole run takes a while
                    print(part_page(plan.title, parts[plan.name]), end="\n\n", flush=True)
    packages = {p.name: {"version": p.version, "sha256": p.sha256} for p in _packages()}
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
    titles = {"": "Abstention, beside all packages", "-corpus": "Abstention, shipped corpus alone"}
    found: dict[str, Any] = {}
    for suffix, title in titles.items():
        answerable = runs.get(f"techniques{suffix}", {}).get(PRODUCT)
        unanswerable = runs.get(f"unanswerable{suffix}", {}).get(PRODUCT)
        if answerable and unanswerable and answerable.outcomes and unanswerable.outcomes:
            found[title] = abstention(answerable, unanswerable)
    return found


def _show_failures(runs: dict[str, Run], count: int) -> None:
    """The queries of the development half that the product answers worst."""
    run = runs.get(PRODUCT)
    if not run or not count:
        return
    dev = [o for o in run.outcomes if o.case.half == "dev" and o.metrics]
    for outcome in sorted(dev, key=lambda o: o.metrics["nDCG@10"])[:count]:
        print(f"\n{outcome.metrics['nDCG@10']:.3f} {outcome.case.id}")
        print(f"  asked: {outcome.case.query[:300]!r}")
        print(f"  answers: {', '.join(answer.name for answer in outcome.case.answers)}")
        print(f"  found: {', '.join(outcome.found[:5]) or 'abstained'}")


def _packages() -> list[Any]:
    return list(pinned_packages().values())


def _write(page: str, record: dict[str, Any]) -> None:
    where = record["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    packages = ", ".join(f"{name} {each['version']}" for name, each in record["packages"].items())
    footer = (
        f"Measured {where['date']} by `python -m benchmarks.retrieval --write` on "
        f"{where['processor']}, {where['cores']} cores, {where['memory_gb']} GB, load average "
        f"before {where['load_average_before'][0]}; embedder {record['embedder']}; {packages}; "
        f"Python {where['python']}, {versions}. Intervals are 95 % bootstrap intervals."
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "retrieval.md").write_text(f"# KernelRetrieve\n\n{page}\n\n{footer}\n")
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / "retrieval.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
