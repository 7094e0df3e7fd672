"""Build a context within its budget: technique text, then examples, then citations."""

from collections.abc import Iterable

from kb.context.budget import Budget
from kb.context.materials import (
    Example,
    code_example,
    kernel_example,
    provenance,
    technique_sections,
)
from kb.context.models import (
    DEFAULT_TOKENS,
    Citation,
    ContextRequest,
    ContextResponse,
    ContextTechnique,
)
from kb.context.packing import SEPARATOR, PackedExample, pack_example, pack_sections
from kb.context.selection import Selection, select
from kb.corpus.measured import measured_line
from kb.embedders.tokens import TOKENIZER_NAME, count_tokens
from kb.index.reader import Generation
from kb.records import Source
from kb.search.engine import Searcher

# What examples may take when there are any; technique text comes first and gets the larger part.
_EXAMPLE_SHARE = 0.45
# The best technique's part of the technique text; the others share what is left.
_FIRST_SHARE = 0.6
# A second technique needs this much of the budget's tokens (characters) to say anything.
_MIN_PART_TOKENS = 150
_MIN_PART_CHARS = 600
# A heading that would take more than this of a technique's part is shortened.
_HEAD_SHARE = 0.5
# Sources listed at the end may take this part of the budget.
_CITATION_SHARE = 0.15
_NOTHING = "Nothing relevant in the knowledge base."


def build_context(request: ContextRequest, searcher: Searcher) -> ContextResponse:
    """Answer a context request. The text never measures more than the budget.

    Raises
    ------
    InvalidInputError
        Unknown GPU, or a malformed architecture.
    """
    budget = Budget.of(request.max_tokens, request.max_chars, DEFAULT_TOKENS)
    selection = select(request, searcher)
    if selection.abstained:
        return _response(_NOTHING, selection, [], 0, [])
    composer = _Composer(request, selection, searcher.generation, budget)
    return composer.compose()


