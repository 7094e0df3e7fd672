"""Contexts of a folder of problems: is the first example of the family, and does it run?"""

import json
import re
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.context.execute import Job, run
from kb.context.build import build_context
from kb.context.models import ContextRequest, ContextResponse
from kb.context.problems import advise
from kb.gpus import device_of
from kb.search.engine import Searcher
from kb.vocabulary import load_yaml

LABELS = Path(__file__).with_name("labels.yaml")
GRADES = Path(__file__).with_name("grades.yaml")
"""Given blindly: `folder/problem` → technique → 0 to 2."""
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^## Example: .*\(([a-z0-9-]+)\)$", re.MULTILINE)
_MEMORY_ACCESS = re.compile(r"tl\.store\(|\.store\(\[")
_REPEATS = 3
_HALF = 2  # bytes


@dataclass(frozen=True, slots=True)
class Label:
    """What was judged by hand for problems of one kind."""

    pattern: re.Pattern[str]
    ops: frozenset[str]
    techniques: dict[str, int]


@dataclass(slots=True)
class Outcome:
    """How good the context of one problem is."""

    name: str
    slug: str | None
    first: bool
    body: bool
    whole: bool
    relevant: float | None
    """Share of the named techniques that help: by the blind grades of that problem, and by the
    labels of its kind for techniques that nobody graded there."""
    tokens: int
    milliseconds: float
    problem: str = ""
    """What was wrong when the example was run."""


def read_labels() -> list[Label]:
    """Return the hand-made labels, in the order in which they are tried."""
    return [
        Label(re.compile(entry["pattern"]), frozenset(entry["ops"]), entry["techniques"])
        for entry in load_yaml(LABELS.read_text(encoding="utf-8"))
    ]


def label_of(name: str, labels: list[Label]) -> Label | None:
    """Return the label of a problem by its file's name; None if nobody judged its kind."""
    flat = name.lower().replace("transposed", "transpose")
    return next((label for label in labels if label.pattern.search(flat)), None)


def shown_example(text: str) -> tuple[str, str] | None:
    """Return the slug of a context's first example and its fenced blocks joined."""
    match = _EXAMPLE.search(text)
    if match is None:
        return None
    tail = text[match.end() :]
    following = _EXAMPLE.search(tail)
    section = tail[: following.start()] if following else tail
    return match[1], "\n".join(_FENCE.findall(section))


def measure(
    files: list[Path], searcher: Searcher, corpus: Path, *, tokens: int, gpu: str, language: str,
    dtype: str | None = None,
) -> list[Outcome]:  # fmt: skip
    """Build the context of each problem, run what it shows, and judge it by the labels."""
    labels = read_labels()
    grades: dict[str, dict[str, int]] = load_yaml(GRADES.read_text(encoding="utf-8"))
    outcomes: list[Outcome] = []
    jobs: dict[str, Job] = {}
    examples: list[tuple[Outcome, str]] = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        fields = {"problem": text, "gpu": gpu, "language": language, "dtype": dtype}
        request = ContextRequest.model_validate({**fields, "max_tokens": tokens})
        response, milliseconds = _timed_context(request, searcher)
        graded = grades.get(f"{file.parent.name}/{file.stem}", {})
        outcome = _judge(file.stem, response, milliseconds, labels, graded, searcher)
        example = shown_example(response.text)
        if example is not None and outcome.body:
            slug, code = example
            if code not in jobs:
                jobs[code] = job_of(f"{len(jobs)}:{slug}", slug, code, searcher, corpus, request)
            examples.append((outcome, code))
        outcomes.append(outcome)
    problems = run(jobs.values())
    for outcome, code in examples:
        problem = problems[jobs[code].slug]
        outcome.whole, outcome.problem = problem is None, problem or ""
    return outcomes


def _timed_context(request: ContextRequest, searcher: Searcher) -> tuple[ContextResponse, float]:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        response = build_context(request, searcher)
        times.append((time.perf_counter() - start) * 1e3)
    return response, sorted(times)[_REPEATS // 2]


def _judge(
    name: str, response: ContextResponse, milliseconds: float, labels: list[Label],
    graded: dict[str, int], searcher: Searcher,
) -> Outcome:  # fmt: skip
    label = label_of(name, labels)
    example = shown_example(response.text)
    slug, code = example if example is not None else (None, "")
    kernel = searcher.generation.kernels.get(slug or "")
    first = kernel is not None and label is not None and kernel.entry.op in label.ops
    named = [technique.slug for technique in response.techniques]
    relevant = None
    if label is not None and named:
        grades = {**label.techniques, **graded}
        relevant = sum(grades.get(slug, 0) > 0 for slug in named) / len(named)
    body = first and _MEMORY_ACCESS.search(code) is not None
    return Outcome(name, slug, first, body, False, relevant, response.tokens, milliseconds)


def job_of(
    name: str, slug: str, code: str, searcher: Searcher, corpus: Path, request: ContextRequest
) -> Job:
    """Return what runs a shown example against the reference of its entry, at a small size."""
    generation = searcher.generation
    record = generation.kernels[slug]
    job = small_job(name, code, record.entry.model_dump(), corpus / record.path)
    device = device_of(request.gpu) if request.gpu else None
    advice = advise(
        request.problem or "", searcher, request.gpu, request.language, device, request.dtype
    )
    chosen = next((other for other in (*advice.first, *advice.others) if other.slug == slug), None)
    if chosen is None:
        return job
    # The interpreter's products of bfloat16 are wrong; float16 is as wide.
    dtype = "float16" if chosen.assumed.itemsize == _HALF else job.dtype
    assumed = chosen.assumed
    return replace(
        job,
        options=dict(chosen.options),
        transposed=assumed.transposed,
        present=assumed.present,
        last=assumed.last,
        dtype=dtype,
    )


def small_job(slug: str, code: str, entry: dict[str, Any], path: Path) -> Job:
    """Return the job of an entry's check sizes in its most exact dtype."""
    dtypes = entry["dtypes"]
    dtype = "float32" if "float32" in dtypes else dtypes[0]
    dtype = {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype)
    sizes = tuple(tuple(size) for size in entry["sizes"]["check"])
    return Job(slug, code, str(path), sizes, dtype, dict(entry["check_params"]))


def table(outcomes: list[Outcome]) -> dict[str, float]:
    """Return the shares and medians over problems."""
    count = len(outcomes) or 1
    judged = [outcome.relevant for outcome in outcomes if outcome.relevant is not None]
    return {
        "problems": len(outcomes),
        "first": sum(outcome.first for outcome in outcomes) / count,
        "body": sum(outcome.body for outcome in outcomes) / count,
        "whole": sum(outcome.whole for outcome in outcomes) / count,
        "relevant": sum(judged) / (len(judged) or 1),
        "tokens_p50": sorted(outcome.tokens for outcome in outcomes)[len(outcomes) // 2],
        "ms_p50": round(
            sorted(outcome.milliseconds for outcome in outcomes)[len(outcomes) // 2], 1
        ),
    }


def lines(outcomes: list[Outcome]) -> list[str]:
    """Return one line a problem, what failed first."""
    ordered = sorted(outcomes, key=lambda outcome: (outcome.whole, outcome.first, outcome.name))
    return [json.dumps(asdict(outcome)) for outcome in ordered]
