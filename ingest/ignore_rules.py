"""git's ignore rules: `.gitignore` at every level and `.git/info/exclude`, matched by pathspec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules in force in one folder, outermost first; the last match decides, as in git."""

    layers: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    """Each with the prefix that its paths are relative to: of the root ("" or "a/b/"), or, for
    rules from above the root, the root's own path from there, which goes in front."""
    above: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def ignores(self, path: str) -> bool:
        """Whether `path` (relative to the root; a folder ends with `/`) is ignored."""
        for base, spec in reversed(self.layers):
            verdict = spec.check_file(path[len(base) :]).include
            if verdict is not None:
                return verdict
        for prefix, spec in reversed(self.above):
            verdict = spec.check_file(prefix + path).include
            if verdict is not None:
                return verdict
        return False

    def inside(self, folder: Path, base: str) -> IgnoreRules:
        """Return the rules inside `folder`, whose path from the root is `base` ("" or "a/b/")."""
        spec = read_spec(folder / ".gitignore")
        if spec is None:
            return self
        return IgnoreRules((*self.layers, (base, spec)), self.above)


def rules_above(root: Path) -> IgnoreRules:
    """Return the rules that the git work tree around `root` sets for it.

    A root that those rules ignore was asked for by name, so they do not apply to it.
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
    asked = IgnoreRules(above=tuple((p, s) for p, s in above if p))
    return IgnoreRules() if asked.ignores("") else IgnoreRules(above=tuple(above))


def read_spec(path: Path) -> GitIgnoreSpec | None:
    """Return the rules of an ignore file, or None where it is missing or cannot be read."""
    try:
        text = path.read_text("utf-8-sig", errors="surrogateescape")
    except OSError:
        return None
    return tolerant_spec(text.split("\n"))


def tolerant_spec(lines: Iterable[str]) -> GitIgnoreSpec:
    """Compile ignore patterns, passing over malformed ones as git does."""
    patterns = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except Exception:  # noqa: S112  # pathspec lets re.error through as well
            continue
        patterns.append(line)
    return GitIgnoreSpec.from_lines(patterns)


def _prefix(folder: Path, root: Path) -> str:
    relative = root.relative_to(folder).as_posix()
    return "" if relative == "." else relative + "/"


def _git_folder(top: Path) -> Path:
    """Return the folder that holds `info/exclude`, also for work trees and submodules."""
    git = top / ".git"
    try:
        if git.is_file():
            git = top / git.read_text("utf-8").removeprefix("gitdir:").strip()
        common = git / "commondir"
        return git / common.read_text("utf-8").strip() if common.is_file() else git
    except (OSError, UnicodeDecodeError):
        return git
