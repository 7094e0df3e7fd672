"""Choose what a context is about: techniques, with reasons, and the examples that show them."""

from dataclasses import dataclass

from kb.architectures import any_runs_on, parse_architecture
from kb.context.models import ContextRequest
from kb.corpus.detection import Detector
from kb.corpus.entries import Technique
from kb.index.reader import Generation
from kb.search.engine import Ranking, Searcher
from kb.search.gates import GateVerdict, judge_gates
from kb.search.models import Filters
from kb.search.query import resolve_profile
from kb.vocabulary import find_gpu

# Entries looked at per search; a context names a handful of techniques at most.
_DEPTH = 12
# Techniques below this share of the best one's score are noise next to it.
_NOISE = 0.6
# A profile's gates against a query's words, both in [0, 1].
_GATE_WEIGHT = 1.0
# A kernel that already does it gains little from reading about it.
_ALREADY_USED = 0.3
# How much of a pasted kernel is searched with: its head names the operator and the loop.
_KERNEL_QUERY_CHARS = 2000
MAX_TECHNIQUES = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen technique."""

    technique: Technique
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What a context will be made of, best first."""

    techniques: list[Choice]
    kernels: list[str]
    """Slugs of example kernels."""
    sections: dict[str, list[int]]
    """Technique slug → rows of its chunks that matched the query."""
    code: list[int]
    """Rows of ingested code and documents that matched, where no entry did."""
    ignored: list[str]
    abstained: bool


def device_of(gpu: str | None) -> str | None:
    """Architecture of a GPU given by name, or given as an architecture already.

    Raises
    ------
    InvalidInputError
        If it is neither.
    """
    if gpu is None:
        return None
    if gpu.startswith("sm_"):
        return str(parse_architecture(gpu))
    return find_gpu(gpu).architecture


def select(request: ContextRequest, searcher: Searcher) -> Selection:
    """Choose techniques and examples for a request."""
    generation = searcher.generation
    device = device_of(request.gpu)
    profile, ignored = resolve_profile(request.profile or {})
    ranking = _rank(request, searcher)
    scores, reasons, sections, code = _from_search(ranking, generation)
    kernels = _kernel_order(ranking, generation)
    already = _already_used(request.kernel, generation)
    verdicts = {
        slug: judge_gates(record.entry, profile) for slug, record in generation.techniques.items()
    }
    choices: list[Choice] = []
    for slug, record in generation.techniques.items():
        entry = record.entry
        if not _allowed(entry, slug, request, device):
            continue
        choice = _weigh(entry, scores.get(slug, 0.0), reasons.get(slug), verdicts[slug])
        if choice is not None and slug in already:
            reason = f"{choice.reason}; the kernel already uses it"
            choice = Choice(entry, choice.score * _ALREADY_USED, reason)
        if choice is not None:
            choices.append(choice)
    choices.sort(key=lambda choice: (-choice.score, choice.technique.slug))
    best = choices[0].score if choices else 0.0
    choices = [choice for choice in choices if choice.score >= _NOISE * best][:MAX_TECHNIQUES]
    examples = _examples(choices, kernels, generation, request, device)
    abstained = not choices and (not code or ranking is None or ranking.abstained)
    return Selection(choices, examples, sections, code, ignored, abstained)


def _rank(request: ContextRequest, searcher: Searcher) -> Ranking | None:
    query = (request.query or "").strip()
    kernel = (request.kernel or "").strip()
    if not query and not kernel:
        return None
    text = query or kernel[:_KERNEL_QUERY_CHARS]
    return searcher.rank(text, _DEPTH, Filters())


def _from_search(
    ranking: Ranking | None, generation: Generation
) -> tuple[dict[str, float], dict[str, str], dict[str, list[int]], list[int]]:
    scores: dict[str, float] = {}
    reasons: dict[str, str] = {}
    sections: dict[str, list[int]] = {}
    code: list[int] = []
    if ranking is None or ranking.abstained or not ranking.hits:
        return scores, reasons, sections, code
    columns = generation.columns
    best = ranking.hits[0].score or 1.0
    for hit in ranking.hits:
        kind = columns["kinds"].of(hit.row)[0]
        for slug in columns["techniques"].of(hit.row):
            if slug not in generation.techniques:
                continue
            share = hit.score / best
            if kind == "technique":
                sections.setdefault(slug, []).append(hit.row)
                reason = (
                    "named in the query" if slug in ranking.said.techniques else "matches the query"
                )
            else:
                # A kernel speaks for all techniques it shows, so for each of them less.
                share *= 0.5
                reason = (
                    f"shown by {columns['entries'].of(hit.row)[0].split(':')[1]}"
                    if (kind == "kernel")
                    else "shown by matching code"
                )
            if share > scores.get(slug, 0.0):
                scores[slug], reasons[slug] = share, reason
        if kind in {"code", "doc"}:
            code.append(hit.row)
    return scores, reasons, sections, code


def _kernel_order(ranking: Ranking | None, generation: Generation) -> list[str]:
    """Kernel slugs in the order in which the search found them."""
    if ranking is None or ranking.abstained:
        return []
    entries = generation.columns["entries"]
    names = (name for hit in ranking.hits for name in entries.of(hit.row))
    return [name.split(":")[1] for name in names if name.startswith("kernel:")]


def _already_used(kernel: str | None, generation: Generation) -> set[str]:
    if not kernel:
        return set()
    detector = Detector([record.entry for record in generation.techniques.values()])
    language = "cuda" if "__global__" in kernel else "triton"
    return set(detector.techniques(kernel, language))


def _allowed(entry: Technique, slug: str, request: ContextRequest, device: str | None) -> bool:
    if slug in request.exclude:
        return False
    if request.language and request.language not in entry.languages:
        return False
    return device is None or any_runs_on(entry.architectures, device)


def _weigh(
    entry: Technique, score: float, reason: str | None, verdict: GateVerdict
) -> Choice | None:
    reasons = [reason] if reason else []
    reasons += verdict.for_it
    reasons += [f"against it: {each}" for each in verdict.against_it]
    total = score + _GATE_WEIGHT * verdict.support
    if total <= 0 or not (reason or verdict.for_it):
        return None
    return Choice(
        entry,
        round(min(total / 2 if verdict.for_it and reason else total, 1.0), 4),
        "; ".join(reasons),
    )


def _examples(
    choices: list[Choice],
    found: list[str],
    generation: Generation,
    request: ContextRequest,
    device: str | None,
) -> list[str]:
    """Kernels that show the chosen techniques: the best technique's first, as the search ranks."""
    rank = {slug: number for number, slug in enumerate(found)}
    ordered = [
        slug
        for choice in choices
        for slug in sorted(
            generation.examples[choice.technique.slug], key=lambda slug: rank.get(slug, len(rank))
        )
    ]
    if not choices:
        ordered = found
    kept: list[str] = []
    for slug in dict.fromkeys(ordered):
        kernel = generation.kernels[slug].entry
        fits = request.language in (None, kernel.language)
        runs = device is None or any_runs_on(kernel.architectures, device)
        if fits and runs and slug not in request.exclude:
            kept.append(slug)
    return kept
