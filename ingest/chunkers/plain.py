"""Plain text: windows of lines, cut at blank lines."""

from ingest.chunkers.limits import PROSE_CHARS
from ingest.chunkers.piece import Piece
from ingest.chunkers.spans import Span, assemble


def chunk_plain(text: str) -> list[Piece]:
    """Chunk `text` (line feeds as line ends) into windows of about `PROSE_CHARS` characters."""
    return assemble(text.split("\n"), [], Span(0, 0, "text", limit=PROSE_CHARS))
