"""The arms to compare: they differ only in the part of the knowledge base that a model sees."""

import contextlib
import random
from collections.abc import Collection
from pathlib import Path
from typing import Final

from agent.opening import searcher_or_none
from agent.optimize.advice import Advice, IndexAdvisor, as_context
from agent.optimize.candidate import Judged
from agent.optimize.run import RunFolder
from agent.pause import PausedError
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.search.engine import Searcher
from kb.vocabulary import technique_titles

INDEX: Final = "index"
EMPTY: Final = "empty"
SHUFFLED: Final = "shuffled"
ARMS: Final = (INDEX, EMPTY, SHUFFLED)
NOTE: Final = "note"
# Techniques of a shuffled context, where the problem's own context has none.
_TECHNIQUES = 3


class NoIndexError(PausedError):
    """The round's context needs the index, which this machine does not have."""


class ArmAdvisor:
    """Diagnoses as usual, and advises with the context of its arm.

    Parameters
    ----------
    arm
        `index`: the context of the problem. `empty`: no context. `shuffled`: a context of the same
        budget, of techniques that the problem's own context does not have.
    folder, index, searcher
        Of the run and of the knowledge base; without a searcher only `empty` can advise.
    seed
        Of the random choice of techniques.
    """

    def __init__(
        self, arm: str, folder: RunFolder, index: Path, searcher: Searcher | None, seed: int
    ) -> None:
        self._arm, self._folder, self._searcher, self._seed = arm, folder, searcher, seed
        self._inner = IndexAdvisor(folder, index, (), searcher)

    def advise(self, leader: Judged, round_: int, shown: Collection[str]) -> Advice:
        """See `agent.optimize.advice.Advisor`.

        Raises
        ------
        NoIndexError
            The arm needs an index, and there is none.
        """
        if self._arm == EMPTY:
            return self._inner.advise(leader, round_, shown)  # its config has no knowledge
        if self._searcher is None:
            raise NoIndexError("the next round is planned where the index is")
        advice = self._inner.advise(leader, round_, shown)
        if self._arm == INDEX:
            return advice
        config = self._folder.config
        titles = self._random_titles(advice.context.techniques, round_)
        request = ContextRequest(
            query=". ".join(titles),
            gpu=config.gpu,
            language="triton",
            max_tokens=config.context_tokens,
            exclude=sorted({*shown, *advice.context.techniques, *advice.context.chunks}),
        )
        context = as_context(build_context(request, self._searcher), self._searcher.generation)
        return Advice(advice.diagnosis, context, advice.notes)

    def _random_titles(self, techniques: Collection[str], round_: int) -> list[str]:
        titles = technique_titles()
        slugs = sorted(slug for slug in titles if slug not in techniques)
        digest = self._folder.config.problem.sha256
        generator = random.Random(f"{self._seed}:{digest}:{round_}")
        return [titles[slug] for slug in generator.sample(slugs, len(techniques) or _TECHNIQUES)]


def note_sources(index: Path) -> tuple[str, ...]:
    """Sources of an index that earlier runs wrote: all of their chunks are notes."""
    searcher = searcher_or_none(index)
    if searcher is None:
        return ()
    with contextlib.closing(searcher):
        columns = searcher.generation.columns
        notes = columns["kinds"].mask(lambda values: NOTE in values)
        return tuple(
            name
            for name in sorted(searcher.generation.sources)
            if (rows := columns["sources"].mask(lambda values, name=name: name in values)).any()  # type: ignore[misc]
            and bool(notes[rows].all())
        )
