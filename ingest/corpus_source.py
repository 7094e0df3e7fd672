"""A corpus folder as a source: its entries become technique and kernel chunks."""

import hashlib
from collections import Counter
from pathlib import Path, PurePosixPath

from ingest.chunkers import Piece, chunk_file
from ingest.chunking import fold_key
from ingest.roles import role_of
from kb.architectures import describe_targets
from kb.corpus.entries import Gate, Technique
from kb.corpus.frontmatter import split_front_matter
from kb.corpus.loader import MANIFEST, Corpus, KernelFile, TechniqueFile, load_corpus
from kb.files import read_below
from kb.index.state import IndexState, KernelRecord, TechniqueRecord
from kb.problems.matching import reference_graph
from kb.problems.vocabulary import has_family
from kb.records import QUESTION, Chunk, Source, chunk_id
from kb.vocabulary import find_metric, taxonomy

CARD = "card"
_QUESTIONS = "Questions"


def corpus_state(root: Path) -> IndexState:
    """Read a corpus folder into its part of an index.

    Raises
    ------
    EntryError
        If an entry is malformed; names file and line.
    """
    corpus = load_corpus(root)
    name = corpus.manifest.name
    techniques = tuple(
        TechniqueRecord(file.entry, name, file.path, file.front.body, file.front.body_line)
        for file in corpus.techniques
    )
    kernels: list[KernelRecord] = []
    chunks: list[Chunk] = []
    for technique in corpus.techniques:
        chunks += _technique_chunks(corpus, technique)
    for kernel in corpus.kernels:
        code, doc, doc_line = _split_kernel(kernel)
        stripped, launcher = code.strip("\n"), kernel.launch_code
        graph = None if has_family(kernel.entry.op) else reference_graph(launcher or stripped)
        kernels.append(KernelRecord(kernel.entry, name, kernel.path, stripped, launcher, graph))
        chunks += _kernel_chunks(corpus, kernel, code, doc, doc_line)
    return IndexState((_source(corpus),), techniques, tuple(kernels), tuple(chunks))


def _source(corpus: Corpus) -> Source:
    root, manifest = corpus.root, corpus.manifest
    paths = [MANIFEST]
    paths += [technique.path for technique in corpus.techniques]
    for kernel in corpus.kernels:
        paths += [kernel.path, *([kernel.launcher] if kernel.launcher else [])]
    digests = ((path, hashlib.sha256(read_below(root, path)).hexdigest()) for path in paths)
    return Source(
        **manifest.model_dump(), location=str(root.resolve()), files=tuple(sorted(digests))
    )


def _gates(title: str, gates: tuple[Gate, ...]) -> list[str]:
    lines = [title] if gates else []
    for gate in gates:
        metric = find_metric(gate.metric)
        assert metric is not None  # the model refuses an unknown metric
        unit = "" if metric.unit in {"inst", "registers"} else f" {metric.unit}"
        lines.append(
            f"- {metric.label} ({gate.metric}) {gate.op} {gate.value:g}{unit}: {gate.because}"
        )
    return lines


def technique_card(entry: Technique) -> str:
    """The entry's front matter as text for a reader; measurements are left out."""
    lines = [entry.title]
    if entry.aliases:
        lines.append("Also called: " + ", ".join(entry.aliases))
    lines.append("Relieves: " + ", ".join(entry.bottlenecks))
    lines.append("Runs on: " + describe_targets(entry.architectures))
    lines.append("Effect: " + entry.effect)
    lines += _gates("Use when:", entry.when)
    lines += _gates("Avoid when:", entry.avoid_when)
    lines += ["Risks:", *(f"- {risk}" for risk in entry.risks)]
    return "\n".join(lines)


