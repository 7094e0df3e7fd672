"""How one source is read, for every kind of source."""

from dataclasses import dataclass, field

from ingest.report import SourceReport
from ingest.workers import ThisProcess, Workers
from kb.corpus.detection import Detector
from kb.index.state import IndexState


@dataclass(frozen=True, slots=True)
class Reading:
    """The name and settings with which a source is read, and the state it is compared with."""

    name: str
    detector: Detector
    former: IndexState
    """The current state: chunks of files with an unchanged digest are taken from it."""
    report: SourceReport
    """Takes the counts."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    quality: float | None = None
    """Ranking weight in [0, 1]; by default what `corpus/sources.toml` gives the name."""
    workers: Workers = field(default_factory=ThisProcess)
    """Who chunks the files."""
