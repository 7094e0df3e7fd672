"""Diagnoses the leader and retrieves knowledge about its bottleneck."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from agent.diagnose.diagnose import diagnose, gather_facts
from agent.diagnose.inputs import ProfileData, from_profile
from agent.diagnose.result import Diagnosis
from agent.diagnose.techniques import Catalog, catalog_or_corpus
from agent.optimize.candidate import Context, Judged
from agent.optimize.outcomes import describe
from agent.optimize.run import RunFolder, read_evaluation
from judge.problem.kernel import Language, language_of
from judge.problem.syntax import parse
from kb.context.build import build_context
from kb.context.models import MAX_KERNEL_CHARS, ContextRequest, ContextResponse
from kb.errors import InvalidInputError, KbError
from kb.gpus import GpuSpec, find_spec
from kb.index.reader import Generation
from kb.search.engine import Searcher
from kb.search.models import MAX_QUERY_CHARS
from kb.search.opening import open_searcher

# `transpose3d` as "transpose 3d": run together, it is a word that no text has.
_RANK = re.compile(r"(?<=[a-z])(?=[1-3]d\b)")
# Techniques of the diagnosis that are named in the query: more would thin the budget out.
_MAX_TITLES = 2


class Advice(NamedTuple):
    """Diagnosis and context for one round."""

    diagnosis: Diagnosis | None
    context: Context
    notes: tuple[str, ...] = ()


class Advisor(Protocol):
    """Diagnoses and retrieves."""

    def advise(self, leader: Judged, round_: int, shown_ids: Collection[str]) -> Advice:
        """Diagnosis of the leader, and a context for it without techniques of `shown_ids`.

        What is not available is left out, and the notes say so.
        """


@dataclass(eq=False)
class IndexAdvisor:
    """Diagnoses by rules from the run's files, and asks an index as `/v1/context` does."""

    folder: RunFolder
    index: Path
    specs: Sequence[GpuSpec] = ()
    """Cards beside those of `kb.gpus`."""
    searcher: Searcher | None = None
    """Of the index, which stays the caller's; None: opened at the first question."""

    def advise(self, leader: Judged, round_: int, shown_ids: Collection[str]) -> Advice:
        """See `Advisor.advise`."""
        del round_
        notes: list[str] = []
        diagnosis: Diagnosis | None = None
        try:
            diagnosis = self._diagnose(leader)
        except KbError as error:
            notes.append(f"no diagnosis: {error}")
        context = Context()
        try:
            if self.folder.config.knowledge:
                context = self._retrieve(leader, diagnosis, shown_ids)
        except Exception as error:
            # A run goes on without knowledge, whatever is wrong with the index.
            notes.append(f"no context: {describe(error)[:300]}")
        return Advice(diagnosis, context, tuple(notes))

    def _diagnose(self, leader: Judged) -> Diagnosis:
        profile = self.folder.profile(leader.id)
        if profile is not None:
            measured = from_profile(profile)
        else:
            measured = ProfileData(leader.outcome.profile or {})
        spec = find_spec(self._gpu, self.specs) if self._gpu is not None else None
        evaluation = read_evaluation(self.folder.root, leader.id)
        facts = gather_facts(measured, spec, evaluation, leader.candidate.source)
        return diagnose(
            facts,
            self._techniques,
            language=_language(leader),
            notes=measured.notes,
            ignored=measured.ignored,
        )

    @cached_property
    def _techniques(self) -> Catalog:
        return catalog_or_corpus(self.index)

    def _retrieve(
        self, leader: Judged, diagnosis: Diagnosis | None, shown_ids: Collection[str]
    ) -> Context:
        standing = self.folder.record.standing
        recorded = standing.architecture if standing is not None else None
        architecture = recorded or self.folder.config.architecture
        if self.searcher is None:
            self.searcher = open_searcher(self.index)
        config = self.folder.config
        request = ContextRequest(
            query=build_query(config.problem.stem, diagnosis, shown_ids),
            kernel=leader.candidate.source[:MAX_KERNEL_CHARS],
            profile=finite_metrics(leader.outcome.profile) or None,
            gpu=self._gpu or architecture,
            language=_language(leader),
            max_tokens=config.context_tokens,
            # A reader has not read the earlier ones, and the nearest kernels stay the nearest.
            exclude=sorted({*shown_ids} & {*self.searcher.generation.techniques}),
        )
        hidden = ids_of_sources(self.searcher.generation, config.exclude_sources)
        if hidden:  # more than a request from outside may name
            request = request.model_copy(update={"exclude": [*request.exclude, *sorted(hidden)]})
        try:
            # Its operators say what to read about, also where nothing was measured.
            enriched = request.model_copy(
                update={"problem": config.problem.source, "dtype": config.dtype}
            )
            response = build_context(enriched, self.searcher)
        except InvalidInputError:  # no module that can be read, or a card of the user's own
            plain = request.model_copy(update={"gpu": architecture})
            response = build_context(plain, self.searcher)
        return as_context(response, self.searcher.generation)

    @property
    def _gpu(self) -> str | None:
        standing = self.folder.record.standing
        return (standing.gpu if standing is not None else None) or self.folder.config.gpu


