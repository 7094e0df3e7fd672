"""Discovery takes what is worth reading, and says why the rest is not."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.discovery import FoundFile, Skipped, UnreadableError, discover, read_text
from kb.errors import InvalidInputError, SourceError


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


Limit = Callable[[int], None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Sets the largest size of a file, in bytes."""
    return lambda size: monkeypatch.setattr("ingest.discovery.MAX_BYTES", size)


def found(root: Path, **options: object) -> list[str]:
    return [item.path for item in discover(root, **options) if isinstance(item, FoundFile)]


def reasons(root: Path, **options: object) -> dict[str, str]:
    return {i.path: i.reason for i in discover(root, **options) if isinstance(i, Skipped)}


def only(root: Path) -> FoundFile:
    (item,) = discover(root)
    assert isinstance(item, FoundFile)
    return item


def test_files_come_sorted_by_path_with_slashes(tmp_path: Path) -> None:
    names = ["b.md", "a/z.cu", "a-b/x.py", "a/b/c.hpp", "a.md", "Z.md"]
    write(tmp_path, dict.fromkeys(names, "x"))
    assert found(tmp_path) == sorted(names)


def test_a_single_file_is_named_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"k.cu": "int x;\n"})
    item = only(tmp_path / "k.cu")
    assert (item.path, item.size, read_text(item)) == ("k.cu", 7, "int x;\n")


def test_a_missing_root_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothere does not exist; give a folder or a file"):
        discover(tmp_path / "nothere")


def test_an_empty_folder_yields_nothing(tmp_path: Path) -> None:
    assert list(discover(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.exe", "x", "unsupported file type .exe"),
        ("Makefile", "x", "file type unknown (no suffix)"),
        ("a.md", "", "empty file"),
        ("a.md", "x" * 101, "too large: 101 bytes, the limit is 100 bytes"),
        ("a.md", b"text\0more", "binary file"),
        ("a.md", bytes(range(1, 32)) * 3, "binary file"),
        (".a.md", "x", "hidden file"),
    ],
)
def test_what_is_not_taken_has_a_reason(
    tmp_path: Path, name: str, content: str | bytes, reason: str, limit: Limit
) -> None:
    write(tmp_path, {name: content})
    limit(100)
    assert reasons(tmp_path) == {name: reason}


def test_a_file_at_the_size_limit_is_taken(tmp_path: Path, limit: Limit) -> None:
    write(tmp_path, {"a.md": "x" * 100})
    limit(100)
    assert found(tmp_path) == ["a.md"]


def test_a_file_of_50_megabytes_is_skipped_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "big.cu").open("wb") as file:
        file.truncate(50_000_000)
    assert reasons(tmp_path)["big.cu"].startswith("too large: 50,000,000 bytes")


def test_hidden_and_generated_folders_are_not_entered(tmp_path: Path) -> None:
    write(tmp_path, {".git/a.md": "x", "__pycache__/a.py": "x", "node_modules/a.md": "x"})
    assert reasons(tmp_path) == {
        ".git/": "hidden folder",
        "__pycache__/": "folder of generated or third-party files",
        "node_modules/": "folder of generated or third-party files",
    }


def test_a_hidden_root_is_taken_when_named(tmp_path: Path) -> None:
    write(tmp_path, {".cache/a.md": "x"})
    assert found(tmp_path / ".cache") == ["a.md"]


def test_a_reason_has_a_kind_to_count_by(tmp_path: Path, limit: Limit) -> None:
    write(tmp_path, {"a.md": "x" * 11, "b.md": "x" * 12})
    limit(10)
    kinds = {i.kind for i in discover(tmp_path) if isinstance(i, Skipped)}
    assert kinds == {"too large"}


# Links, pipes, permissions.


