"""Tag code with techniques by the `detect` patterns that technique entries declare."""

import hashlib
import re
from collections.abc import Sequence

from kb.index.state import TechniqueRecord
from kb.vocabulary import taxonomy

# Whose patterns apply to a chunk's language.
_PATTERNS_OF = {"triton": "triton", "python": "triton", "cuda": "cuda", "cpp": "cuda"}


class Tagger:
    """The detect patterns of all techniques, compiled once."""

    def __init__(self, techniques: Sequence[TechniqueRecord]) -> None:
        ordered = sorted(techniques, key=lambda record: record.entry.slug)
        self._patterns: dict[str, list[tuple[str, re.Pattern[str]]]] = {"triton": [], "cuda": []}
        self._bottlenecks = {record.entry.slug: record.entry.bottlenecks for record in ordered}
        digest = hashlib.blake2b(digest_size=8)
        for record in ordered:
            for language, patterns in (
                ("triton", record.entry.detect.triton),
                ("cuda", record.entry.detect.cuda),
            ):
                for pattern in patterns:
                    digest.update(f"{record.entry.slug}\0{language}\0{pattern}\0".encode())
                    compiled = re.compile(pattern, re.MULTILINE)
                    self._patterns[language].append((record.entry.slug, compiled))
        self.version = digest.hexdigest()
        """Changes when any pattern does, so that code is tagged anew."""

    def techniques(self, code: str, language: str) -> tuple[str, ...]:
        """Slugs of the techniques recognised in `code`, sorted."""
        patterns = self._patterns.get(_PATTERNS_OF.get(language, ""), [])
        found = {slug for slug, pattern in patterns if pattern.search(code)}
        return tuple(sorted(found))

    def bottlenecks(self, techniques: Sequence[str]) -> tuple[str, ...]:
        """The bottlenecks that these techniques relieve, in the taxonomy's order."""
        relieved = {each for slug in techniques for each in self._bottlenecks.get(slug, ())}
        return tuple(name for name in taxonomy() if name in relieved)
