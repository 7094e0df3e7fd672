"""The first sentence of a function's documentation, and whether it can stand as a query."""

import re

from bm25s.stopwords import STOPWORDS_EN_PLUS

from kb.index.tokens import tokenize

MIN_WORDS = 6
"""Shorter ones say too little to tell one function from another."""
MAX_WORDS = 40
MIN_NEW_TOKENS = 3
"""Tokens that are neither stop words nor in the function's name: else the name is the query."""
MIN_LETTERS = 0.7
"""Share of letters and spaces; below it the text is a formula, a shape or a drawing."""

_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<!cf\.)(?<!etc\.)\s+(?=[A-Z(`\"'])"
)
_PARAGRAPH_END = re.compile(
    r"\n[ \t]*\n|\n(?=[ \t]*(?:[@\\:]\w|[-*+#>][ \t]|\d+[.)][ \t]|\w+:[ \t]*$))", re.MULTILINE
)
_SEPARATOR = re.compile(r"^[ \t]*[-=*#/~_]{3,}.*$", re.MULTILINE)
_COMMAND = re.compile(r"[@\\](?:brief|details|short)\b")
_QUOTES = re.compile(r"``?|\*\*|[{}$]|:(?:class|func|meth|attr|mod|obj):")
_REFERS = re.compile(
    r"https?:|\b(?:todo|fixme|xxx|hack|copyright|licen[cs]e|copied|adapted|borrowed|taken from|"
    r"ported|modified from|see|above|below|refer|ditto|same as|inherit(?:s|ed)?|overrid\w*|"
    r"deprecated|subclass\w*|this (?:file|module|class|method)|unit test)\b",
    re.IGNORECASE,
)
_SECTION = re.compile(
    r"(?:args?|arguments|parameters|params|returns?|raises|notes?|examples?|usage|inputs?|outputs?|"
    r"warning|yields|grid|shapes?)\s*:|\w+ \([^)]*\)[^:]*:",
    re.IGNORECASE,
)
_PLAIN = str.maketrans(
    {"—": "-", "–": "-", "→": "->", "×": "x", "≤": "<=", "≥": ">="}
    | dict.fromkeys("‘’", "'")
    | dict.fromkeys("“”", '"')
)
_LIST_FOLLOWS = (":", ",", "…")
# Words without which there is hardly an English sentence.
_ENGLISH = frozenset((
    "a", "an", "the", "of", "to", "for", "from", "in", "on", "by", "with", "and", "or", "is", "are",
    "as", "at", "into", "per", "if", "that", "which", "when", "its",
))  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+")


def first_sentence(doc: str) -> str:
    """The first sentence of a docstring or comment on one line, without markup; may be empty."""
    text = _COMMAND.sub(" ", _SEPARATOR.sub("", doc.translate(_PLAIN))).strip()
    paragraph = _PARAGRAPH_END.split(text, maxsplit=1)[0]
    sentence = _SENTENCE_END.split(" ".join(paragraph.split()), maxsplit=1)[0]
    return " ".join(_QUOTES.sub("", sentence).split()).strip()


def refusal(sentence: str, symbol: str) -> str | None:
    """Why a sentence cannot stand as a query for the function `symbol`, or None if it can."""
    words = sentence.split()
    lowered = sentence.lower()
    name = re.split(r"\.|::", symbol)[-1].lower()
    reasons = {
        "too short": len(words) < MIN_WORDS,
        "too long": len(words) > MAX_WORDS,
        "not ASCII": not sentence.isascii(),
        "not English": _ENGLISH.isdisjoint(_WORD.findall(lowered)),
        "a section's heading": bool(_SECTION.match(sentence)),
        "a list follows": sentence.endswith(_LIST_FOLLOWS),
        "not prose": _letter_share(sentence) < MIN_LETTERS,
        "refers to other text": bool(_REFERS.search(sentence)),
        "names the function": len(name) > 3 and name in re.findall(r"\w+", lowered),
        "says no more than the name": len(_new_tokens(sentence, symbol)) < MIN_NEW_TOKENS,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _letter_share(text: str) -> float:
    return sum(character.isalpha() or character == " " for character in text) / max(len(text), 1)


def _new_tokens(sentence: str, symbol: str) -> set[str]:
    return set(tokenize(sentence)).difference(STOPWORDS_EN_PLUS, tokenize(symbol))


def normalized(text: str) -> str:
    """A text as lower-case words: equal for texts that differ in marks and spacing alone."""
    return " ".join(re.findall(r"[a-z0-9_]+", text.lower()))
