"""Verdicts of `kb verify` on the shipped kernels, recorded beside the tests.

Each is kept under the digest of everything that decides it: the kernel's files, the code of the
checks, the versions of Python, PyTorch, Triton, NumPy and nvcc, the machine's architecture, and
whether there is a card. Where the digest is another, the kernel is verified; an old record costs
time and hides nothing. A twentieth of the kernels, another every day, is verified in any case.

`python -m tests.corpus.recorded` verifies what changed and records it.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from kb.verify import CheckResult, verify_corpus
from kb.verify.cache import ResultCache, default_folder

CORPUS = Path(__file__).parents[2] / "corpus"
RECORD = Path(__file__).with_name("verified.json")
# So each kernel is verified every twenty days, and a run takes a twentieth of the time.
DAYS = 20


class RecordedResults(ResultCache):
    """The results in a folder, and where it has none, the recorded ones."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._recorded = json.loads(RECORD.read_text())

    def read(self, digest: str) -> list[CheckResult] | None:
        """Return the results kept under `digest`, or None."""
        rows = self._recorded.get(digest)
        recorded = None if rows is None else [CheckResult(**row) for row in rows]
        return super().read(digest) or recorded


def sampled(slugs: Sequence[str], day: int) -> list[str]:
    """The slugs of the kernels that are verified on a day, whatever is recorded of them."""
    return sorted(slugs)[day % DAYS :: DAYS]


def today() -> int:
    """The number of the day."""
    return datetime.now(UTC).toordinal()


class _Kept(ResultCache):
    """Notes what is read and written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: dict[str, Sequence[CheckResult]] = {}

    def read(self, digest: str) -> list[CheckResult] | None:
        found = super().read(digest)
        if found is not None:
            self.kept[digest] = found
        return found

    def write(self, digest: str, results: Sequence[CheckResult]) -> None:
        super().write(digest, results)
        if results and not any(result.failed for result in results):
            self.kept[digest] = results


def main() -> None:
    """Verify every kernel that this machine has not verified as it is, and record all."""
    cache = _Kept(default_folder())
    results = verify_corpus(CORPUS, cache=cache)
    rows = {
        digest: [asdict(result) | {"seconds": 0.0} for result in kept]
        for digest, kept in sorted(cache.kept.items(), key=lambda each: each[1][0].slug)
    }
    lines = ",\n".join(f"{json.dumps(digest)}: {json.dumps(row)}" for digest, row in rows.items())
    RECORD.write_text(f"{{\n{lines}\n}}\n")
    sys.exit(any(result.failed for result in results))


if __name__ == "__main__":
    main()
