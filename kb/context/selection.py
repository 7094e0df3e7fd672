"""Choose what a context is about: techniques, with reasons, and the examples that show them."""

from dataclasses import dataclass

from kb.architectures import any_runs_on
from kb.context.choosing import is_slower, usable
from kb.context.diagnosing import Diagnose, diagnosed
from kb.context.materials import Candidate
from kb.context.models import ContextRequest
from kb.context.problems import advise
from kb.context.results import result_lines
from kb.corpus.entries import Technique
from kb.corpus.features import dtypes_named, features, operators_named
from kb.gpus import device_of
from kb.index.reader import Generation
from kb.index.tokens import tokenize
from kb.patterns import LinearPattern
from kb.production import Traits, best_rows
from kb.profiles.keys import resolve_profile
from kb.profiles.values import quantity, understood
from kb.search.engine import Ranking, Searcher
from kb.search.gates import GateVerdict, judge_gates
from kb.search.models import Filters

# Entries looked at per search; a context names a handful of techniques at most.
_DEPTH = 12
# Techniques below this share of the best one's score are noise next to it.
_NOISE = 0.6
# A profile's gates against a query's words, both in [0, 1].
_GATE_WEIGHT = 1.0
# Metrics of a profile that the facts repeat; the rest is in the reader's hands.
_SHOWN_METRICS = 8
# Where a profile was diagnosed, scores are of three parts: query, gates and diagnosis.
_PARTS = 3
# A kernel that already does it gains little from reading about it.
_ALREADY_USED = 0.3
# How much of a pasted kernel is searched with: its head names the operator and the loop.
_KERNEL_QUERY_CHARS = 2000
# Focused beats comprehensive: an agent that reads four acts on none.
MAX_TECHNIQUES = 3
# Where there is a profile, what was measured says more than what such kernels need as a rule.
_BESIDE_PROFILE = 0.4
# A query beside a problem moves techniques up; the problem's operators stay in front.
_QUERY_WEIGHT = 0.5
# Only code that runs on the device is an example of a technique.
_SHOWING = frozenset({"kernel", "device"})
# The name of the first kernel in a pasted text.
_DEFINED = LinearPattern(r"@(?:\w+\.)*jit\b[^@]*?\bdef\s+(\w+)|__global__[^;{]*?\b(\w+)\s*\(")


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


def plain_forms(selection: Selection, generation: Generation) -> dict[str, str]:
    """Return the slugs of kernels that a better one of the selection improves on, with its slug."""
    found: dict[str, str] = {}
    slugs = [each.slug for each in selection.kernels]
    for place, slug in enumerate(slugs):
        entry = generation.kernels[slug].entry
        while entry.derived_from is not None and entry.derived_from in generation.kernels:
            plain = entry.derived_from
            if plain in slugs[place + 1 :]:
                found.setdefault(plain, slug)
            entry = generation.kernels[plain].entry
    return found


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
    kernels = _kernel_order(ranking, generation)
    already = _already_used(request.kernel, searcher)
    verdicts = {
        slug: judge_gates(record.entry, profile) for slug, record in generation.techniques.items()
    }
    choices: list[Choice] = []
    for slug, record in generation.techniques.items():
        entry = record.entry
        if not _allowed(entry, slug, request, device):
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
    choices = [c for c in choices if c.score >= _NOISE * choices[0].score][:MAX_TECHNIQUES]
    examples = _examples(choices, kernels, generation, request, device)
    abstained = not choices and (not code or ranking is None or ranking.abstained)
    production = _production(choices, examples, generation, request, device)
    shown = [Candidate(slug) for slug in examples]
    return Selection(choices, shown, [], [], [], sections, code, production, ignored, abstained)


def _select_problem(
    request: ContextRequest,
    module: str,
    searcher: Searcher,
    device: str | None,
    diagnose: Diagnose | None,
) -> Selection:
    """Choose by the problem's operators and bound; a query and a profile have their say."""
    generation = searcher.generation
    advice = advise(module, generation, request.gpu, request.language, device, request.dtype)
    profile, ignored = resolve_profile(request.profile or {})
    answers = diagnosed(diagnose, profile, request, generation)
    kernel = None if request.kernel == module else request.kernel
    ranking = searcher.rank(request.query, _DEPTH, Filters()) if request.query else None
    scores, _, sections, _ = _from_search(ranking, generation)
    already = _already_used(kernel, searcher)
    asked = {slug: (1.0 - 0.1 * n, why) for n, (slug, why) in enumerate(advice.techniques)}
    choices: list[Choice] = []
    for slug, record in generation.techniques.items():
        entry = record.entry
        verdict = judge_gates(entry, profile)
        told, why = asked.get(slug, (0.0, ""))
        # What a profile speaks against is left out, whatever the operator.
        if not _allowed(entry, slug, request, device) or verdict.support < 0:
            continue
        told *= _BESIDE_PROFILE if profile else 1.0
        answer, cause = answers.get(slug, (0.0, ""))
        score = told + _GATE_WEIGHT * verdict.support + _QUERY_WEIGHT * scores.get(slug, 0.0)
        score += answer
        reasons = [each for each in (why, cause, *verdict.for_it) if each]
        if not reasons and scores.get(slug, 0.0) >= _NOISE:
            reasons = ["matches the query"]
        if slug in already:
            score *= _ALREADY_USED
            reasons.append("the kernel already uses it")
        if score > 0 and reasons:
            shown = "; ".join(each.rstrip(".") for each in reasons)
            choices.append(Choice(entry, round(min(score / 2, 1.0), 4), shown))
    choices.sort(key=lambda choice: (-choice.score, choice.technique.slug))
    kernels = [each for each in advice.first if each.slug not in request.exclude]
    results = result_lines([each.slug for each in kernels], generation, request.gpu)
    return Selection(
        techniques=choices[:MAX_TECHNIQUES],
        kernels=kernels,
        others=[each for each in advice.others if each.slug not in request.exclude],
        facts=[*advice.facts, *_understood(profile)],
        results=results,
        sections=sections,
        code=[],
        production=[],
        ignored=ignored,
        abstained=False,
    )


