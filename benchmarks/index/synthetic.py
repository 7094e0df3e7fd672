"""Chunks made from real ones, for sizes that no installed code reaches.

Each takes the beginning of one real function and the end of another of the same language, and a
name made of both names: words, identifiers and lengths are those of code, and the vocabulary goes
on to grow, as it does in real code.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count as numbers

import numpy as np

from kb.records import Chunk, chunk_id

# As many functions as a file of code has.
_PER_FILE = 8
_PART = re.compile(r"[A-Za-z][a-z0-9]*")


def continued(real: Sequence[Chunk], count: int) -> Iterator[Chunk]:
    """`count` chunks: the real ones, then as many as are missing, the same on every machine."""
    yield from real[:count]
    pools: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in real:
        if chunk.symbol:
            pools[chunk.language].append(chunk)
    drawn = np.random.default_rng(0)
    pool = max(pools.values(), key=len)
    for number in numbers():
        if number >= count - len(real):
            return
        first, second = (pool[int(at)] for at in drawn.integers(len(pool), size=2))
        yield _joined(first, second, number)


def _joined(first: Chunk, second: Chunk, number: int) -> Chunk:
    """A function that begins as the first does, and ends as the second."""
    own, other = ((chunk.symbol or "").rpartition(".")[2] for chunk in (first, second))
    name = "_".join((*_PART.findall(own)[:2], *_PART.findall(other)[-2:])).lower()
    heads, tails = first.text.splitlines(), second.text.splitlines()
    lines = [*heads[: len(heads) // 2 + 1], *tails[len(tails) // 2 + 1 :]]
    text = "\n".join(lines).replace(own, name)
    path = f"{first.path.rpartition('/')[0]}/{other.lower()}_{number // _PER_FILE}.py"
    start = number % _PER_FILE * 100 + 1
    return replace(
        first,
        id=chunk_id(first.source, path, name, text, number),
        path=path,
        title=name,
        symbol=name,
        text=text,
        start_line=start,
        end_line=start + len(lines) - 1,
        fold=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
    )
