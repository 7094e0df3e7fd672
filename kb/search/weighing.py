"""Fitted corrections to the scores of entries: which sections, names and neighbours to trust.

An entry's score by `Entries` and `Ranker` counts all of its sections alike. Their weights were
fitted on judged queries (`python -m benchmarks.retrieval.fit`): words of an entry's front matter
count, those of its worked example hardly do. The correction is linear, so it can be explained.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kb.corpus.entries import TECHNIQUE_SECTIONS
from kb.index.reader import Generation
from kb.index.tokens import terms
from kb.search.entries import Entries, EntryScores
from kb.search.query import Understanding
from kb.search.weights import read_weights

Floats = NDArray[np.float64]

# As `ingest` names them, and what is of none: the code of a kernel.
_SECTIONS = ("card", "Questions", *TECHNIQUE_SECTIONS)
_CODE = "code"
# The weights were fitted where there are hundreds of entries.
_MIN_ENTRIES = 50
# A technique's kernels, and the best entries, that are looked at together.
_TOP_KERNELS = 3
_TOP_ENTRIES = 5

FEATURES = (
    "score",
    *(f"words: {section}" for section in (*_SECTIONS, _CODE)),
    *(f"meaning: {section}" for section in (*_SECTIONS, _CODE)),
    "words: best section",
    "words: together",
    "words: share",
    "words: known",
    "words: name",
    "words: title",
    "meaning: nearest",
    "meaning: nearest three",
    "meaning: nearest three, with metrics",
    "technique",
    "technique, with operator",
    "operator",
    "shown for operator",
    "named",
    "gates",
    "gates: share that holds",
    "gates: any",
    "kernels: best",
    "kernels: best three",
    "techniques: best",
    "techniques: mean",
    "improves on",
    "is improved by",
    "alike",
    "first technique: score",
    "first technique: said",
    "first technique: learned",
    "learned",
    "learned, with metrics",
)
"""What is weighed, in the order of `Weighing.features`."""
LEARNED = FEATURES[-2:]
"""What the classifier says: as it is, and where the query gives metrics, which gates judge."""


class Signals(NamedTuple):
    """What a query says about entries besides its words, (m,) each."""

    named: Floats
    """What its name in the query is worth, of techniques."""
    gates: Floats
    """What its gates are worth by the metrics."""
    gate_share: Floats
    """The share of its `when` gates that hold."""


class Weighing:
    """The features of one generation's entries, and what they add to the scores."""

    def __init__(self, generation: Generation, entries: Entries) -> None:
        self._entries = entries
        weights = read_weights("entry_weights.yaml")
        self._weights = np.array([weights.features[name] for name in FEATURES])
        self.applies: bool = (
            len(entries.names) >= _MIN_ENTRIES and generation.manifest.embedder == weights.embedder
        )
        """Whether there are entries enough, and the embedder is the one that was fitted with."""
        self._read_sections(generation)
        self._read_names(generation)
        self._read_neighbours(generation)

    def _read_sections(self, generation: Generation) -> None:
        column = generation.columns["sections"]
        place_of = {name: place for place, name in enumerate(_SECTIONS)}
        of_code = np.array(
            [place_of.get(values[0] if values else "", len(_SECTIONS)) for values in column.values]
        )
        section = of_code[column.codes[self._entries.rows]]
        slot = section * len(self._entries.names) + self._entries.of_row
        self._by_slot = np.argsort(slot, kind="stable")
        ordered = slot[self._by_slot]
        self._firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self._slots = ordered[self._firsts]
        # Where each entry's rows point together, of length 1, (m, dimensions).
        vectors = generation.vectors.rows[self._entries.rows]
        total = np.zeros((len(self._entries.names), vectors.shape[1]), dtype=np.float32)
        np.add.at(total, self._entries.of_row, vectors)
        total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-9)
        self._directions = total

    def _read_names(self, generation: Generation) -> None:
        """Token → the entries that have it in their titles, or in any name."""
        titles: dict[str, set[int]] = {}
        names: dict[str, set[int]] = {}
        techniques, kernels = generation.techniques.items(), generation.kernels.items()
        for name, title, others in (
            *((f"technique:{s}", f"{r.entry.title} {s}", r.entry.aliases) for s, r in techniques),
            *((f"kernel:{s}", f"{r.entry.title} {s}", (r.entry.op,)) for s, r in kernels),
        ):
            if (place := self._entries.places.get(name)) is not None:
                _add_terms(titles, title, place)
                _add_terms(names, " ".join((title, *others)), place)
        self._titles = {token: np.array(sorted(entries)) for token, entries in titles.items()}
        self._names = {token: np.array(sorted(places_)) for token, places_ in names.items()}

    def _read_neighbours(self, generation: Generation) -> None:
        places = self._entries.places
        count = len(self._entries.names)
        self._kernels: dict[str, list[int]] = {}
        # What each kernel shows first; one past the end for a technique, and without one.
        self._first = np.full(count, count)
        derived: list[tuple[int, int]] = []
        for slug, kernel in generation.kernels.items():
            place = places.get(f"kernel:{slug}")
            if place is None:
                continue
            self._kernels.setdefault(kernel.entry.op, []).append(place)
            examples = (places.get(f"technique:{t}") for t in kernel.entry.techniques)
            self._first[place] = next((entry for entry in examples if entry is not None), count)
            plain = places.get(f"kernel:{kernel.entry.derived_from}")
            if plain is not None:
                derived.append((place, plain))
        self._derived = np.array(derived, dtype=np.intp).reshape(-1, 2)
        self._pairs = self._entries.pairs
        kernels, techniques = self._pairs.T
        self._example_counts = np.maximum(np.bincount(kernels, minlength=count), 1)
        most = int(np.bincount(techniques, minlength=1).max())
        # Technique → its kernels, filled up with one past the end.
        self._examples = np.full((count, max(most, _TOP_KERNELS)), count)
        for technique in range(count):
            own = kernels[techniques == technique]
            self._examples[technique, : len(own)] = own

    def corrections(
        self,
        scored: EntryScores,
        intent: Understanding,
        signals: Signals,
        scores: Floats,
        learned: Floats,
    ) -> Floats:
        """What is added to each entry's score, up to a constant, (m,); arguments as `features`."""
        if not self.applies:
            return np.zeros(len(scores))
        return self._weights @ self.features(scored, intent, signals, scores, learned)

    def features(
        self,
        scored: EntryScores,
        intent: Understanding,
        signals: Signals,
        scores: Floats,
        learned: Floats,
    ) -> Floats:
        """`FEATURES` of each entry, (features, m).

        Parameters
        ----------
        scored
            The entries' scores by the query's words and meaning.
        intent
            What was recognised in the query.
        signals
            What that says about the entries.
        scores
            Their scores without weights, (m,).
        learned
            The classifier's output for them, (m,).
        """
        count = len(self._entries.names)
        sections = len(_SECTIONS) + 1
        most = max(float(scored.by_row.max(initial=0.0)), 1e-9)
        words, meaning = np.zeros(sections * count), np.zeros(sections * count)
        words[self._slots] = np.maximum.reduceat(scored.by_row[self._by_slot], self._firsts) / most
        meaning[self._slots] = np.maximum.reduceat(scored.near[self._by_slot], self._firsts)
        total = max(float(scored.idf.sum()), 1e-9)
        technique = self._entries.techniques.astype(np.float64)
        return np.vstack(
            (
                scores,
                words.reshape(sections, count),
                meaning.reshape(sections, count),
                scored.alone,
                scored.together,
                scored.idf @ scored.best / total,
                scored.idf @ (scored.best > 0) / total,
                self._name_idf(scored, self._names) / total,
                self._name_idf(scored, self._titles) / total,
                scored.nearest,
                scored.meaning,
                scored.meaning * bool(intent.metrics),
                technique,
                technique * bool(intent.ops),
                *self._by_operator(intent),
                signals.named,
                signals.gates,
                signals.gate_share,
                signals.gate_share > 0,
                *self._by_neighbours(scored.fused + signals.named + signals.gates),
                *(
                    np.append(column, 0.0)[self._first]
                    for column in (scores, signals.named + signals.gates, learned)
                ),
                learned,
                learned * bool(intent.metrics),
            )
        )

    def _name_idf(self, scored: EntryScores, names: Mapping[str, NDArray[np.intp]]) -> Floats:
        """The information of the query's words that stand in each entry's names, (m,)."""
        worth = np.zeros(len(self._entries.names))
        for token, idf in zip(scored.tokens, scored.idf.tolist(), strict=True):
            if (places := names.get(token)) is not None:
                worth[places] += idf
        return worth

    def _by_operator(self, intent: Understanding) -> tuple[Floats, Floats]:
        """How rare a kernel's operator is that the query names, and the share of the named
        operators' kernels that show a technique, (m,) each."""
        count = len(self._entries.names)
        rare, share_shown = np.zeros(count), np.zeros(count)
        all_kernels = sum(map(len, self._kernels.values()))
        for op in intent.ops:
            op_kernels = self._kernels.get(op, [])
            rare[op_kernels] = np.log((all_kernels + 1) / max(len(op_kernels), 1))
        is_named = rare > 0
        kernels, techniques = self._pairs.T
        np.add.at(share_shown, techniques, is_named[kernels] / max(int(is_named.sum()), 1))
        return rare, share_shown

    def _by_neighbours(self, scores: Floats) -> tuple[Floats, ...]:
        """What entries that belong with each one, or are like it, score, (m,) each."""
        count = len(scores)
        kernels, techniques = self._pairs.T
        middle = float(np.median(scores))
        ahead = np.maximum(scores - middle, 0.0)
        ranked = np.sort(-np.append(scores, 0.0)[self._examples], axis=1)[:, :_TOP_KERNELS]
        best_kernel = np.maximum(-ranked[:, 0] - middle, 0.0)
        best_technique, technique_sum = np.zeros(count), np.zeros(count)
        np.maximum.at(best_technique, kernels, scores[techniques])
        np.add.at(technique_sum, kernels, scores[techniques])
        plain, better = np.zeros(count), np.zeros(count)
        kernel, derived_from = self._derived.T
        plain[kernel] = scores[derived_from]
        np.maximum.at(better, derived_from, scores[kernel])
        best = np.argsort(-scores, kind="stable")[:_TOP_ENTRIES]
        cosines = np.vecdot(self._directions[:, None], self._directions[best])
        near = np.maximum(cosines, 0.0)
        near[best, np.arange(len(best))] = 0.0  # itself
        alike = near @ ahead[best]
        return (
            best_kernel,
            -ranked.mean(axis=1),
            best_technique,
            technique_sum / self._example_counts,
            plain,
            better,
            alike,
        )


def _add_terms(where: dict[str, set[int]], text: str, place: int) -> None:
    for token in terms(text):
        where.setdefault(token, set()).add(place)
