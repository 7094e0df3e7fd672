"""Texts as token ids in one matrix, made once for all trials."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from benchmarks.embedder.training.words import words_of

PAD = 0
_BATCH = 4_096


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids (n, longest) uint16, padded behind, and how many of each row count (n,)."""

    ids: NDArray[np.uint16]
    lengths: NDArray[np.int32]

    def write(self, path: Path) -> None:
        """Write both arrays beside each other."""
        np.save(path.with_suffix(".ids.npy"), self.ids)
        np.save(path.with_suffix(".lengths.npy"), self.lengths)

    @classmethod
    def read(cls, path: Path) -> "Tokens":
        """What was written, mapped into memory."""
        ids = np.load(path.with_suffix(".ids.npy"), mmap_mode="r")
        return cls(ids, np.load(path.with_suffix(".lengths.npy")))


def tokenized(texts: Sequence[str], tokenizer_file: Path, most: int) -> Tokens:
    """The texts by the shipped tokenizer, cut to `most` tokens with the special ones."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    ids = np.full((len(texts), most), PAD, np.uint16)
    lengths = np.zeros(len(texts), np.int32)
    for start in range(0, len(texts), _BATCH):
        batch = tokenizer.encode_batch_fast(list(texts[start : start + _BATCH]))
        for row, encoded in enumerate(batch, start):
            lengths[row] = len(encoded.ids)
            ids[row, : len(encoded.ids)] = encoded.ids
    longest = int(lengths.max(initial=1))
    return Tokens(np.ascontiguousarray(ids[:, :longest]), lengths)


def read_as(texts: Iterable[str], reads: str) -> list[str]:
    """The texts as a model reads them: as they stand (`text`), or their words (`words`)."""
    if reads == "text":
        return list(texts)
    if reads != "words":
        raise ValueError(f"a model reads 'text' or 'words', not {reads!r}")
    with ProcessPoolExecutor() as workers:
        return list(workers.map(words_of, texts, chunksize=_BATCH))
