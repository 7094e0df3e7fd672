"""Which files of a folder are worth reading, and why the others are not.

Symbolic links are not followed: a target inside the root is visited under its own name, and a
target outside was not requested. So no loop is possible.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from ingest.chunkers import SUPPORTED_SUFFIXES
from ingest.ignore_rules import BACKEND, IgnoreRules, rules_above, verdict_of
from kb.errors import InvalidInputError, SourceError
from kb.files import MAX_BYTES, RefusedFileError, read_below

_SNIFF_BYTES = 8_192
"""How much of a file decides whether it is text: the same window git uses."""

_MAX_CONTROL_SHARE = 0.1
"""Above this share of control characters a file is binary even without a NUL byte. Text has only
tabs, line ends and form feeds; compressed data has about 11 %."""

_CONTROL = bytes(sorted(set(range(32)) - set(b"\t\n\r\f\x1b")))

_NOT_SOURCE = frozenset({"__pycache__", "node_modules"})
"""Folders of generated or third-party files that are left out even without an ignore file."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to ingest. Its content has not been read yet."""

    path: str
    """Relative to the root, with `/`; the file's name where the root is a file."""
    location: Path
    size: int
    """Bytes."""

    @property
    def root(self) -> Path:
        """The folder that `path` is relative to."""
        return self.location.parents[self.path.count("/")]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder left out, and the reason in words a user can act on."""

    path: str
    """As in `FoundFile`; a folder ends with `/`."""
    reason: str

    @property
    def kind(self) -> str:
        """The reason without its details, for counting."""
        return self.reason.partition(":")[0]


class UnreadableError(SourceError):
    """A file that discovery found cannot be read as text. The message is the reason."""


def discover(
    root: Path, *, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Iterator[FoundFile | Skipped]:
    """Yield the files below `root`, sorted by path, each found or skipped with a reason.

    This checks names, sizes and the first 8 KiB; `read_text` checks the whole content and raises
    `UnreadableError` with a reason of the same kind.

    Parameters
    ----------
    root
        A folder or a single file; it is read even if ignore rules exclude it.
    include, exclude
        Patterns in gitignore syntax, relative to the root. With `include`, files that match none
        of it are skipped silently; `exclude` adds to the ignore rules and overrides `include`.

    Raises
    ------
    SourceError
        If the root does not exist or cannot be read.
    InvalidInputError
        If an `include` or `exclude` pattern is malformed.
    """
    if not os.path.lexists(root):
        raise SourceError(f"{root} does not exist; give a folder or a file to ingest")
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
        root = root.resolve()
        if is_folder:
            os.scandir(root).close()
    except (OSError, RuntimeError) as error:  # RuntimeError: a link loop, up to Python 3.12
        raise SourceError(f"{root} cannot be read: {_why(error)}") from error
    walk = _Walk(_user_spec(include), _user_spec(exclude))
    if is_folder:
        return walk.folder(root, rules_above(root))
    return iter([walk.regular_file(root, root.name)])


def read_text(file: FoundFile) -> str:
    """Return a file's text: UTF-8, without byte order mark, with line feeds as line ends.

    CR LF becomes LF, and a lone CR does in a file without any LF, so line numbers are those an
    editor and git show.

    Raises
    ------
    UnreadableError
        If the file cannot be opened, is empty, binary or not UTF-8. The message is a reason to
        report as `Skipped`.
    """
    try:
        data = read_below(file.root, file.path, limit=max(file.size, MAX_BYTES))
    except OSError as error:
        raise UnreadableError(_unread(error)) from error
    if not data.strip():
        raise UnreadableError("empty file")
    if _is_binary(data[:_SNIFF_BYTES]):
        raise UnreadableError("binary file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from after the byte order mark.
        offset = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        raise UnreadableError(
            f"not valid UTF-8: first bad byte at offset {offset}; convert the file with iconv"
        ) from error
    text = text.replace("\r\n", "\n")
    return text if "\n" in text else text.replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class _Walk:
    """One walk over a folder, by the user's patterns."""

    include: GitIgnoreSpec
    exclude: GitIgnoreSpec

    def folder(self, root: Path, rules: IgnoreRules) -> Iterator[FoundFile | Skipped]:
        # A stack, not recursion: folders nest deeper than Python's recursion limit.
        stack = [self._entries(root, "", rules)]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
            elif isinstance(item, (FoundFile, Skipped)):
                yield item
            else:
                stack.append(self._entries(*item))

    def _entries(
        self, folder: Path, base: str, rules: IgnoreRules
    ) -> Iterator[FoundFile | Skipped | tuple[Path, str, IgnoreRules]]:
        """Yield what `folder` holds, in path order; a folder to enter as its arguments."""
        try:
            with os.scandir(folder) as listing:
                entries = [(e.name + "/" * e.is_dir(follow_symlinks=False), e) for e in listing]
        except OSError as error:
            yield Skipped(_printable(base), f"unreadable folder: {_why(error)}")
            return
        rules = rules.inside(folder, base)
        for name, entry in sorted(entries, key=lambda pair: pair[0]):
            path = base + name
            reason = self._reason_by_name(path, entry, rules)
            if reason is not None:
                yield Skipped(_printable(path), reason)
            elif name.endswith("/"):
                yield Path(entry.path), path, rules
            elif not self.include or verdict_of(self.include, path):
                yield self.regular_file(Path(entry.path), path)

    def _reason_by_name(self, path: str, entry: os.DirEntry[str], rules: IgnoreRules) -> str | None:
        is_folder = path.endswith("/")
        if verdict_of(self.exclude, path):
            return "excluded by an exclude pattern"
        if entry.name.startswith("."):
            return "hidden folder" if is_folder else "hidden file"
        if is_folder and entry.name in _NOT_SOURCE:
            return "folder of generated or third-party files"
        if rules.ignores(path):
            return "ignored by git's ignore rules"
        if entry.is_symlink():
            return "symbolic link; links are not followed"
        return None

    def regular_file(self, location: Path, path: str) -> FoundFile | Skipped:
        """Judge one file by its name, its size and its first bytes."""
        if path != _printable(path):
            return Skipped(_printable(path), "name is not valid UTF-8")
        suffix = location.suffix.lower()
        if suffix not in SUPPORTED_SUFFIXES:
            unknown = "file type unknown (no suffix)"
            return Skipped(path, f"unsupported file type {suffix}" if suffix else unknown)
        try:
            file = FoundFile(path, location, location.lstat().st_size)
            head = read_below(file.root, file.path, limit=MAX_BYTES, first=_SNIFF_BYTES)
        except OSError as error:
            return Skipped(path, _unread(error))
        if not head:
            return Skipped(path, "empty file")
        return Skipped(path, "binary file") if _is_binary(head) else file


def _is_binary(head: bytes) -> bool:
    if b"\0" in head:
        return True
    return len(head) - len(head.translate(None, _CONTROL)) > _MAX_CONTROL_SHARE * len(head)


def _user_spec(patterns: Sequence[str]) -> GitIgnoreSpec:
    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern], backend=BACKEND)
        except Exception as error:  # pathspec lets re.error through besides its own errors
            raise InvalidInputError(
                f"malformed pattern {pattern!r}: {error}; use gitignore syntax"
            ) from error
    return GitIgnoreSpec.from_lines(patterns, backend=BACKEND)


def _printable(path: str) -> str:
    """Return `path` fit for messages: bytes that are not UTF-8 are shown as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _unread(error: OSError) -> str:
    """Why a file was not read, as a reason to report."""
    if isinstance(error, RefusedFileError):
        return str(error.strerror)
    return f"unreadable: {_why(error)}"


def _why(error: Exception) -> str:
    words = getattr(error, "strerror", None) or str(error)
    return words[:1].lower() + words[1:]
