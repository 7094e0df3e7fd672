"""The fold key of a code chunk: equal for copies that differ only in comments and spacing."""

import hashlib
import re

_STRING = r"""(?P<string>\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_HASH = re.compile(_STRING + r"|\#[^\n]*", re.DOTALL)
_SLASH = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s+")
# Shorter pieces are too common to say that two places hold the same thing.
_SHORTEST = 40


def fold_key(code: str, language: str) -> str:
    """Digest of the code without comments and white space; empty for code too short to compare."""
    comment = _SLASH if language in {"cuda", "cpp"} else _HASH
    bare = _SPACE.sub("", comment.sub(lambda match: match.group("string") or "", code))
    if len(bare) < _SHORTEST:
        return ""
    return hashlib.blake2b(bare.encode(), digest_size=8).hexdigest()
