"""Which licence an archive states, as SPDX, and whether that licence is accepted."""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.metadata import RawMetadata, parse_email

from ingest.sources.cache import Fetched
from kb.errors import InvalidInputError, SourceError

_OSI = "License :: OSI Approved :: "
_TEXT_HEAD = 3_000
_SHOWN = 60
LICENCE_FILES = ("LICENSE", "LICENCE", "COPYING")
"""What the names of licence files start with, in upper case."""


@dataclass(frozen=True, slots=True)
class ReleaseMetadata:
    """What metadata says about a release."""

    licence: str | None = None
    """SPDX expression."""
    licence_text: str = ""
    """The licence in other words, where no SPDX expression could be made of them."""
    url: str | None = None


@cache
def _tables() -> Any:
    return tomllib.loads((files(__package__) / "licences.toml").read_text(encoding="utf-8"))


def canonical(expression: str) -> str:
    """An SPDX expression in its usual spelling.

    Raises
    ------
    InvalidInputError
        If it is not an SPDX expression.
    """
    try:
        return str(canonicalize_license_expression(expression))
    except InvalidLicenseExpression as error:
        raise InvalidInputError(
            f"'{expression}' is not an SPDX licence expression, such as Apache-2.0"
        ) from error


def parse_metadata(
    metadata: bytes | None, licence_files: Mapping[str, bytes] | None = None
) -> ReleaseMetadata:
    """Read core metadata (METADATA or PKG-INFO), and licence texts where it names none.

    In order: `License-Expression`, the `License` field, the classifiers, the licence texts. The
    first one that can be read decides; licence texts that contradict each other decide nothing.
    """
    raw: RawMetadata = parse_email(metadata)[0] if metadata else {}
    result = ReleaseMetadata(url=_homepage(raw))
    expression = raw.get("license_expression")
    field = (raw.get("license") or "").strip()
    for candidate in (expression, field):
        if candidate and (spdx := _from_words(candidate)):
            return replace(result, licence=spdx)
    if expression:  # an explicit statement is not overruled by guesses
        return replace(result, licence_text=expression[:_SHOWN])
    classified = {
        name.removeprefix(_OSI) for name in raw.get("classifiers", ()) if name.startswith("License")
    }
    table = _tables()["classifiers"]
    names = [table.get(name) for name in sorted(classified)]
    if names and all(names):
        return replace(result, licence=" OR ".join(names))
    texts = {_from_text(text.decode("utf-8", "replace")) for text in _main(licence_files or {})}
    if len(texts) == 1 and (only := texts.pop()) and (not field or "bsd" in field.lower()):
        return replace(result, licence=only)
    first_line = next(iter((field or ", ".join(sorted(classified))).splitlines()), "")
    return replace(result, licence_text=first_line[:_SHOWN])


def _main(texts: Mapping[str, bytes]) -> list[bytes]:
    """The release's own licence among those of what it bundles: one called just LICENSE."""
    own = [t for path, t in texts.items() if PurePosixPath(path).stem.upper() in LICENCE_FILES]
    return own or list(texts.values())


def _from_words(words: str) -> str | None:
    try:
        return str(canonicalize_license_expression(words))
    except InvalidLicenseExpression:
        pass
    plain = " ".join(words.lower().split())
    return _tables()["names"].get(plain) or _from_text(words)


def _from_text(text: str) -> str | None:
    plain = " ".join(re.sub(r"[^a-z0-9]+", " ", text.lower()).split())[:_TEXT_HEAD]
    for table in _tables()["text"]:
        if all(phrase in plain for phrase in table["phrases"]) and not any(
            phrase in plain for phrase in table.get("without", ())
        ):
            return str(table["licence"])
    return None


def _homepage(raw: RawMetadata) -> str | None:
    urls = {label.lower(): url for label, url in raw.get("project_urls", {}).items()}
    for label in ("homepage", "home", "repository", "source", "source code", "github"):
        if url := urls.get(label):
            return url
    return raw.get("home_page") or next(iter(urls.values()), None)


def accepted_licence(
    fetched: Fetched, listed: Collection[str], allowed: Collection[str], expected: str | None = None
) -> str:
    """The licence to cite for a release, if it is accepted.

    Parameters
    ----------
    listed
        Licences that are accepted without asking.
    allowed
        Licences that the user allows in addition. If the release states none that can be read, a
        single one here counts as its licence.
    expected
        The licence on the curated list. It replaces a missing statement, and must agree with a
        statement that exists.

    Raises
    ------
    SourceError
        If the licence is missing, not the expected one, or neither listed nor allowed.
    """
    what = f"{fetched.location} {fetched.version}"
    licence = fetched.licence
    if licence is None and expected and not fetched.licence_text:
        licence = expected
    if licence is None:
        if len(allowed) == 1:
            return next(iter(allowed))
        says = f"says only '{fetched.licence_text}'" if fetched.licence_text else "states none"
        raise SourceError(
            f"the licence of {what} is unknown: it {says}. Find it at {fetched.url or 'its pages'} "
            "and add --allow-licence SPDX"
        )
    if expected and licence != expected and licence not in allowed:
        raise SourceError(
            f"{what} is under {licence}, but corpus/sources.toml expects {expected}: find out why, "
            f"then change the entry or add --allow-licence '{licence}'"
        )
    if licence in allowed or licence == expected or _is_covered(licence, {*listed, *allowed}):
        return licence
    raise SourceError(
        f"{what} is under {licence}, which is not among the licences in corpus/sources.toml: add "
        f"--allow-licence '{licence}' to ingest it anyway"
    )


def _is_covered(expression: str, known: Collection[str]) -> bool:
    """Whether what an expression asks for is all known; of a plain OR, one is enough."""
    parts = re.split(r" (?:AND|OR) ", re.sub(r"[()]", "", expression))
    names = [part.strip() for part in parts]
    if " AND " not in expression:
        return any(name in known for name in names)
    return all(name in known for name in names)