def _understood(profile: dict[str, float]) -> list[str]:
    """Which numbers of a profile were understood, in one line."""
    if not profile:
        return []
    told = ", ".join(
        f"{metric.label} {quantity(metric.value, metric.unit)}"
        for metric in understood(profile)[:_SHOWN_METRICS]
    )
    return [f"Profile: {told}."]


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


def _production(
    choices: list[Choice],
    shipped: list[str],
    generation: Generation,
    request: ContextRequest,
    device: str | None,
) -> list[int]:
    """Production code that shows a chosen technique better than the shipped kernels do.

    Better means that it has more of what the request names (language, operator, dtype) than any
    shipped kernel of that technique that runs on the device, or that there is no such kernel. A
    shipped kernel is checked, and often measured, so it stays where they are level; and so is what
    the request does not name: nothing is known of how fast production code is.
    """
    traits = _traits(request, device)
    found: list[int] = []
    for choice in choices:
        slug = choice.technique.slug
        kernels = [generation.kernels[each].entry for each in shipped]
        best = max(
            (
                traits.fit(each.language, (each.op,), each.dtypes)
                for each in kernels
                if slug in each.techniques
            ),
            default=-1,
        )
        for row in best_rows(generation, slug, 1 + len(request.exclude), traits):
            (chunk,) = generation.store.rows([row])
            fit = traits.fit(chunk.language, (chunk.op,) if chunk.op else (), chunk.dtypes)
            if fit <= best or chunk.role not in _SHOWING:
                break  # the rows behind it fit no better
            if chunk.id not in request.exclude and row not in found:
                found.append(row)
                break
    return found


def _traits(request: ContextRequest, device: str | None) -> Traits:
    """The language, operator and dtypes that a request names, in words or by its kernel."""
    query, kernel = (request.query or "").strip(), (request.kernel or "").strip()
    language: str | None = request.language
    if language is None and kernel:
        language = "cuda" if "__global__" in kernel else "triton"
    if language is None:
        said = {name for name in ("triton", "cuda") if name in query.lower()}
        language = said.pop() if len(said) == 1 else None
    ops, dtypes = set(operators_named(" ".join(tokenize(query)))[:1]), dtypes_named(query)
    if kernel:
        defined = next((python or cuda for python, cuda in _DEFINED.groups(kernel, 1)), None)
        shown = features(kernel, language or "triton", defined, "")
        ops |= {shown.op} if shown.op else set()
        dtypes |= set(shown.dtypes)
    return Traits(language, device, frozenset(ops), frozenset(dtypes))


def _already_used(kernel: str | None, searcher: Searcher) -> set[str]:
    if not kernel:
        return set()
    language = "cuda" if "__global__" in kernel else "triton"
    return set(searcher.techniques_in(kernel, language))


def _allowed(entry: Technique, slug: str, request: ContextRequest, device: str | None) -> bool:
    if slug in request.exclude:
        return False
    if request.language and request.language not in entry.languages:
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
    reasons = [each for each in (reason, cause) if each]
    reasons += verdict.for_it
    reasons += [f"against it: {each}" for each in verdict.against_it]
    total = score + answer + _GATE_WEIGHT * verdict.support
    if total <= 0 or not (reason or cause or verdict.for_it):
        return None
    both = verdict.for_it and reason
    return Choice(
        entry,
        round(min(total / _PARTS if answers else total / 2 if both else total, 1.0), 4),
        "; ".join(each.rstrip(".") for each in reasons),
    )


def _examples(
    choices: list[Choice],
    found: list[str],
    generation: Generation,
    request: ContextRequest,
    device: str | None,
) -> list[str]:
    """Kernels that show the chosen techniques and may be followed, the best first.

    Those of the operator that the request names come first; then the best technique's, as the
    search ranks them. Plain forms and what was measured slower than PyTorch come last: where
    nothing else shows a technique, they are all there is.
    """
    rank = {slug: number for number, slug in enumerate(found)}
    shown = [
        slug
        for choice in choices
        for slug in sorted(
            generation.examples[choice.technique.slug], key=lambda slug: rank.get(slug, len(rank))
        )
    ]
    ordered = list(dict.fromkeys([*shown, *found]))
    place = {slug: number for number, slug in enumerate(ordered)}
    named = {_plain_op(op) for op in _traits(request, device).ops}
    kernels = usable(generation, request.language, device)

    def order(slug: str) -> tuple[bool, bool, bool, int]:
        kernel = kernels[slug]
        asked = _plain_op(kernel.op) in named
        return (is_slower(kernel, request.gpu), not asked, slug not in shown, place[slug])

    fitting = [slug for slug in ordered if slug in kernels and slug not in request.exclude]
    if choices and not named:
        fitting = [slug for slug in fitting if slug in shown]
    kept = [s for s in fitting if not is_slower(kernels[s], request.gpu)] or fitting
    return sorted(kept, key=order)


def _plain_op(op: str) -> str:
    """An operator family without hyphens: entries say `layer-norm`, code `layernorm`."""
    return op.replace("-", "")