class _Composer:
    """One context in the making."""

    def __init__(
        self,
        request: ContextRequest,
        selection: Selection,
        generation: Generation,
        budget: Budget,
    ) -> None:
        self._request = request
        self._selection = selection
        self._generation = generation
        self._budget = budget
        self._exclude = frozenset(request.exclude)
        self._examples = self._available()

    def compose(self) -> ContextResponse:
        wanted = min(self._request.max_examples, len(self._examples))
        # The smaller the budget, the less it holds beside the technique itself.
        plans = ((wanted, True), (0, True), (0, False))
        for examples, extras in dict.fromkeys(plans):
            response = self._compose(examples, extras=extras)
            if response is not None:
                return response
        return self._respond(self._smallest(), [], [])

    def _compose(self, wanted: int, *, extras: bool) -> ContextResponse | None:
        """A context with `wanted` examples at most; None if the chief thing does not fit.

        Without `extras` it has neither the line about examples nor the sources.
        """
        footer = self._footer(wanted) if extras else ""
        citations, sources_text = self._citations() if extras else ([], "")
        room = self._budget.less(*(SEPARATOR + part for part in (footer, sources_text) if part))
        share = _EXAMPLE_SHARE if wanted else 0.0
        if not self._selection.techniques:
            share = 1.0
        techniques = self._technique_parts(Budget(int(room.limit * (1 - share)), room.measure))
        if not techniques and self._selection.techniques:
            return None
        left = room.less(*(part + SEPARATOR for part in techniques))
        examples = self._example_parts(left, wanted)
        if not techniques and not examples:
            return None
        left = left.less(*(SEPARATOR + example.text for example in examples))
        parts = [*self._refill(techniques, left), *(example.text for example in examples)]
        footer = self._footer(len(examples)) if extras else ""
        text = SEPARATOR.join(part for part in (*parts, footer, sources_text) if part)
        if not self._budget.fits(text):
            return None
        return self._respond(text, [each.id for each in examples], citations)

    def _respond(
        self, text: str, examples: list[str], citations: list[Citation]
    ) -> ContextResponse:
        return _response(text, self._selection, examples, len(self._examples), citations)

    def _available(self) -> list[Example]:
        generation = self._generation
        production = self._selection.production
        found = [code_example(generation, row) for row in production]
        found += [kernel_example(generation, slug) for slug in self._selection.kernels]
        matched = [row for row in self._selection.code if row not in production]
        found += [code_example(generation, row) for row in matched]
        return [
            each
            for each in found
            if each.id and self._exclude.isdisjoint({each.id, *(c.id for c in each.pieces)})
        ]

    def _footer(self, shown: int) -> str:
        total = len(self._examples)
        return f"(Showing {shown} of {total} examples)" if total else ""

    def _citations(self) -> tuple[list[Citation], str]:
        limit = int(self._budget.limit * _CITATION_SHARE)
        lines, kept = ["Sources:"], []
        for citation in self._all_citations():
            line = f"- {citation.title}, {citation.url or 'local'} ({citation.licence})"
            if self._budget.measure("\n".join([*lines, line])) > limit:
                continue
            lines.append(line)
            kept.append(citation)
        return kept, "\n".join(lines) if kept else ""

    def _all_citations(self) -> Iterable[Citation]:
        seen: set[str] = set()
        for choice in self._selection.techniques:
            for source in choice.technique.sources:
                if source.url not in seen:
                    seen.add(source.url)
                    yield Citation(title=source.title, url=source.url, licence=source.licence)
        for row in (*self._selection.production, *self._selection.code):
            origin = self._source_of(row)
            if origin.name not in seen:
                seen.add(origin.name)
                title = f"{origin.name} {origin.version or ''}".strip()
                yield Citation(title=title, url=origin.url, licence=origin.licence)

    def _source_of(self, row: int) -> Source:
        return self._generation.sources[self._generation.columns["sources"].of(row)[0]]

    def _head(self, slug: str, *, short: bool = False) -> str:
        record = self._generation.techniques[slug]
        source = self._generation.sources[record.source]
        if short:
            return f"# {record.entry.title}\nQuoted data: {source.name}, {record.path}"
        place = f"{record.path}; {measured_line(record.entry.verified, brief=True)}"
        return f"# {record.entry.title} ({slug})\n{provenance(source, place)}"

    def _part(self, slug: str, budget: Budget) -> str | None:
        sections = technique_sections(
            self._generation,
            slug,
            self._selection.sections.get(slug, []),
            self._request.language,
            self._exclude,
        )
        head = self._head(slug)
        if budget.measure(head) > _HEAD_SHARE * budget.limit:
            head = self._head(slug, short=True)
        return pack_sections(head, sections, budget)

    def _technique_parts(self, budget: Budget) -> list[str]:
        smallest = _MIN_PART_CHARS if budget.measure is len else _MIN_PART_TOKENS
        parts: list[str] = []
        slugs = [choice.technique.slug for choice in self._selection.techniques]
        for number, slug in enumerate(slugs):
            last = number == len(slugs) - 1
            room = budget.limit if last else int(budget.limit * _FIRST_SHARE)
            if not last and budget.limit - room < smallest:
                room = budget.limit
            part = self._part(slug, Budget(room, budget.measure))
            if part is None:
                break
            parts.append(part)
            budget = budget.less(part, SEPARATOR)
            if budget.limit < smallest:
                break
        return parts

    def _example_parts(self, budget: Budget, wanted: int) -> list[PackedExample]:
        packed: list[PackedExample] = []
        for example in self._examples:
            if len(packed) == wanted:
                break
            room = budget.less(SEPARATOR)
            # Leave the later ones their part, but what one does not need goes to the next.
            waiting = wanted - len(packed)
            found = pack_example(example, Budget(room.limit // waiting, room.measure))
            found = found or pack_example(example, room)
            if found is not None:
                packed.append(found)
                budget = budget.less(SEPARATOR, found.text)
        return packed

    def _refill(self, parts: list[str], left: Budget) -> list[str]:
        """The first technique again with what examples left over."""
        if not parts or left.limit <= 0:
            return parts
        slug = self._selection.techniques[0].technique.slug
        more = self._part(slug, Budget(left.measure(parts[0]) + left.limit, left.measure))
        return [more or parts[0], *parts[1:]]

    def _smallest(self) -> str:
        """The heading alone, as many of its lines as fit, for a budget that holds no more."""
        heads = [
            self._head(choice.technique.slug, short=True) for choice in self._selection.techniques
        ]
        heads += [f"## Example: {each.title}\n{each.provenance}" for each in self._examples]
        lines: list[str] = []
        for line in (heads or [_NOTHING])[0].splitlines():
            if self._budget.fits("\n".join([*lines, line])):
                lines.append(line)
        return "\n".join(lines)


def _response(
    text: str,
    selection: Selection,
    examples: list[str],
    available: int,
    citations: list[Citation],
) -> ContextResponse:
    return ContextResponse(
        text=text,
        tokens=count_tokens(text),
        techniques=[
            ContextTechnique(
                slug=choice.technique.slug, score=round(choice.score, 4), reason=choice.reason
            )
            for choice in selection.techniques
        ],
        examples=examples,
        examples_available=available,
        citations=citations,
        ignored=selection.ignored,
        tokenizer=TOKENIZER_NAME,
        abstained=selection.abstained,
    )
