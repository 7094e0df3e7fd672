"""Choose what a context is about: techniques, with reasons, and the examples that show them."""

from dataclasses import dataclass, field

from kb.architectures import any_runs_on
from kb.context.diagnosing import Diagnose, diagnosed
from kb.context.examples import example_spec, examples_for, production_rows
from kb.context.materials import Candidate
from kb.context.models import ContextRequest
from kb.context.problems import advise
from kb.context.results import result_lines
from kb.corpus.entries import Technique
from kb.gpus import device_of
from kb.index.reader import Generation
from kb.pasted.remarks import remarks_on
from kb.profiles.keys import resolve_profile
from kb.profiles.values import metric_values, quantity
from kb.search.engine import Ranking, Searcher
from kb.search.gates import GateVerdict, judge_gates
from kb.search.models import Filters

# Entries looked at per search; a context names a handful of techniques at most.
_DEPTH = 12
# The same where kernels of an operator are ranked: the largest family, matmul, has 36.
_KERNEL_DEPTH = 60
# Techniques below this share of the best one's score are noise next to it.
_CUTOFF = 0.6
# A profile's gates against a query's words, both in [0, 1].
_GATE_WEIGHT = 1.0
# Metrics of a profile that the facts repeat; the rest is in the reader's hands.
_SHOWN_METRICS = 8
# Where a profile was diagnosed, scores are of three parts: query, gates and diagnosis.
_PARTS = 3
# A kernel that already does it gains little from reading about it.
_ALREADY_USED = 0.3
# What a kernel's text shows weighs as a match that is clear and not the best.
_REMARK_SCORE = 0.5
# How much of a pasted kernel is searched with: its head names the operator and the loop.
_KERNEL_QUERY_CHARS = 2000
# Focused beats comprehensive: an agent that reads four acts on none.
MAX_TECHNIQUES = 3
# Where there is a profile, what was measured says more than what such kernels need as a rule.
_BESIDE_PROFILE = 0.4
# A query beside a problem moves techniques up; the problem's operators stay in front.
_QUERY_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen technique."""

    technique: Technique
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The contents of a context, best first."""

    techniques: list[Choice]
    kernels: list[Candidate]
    """Example kernels, the best first."""
    others: list[Candidate]
    """The best kernel for each other operator of a problem."""
    facts: list[str]
    """What is known of the problem, in lines."""
    results: list[str]
    """What kernels near to the problem were measured to reach, in lines."""
    sections: dict[str, list[int]]
    """Technique slug → rows of its chunks that matched the query."""
    code: list[int]
    """Rows of ingested code and documents that matched, where no entry did."""
    production: list[int]
    """Rows of production code that is a better example than any kernel of a chosen technique."""
    ignored: list[str]
    abstained: bool
    operators: dict[str, str] = field(default_factory=dict)
    """Example kernel → the operator of a question or pasted kernel that it computes."""
    missing: list[str] = field(default_factory=list)
    """Which operators asked for have no kernel that can be shown, in lines."""
    language: str | None = None
    """Of all examples: the one asked for, or that of the pasted kernel."""
    remarks: tuple[str, ...] = ()
    """What the text of a pasted kernel shows, in lines."""
    unlike: bool = False
    """Whether the example kernels compute something else than what was asked for."""


def plain_forms(selection: Selection, generation: Generation) -> dict[str, str]:
    """Return the slugs of kernels that a better one of the selection improves on, with its slug."""
    better_of: dict[str, str] = {}
    slugs = [kernel.slug for kernel in selection.kernels]
    for place, slug in enumerate(slugs):
        entry = generation.kernels[slug].entry
        while entry.derived_from is not None and entry.derived_from in generation.kernels:
            plain = entry.derived_from
            if plain in slugs[place + 1 :]:
                better_of.setdefault(plain, slug)
            entry = generation.kernels[plain].entry
    return better_of


def select(
    request: ContextRequest, searcher: Searcher, diagnose: Diagnose | None = None
) -> Selection:
    """Choose techniques and examples for a request.

    Raises
    ------
    InvalidInputError
        Unknown GPU, malformed architecture, or a problem that cannot be read.
    """
    generation = searcher.generation
    device = device_of(request.gpu)
    if request.module is not None:
        return _select_problem(request, request.module, searcher, device, diagnose)
    profile, ignored = resolve_profile(request.profile or {})
    answers = diagnosed(diagnose, profile, request, generation)
    ranking = _rank(request, searcher)
    scores, reasons, sections, code = _from_search(ranking, generation)
    remarks = remarks_on(request.kernel or "")
    for slug in remarks.techniques:
        scores[slug] = scores.get(slug, 0.0) + _REMARK_SCORE
        reasons[slug] = "; ".join(filter(None, (reasons.get(slug), "the kernel's text shows it")))
    spec = example_spec(request, device)
    # How the kernels of an operator rank among each other takes a longer list.
    longer = _rank(request, searcher, _KERNEL_DEPTH) if spec.operators else ranking
    kernels = _kernel_order(longer, generation)
    already = _already_used(request.kernel, searcher)
    verdicts = {
        slug: judge_gates(record.entry, profile) for slug, record in generation.techniques.items()
    }
    choices: list[Choice] = []
    for slug, record in generation.techniques.items():
        entry = record.entry
        if slug in request.exclude or not _allowed(entry, spec.language, device):
            continue
        choice = _weigh(entry, scores.get(slug, 0.0), reasons.get(slug), verdicts[slug], answers)
        if choice is not None and slug in already:
            reason = f"{choice.reason}; the kernel already uses it"
            choice = Choice(entry, choice.score * _ALREADY_USED, reason)
        if choice is not None:
            choices.append(choice)
    if diagnose and profile and not answers and ranking is None:
        choices = []  # gates that hold tell what may help, not what limits a kernel
    choices.sort(key=lambda choice: (-choice.score, choice.technique.slug))
    choices = [c for c in choices if c.score >= _CUTOFF * choices[0].score][:MAX_TECHNIQUES]
    chosen = [choice.technique for choice in choices]
    examples = examples_for(chosen, kernels, generation, request, spec)
    slugs = [kernel.slug for kernel in examples.kernels]
    return Selection(
        techniques=choices,
        kernels=examples.kernels,
        others=[],
        facts=[],
        results=[],
        sections=sections,
        code=code,
        production=production_rows(chosen, slugs, generation, request, spec.traits),
        ignored=ignored,
        abstained=not choices and (not code or ranking is None or ranking.abstained),
        operators=examples.operators,
        missing=examples.missing,
        language=spec.language,
        remarks=remarks.lines,
        unlike=not examples.operators and bool(spec.operators or request.kernel),
    )