def _technique_chunks(corpus: Corpus, file: TechniqueFile) -> list[Chunk]:
    entry, source = file.entry, corpus.manifest.name
    text = file.text
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines, 1) if line.startswith("questions:")), 1)
    parts: list[tuple[str, str, int, int]] = [
        (technique_card(entry), CARD, 1, file.front.body_line - 1),
        # A vector each: one of them all together would be like none of them.
        *((question, _QUESTIONS, first, file.front.body_line - 1) for question in entry.questions),
        *(
            (piece.text, piece.heading or entry.title, piece.start_line, piece.end_line)
            for piece in chunk_file(PurePosixPath(file.path), text)
        ),
    ]
    occurrences: Counter[str] = Counter()
    chunks: list[Chunk] = []
    for content, section, start, end in parts:
        chunks.append(
            Chunk(
                id=chunk_id(source, file.path, section, content, occurrences[content]),
                kind="technique",
                source=source,
                title=entry.title,
                path=file.path,
                start_line=start,
                end_line=end,
                language="markdown",
                text=content,
                entry=entry.slug,
                section=section,
                techniques=(entry.slug,),
                bottlenecks=entry.bottlenecks,
                architectures=entry.architectures,
                role=QUESTION if section == _QUESTIONS else "",
            )
        )
        occurrences[content] += 1
    return chunks


def _split_kernel(file: KernelFile) -> tuple[str, str, int]:
    """The code with its leading comment blanked line by line, the comment's prose, and its end."""
    front = split_front_matter(file.text, file.path)
    assert front is not None  # the loader refuses a kernel without
    closing = '"""' if file.path.endswith(".py") else "*/"
    lines = front.body.splitlines()
    end = next((i for i, line in enumerate(lines) if closing in line), len(lines) - 1)
    doc = "\n".join([*lines[:end], lines[end].split(closing)[0]]).strip()
    doc_line = front.body_line + end
    rest = file.text.splitlines()[doc_line:]
    return "\n".join([""] * doc_line + rest), doc, doc_line


def _kernel_card(file: KernelFile, doc: str) -> str:
    entry = file.entry
    lines = [entry.title, f"Operator: {entry.op}. Language: {entry.language}."]
    if entry.techniques:
        lines.append("Techniques: " + ", ".join(entry.techniques))
    if entry.derived_from:
        lines.append(f"Improves on: {entry.derived_from}")
    lines.append("Dtypes: " + ", ".join(entry.dtypes))
    lines.append(doc)
    return "\n".join(lines)


def _kernel_chunks(
    corpus: Corpus, file: KernelFile, code: str, doc: str, doc_line: int
) -> list[Chunk]:
    entry, source = file.entry, corpus.manifest.name
    homes = {slug: name for name, slugs in taxonomy().items() for slug in slugs}
    by_slug = {technique.entry.slug: technique.entry.bottlenecks for technique in corpus.techniques}
    names = {
        name
        for slug in entry.techniques
        for name in (*by_slug.get(slug, ()), *((homes[slug],) if slug in homes else ()))
    }
    bottlenecks = tuple(name for name in taxonomy() if name in names)
    card = Piece(_kernel_card(file, doc), 1, doc_line, entry.language)
    pieces: list[tuple[str, Piece, str | None]] = [(file.path, card, CARD)]
    pieces += [(file.path, piece, None) for piece in chunk_file(PurePosixPath(file.path), code)]
    if file.launcher:
        launch_pieces = chunk_file(PurePosixPath(file.launcher), file.launch_code)
        pieces += [(file.launcher, piece, None) for piece in launch_pieces]
    occurrences: Counter[tuple[str, str]] = Counter()
    chunks: list[Chunk] = []
    for path, piece, section in pieces:
        chunks.append(
            Chunk(
                id=chunk_id(source, path, piece.symbol, piece.text, occurrences[path, piece.text]),
                kind="kernel",
                source=source,
                title=entry.title,
                path=path,
                start_line=piece.start_line,
                end_line=piece.end_line,
                language=piece.language if path != file.path else entry.language,
                text=piece.text,
                symbol=piece.symbol,
                signature=piece.signature,
                entry=entry.slug,
                section=section,
                op=entry.op,
                techniques=entry.techniques,
                bottlenecks=bottlenecks,
                architectures=entry.architectures,
                dtypes=entry.dtypes,
                role="" if section == CARD else role_of(piece),
                fold="" if section == CARD else fold_key(piece.text, piece.language),
            )
        )
        occurrences[path, piece.text] += 1
    return chunks
