"""Open the current generation of an index for searching, with the embedder that made it."""

from pathlib import Path

from kb.embedders import load_embedder
from kb.errors import EmbedderError, IndexMismatchError
from kb.index.reader import open_generation
from kb.search.engine import Searcher


def open_searcher(index: Path) -> Searcher:
    """A searcher over the current generation of the index at `index`.

    Raises
    ------
    IndexUnavailableError
        If there is no index, or it is damaged.
    IndexMismatchError
        If another schema version made it, or an embedder that this installation does not have.
    """
    generation = open_generation(index)
    name = generation.manifest.embedder
    try:
        return Searcher(generation, load_embedder(name))
    except EmbedderError as error:
        if not name.startswith("onnx:"):
            raise
        raise IndexMismatchError(
            f"the index was made with embedder {name}, which this version does not ship: "
            "run `kb rebuild`"
        ) from error