def as_context(response: ContextResponse, generation: Generation) -> Context:
    """An answer of the knowledge base as a run keeps it; empty where it abstained.

    The reason for a technique is followed by its most frequent risk.
    """
    if response.abstained:
        return Context()
    return Context(
        text=response.text,
        chunks=chunks_of(response),
        techniques=tuple(technique.slug for technique in response.techniques),
        reasons={
            technique.slug: f"{technique.reason.rstrip('.')}. Risk: {risk}"
            for technique in response.techniques
            for risk in generation.techniques[technique.slug].entry.risks[:1]
        },
        citations=tuple(
            f"{citation.title}, {citation.url or 'local'} ({citation.licence})"
            for citation in response.citations
        ),
        tokens=response.tokens,
    )


def chunks_of(response: ContextResponse) -> tuple[str, ...]:
    """What an answer shows: a technique's slug for all of its chunks, an example's first one."""
    return (*response.examples, *(technique.slug for technique in response.techniques))


def ids_of_sources(generation: Generation, names: Collection[str]) -> frozenset[str]:
    """Ids of all chunks, techniques and kernels of these sources.

    Raises
    ------
    InvalidInputError
        The index has no source of a name.
    """
    if not names:
        return frozenset()
    if unknown := sorted(set(names) - generation.sources.keys()):
        listed = ", ".join(sorted(generation.sources)) or "none"
        raise InvalidInputError(f"the index has no source '{unknown[0]}': its sources are {listed}")
    rows = generation.columns["sources"].mask(lambda values: not set(names).isdisjoint(values))
    chunks = generation.store.rows([int(row) for row in rows.nonzero()[0]])
    techniques = {
        slug for slug, technique in generation.techniques.items() if technique.source in names
    }
    kernels = {slug for slug, kernel in generation.kernels.items() if kernel.source in names}
    return frozenset({chunk.id for chunk in chunks} | techniques | kernels)


def build_query(stem: str, diagnosis: Diagnosis | None, shown_ids: Collection[str]) -> str:
    """The search query: the operator's name, the causes, and their techniques."""
    parts = [_RANK.sub(" ", re.sub(r"[_\W]+", " ", stem))]
    if diagnosis is not None:
        parts += [finding.cause for finding in diagnosis.findings]
        entries = [technique for finding in diagnosis.findings for technique in finding.techniques]
        parts += [advice.title for advice in entries if advice.slug not in shown_ids][:_MAX_TITLES]
    return ". ".join(parts)[:MAX_QUERY_CHARS]


def finite_metrics(metrics: Mapping[str, float] | None) -> dict[str, float]:
    """The metrics whose values are finite, which a request may hold."""
    return {name: value for name, value in (metrics or {}).items() if math.isfinite(value)}


def _language(leader: Judged) -> Literal["triton", "cuda"]:
    """`triton`, unless the leader is a CUDA kernel."""
    if leader.candidate.suffix != ".py":
        return "cuda"
    try:
        language = language_of(parse(leader.candidate.source, leader.candidate.file))
    except KbError:
        return "triton"
    return "cuda" if language is Language.CUDA else "triton"
