"""Recognise techniques in code by the `detect` patterns that technique entries declare."""

import hashlib
import re
from collections.abc import Sequence

from kb.corpus.entries import Technique
from kb.vocabulary import taxonomy

# Whose patterns apply to a chunk's language.
_PATTERNS_OF = {"triton": "triton", "python": "triton", "cuda": "cuda", "cpp": "cuda"}


class Detector:
    """The detect patterns of all techniques, compiled once."""

    def __init__(self, techniques: Sequence[Technique]) -> None:
        ordered = sorted(techniques, key=lambda entry: entry.slug)
        self._patterns: dict[str, list[tuple[str, re.Pattern[str]]]] = {"triton": [], "cuda": []}
        self._bottlenecks = {entry.slug: entry.bottlenecks for entry in ordered}
        digest = hashlib.blake2b(digest_size=8)
        for entry in ordered:
            for language, patterns in (
                ("triton", entry.detect.triton),
                ("cuda", entry.detect.cuda),
            ):
                for pattern in patterns:
                    facts = (entry.slug, language, pattern, *entry.bottlenecks)
                    digest.update(("\0".join(facts) + "\0\0").encode())
                    compiled = re.compile(pattern, re.MULTILINE)
                    self._patterns[language].append((entry.slug, compiled))
        self.version = digest.hexdigest()
        """Changes when any pattern or what it stands for does, so that code is tagged anew."""

    def techniques(self, code: str, language: str) -> tuple[str, ...]:
        """Slugs of the techniques recognised in `code`, sorted."""
        patterns = self._patterns.get(_PATTERNS_OF.get(language, ""), [])
        found = {slug for slug, pattern in patterns if pattern.search(code)}
        return tuple(sorted(found))

    def bottlenecks(self, techniques: Sequence[str]) -> tuple[str, ...]:
        """The bottlenecks that these techniques relieve, in the taxonomy's order."""
        relieved = {each for slug in techniques for each in self._bottlenecks.get(slug, ())}
        return tuple(name for name in taxonomy() if name in relieved)