def _select_problem(
    request: ContextRequest,
    module: str,
    searcher: Searcher,
    device: str | None,
    diagnose: Diagnose | None,
) -> Selection:
    """Choose by the problem's operators and bound; a query and a profile have their say."""
    generation = searcher.generation
    advice = advise(module, searcher, request.gpu, request.language, device, request.dtype)
    profile, ignored = resolve_profile(request.profile or {})
    answers = diagnosed(diagnose, profile, request, generation)
    kernel = None if request.kernel == module else request.kernel
    ranking = searcher.rank(request.query, _DEPTH, Filters()) if request.query else None
    scores, _, sections, _ = _from_search(ranking, generation)
    already = _already_used(kernel, searcher)
    advised = {slug: (1.0 - 0.1 * n, why) for n, (slug, why) in enumerate(advice.techniques)}
    choices: list[Choice] = []
    for slug, record in generation.techniques.items():
        entry = record.entry
        verdict = judge_gates(entry, profile)
        base, why = advised.get(slug, (0.0, ""))
        # What a profile speaks against is left out, whatever the operator.
        fits = slug not in request.exclude and _allowed(entry, request.language, device)
        if not fits or verdict.support < 0:
            continue
        base *= _BESIDE_PROFILE if profile else 1.0
        answer, cause = answers.get(slug, (0.0, ""))
        score = base + _GATE_WEIGHT * verdict.support + _QUERY_WEIGHT * scores.get(slug, 0.0)
        score += answer
        reasons = [reason for reason in (why, cause, *verdict.for_it) if reason]
        if not reasons and scores.get(slug, 0.0) >= _CUTOFF:
            reasons = ["matches the query"]
        if slug in already:
            score *= _ALREADY_USED
            reasons.append("the kernel already uses it")
        if score > 0 and reasons:
            reason_text = "; ".join(reason.rstrip(".") for reason in reasons)
            choices.append(Choice(entry, round(min(score / 2, 1.0), 4), reason_text))
    choices.sort(key=lambda choice: (-choice.score, choice.technique.slug))
    kernels = [candidate for candidate in advice.first if candidate.slug not in request.exclude]
    results = result_lines([candidate.slug for candidate in kernels], generation, request.gpu)
    return Selection(
        techniques=choices[:MAX_TECHNIQUES],
        kernels=kernels,
        others=[other for other in advice.others if other.slug not in request.exclude],
        facts=[*advice.facts, *_profile_line(profile)],
        results=results,
        language=request.language,
        remarks=remarks_on(request.kernel or "").lines,
        sections=sections,
        code=[],
        production=[],
        ignored=ignored,
        abstained=False,
    )


def _profile_line(profile: dict[str, float]) -> list[str]:
    """Which numbers of a profile were understood, in one line."""
    if not profile:
        return []
    metrics = ", ".join(
        f"{metric.label} {quantity(metric.value, metric.unit)}"
        for metric in metric_values(profile)[:_SHOWN_METRICS]
    )
    return [f"Profile: {metrics}."]


def _rank(request: ContextRequest, searcher: Searcher, depth: int = _DEPTH) -> Ranking | None:
    query = (request.query or "").strip()
    kernel = (request.kernel or "").strip()
    if not query and not kernel:
        return None
    text = query or kernel[:_KERNEL_QUERY_CHARS]
    return searcher.rank(text, depth, Filters())


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
                    "named in the query"
                    if slug in ranking.intent.techniques
                    else "matches the query"
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


def _already_used(kernel: str | None, searcher: Searcher) -> set[str]:
    if not kernel:
        return set()
    language = "cuda" if "__global__" in kernel else "triton"
    return set(searcher.techniques_in(kernel, language))


def _allowed(entry: Technique, language: str | None, device: str | None) -> bool:
    """Whether a technique can be used in the language and on the device."""
    if language is not None and language not in entry.languages:
        return False
    return device is None or any_runs_on(entry.architectures, device)


def _weigh(
    entry: Technique,
    score: float,
    reason: str | None,
    verdict: GateVerdict,
    answers: dict[str, tuple[float, str]],
) -> Choice | None:
    answer, cause = answers.get(entry.slug, (0.0, ""))
    reasons = [text for text in (reason, cause) if text]
    reasons += verdict.for_it
    reasons += [f"against it: {text}" for text in verdict.against_it]
    total = score + answer + _GATE_WEIGHT * verdict.support
    if total <= 0 or not (reason or cause or verdict.for_it):
        return None
    both = verdict.for_it and reason
    return Choice(
        entry,
        round(min(total / _PARTS if answers else total / 2 if both else total, 1.0), 4),
        "; ".join(text.rstrip(".") for text in reasons),
    )
