"""What a trial is: every choice that a training run makes, in one record."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("docstring", "comment", "heading", "symbol", "error", "question", "analogue")


@dataclass(frozen=True, slots=True)
class Trial:
    """One training run, fully described. Times are steps, so that a run can be made again."""

    name: str
    steps: int = 1_200
    batch: int = 512
    """Pairs of a step."""
    learning_rate: float = 2e-4
    warmup: float = 0.1
    """Share of the steps over which the rate rises, to fall in a straight line to 0 after."""
    temperature: float = 0.05
    document_tokens: int = 256
    query_tokens: int = 64
    reads: str = "text"
    """What the model reads: a text as it stands (`text`), or its words (`words`,
    `words.py`)."""
    layers: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    """Of the starting model, those that are kept."""
    dimensions: tuple[int, ...] = ()
    """Leading dimensions that are to be good on their own; none for the whole alone."""
    negatives: int = 1
    """Hard negatives of a pair."""
    cluster_at: float = 0.0
    """Share of the steps after which a batch is made of blocks of pairs whose documents the model
    itself finds alike; 0 for never."""
    block: int = 64
    """Pairs of such a block."""
    mine_at: float = 0.0
    """Share of the steps after which negatives are mined with the model itself; 0 for never."""
    pools: dict[str, float] = field(
        default_factory=lambda: {"gpu": 0.5, "python": 0.25, "cpp": 0.1, "text": 0.15}
    )
    """A step's pairs come from one pool, and this is how often from which: what a query is held
    away from is then of its own kind."""
    kinds: dict[str, float] = field(
        default_factory=lambda: {
            "docstring": 1.0,
            "comment": 0.6,
            "heading": 1.0,
            "symbol": 0.3,
            "error": 0.4,
            "question": 1.0,
            "analogue": 0.5,
        }
    )
    """How often a pair is taken, relative to one that is a docstring's."""
    without_header: float = 0.15
    """Share of documents that are read without the line that names them."""
    encoder: str = "minilm"
    """What is trained: the shipped kind (`minilm`), or a teacher for it (`mpnet`)."""
    start: str = ""
    """The model to begin with, by its name in the plan; none for the encoder as published."""
    teachers: dict[str, float] = field(default_factory=dict)
    """Models whose similarities are learnt, and their shares: trials before this one on the same
    card, or models of an earlier release. None for the pairs alone."""
    distilled: float = 0.7
    """Share of the loss that teachers give; the pairs give the rest."""
    target_temperature: float = 0.05
    """Of the teachers' similarities."""
    seed: int = 7
    seconds: float = 0.0
    """Of training; the steps are cut to what fits, by the pace of the first ones, and the record
    says how many there were: with that number and 0 here, a run is made again. 0 for no limit."""

    @classmethod
    def read(cls, path: Path, name: str) -> "Trial":
        """The trial of that name in a file of them, over its defaults."""
        return cls.read_row(json.loads(path.read_text(encoding="utf-8"))[name], name)

    @classmethod
    def read_row(cls, row: dict[str, Any], name: str) -> "Trial":
        """One of them."""
        row = {**row, "name": name}
        for each in ("layers", "dimensions"):
            if each in row:
                row[each] = tuple(row[each])
        return cls(**row)

    def to_json(self) -> dict[str, object]:
        """As plain values."""
        return asdict(self)
