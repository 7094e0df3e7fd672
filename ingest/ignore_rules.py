"""git's ignore rules: `.gitignore` at every level and `.git/info/exclude`, matched by pathspec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pathspec import GitIgnoreSpec

from kb.errors import SourceError
from kb.files import RefusedFileError, read_regular

BACKEND: Literal["re2"] = "re2"
"""Matches in linear time; `re` would try `*a*a*a*b` for ever."""

# Far above what people write by hand; RE2 takes all patterns of a file as one.
_MAX_BYTES = 256_000
_MAX_LINES = 2_000
_MAX_PATTERN = 1_024


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules in force in one folder, outermost first; the last match decides, as in git."""

    layers: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    """Each with the prefix that its paths are relative to: of the root ("" or "a/b/"), or, for
    rules from above the root, the root's own path from there, which goes in front."""
    above: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def ignores(self, path: str) -> bool:
        """Whether `path` (relative to the root; a folder ends with `/`) is ignored."""
        checks = [(spec, path[len(base) :]) for base, spec in reversed(self.layers)]
        checks += [(spec, prefix + path) for prefix, spec in reversed(self.above)]
        verdicts = (verdict_of(spec, name) for spec, name in checks)
        return next((verdict for verdict in verdicts if verdict is not None), False)

    def inside(self, folder: Path, base: str) -> IgnoreRules:
        """Return the rules inside `folder`, whose path from the root is `base` ("" or "a/b/")."""
        spec = read_spec(folder / ".gitignore")
        if spec is None:
            return self
        return IgnoreRules((*self.layers, (base, spec)), self.above)


def rules_above(root: Path) -> IgnoreRules:
    """Return the rules that the git work tree around `root` sets for it.

    If those rules ignore the root itself, they do not apply: it was requested by name.
    """
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return IgnoreRules()
    above: list[tuple[str, GitIgnoreSpec]] = []
    exclude = read_spec(_git_folder(top) / "info" / "exclude")
    if exclude is not None:
        above.append((_prefix(top, root), exclude))
    folder = top
    for part in root.relative_to(top).parts:
        spec = read_spec(folder / ".gitignore")
        if spec is not None:
            above.append((_prefix(folder, root), spec))
        folder = folder / part
    # Patterns such as `*` match what lies below an ignored folder too, so each level is asked.
    rules = IgnoreRules(above=tuple((p, s) for p, s in above if p))
    return IgnoreRules() if rules.ignores("") else IgnoreRules(above=tuple(above))


def read_spec(path: Path) -> GitIgnoreSpec | None:
    """Return the rules of an ignore file, or None if there is none that can be read.

    Like git, this does not follow a symbolic link.

    Raises
    ------
    SourceError
        The file is larger than any hand-written one.
    """
    try:
        text = read_regular(path, limit=_MAX_BYTES).decode("utf-8-sig", "surrogateescape")
    except RefusedFileError as error:
        if str(error.strerror).startswith("too large"):
            raise SourceError(f"{path}: {error.strerror}: use --exclude instead") from error
        return None
    except OSError:
        return None
    lines = text.split("\n")
    if len(lines) > _MAX_LINES:
        raise SourceError(
            f"{path} has {len(lines):,} lines, the limit is {_MAX_LINES:,}: use --exclude instead"
        )
    try:
        return tolerant_spec(lines)
    except Exception as error:  # RE2's own, where all patterns together take too much
        raise SourceError(f"{path}: its patterns are too large together: {error}") from error


def verdict_of(spec: GitIgnoreSpec, path: str) -> bool | None:
    """Whether rules ignore a path; None if none matches. RE2 needs UTF-8; a name may not be."""
    return spec.check_file(path.encode("utf-8", "replace").decode()).include


def tolerant_spec(lines: Iterable[str]) -> GitIgnoreSpec:
    """Compile ignore patterns, skipping malformed ones as git does."""
    patterns = []
    for line in lines:
        if len(line) > _MAX_PATTERN:
            continue  # no path is so long
        try:
            GitIgnoreSpec.from_lines([line], backend=BACKEND)
        except Exception:  # noqa: S112  # pathspec lets re.error through as well
            continue
        patterns.append(line)
    return GitIgnoreSpec.from_lines(patterns, backend=BACKEND)


def _prefix(folder: Path, root: Path) -> str:
    relative = root.relative_to(folder).as_posix()
    return "" if relative == "." else relative + "/"


def _git_folder(top: Path) -> Path:
    """Return the folder that holds `info/exclude`, also for work trees and submodules."""
    git = top / ".git"
    try:
        if git.is_file():
            git = top / _line(git).removeprefix("gitdir:").strip()
        common = git / "commondir"
        return git / _line(common) if common.is_file() else git
    except (OSError, ValueError):  # not UTF-8, or no path
        return git


def _line(path: Path) -> str:
    return read_regular(path, limit=_MAX_PATTERN * 4).decode("utf-8").strip()
