"""`python -m benchmarks.optimize.lift [FOLDER] --dir DIR --model NAME`: what the knowledge base is
worth to a language model.

The same problems, model and requests with the index (`index`), without it (`empty`), and with
documents of other techniques (`shuffled`), through files in the Batch format: DIR/ARM holds the
requests, replies and runs of an arm. Each call continues as far as its machine allows: rounds are
planned where the index is, and judged where the GPU is. Run folders hold every request and reply,
and replay. The last call writes the table and the figures to DIR.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent.cards.local import local_cards
from agent.cards.pool import CardPool
from agent.cards.sweep import Runner
from agent.endpoint.batch import BatchFolder
from agent.optimize.config import Limits, RunConfig, Strategy
from agent.optimize.files import write_atomically
from agent.optimize.run import read_config
from agent.optimize.starting import read_problem
from agent.pause import NeedsGpuError, WaitingError
from benchmarks.optimize.asking import Lines
from benchmarks.optimize.kernelbench import problems
from benchmarks.optimize.lift.arms import ARMS, EMPTY, ArmAdvisor, NoIndexError, note_sources
from benchmarks.optimize.lift.figures import write
from judge.profile.profiler import has_gpu
from kb.errors import InvalidInputError, KbError
from kb.gpus import find_spec
from kb.index.layout import default_index_dir

_PROBLEMS = "problems.json"
_DONE, _REPLIES, _GPU, _INDEX, _LATER = "done", "replies", "GPU", "index", "time"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.optimize.lift",
        description="Measure what the knowledge base is worth to a model. Start it again to go on.",
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", help="of KernelBench problem files; to go on without it"
    )
    parser.add_argument("--dir", type=Path, required=True, help="requests, replies, runs, results")
    parser.add_argument("--model", required=True, help="the model's name at its endpoint")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="beginnings of problems' names")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--gpu", default="H200", help="the card that judges (default: H200)")
    parser.add_argument("--versions", default="", help="there, such as torch=2.11.0,triton=3.6.0")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plans", type=int, default=2, help="candidates of a round (default: 2)")
    parser.add_argument("--repairs", type=int, default=1, help="of a candidate (default: 1)")
    parser.add_argument("--dtype", help="of inputs and parameters (default: the file's)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--baselines", default="eager,compile,max-autotune", help="what is timed beside"
    )
    parser.add_argument("--profile", action="store_true", help="profile each leader, some 10 s")
    parser.add_argument("--no-confirm", action="store_true", help="leave out the last session")
    trust_help = "run although the sandbox is incomplete"
    parser.add_argument("--trust", action="store_true", help=trust_help)
    parser.add_argument("--index", type=Path, default=default_index_dir(), help="index folder")
    parser.add_argument(
        "--with-notes", action="store_true", help="show what earlier runs taught (default: not)"
    )
    parser.add_argument("--no-index", action="store_true", help="leave planning to another machine")
    parser.add_argument("--no-gpu", action="store_true", help="leave judging to another machine")
    parser.add_argument(
        "--interpret", action="store_true", help="judge in Triton's interpreter: shows that it runs"
    )
    parser.add_argument("--limit-seconds", type=float, help="begin no step after so many seconds")
    return parser.parse_args(arguments)


def _config(
    options: argparse.Namespace, arm: str, problem: Path, notes: tuple[str, ...]
) -> RunConfig:
    spec = find_spec(options.gpu)
    versions = [pair.split("=", 1) for pair in options.versions.split(",") if "=" in pair]
    return RunConfig(
        problem=read_problem(problem),
        given=False,
        dtype=options.dtype,
        trust=options.trust,
        interpret=options.interpret,
        gpu=spec.name,
        architecture=spec.architecture,
        versions={name.strip(): value.strip() for name, value in versions},
        # The first requests are alike on every machine: nothing was measured by then.
        plan_first=True,
        model=options.model,
        batch=str(options.dir / arm),
        proposers=("llm",),
        knowledge=arm != EMPTY,
        exclude_sources=notes,
        baselines=tuple(options.baselines.split(",")),
        seed=options.seed,
        limits=Limits(rounds=options.rounds),
        strategy=Strategy(
            width=1,  # so that each round asks for as many plans, in every arm
            branching=options.plans,
            patience=options.rounds,
            repairs=options.repairs,
            crossover=False,
            retirement=False,
            reflection=False,
            profiling=options.profile,
            confirm=not options.no_confirm,
        ),
    )


def _problems(options: argparse.Namespace) -> list[str]:
    """Names of the problems: those of the folder, or those of the runs already begun."""
    path = options.dir / _PROBLEMS
    if options.folder is not None:
        names = list(problems(options.folder, options.only))
        write_atomically(path, json.dumps(names, indent=1) + "\n")
        return names
    try:
        recorded: list[str] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} is missing: name the folder of problems") from error
    return [name for name in recorded if not options.only or name.startswith(tuple(options.only))]


def _step(
    options: argparse.Namespace, arm: str, name: str, batch: BatchFolder, runner: Runner
) -> str:
    """Continue one run; returns what it waits for."""
    root = options.dir / arm / "runs" / name.replace("/", "-")
    if (root / "config.json").exists():
        # All but the folder's path stays as it was at the start.
        config = read_config(root).model_copy(update={"batch": str(options.dir / arm)})
    elif options.folder is None:
        raise InvalidInputError("it was not begun: name the folder of problems")
    else:
        notes = () if options.with_notes else note_sources(options.index)
        config = _config(options, arm, problems(options.folder)[name], notes)
    try:
        runner.run(
            root,
            config,
            batch=batch,
            away=not len(runner.cards),
            advise=lambda run, searcher: ArmAdvisor(arm, run, runner.index, searcher, options.seed),
        )
    except WaitingError:
        return _REPLIES
    except NeedsGpuError:
        return _GPU
    except NoIndexError:
        return _INDEX
    return _DONE


def main(arguments: Sequence[str]) -> int:
    """Continue all runs, problem by problem, so that arms stay in pairs."""
    options = _options(arguments)
    start = time.monotonic()
    folders = {arm: BatchFolder(options.dir / arm) for arm in options.arms}
    for folder in folders.values():
        for note in folder.notes:
            print(f"note: {folder.root.name}: {note}")
    states: dict[str, list[str]] = {}
    names = _problems(options)
    no_gpu = options.no_gpu or not (options.interpret or has_gpu())
    index = options.dir / "no-index" if options.no_index else options.index
    with CardPool([]) if no_gpu else local_cards("1", interpret=options.interpret) as cards:
        runner = Runner(index, cards, lambda root: Lines(root.name), report=False)
        for name in names:
            for arm, folder in folders.items():
                in_time = options.limit_seconds is None or (
                    time.monotonic() - start < options.limit_seconds
                )
                try:
                    state = _step(options, arm, name, folder, runner) if in_time else _LATER
                except KbError as error:
                    state = f"failed: {error}"
                states.setdefault(state, []).append(f"{arm}/{name}")
    for state, runs in states.items():
        word = "done" if state == _DONE else state if ":" in state else f"waiting for {state}"
        print(f"{word}: {len(runs)} runs" + (f" ({', '.join(runs)})" if ":" in state else ""))
    for arm, folder in folders.items():
        print(f"{arm}: {folder.unsent} requests in {folder.root / 'requests.jsonl'}")
    write(options.dir, names, options.arms)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
