"""Formats numbers and untrusted text for reports."""

import re
from typing import Final

from agent.optimize.summary import Row
from judge.evaluate.result import Ratio

# Control characters but tab and newline, lone surrogates, and marks that reorder or hide text: in a
# kernel's source or a model's reply they could make a page show what is not there.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff\ufffe\uffff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with invisible characters spelled out, such as ⟨U+202E⟩."""
    text = text.replace("\r\n", "\n")
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", text)


def line(text: str, max_chars: int = 400) -> str:
    """Foreign text as one line of at most `max_chars` characters, the cut shown."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def milliseconds(value: float | None) -> str:
    """A time with four digits, or a dash."""
    return "–" if value is None else f"{value:.4g}"


def percent(value: float | None) -> str:
    """A fraction as a percentage, or a dash."""
    return "–" if value is None else f"{value:.0%}"


def change(comparison: Ratio | Row) -> str:
    """A speedup in words; `none` within the noise, empty for the best itself."""
    if comparison.ratio is None:
        return ""
    has_interval = comparison.low is not None and comparison.high is not None
    interval = f"{comparison.low:.3f} to {comparison.high:.3f}" if has_interval else "two sessions"
    if not comparison.significant:
        return f"none ({interval}: inside the noise)"
    slower = "" if comparison.ratio >= 1 else ", slower"
    return f"{comparison.ratio:.3f}×{slower} ({interval})"
