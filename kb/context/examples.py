"""Choose the examples that answer a question or a pasted kernel: first by operator."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from kb.context.choosing import is_slower, min_speedup, runnable, slower_kernels, start_note
from kb.context.materials import Candidate
from kb.context.models import ContextRequest
from kb.corpus.entries import Kernel, Technique
from kb.corpus.features import dtypes_named, features
from kb.corpus.operators import kinds_of, lineage, operators_asked
from kb.index.reader import Generation
from kb.patterns import LinearPattern
from kb.production import Traits, best_rows

# Only code that runs on the device is an example of a technique.
_EXAMPLE_ROLES = frozenset({"kernel", "device"})
# The name of the first kernel in a pasted text.
_KERNEL_NAME = LinearPattern(r"@(?:\w+\.)*jit\b[^@]*?\bdef\s+(\w+)|__global__[^;{]*?\b(\w+)\s*\(")
# Comment lines of a pasted text: those above its first kernel may name its operator.
_COMMENT = LinearPattern(r"^[ \t]*(?:#[ \t]|//|/?\*)([^\n]*)$|(__global__|@(?:\w+\.)*jit\b)")
# Comments and the first kernel are near the top.
_TOP_LINES = 16
_LANGUAGES = {"triton": "Triton", "cuda": "CUDA"}


@dataclass(frozen=True, slots=True)
class ExampleSpec:
    """What a question or a pasted kernel asks examples for."""

    operators: tuple[str, ...]
    """As exactly as they are named, in the vocabulary's order."""
    traits: Traits
    language: str | None = None
    """Of all examples: the one asked for, or the pasted kernel's."""


@dataclass(frozen=True, slots=True)
class Examples:
    """The kernels to show."""

    kernels: list[Candidate]
    """The best first."""
    operators: dict[str, str] = field(default_factory=dict)
    """Slug → the operator asked for that it computes."""
    missing: list[str] = field(default_factory=list)
    """Which operators asked for have no kernel to show, in lines."""


def example_spec(request: ContextRequest, device: str | None) -> ExampleSpec:
    """Return the operators, language and dtypes that a request names, in words or by its kernel."""
    query, kernel = (request.query or "").strip(), (request.kernel or "").strip()
    language: str | None = request.language
    if language is None and kernel:
        language = "cuda" if "__global__" in kernel else "triton"
    requested = language
    if language is None:
        languages = {name for name in _LANGUAGES if name in query.lower()}
        language = languages.pop() if len(languages) == 1 else None
    operators, dtypes = operators_asked(query), dtypes_named(query)
    if kernel:
        defined = next((python or cuda for python, cuda in _KERNEL_NAME.groups(kernel, 1)), None)
        detected = features(kernel, language or "triton", defined, "")
        by_name = operators_asked(defined or "", symbol=True) or operators_asked(
            _comments_above(kernel)
        )
        operators += by_name or ((detected.op,) if detected.op else ())
        dtypes |= set(detected.dtypes)
    operators = tuple(dict.fromkeys(operators))
    families = frozenset(family for op in operators for family in lineage(op))
    return ExampleSpec(operators, Traits(language, device, families, frozenset(dtypes)), requested)


def _comments_above(kernel: str) -> str:
    """The comment lines above the first kernel of a pasted text."""
    lines = []
    for comment, begins in _COMMENT.groups(kernel, _TOP_LINES):
        if begins:
            break
        lines.append(comment or "")
    return "\n".join(lines)


def examples_for(
    techniques: Sequence[Technique],
    ranking: list[str],
    generation: Generation,
    request: ContextRequest,
    spec: ExampleSpec,
) -> Examples:
    """Return the kernels to show: the best one for each requested operator, then the next best.

    Kernels that only show a chosen technique follow, as the search ranks them. A kernel measured
    slower than PyTorch or the library is shown only if its operator has no other, and its note
    says so.

    Parameters
    ----------
    techniques
        The chosen ones, the best first.
    ranking
        Slugs of kernels in the order in which the search found them.
    """
    pool = runnable(generation, spec.language, spec.traits.device)
    kernels = {slug: kernel for slug, kernel in pool.items() if slug not in request.exclude}
    gpu = request.gpu
    rank = {slug: number for number, slug in enumerate(ranking)}
    showing: dict[str, Technique] = {}
    for technique in techniques:
        slugs = generation.examples[technique.slug]
        for slug in sorted(slugs, key=lambda slug: rank.get(slug, len(rank))):
            showing.setdefault(slug, technique)
    position = {slug: number for number, slug in enumerate(dict.fromkeys([*showing, *ranking]))}

    plain = _improved_on(kernels, gpu)

    def order(slug: str) -> tuple[bool | float | str, ...]:
        kernel, dtypes = kernels[slug], spec.traits.dtypes
        unfit = bool(dtypes) and dtypes.isdisjoint(kernel.dtypes)
        ranked = position.get(slug, len(position))
        unlike = slug not in showing, kernel.language != "triton"
        return unfit, slug in plain, *unlike, ranked, -min_speedup(kernel, gpu), slug

    groups: list[list[str]] = []
    operators: dict[str, str] = {}
    for op in spec.operators:
        kinds = kinds_of(op)
        best = [s for s, k in kernels.items() if k.op in kinds and not is_slower(k, gpu)]
        best.sort(key=lambda slug: (kinds.index(kernels[slug].op), *order(slug)))
        group = best or slower_kernels(kernels, kinds, gpu)
        groups.append([slug for slug in group if slug not in operators])
        operators |= dict.fromkeys(groups[-1], op)
    computing = [slug for row in zip_longest(*groups) for slug in row if slug is not None]
    others = [slug for slug in position if slug in kernels and slug not in operators]
    if techniques:
        others = [slug for slug in others if slug in showing]
    faster = [slug for slug in others if not is_slower(kernels[slug], gpu)]
    candidates = [Candidate(slug, note=start_note(kernels[slug], gpu)) for slug in computing]
    for slug in faster or (others if not computing else []):
        notes = (_difference(slug, showing, request, spec), start_note(kernels[slug], gpu))
        candidates.append(Candidate(slug, note=" ".join(filter(None, notes))))
    return Examples(candidates, operators, _missing_lines(spec, pool, generation, gpu))


