"""Recognise techniques in code by the `detect` patterns that technique entries declare."""

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from kb.corpus.comments import without_comments
from kb.corpus.entries import Technique
from kb.patterns import LinearPattern, Screen, encoded, linear_pattern
from kb.vocabulary import taxonomy

# Whose patterns apply to a chunk's language.
_PATTERNS_OF = {"triton": "triton", "python": "triton", "cuda": "cuda", "cpp": "cuda"}
# CuTe DSL is CUDA's library in Python: it has the names of both.
_CUTE_DSL = re.compile(r"\bcute\.|\bcutlass\.")


class _Rule(NamedTuple):
    slug: str
    pattern: LinearPattern


class Detector:
    """The detect patterns of all techniques, compiled once."""

    def __init__(self, techniques: Sequence[Technique], *, precheck: bool = True) -> None:
        """Compile the patterns; without `precheck` each is matched outright, with equal results."""
        ordered = sorted(techniques, key=lambda entry: entry.slug)
        self.entries: Sequence[Technique] = ordered
        """The techniques, by slug."""
        self._rules: dict[str, list[_Rule]] = {"triton": [], "cuda": []}
        self._bottlenecks = {entry.slug: entry.bottlenecks for entry in ordered}
        digest = hashlib.blake2b(digest_size=8)
        for entry in ordered:
            for language, rules in self._rules.items():
                for pattern in getattr(entry.detect, language):
                    facts = (entry.slug, language, pattern, *entry.bottlenecks)
                    digest.update(("\0".join(facts) + "\0\0").encode())
                    rules.append(_Rule(entry.slug, linear_pattern(pattern)))
        # Without the screens, tagging Liger Kernel took 2.4 times as long (2026-11-23).
        self._screens = {
            language: Screen([rule.pattern.body for rule in rules])
            for language, rules in self._rules.items()
            if precheck
        }
        self.version = digest.hexdigest()
        """Changes when any pattern or what it stands for does, so that code is tagged anew."""

    def techniques(self, code: str, language: str) -> tuple[str, ...]:
        """Slugs of the techniques recognised in `code`, sorted; comments do not count."""
        language_ = _PATTERNS_OF.get(language)
        if language_ is None:
            return ()
        bare = without_comments(code, language)
        languages = [language_]
        if language == "python" and _CUTE_DSL.search(bare):
            languages.append("cuda")
        text = encoded(bare)
        slugs: set[str] = set()
        for name in languages:
            for rule in self._candidates(name, text):
                if rule.slug not in slugs and rule.pattern.search(text):
                    slugs.add(rule.slug)
        return tuple(sorted(slugs))

    def _candidates(self, language: str, text: bytes) -> list[_Rule]:
        """The rules whose words a text holds."""
        rules, screen = self._rules[language], self._screens.get(language)
        return rules if screen is None else [rules[place] for place in screen.candidates(text)]

    def bottlenecks(self, techniques: Sequence[str]) -> tuple[str, ...]:
        """The bottlenecks that these techniques relieve, in the taxonomy's order."""
        relieved = {kind for slug in techniques for kind in self._bottlenecks.get(slug, ())}
        return tuple(name for name in taxonomy() if name in relieved)