def test_a_link_loop_ends_and_is_reported(tmp_path: Path) -> None:
    write(tmp_path, {"a/b/c.md": "x"})
    (tmp_path / "a/b/up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert found(tmp_path) == ["a/b/c.md"]
    assert reasons(tmp_path) == {
        "a/b/up": "symbolic link; links are not followed",
        "self": "symbolic link; links are not followed",
    }


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"secret/a.md": "x", "root/b.md": "x"})
    (tmp_path / "root/out").symlink_to(tmp_path / "secret")
    (tmp_path / "root/out.md").symlink_to(tmp_path / "secret/a.md")
    assert found(tmp_path / "root") == ["b.md"]


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path, {"real/a.md": "x"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert found(tmp_path / "link") == ["a.md"]


def test_a_root_that_links_to_itself_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(SourceError, match="loop cannot be read: "):
        discover(tmp_path / "loop")


def test_a_pipe_is_skipped_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert reasons(tmp_path) == {"pipe.md": "not a regular file"}


def as_nobody(root: Path) -> dict[str, str]:
    """Discover as a user without rights, in a child, since root may read everything."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setuid(65_534)
            lines = [f"{path}\t{reason}" for path, reason in reasons(root).items()]
            os.write(writer, "\n".join(lines).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        answer = dict(line.split("\t") for line in stream.read().splitlines())
    os.waitpid(child, 0)
    return answer


def test_what_may_not_be_read_is_reported() -> None:
    # Not below pytest's own folder, which other users may not enter.
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder), {"closed/a.md": "x", "b.md": "x", "c.md": "x"})
        root.chmod(0o755)
        (root / "closed").chmod(0)
        (root / "b.md").chmod(0)
        assert as_nobody(root) == {
            "closed/": "unreadable folder: permission denied",
            "b.md": "unreadable: permission denied",
        }
        (root / "closed").chmod(0o700)


def test_a_file_that_vanishes_before_it_is_read_has_a_reason(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x"})
    item = only(tmp_path)
    item.location.unlink()
    with pytest.raises(UnreadableError, match="unreadable: no such file"):
        read_text(item)


def test_a_name_that_is_not_utf8_is_shown_with_escapes(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/bad\xff.md")).write_text("x")
    assert reasons(tmp_path) == {"bad\\xff.md": "name is not valid UTF-8"}


def test_folders_nested_beyond_recursion_are_walked(tmp_path: Path) -> None:
    levels = sys.getrecursionlimit() + 100
    deep = tmp_path
    for _ in range(levels):
        deep = deep / "d"
        deep.mkdir()
    (deep / "a.md").write_text("x")
    try:
        assert found(tmp_path) == ["d/" * levels + "a.md"]
    finally:  # the test runner's own clean-up recurses
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_discovery_streams(tmp_path: Path) -> None:
    write(tmp_path, {f"{n:04}.md": "x" for n in range(2_000)})
    began = time.perf_counter()
    next(discover(tmp_path))
    first = time.perf_counter() - began
    began = time.perf_counter()
    list(discover(tmp_path))
    assert first < time.perf_counter() - began


# Ignore rules.


def test_ignore_files_hold_at_every_level_and_can_be_negated(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.txt\nbuild/\n/top.md\n",
            "a.txt": "x",
            "top.md": "x",
            "build/a.md": "x",
            "sub/.gitignore": "!keep.txt\nlocal.md\n",
            "sub/keep.txt": "x",
            "sub/drop.txt": "x",
            "sub/local.md": "x",
            "sub/top.md": "x",
            "local.md": "x",
        },
    )
    assert found(tmp_path) == ["local.md", "sub/keep.txt", "sub/top.md"]
    assert reasons(tmp_path)["build/"] == "ignored by git's ignore rules"


@pytest.mark.parametrize("start", ["", "sub", "sub/deep"])
def test_discovery_agrees_with_git(tmp_path: Path, start: str) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.md\n!/sub/**/keep*.md\nout/\n[bad\n",
            "sub/.gitignore": "*.txt\n!b.txt\n",
            "sub/deep/.gitignore": "b.txt\n!a.md\n",
            **{
                f"{folder}{name}": "x"
                for folder in ("", "sub/", "sub/deep/", "out/", "sub/out/")
                for name in ("a.md", "keep1.md", "a.txt", "b.txt", "c.py", "excluded.py")
            },
        },
    )
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    write(tmp_path, {".git/info/exclude": "excluded.py\n"})
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=tmp_path / start, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    expected = sorted(path for path in listed if not path.endswith(".gitignore"))
    assert found(tmp_path / start) == expected


def test_an_ignored_folder_is_taken_when_named(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": "x", ".gitignore": "third/\n", "third/a.md": "x"})
    assert found(tmp_path) == []
    assert found(tmp_path / "third") == ["a.md"]
    assert found(tmp_path / "third" / "a.md") == ["a.md"]


def test_exclude_wins_over_include(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "b.py": "x", "src/c.py": "x", "src/d.py": "x"})
    assert found(tmp_path, include=["*.py"], exclude=["src/d.py"]) == ["b.py", "src/c.py"]
    assert reasons(tmp_path, exclude=["src/"])["src/"] == "excluded by an exclude pattern"


def test_a_malformed_pattern_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"malformed pattern '\[z-a\]'"):
        discover(tmp_path, include=["[z-a]"])


# Reading.


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\rb\r", "a\nb\n"),
        (b"a\nb\rc\n", "a\nb\rc\n"),
        (b"\xef\xbb\xbf# A\n", "# A\n"),
        ("é\n".encode(), "é\n"),
        (b"a\f\n", "a\f\n"),
    ],
)
def test_text_is_read_with_line_feeds_and_without_mark(
    tmp_path: Path, content: bytes, text: str
) -> None:
    write(tmp_path, {"a.md": content})
    assert read_text(only(tmp_path)) == text


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_invalid_utf8_is_reported_with_its_offset(tmp_path: Path, mark: bytes) -> None:
    write(tmp_path, {"a.md": mark + b"good \xff bad"})
    offset = len(mark) + 5
    with pytest.raises(
        UnreadableError, match=f"not valid UTF-8: first bad byte at offset {offset};"
    ):
        read_text(only(tmp_path))


@pytest.mark.parametrize(
    ("content", "reason"), [(b" \n\t", "empty file"), (b"x" * 100 + b"\0", "binary file")]
)
def test_what_reading_finds_out_has_the_same_reasons(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    write(tmp_path, {"a.md": b"text"})
    item = only(tmp_path)
    item.location.write_bytes(content)
    with pytest.raises(UnreadableError, match=reason):
        read_text(item)