def _improved_on(kernels: dict[str, Kernel], gpu: str | None) -> set[str]:
    """Kernels that another one improves on."""
    pairs = [(k.derived_from, k) for k in kernels.values() if k.derived_from in kernels]
    return {
        plain
        for plain, better in pairs
        if plain is not None and min_speedup(better, gpu) >= min_speedup(kernels[plain], gpu)
    }


def _difference(
    slug: str, showing: dict[str, Technique], request: ContextRequest, spec: ExampleSpec
) -> str:
    """What tells the reader that a kernel computes something else than was asked for."""
    if slug not in showing or not (spec.operators or request.kernel):
        return ""
    title = showing[slug].title
    if spec.operators:
        return f"Not the same operation; it shows a technique: {title}."
    return f"Chosen by technique ({title}), not by operator."


def _missing_lines(
    spec: ExampleSpec, pool: dict[str, Kernel], generation: Generation, gpu: str | None
) -> list[str]:
    """Operators without a kernel: where the other language has one, which."""
    everything = runnable(generation, None, spec.traits.device)
    anywhere = runnable(generation, None, None)
    tagged = {op for values in generation.columns["ops"].values for op in values}
    missing, lines = [], []
    for op in spec.operators:
        kinds = kinds_of(op)
        if any(kernel.op in kinds for kernel in pool.values()):
            continue
        other = {slug: kernel for slug, kernel in everything.items() if kernel.op in kinds}
        if other:
            plain = _improved_on(other, gpu)
            best = min(other, key=lambda s: (s in plain, -min_speedup(everything[s], gpu), s))
            language = _LANGUAGES[spec.language or other[best].language]
            newer = [k for k in anywhere.values() if k.op in kinds and k.language == spec.language]
            runs = f" that runs on {gpu}" if newer else ""
            lines.append(
                f"The knowledge base has no {language} kernel for {op}{runs}: {best} is in "
                f"{_LANGUAGES[other[best].language]} (`kb show {best} --code`)."
            )
        elif any(kernel.op in kinds for kernel in anywhere.values()):
            lines.append(f"The knowledge base has no kernel for {op} that runs on {gpu}.")
        elif tagged.isdisjoint(kinds):
            missing.append(op)
    if missing:
        lines.append(f"The knowledge base has no kernel for these operators: {', '.join(missing)}.")
    return lines


def production_rows(
    techniques: Sequence[Technique],
    shipped: Sequence[str],
    generation: Generation,
    request: ContextRequest,
    traits: Traits,
) -> list[int]:
    """Return production code that shows a technique better than the shipped kernels do.

    Better means that it matches more of what the request names (language, operator, dtype) than any
    shipped kernel of that technique that runs on the device, or that there is no such kernel. What
    the request does not name counts as equal. In a tie the shipped kernel wins: it is checked and
    often measured, while the speed of production code is unknown.
    """
    rows: list[int] = []
    for technique in techniques:
        kernels = [generation.kernels[slug].entry for slug in shipped]
        best = max(
            (
                traits.fit(kernel.language, lineage(kernel.op), kernel.dtypes)
                for kernel in kernels
                if technique.slug in kernel.techniques
            ),
            default=-1,
        )
        for row in best_rows(generation, technique.slug, 1 + len(request.exclude), traits):
            (chunk,) = generation.store.rows([row])
            fit = traits.fit(chunk.language, (chunk.op,) if chunk.op else (), chunk.dtypes)
            if fit <= best or chunk.role not in _EXAMPLE_ROLES:
                break  # the rows behind it fit no better
            if chunk.id not in request.exclude and row not in rows:
                rows.append(row)
                break
    return rows
