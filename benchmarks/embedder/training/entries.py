"""Pairs out of our own entries: questions written for them, their headings, their other names."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.embedder.training.code import embedded_text
from benchmarks.embedder.training.records import Kind
from ingest.corpus_source import corpus_state
from kb.corpus.loader import shipped_corpus
from kb.records import Chunk
from kb.vocabulary import load_yaml

QUESTIONS_FILE = Path(__file__).resolve().parents[1] / "questions.yaml"
SECTIONS_OF_A_QUESTION = 3
"""Besides the card: which, the question's place decides, so that all sections are asked for."""


def entry_pairs(
    questions: Path = QUESTIONS_FILE,
) -> Iterator[tuple[str, str, list[tuple[Kind, str]]]]:
    """Each chunk of an entry as (entry, text, queries that it answers).

    Raises
    ------
    ValueError
        If a question is about a technique that the corpus does not have.
    """
    chunks: dict[str, list[Chunk]] = {}
    for chunk in corpus_state(shipped_corpus()).chunks:
        # A page's own question chunks repeat the questions that are read below.
        if chunk.role == "question":
            continue
        chunks.setdefault(f"{chunk.kind}:{chunk.entry}", []).append(chunk)
    by_chunk: dict[str, list[tuple[Kind, str]]] = {}
    for slug, rows in load_yaml(questions.read_text(encoding="utf-8")).items():
        entry = chunks.get(f"technique:{slug}")
        if entry is None:
            raise ValueError(f"{questions}: the corpus has no technique {slug}")
        for number, row in enumerate(rows):
            sections = [chunk for chunk in entry if chunk.section != "card"]
            offset = number % max(len(sections), 1)
            rotated = sections[offset:] + sections[:offset]
            for chunk in [entry[0], *rotated[:SECTIONS_OF_A_QUESTION]]:
                text = " ".join(row["text"].split())
                by_chunk.setdefault(chunk.id, []).append(("question", text))
    for name, entry in chunks.items():
        for chunk in entry:
            queries = by_chunk.get(chunk.id, [])
            if chunk.section:
                section = "" if chunk.section == "card" else f": {chunk.section}"
                queries.append(("heading", chunk.title + section))
            yield name, embedded_text(chunk), queries
