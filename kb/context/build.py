"""Build a context within its budget: facts, techniques, whole examples, then citations."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kb.context.budget import Budget
from kb.context.choosing import clearly_faster
from kb.context.cutting import prose_prefixes
from kb.context.diagnosing import Diagnose
from kb.context.materials import (
    Candidate,
    Example,
    code_example,
    kernel_example,
    provenance,
    short_sections,
    technique_sections,
)
from kb.context.models import DEFAULT_TOKENS, Citation, ContextRequest, ContextResponse
from kb.context.packing import SEPARATOR, pack_example, pack_sections, remarks_block, respond
from kb.context.selection import Selection, plain_forms, select
from kb.corpus.entries import Verified
from kb.corpus.measured import NOT_MEASURED, measured_line, own_records, technique_line
from kb.index.reader import Generation
from kb.problems.plan import PLAN
from kb.search.engine import Searcher

# Sources listed at the end may take this part of the budget.
_CITATION_SHARE = 0.08
# Of a budget, what the chief technique's text gets beside a whole example, if it needs so much.
_TECHNIQUE_SHARE = 0.3
# The same beside examples of several operators: a heading and a few sentences of 3,000 tokens.
_MIN_TECHNIQUE_SHARE = 0.1
# Fewest tokens of a technique's text that are worth showing; a token counts as three characters.
_MIN_USEFUL = 60
# Examples of this many kernels are tried before one is named instead of shown.
_MAX_TRIED = 6
# Examples that are named without being shown.
_MAX_NAMED = 4
_NOTHING = "Nothing relevant in the knowledge base."


def build_context(
    request: ContextRequest, searcher: Searcher, diagnose: Diagnose | None = None
) -> ContextResponse:
    """Answer a context request within its budget; without `diagnose`, only gates use a profile.

    Raises
    ------
    InvalidInputError
        Unknown GPU, a malformed architecture, or a problem that cannot be read.
    """
    budget = Budget.of(request.max_tokens, request.max_chars, DEFAULT_TOKENS)
    selection = select(request, searcher, diagnose)
    if selection.abstained:
        text = SEPARATOR.join([*filter(None, [remarks_block(selection.remarks, budget)]), _NOTHING])
        return respond(text if budget.fits(text) else _NOTHING, selection, [], 0, [])
    return _Composer(request, selection, searcher.generation, budget).compose()


class _Composer:
    """One context in the making."""

    def __init__(
        self, request: ContextRequest, selection: Selection, generation: Generation, budget: Budget
    ) -> None:
        self._request = request
        self._selection = selection
        self._generation = generation
        self._budget = budget
        self._exclude = frozenset(request.exclude)
        self._examples = self._available(selection.kernels)
        self._others = self._available(selection.others)
        self._plain = plain_forms(selection, generation) if selection.facts else {}
        self._remarks = remarks_block(selection.remarks, budget)
        self._skipped: dict[str, str] = {}
        self._entries = {slug: record.entry for slug, record in generation.kernels.items()}

    def compose(self) -> ContextResponse:
        """Return the fullest context that fits.

        A whole example is worth more than the sources and the later facts. So a small budget
        drops these first, then the examples, then all but the main item.
        """
        most = self._request.max_examples if self._count else 0
        lines = self._selection.facts
        smaller = [(lines, False)]
        if lines:
            plan = [line for line in lines[1:] if line.startswith(PLAN)]
            smaller += [([lines[0], *plan], False)] if plan else []
            smaller += [(lines[:1], False), ([next(iter(prose_prefixes(lines[0])))], False)]
        # The better kernels first, beside ever less; plain forms only where none of that fits.
        ways = (self._plain, {}) if self._plain else ({},)
        for skipped in ways if most else ():
            self._skipped = skipped
            for facts, cited in ((lines, True), *smaller):
                response = self._with_results(facts, most, cited=cited, footed=True)
                if response is not None:
                    return response
        for cited, footed in ((True, True), (False, True), (False, False)):
            response = self._with_results(lines, 0, cited=cited, footed=footed)
            if response is not None:
                return response
        return respond(self._smallest(), self._selection, [], self._count, [])

    def _with_results(
        self, lines: list[str], limit: int, *, cited: bool, footed: bool
    ) -> ContextResponse | None:
        """`_compose`, with what was measured where that costs neither facts nor an example."""
        response = self._compose(lines, limit, cited=cited, footed=footed)
        results = self._selection.results
        if response is None or not results or lines is not self._selection.facts:
            return response
        full = self._compose([*lines, *results], limit, cited=cited, footed=footed)
        return full if full is not None and full.examples == response.examples else response

    def _compose(
        self, lines: list[str], limit: int, *, cited: bool, footed: bool
    ) -> ContextResponse | None:
        """A context of these facts and at most `limit` examples; None if it does not fit.

        Where examples are wanted, at least one has to fit; else a technique or the facts.
        """
        facts = "\n".join(filter(None, [*self._selection.missing, *lines, self._remarks]))
        citations, sources = self._citations() if cited else ([], "")
        best = self._examples[:1] if not (limit or self._selection.unlike) else []
        hint = best[0] if best else None
        footer = self._footer(min(limit, self._count), [], hint) if footed else ""
        room = self._budget.less(*(SEPARATOR + part for part in (facts, footer, sources) if part))
        slugs = [choice.technique.slug for choice in self._selection.techniques]
        reserve = self._reserve(slugs, room) if slugs else 0
        examples = self._example_parts(room, limit, reserve, last=not cited)
        if limit and not examples:
            return None
        remaining = room.less(*(SEPARATOR + text for text in examples.values()))
        techniques = self._technique_parts(remaining, slugs, has_example=bool(examples))
        if not techniques and not examples and not lines:
            return None
        remaining = remaining.less(*(SEPARATOR + part for part in techniques))
        more = self._more_examples(remaining, limit, examples)
        remaining = remaining.less(*(SEPARATOR + text for text in more.values()))
        examples |= more
        techniques = self._extended(techniques, slugs, remaining)
        shown_ids = list(examples)
        footer = self._footer(len(examples), shown_ids, hint) if footed else ""
        parts = [facts, *techniques, *examples.values(), footer, sources]
        text = SEPARATOR.join(part for part in parts if part)
        if not self._budget.fits(text):
            return None
        return respond(text, self._selection, shown_ids, self._count, citations)

    @property
    def _count(self) -> int:
        return len(self._examples) + len(self._others)

    def _available(self, candidates: list[Candidate]) -> list[Example]:
        generation = self._generation
        first = candidates is self._selection.kernels
        production = self._selection.production if first else []
        examples = [code_example(generation, row) for row in production]
        examples += [
            kernel_example(generation, candidate, self._request.gpu) for candidate in candidates
        ]
        if first:
            matched = [row for row in self._selection.code if row not in production]
            examples += [code_example(generation, row) for row in matched]
        return [
            example
            for example in examples
            if example.id and self._exclude.isdisjoint({example.id, *example.chunks})
        ]

    def _footer(self, count: int, ids: list[str], hint: Example | None = None) -> str:
        line = f"(Showing {count} of {self._count} examples)" if self._count else ""
        further = [*self._examples, *self._others] if hint is None else []
        operators, facts = self._selection.operators, self._selection.facts
        slugs = [e.slug for e in further if e.slug and (facts or e.slug in operators)
                 and e.id not in ids]  # fmt: skip
        if slugs:
            line += f"\nNot shown: {', '.join(slugs[:_MAX_NAMED])}."
        if hint is not None and hint.slug is not None:
            line += (
                f"\nBest example: {hint.title}, which does not fit into this budget. "
                f"Get it with `kb show {hint.slug} --code` or get_kernel."
            )
        return line

    def _citations(self) -> tuple[list[Citation], str]:
        share = _CITATION_SHARE / 2 if self._selection.facts else _CITATION_SHARE
        room = Budget(int(self._budget.limit * share), self._budget.measure)
        room = room.less("Sources:")
        lines, citations = ["Sources:"], []
        for citation in self._all_citations():
            line = f"- {citation.title}, {citation.url or 'local'} ({citation.licence})"
            if not room.fits("\n" + line):
                continue
            room = room.less("\n" + line)
            lines.append(line)
            citations.append(citation)
        return citations, "\n".join(lines) if citations else ""

    def _all_citations(self) -> Iterable[Citation]:
        cited: set[str] = set()
        entries = [choice.technique.sources for choice in self._selection.techniques]
        entries += [
            self._generation.kernels[example.slug].entry.sources
            for example in self._examples[:1]
            if example.slug is not None
        ]
        for sources in entries:
            for source in sources:
                if source.url not in cited:
                    cited.add(source.url)
                    yield Citation(title=source.title, url=source.url, licence=source.licence)
        for row in (*self._selection.production, *self._selection.code):
            origin = self._generation.sources[self._generation.columns["sources"].of(row)[0]]
            if origin.name not in cited:
                cited.add(origin.name)
                title = f"{origin.name} {origin.version or ''}".strip()
                yield Citation(title=title, url=origin.url, licence=origin.licence)

    def _head(self, slug: str, *, short: bool = False) -> str:
        record = self._generation.techniques[slug]
        source = self._generation.sources[record.source]
        if short:
            return f"# {record.entry.title}\nQuoted data: {source.name}, {record.path}"
        records = self._relevant_records(own_records(record.entry, self._entries))
        note = f"; {measured_line(records, brief=True)}" if records else ""
        if technique_line(record.entry, self._entries) == NOT_MEASURED:
            note = f"; {NOT_MEASURED}"
        place = f"{record.path}{note}"
        return f"# {record.entry.title} ({slug})\n{provenance(source, place)}"

    def _relevant_records(self, records: Sequence[Verified]) -> list[Verified]:
        """Measurements to tell: beside a problem those on its operator."""
        if not self._selection.facts:
            return list(records)
        entries = self._entries
        ops = {entries[kernel.slug].op for kernel in self._selection.kernels}
        plain = [record for record in records if record.baseline in entries]
        return [record for record in plain if entries[record.baseline].op in ops]

    def _part(
        self, slug: str, budget: Budget, *, cut: bool = True, long: bool = False, code: bool = True
    ) -> str | None:
        """A technique's text: in short, or its sections as well; None if it says nothing.

        A heading without text says nothing. Without `cut` the short text is whole, or long enough
        to be of use; beside a problem, its prose is whole. Without `code` it is prose alone.
        """
        sections = short_sections(self._generation, slug, self._exclude)
        if not code:
            sections = [replace(section, blocks=_prose(section.blocks)) for section in sections]
        full_size = sum(budget.measure(block) for section in sections for block in section.blocks)
        if long:
            matched = self._selection.sections.get(slug, [])
            language = self._selection.language
            positions = {section.position for section in sections}
            rest = technique_sections(self._generation, slug, matched, language, self._exclude)
            sections += [section for section in rest if section.position not in positions]
        enough = _MIN_USEFUL * (3 if budget.measure is len else 1)
        if self._selection.facts:
            # What to look at without what to do about it is of no use.
            enough = sum(budget.measure(b) for section in sections for b in _prose(section.blocks))
        for head in (self._head(slug), self._head(slug, short=True)):
            part = pack_sections(head, sections, budget)
            if part is None or part == head:
                continue
            size = budget.measure(part) - budget.measure(head)
            if cut or size >= min(full_size, enough):
                return part
        return None

    def _reserve(self, slugs: list[str], room: Budget) -> int:
        """What the chief technique's text takes beside the examples."""
        share = Budget(int(room.limit * _TECHNIQUE_SHARE), room.measure)
        facts = bool(self._selection.facts)
        part = self._part(slugs[0], share.less(SEPARATOR), cut=not facts, code=not facts)
        return 0 if part is None else room.measure(SEPARATOR + part)

    def _technique_parts(self, budget: Budget, slugs: list[str], *, has_example: bool) -> list[str]:
        """Beside a problem's example they are prose: their snippets are of other operators."""
        parts: list[str] = []
        facts = bool(self._selection.facts)
        for slug in slugs:
            part = self._part(
                slug,
                budget.less(SEPARATOR),
                cut=not parts and not (facts and has_example),
                code=not facts or not (has_example or parts),
            )
            if part is None:
                break
            parts.append(part)
            budget = budget.less(part, SEPARATOR)
        return parts

    def _extended(self, parts: list[str], slugs: list[str], remaining: Budget) -> list[str]:
        """The first technique's long text, where a query or a profile asks about techniques."""
        if not parts or remaining.limit <= 0 or self._selection.facts:
            return parts
        room = Budget(remaining.measure(parts[0]) + remaining.limit, remaining.measure)
        return [self._part(slugs[0], room, long=True) or parts[0], *parts[1:]]

    def _example_parts(
        self, room: Budget, limit: int, reserve: int, *, last: bool
    ) -> dict[str, str]:
        """The id and text of the best example that fits whole, beside the chief technique's text;
        on the `last` try without it as well. Each other operator asked for has its own, if it fits.
        """
        if not limit:
            return {}
        operators, unlike = self._selection.operators, self._selection.unlike
        candidates = [e for e in self._examples if e.slug not in self._skipped]
        if operators:  # what computes something else is no substitute for them
            candidates = [e for e in candidates if e.slug is None or e.slug in operators]
        for reserved in (reserve, 0) if last and reserve and not unlike else (reserve,):
            space = Budget(room.limit - reserved, room.measure).less(SEPARATOR)
            least = min(reserved, int(room.limit * _MIN_TECHNIQUE_SHARE))
            options: list[dict[str, str]] = []
            for example in candidates[:_MAX_TRIED]:
                noted = replace(example, note=self._example_note(example))
                packed = pack_example(noted, space, brief=last)
                if packed is not None:
                    # Another operator's kernel is worth more than a technique's text at length.
                    rest = Budget(room.limit - least, room.measure).less(SEPARATOR, packed)
                    rest = rest.less(SEPARATOR)
                    options.append({example.id: packed} | self._per_op(example, rest, limit - 1))
                    if len(options[-1]) >= min(limit, len(set(operators.values()))):
                        break
            if options:
                return max(options, key=len)
        return {}

    def _per_op(self, first: Example, space: Budget, limit: int) -> dict[str, str]:
        """The best example that fits for each operator asked for but that of the first one."""
        operators, texts = self._selection.operators, dict[str, str]()
        covered = {operators.get(first.slug or "")}
        for example in self._examples:
            op = operators.get(example.slug or "")
            if op is None or op in covered or len(texts) >= limit:
                continue
            packed = pack_example(example, space)
            if packed is not None:
                covered.add(op)
                texts[example.id] = packed
                space = space.less(packed, SEPARATOR)
        return texts

    def _example_note(self, example: Example) -> str:
        """The note of an example: which kernel is better, why it is not shown, how to get it."""
        better = self._plain.get(example.slug or "")
        text = f"A plain version: {better} is better but does not fit into this budget."
        if better is None:
            better, operators = self._examples[0].slug, self._selection.operators
            if operators.get(better or "") != operators.get(example.slug or ""):
                return example.note
            text = f"{better} is faster but does not fit into this budget."
            if not clearly_faster(self._entries, better, example.slug, self._request.gpu):
                return example.note
        return f"{example.note} {text} Get it with `kb show {better} --code` or get_kernel.".strip()

    def _more_examples(
        self, room: Budget, limit: int, packed_examples: dict[str, str]
    ) -> dict[str, str]:
        """What else the module needs, or what else shows the techniques."""
        more: dict[str, str] = {}
        further = self._others if self._selection.facts else self._examples
        for example in further:
            if len(packed_examples) + len(more) >= limit or not packed_examples:
                break
            if example.id in packed_examples or example.id in more:
                continue
            packed = pack_example(example, room.less(SEPARATOR))
            if packed is not None:
                more[example.id] = packed
                room = room.less(SEPARATOR, packed)
        return more

    def _smallest(self) -> str:
        """The facts or a heading alone, as many lines as fit, for a budget that holds no more."""
        heads = ["\n".join(self._selection.facts)] if self._selection.facts else []
        heads += [
            self._head(choice.technique.slug, short=True) for choice in self._selection.techniques
        ]
        heads += [f"## Example: {example.title}\n{example.path}" for example in self._examples]
        text = ""
        for line in (heads or [_NOTHING])[0].splitlines():
            above = f"{text}\n" if text else ""
            whole = self._budget.longest(above + prefix for prefix in prose_prefixes(line))
            text = whole or text
            if whole != above + line:
                break
        return text or _NOTHING


def _prose(blocks: list[str]) -> list[str]:
    return [block for block in blocks if "```" not in block]
