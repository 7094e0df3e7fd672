"""A note: one verified outcome of a run, as a file that `kb ingest RUN` reads.

::

    RUN/notes/ID.md    front matter (`Note`), then the text that is shown

The optimizer writes them from its journal; the ingest reads them. Neither knows the other.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from kb.architectures import ArchitectureName

FOLDER: Final = "notes"
# What every run folder has; a folder with both is a run, not a folder of sources.
RUN_FILES: Final = ("config.json", "journal.jsonl")
SLUG: Final = r"^[a-z0-9]+(-[a-z0-9]+)*$"
Finite = Annotated[float, Field(allow_inf_nan=False, gt=0)]


class Note(BaseModel):
    """Front matter of a note."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = Field(min_length=1, max_length=160)
    candidate: str = Field(pattern=r"^[0-9a-f]{8}$")
    """Id of the kernel file in the run."""
    operator: str = Field(min_length=1, max_length=80)
    """What the problem computes, by its file's name."""
    shapes: str = Field(max_length=200)
    """Shapes of the inputs, or empty where the problem's text does not tell."""
    dtype: str | None = None
    """What inputs were converted to; None: as the problem gives them."""
    gpu: str
    architecture: ArchitectureName
    technique: str | None = Field(default=None, pattern=SLUG)
    """Slug of the taxonomy that the proposer named; None for other families."""
    outcome: Literal["faster", "slower", "none", "failed"]
    """`none`: a difference inside the noise."""
    ratio: Finite | None = None
    """Time of what it was compared with / its own, paired in one session."""
    low: Finite | None = None
    high: Finite | None = None
    """95 % interval of `ratio`."""


def is_run(root: Path) -> bool:
    """Whether `root` is the folder of a run."""
    try:
        return all((root / name).is_file() for name in RUN_FILES)
    except OSError:
        return False
