"""What a page's address or form asks for, as the requests that the HTTP API takes."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from kb.context.models import DEFAULT_TOKENS, ContextRequest
from kb.errors import InvalidInputError
from kb.profiles.reading import ProfileRead, ignored_words, read_profile
from kb.refusals import refusal
from kb.search.models import Filters, SearchRequest

Values = ImmutableMultiDict[str, Any]

# Parameter of the page's address → field of `Filters`, in the order of the form.
FILTERS = {
    "kind": "kinds",
    "bottleneck": "bottlenecks",
    "language": "languages",
    "architecture": "architectures",
    "technique": "techniques",
    "source": "sources",
}
DEFAULT_K = 10
DEFAULT_EXAMPLES = 2
_UNITS = {"tokens": "max_tokens", "characters": "max_chars"}
# Longer addresses are cut or refused on their way, so none is offered.
_LONGEST_ADDRESS = 4000


@dataclass(frozen=True, slots=True)
class SearchForm:
    """The search form as it was filled in, whether or not that makes sense."""

    query: str
    k: str
    chosen: dict[str, list[str]]
    """Parameter → values, for those that were given."""

    @classmethod
    def of(cls, values: Values) -> "SearchForm":
        """Read the form."""
        chosen = {name: [text for text in _texts(values, name) if text] for name in FILTERS}
        return cls(_text(values, "q"), _text(values, "k"), {n: v for n, v in chosen.items() if v})

    def request(self) -> SearchRequest:
        """The search that is asked for, explained.

        Raises
        ------
        InvalidInputError
            A value is malformed.
        """
        fields = {field: self.chosen.get(name, []) for name, field in FILTERS.items()}
        names = {field: name for name, field in FILTERS.items()}
        try:
            return SearchRequest(
                query=self.query,
                k=_number("k", self.k, DEFAULT_K),
                filters=Filters.model_validate(fields),
                explain=True,
            )
        except ValidationError as error:
            raise InvalidInputError(refusal(error, names)) from error


@dataclass(frozen=True, slots=True)
class ContextForm:
    """The context form as it was filled in, whether or not that makes sense."""

    query: str
    problem: str
    kernel: str
    profile: str
    kernel_name: str
    gpu: str
    language: str
    budget: str
    unit: str
    max_examples: str

    @classmethod
    def of(cls, values: Values) -> "ContextForm":
        """Read the form. Browsers send line ends as CR LF; code is kept with LF."""
        texts = {name: _text(values, name) for name in cls.__slots__}
        for name in ("problem", "kernel", "profile"):
            texts[name] = texts[name].replace("\r\n", "\n")
        return cls(**texts)

    @property
    def is_blank(self) -> bool:
        """Whether nothing was sent, as on the first visit."""
        return not any(getattr(self, name) for name in self.__slots__)

    @property
    def address(self) -> str | None:
        """The address that shows this again, or None where it would be too long."""
        fields = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}
        address = f"/context?{urlencode(fields)}"
        return address if len(address) <= _LONGEST_ADDRESS else None

    def measured(self) -> ProfileRead | None:
        """The profile, in any form that `kb context --profile` takes as text; None without one.

        Raises
        ------
        InvalidInputError
            It cannot be read, or holds no metric that is known here.
        """
        if not self.profile.strip():
            return None
        profile = read_profile(self.profile, "profile", self.kernel_name.strip() or None)
        if not profile.metrics:
            reason = "; ".join(ignored_words(profile.ignored)) or "none of its values is a number"
            raise InvalidInputError(f"profile: it has no known metric: {reason}")
        return profile

    def request(self) -> ContextRequest:
        """The context that is asked for.

        Raises
        ------
        InvalidInputError
            A value is malformed, or nothing was asked.
        """
        unit = self.unit or "tokens"
        if unit not in _UNITS:
            raise InvalidInputError("unit: use tokens or characters")
        budget = _number("budget", self.budget, DEFAULT_TOKENS)
        profile = self.measured()
        fields: dict[str, Any] = {
            "query": self.query or None,
            "problem": self.problem or None,
            "kernel": self.kernel or None,
            "profile": None if profile is None else dict(profile.metrics),
            "gpu": self.gpu.strip() or None,
            "language": self.language or None,
            _UNITS[unit]: budget,
            "max_examples": _number("max_examples", self.max_examples, DEFAULT_EXAMPLES),
        }
        try:
            return ContextRequest.model_validate(fields)
        except ValidationError as error:
            names = dict.fromkeys(_UNITS.values(), "budget")
            raise InvalidInputError(refusal(error, names)) from error


def _texts(values: Values, name: str) -> list[str]:
    return [text for text in values.getlist(name) if isinstance(text, str)]


def _text(values: Values, name: str) -> str:
    return (_texts(values, name) or [""])[-1]


def _number(name: str, text: str, default: int) -> int:
    text = text.strip()
    if not text:
        return default
    digits = text.removeprefix("-")
    # The models say which numbers they take; this only keeps out what is none.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise InvalidInputError(f"{name}: give a whole number")
    return int(text)
