"""Token counts with the shipped model's tokenizer; loads no model."""

import re
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from kb.embedders.shipped import MODEL_FOLDER, TOKENIZER_FILE, read_shipped_file

TOKENIZER_NAME = "all-MiniLM-L6-v2"

# WordPiece gives up on words of more than 100 characters and calls each one unknown token,
# however long. Counted in pieces of 100, a blob of text costs what its characters cost.
LONG_WORD = re.compile(r"\w{100}(?=\w)")


def well_formed(text: str) -> str:
    """Return `text` with lone surrogates, which cannot be encoded, replaced by ``?``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def read_tokenizer(folder: Path = MODEL_FOLDER) -> Tokenizer:
    """Return the shipped tokenizer, without truncation or padding.

    Raises
    ------
    EmbedderError
        Its file is missing or damaged.
    """
    tokenizer = Tokenizer.from_buffer(read_shipped_file(TOKENIZER_FILE, folder))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


_tokenizer = cache(read_tokenizer)


def count_tokens(text: str) -> int:
    """Return the number of tokens in `text`, uncut and without special tokens.

    White space costs nothing and words are counted one by one, so the count of texts joined by
    white space is the sum of their counts.
    """
    split = LONG_WORD.sub(r"\g<0> ", well_formed(text))
    return len(_tokenizer().encode(split, add_special_tokens=False))
