"""The training set's texts as token ids on a device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from benchmarks.embedder.training.records import TrainingSet

_BATCH = 4_096
_MULTIPLE = 16
"""Of the tokens of a padded batch."""


class TokenRows:
    """A matrix of token ids on a device; rows are taken with their mask.

    Parameters
    ----------
    max_tokens
        Tokens of a text, with the special ones; longer texts are cut.
    """

    def __init__(
        self, texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int, device: torch.device
    ) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        ids = np.zeros((len(texts), max_tokens), np.int16)  # an id above 32,767 is stored negative
        lengths = np.zeros(len(texts), np.int32)
        for start in range(0, len(texts), _BATCH):
            batch = tokenizer.encode_batch_fast(list(texts[start : start + _BATCH]))
            for row, encoded in enumerate(batch, start):
                lengths[row] = len(encoded.ids)
                ids[row, : len(encoded.ids)] = np.array(encoded.ids, np.uint16).view(np.int16)
        self._ids = torch.from_numpy(ids).to(device)
        self._lengths = torch.from_numpy(lengths).to(device)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return token ids (n, longest) int64 and their mask, of rows (n,)."""
        lengths = self._lengths[rows]
        longest = -(-int(lengths.max()) // _MULTIPLE) * _MULTIPLE
        width = min(longest, self._ids.shape[1])
        ids = self._ids[rows, :width].long() & 0xFFFF
        return ids, torch.arange(width, device=ids.device)[None] < lengths[:, None]


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents with and without their header, and queries, on the device."""

    documents: TokenRows
    bare: TokenRows
    queries: TokenRows

    @classmethod
    def tokenize(
        cls,
        training: TrainingSet,
        tokenizer_file: Path,
        document_tokens: int,
        query_tokens: int,
        device: torch.device,
    ) -> "Texts":
        """Return the texts of a training set, tokenized."""
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
        texts = [document.text for document in training.documents]
        bare = [text.partition("\n")[2] for text in texts]
        queries = [pair.query for pair in training.pairs]
        return cls(
            TokenRows(texts, tokenizer, document_tokens, device),
            TokenRows(bare, tokenizer, document_tokens, device),
            TokenRows(queries, tokenizer, query_tokens, device),
        )
