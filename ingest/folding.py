"""The fold key of a code chunk: equal for copies that differ only in comments and spacing."""

import hashlib

from kb.corpus.comments import without_comments

# Shorter pieces are too common to say that two places hold the same thing.
_SHORTEST = 40


def fold_key(code: str, language: str) -> str:
    """Digest of the code without comments and white space; empty for code too short to compare."""
    bare = "".join(without_comments(code, language, keep_docstrings=True).split())
    if len(bare) < _SHORTEST:
        return ""
    return hashlib.blake2b(bare.encode(), digest_size=8).hexdigest()
