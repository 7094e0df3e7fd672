"""`search_kb`: what a model may look up in the knowledge base while it plans and writes.

Calls and tokens are bounded for each conversation, no chunk is given twice, and every text is
marked as quoted data.
"""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.endpoint.errors import one_line
from agent.proposers.llm.prompting import mark_of
from kb.context.budget import Budget
from kb.context.cutting import code_prefixes, prose_blocks
from kb.context.materials import provenance
from kb.embedders.tokens import count_tokens
from kb.errors import IndexUnavailableError
from kb.index.reader import Generation
from kb.search.engine import Searcher
from kb.search.models import Filters, Result

NAME = "search_kb"
MAX_CALLS = 4
MAX_TOKENS = 4000
# Of one answer, so that the first one does not take all.
_TOKENS_PER_CALL = 1500
_RESULTS = 4
_BEGIN = re.compile(r"^-----[0-9a-f]{12} begin chunk (\S+)-----$", re.MULTILINE)
_CODE = frozenset({"triton", "python", "cuda", "cpp"})
NO_MORE = "No more searches: answer with what you have."


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="ignore")

    query: Annotated[str, Field(min_length=1, max_length=500)]


SPECIFICATION: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": (
            "Search a knowledge base of GPU kernel techniques, example kernels and documents. "
            "Answers with quoted texts and their ids."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Technique, instruction, API or problem, in a few words",
                }
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


class SearchTool:
    """One conversation's access to an index.

    Parameters
    ----------
    searcher : Searcher, optional
        Of the index; safe to share. None in a replay, whose record has the answers.
    architecture : str, optional
        What does not run on it is left out.
    known_ids : iterable of str
        Ids of chunks and slugs that the conversation has already, each standing for its entry.
    """

    def __init__(
        self,
        searcher: Searcher | None,
        architecture: str | None = None,
        known_ids: Iterable[str] = (),
        *,
        max_calls: int = MAX_CALLS,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self._searcher = searcher
        self._architectures = [architecture] if architecture else []
        self._known_ids = tuple(dict.fromkeys(known_ids))
        self._found_ids: dict[str, None] = {}
        self._calls, self._tokens = max_calls, max_tokens

    @property
    def found_chunks(self) -> tuple[str, ...]:
        """Ids of the chunks that searches gave."""
        return tuple(self._found_ids)

    @property
    def spent(self) -> bool:
        """Whether nothing more may be asked."""
        return self._calls <= 0 or self._tokens <= 0

    def call(self, name: str, arguments: str) -> str:
        """Answer one call; whatever is wrong with it is said in the answer."""
        if self.spent:
            return NO_MORE
        answer = self._answer(name, arguments)
        self._calls -= 1
        self._tokens -= count_tokens(answer)
        return answer

    def recall(self, answer: str) -> None:
        """Count a recorded answer as given: a replay does not search."""
        if answer == NO_MORE:
            return
        self._calls -= 1
        self._tokens -= count_tokens(answer)
        self._found_ids.update(dict.fromkeys(_BEGIN.findall(answer)))

    def _answer(self, name: str, arguments: str) -> str:
        if name != NAME:
            return f"There is no tool '{one_line(name, 50)}'; there is {NAME}."
        try:
            return self._pack(self._search(_Arguments.model_validate_json(arguments).query))
        except ValidationError:
            return f'The arguments must be JSON such as {{"query": "..."}}: {NAME} needs a query.'
        except Exception as error:
            # A run goes on without knowledge, whatever is wrong with the index.
            return f"The search failed: {one_line(error)}"

    def _search(self, query: str) -> list[Result]:
        if self._searcher is None:
            raise IndexUnavailableError("there is no index")
        filters = Filters(architectures=self._architectures)
        mask = self._unseen_mask(self._searcher.generation)
        return self._searcher.search(query, _RESULTS, filters, mask=mask).results

    def _unseen_mask(self, generation: Generation) -> NDArray[np.bool_]:
        """(n,): chunks that the conversation does not have."""
        mask = np.ones(generation.manifest.chunks, dtype=np.bool_)
        entries = generation.columns["entries"]
        known_entries: set[str] = set()
        for chunk_id in self._known_ids:
            row = generation.store.row_of(chunk_id)
            if row is None:
                known_entries |= {f"technique:{chunk_id}", f"kernel:{chunk_id}"}
            else:
                mask[row] = False
                known_entries.update(entries.of(row))
        mask &= ~entries.mask(lambda values: not known_entries.isdisjoint(values))
        for chunk_id in self._found_ids:
            row = generation.store.row_of(chunk_id)
            if row is not None:
                mask[row] = False
        return mask

    def _pack(self, results: list[Result]) -> str:
        room = Budget(min(_TOKENS_PER_CALL, self._tokens), count_tokens)
        parts: list[str] = []
        for result in results:
            part = _quote(result, room)
            if part is not None:
                parts.append(part)
                room = room.less(part)
                self._found_ids[result.id] = None
        if not parts:
            return "Nothing more is known about that: try other words, or answer."
        return "\n".join(parts)


def _quote(result: Result, room: Budget) -> str | None:
    """A result between marks, cut to what there is room for; None if that is nothing."""
    place = f"{result.path}:{result.start_line}-{result.end_line}"
    mark = mark_of(result.text)
    head = (
        f"-----{mark} begin chunk {result.id}-----\n"
        f"{one_line(result.title, 200)}\n{one_line(provenance(result.source, place), 300)}\n\n"
    )
    foot = f"\n-----{mark} end-----"
    if result.language in _CODE:
        prefixes = code_prefixes(result.text, result.language)
    else:
        blocks = prose_blocks(result.text)
        prefixes = iter(
            ["\n\n".join(blocks[: count + 1]) for count in range(len(blocks) - 1)] + [result.text]
        )
    text = room.less(head, foot).longest(prefixes)
    return head + text + foot if text else None


def arguments_as_json(arguments: str) -> str:
    """Arguments of a call as they may be sent back: endpoints refuse a history that is no JSON."""
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return "{}"
    return arguments
