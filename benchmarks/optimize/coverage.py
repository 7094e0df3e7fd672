"""`python -m benchmarks.optimize.coverage FOLDER`: for which problems the recipes have a candidate.

Needs no GPU: graphs are exported without computing anything, and nothing is judged. Prints a line
a problem, then how often each reason stands in the way.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from agent.optimize.candidate import Proposal, SearchState
from agent.optimize.starting import read_problem
from agent.proposers.recipe.catalog import Catalog, CorpusCatalog
from agent.proposers.recipe.proposer import Export, RecipeProposer
from benchmarks.optimize.kernelbench import problems
from judge.graph import Graph, export_graph
from judge.sandbox.launch import Zygote
from kb.errors import KbError

_CARD, _ARCHITECTURE = "H200", "sm_90a"


def proposals(
    path: Path, dtype: str, catalog: Catalog, export: Export = export_graph
) -> tuple[list[Proposal], str]:
    """The recipes' proposals for a problem file on an H200, or the reason why there are none."""
    proposer = RecipeProposer(catalog, export)
    try:
        state = SearchState.model_construct(
            problem=read_problem(path), dtype=dtype, gpu=_CARD, architecture=_ARCHITECTURE
        )
        return list(proposer.propose(state)), ""
    except KbError as error:
        return [], str(error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Go through a folder and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimize.coverage")
    parser.add_argument("folder", type=Path, help="of KernelBench problem files")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="beginnings of names")
    parser.add_argument("--write", type=Path, metavar="DIR", help="where first proposals are put")
    options = parser.parse_args(arguments)
    catalog = CorpusCatalog()
    covered: Counter[str] = Counter()
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with Zygote() as zygote:

        def export(source: str, name: str, dtype: str | None) -> Graph:
            return export_graph(source, name, dtype, zygote)

        for name, path in problems(options.folder, options.only).items():
            proposed, reason = proposals(path, options.dtype, catalog, export)
            level = name.rpartition("/")[0]
            total[level] += 1
            covered[level] += bool(proposed)
            if options.write and proposed:
                target = options.write / f"{name}{proposed[0].suffix}"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(proposed[0].source, encoding="utf-8")
            if reason:
                reasons[re.sub(r"\(.*", "", reason)] += 1
            print(
                f"{name}: {'; '.join(proposal.note for proposal in proposed[:2]) or reason}"[:300],
                flush=True,
            )
    for level, count in total.items():
        print(f"{level or 'all'}: {covered[level]} of {count} have a candidate")
    for reason, count in reasons.most_common():
        print(f"{count:4d}  {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
