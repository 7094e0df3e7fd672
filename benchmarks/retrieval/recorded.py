"""How fitted weights are recorded for the product to read."""

from pathlib import Path

from kb.search.weights import Weights


def record(path: Path, head: str, weights: Weights) -> None:
    """Write weights under their comment `head`, as `kb.search.weights` reads them."""
    lines = "".join(f'  "{name}": {weight:.4f}\n' for name, weight in weights.features.items())
    text = f"{head}embedder: {weights.embedder}\nfeatures:\n{lines}"
    path.write_text(text, encoding="utf-8")
