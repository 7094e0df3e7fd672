"""What a user can get wrong is met with one line, and the index stays as it was."""

import os
import re
import sqlite3
import subprocess
import sys

import pytest
from support import (
    HashingEmbedder,
    add,
    current_folder,
    function,
    kb,
    opened,
    read_only,
    tree_hash,
    unprivileged,
)

from ingest.pipeline import Request, ingest
from kb.errors import IndexUnavailableError, KbError, SourceError
from kb.index.writer import IndexWriter, explain_write_errors


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    return place


def unchanged_after(index, action):
    before = tree_hash(index) if index.exists() else None
    error = action()
    assert tree_hash(index) == before
    return error


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.py", b"\x7fELF\0\0\1" * 100, "1× binary file"),
        ("a.py", b"x = '\xff\xfe'\n", "not valid UTF-8: first bad byte at offset 5"),
        ("a.py", b"", "empty file"),
        ("a.py", b" \n\t\n", "empty file"),
        ("a.bin", b"words", "unsupported file type .bin"),
        ("Makefile2", b"words", "file type unknown"),
        (None, b"", "empty or all files are ignored"),
    ],
)
def test_a_folder_with_nothing_to_ingest_says_why(filled, folder, cli, name, content, words):
    if name:
        (folder / name).write_bytes(content)
    error = unchanged_after(filled, lambda: cli("ingest", folder).error())
    assert words in error
    assert str(folder) in error


def test_one_file_with_nothing_to_ingest_says_why(filled, folder, cli):
    path = folder / "big.py"
    with path.open("wb") as stream:
        stream.write(b"x = 1\n")
        stream.truncate(50_000_000)
    assert "too large: 50,000,000 bytes" in cli("ingest", path).error()
    assert "does not exist" in cli("ingest", folder / "none").error()


def test_what_cannot_be_ingested_is_skipped_with_a_reason_and_the_rest_is_taken(index, folder):
    (folder / "good.py").write_text(function("good"))
    (folder / "late.py").write_text(function("late", lines=500) + 'x = "\0"\n')
    (folder / "binary.py").write_bytes(b"\0" * 100)
    (folder / "latin.md").write_bytes("# Größe\n".encode("latin-1"))
    (folder / "loop").symlink_to(folder)
    (folder / "self.py").symlink_to(folder / "self.py")
    os.mkfifo(folder / "pipe.py")
    (folder / "sub").mkdir()
    (folder / "sub" / "loop").symlink_to("..")
    (folder / "outside.txt").symlink_to("/etc/passwd")
    with (folder / "big.py").open("wb") as stream:
        stream.truncate(50_000_000)
    (folder / os.fsdecode(b"\xff.py")).write_text("x = 1\n")
    report = add(folder, index).sources[0]
    assert report.files == 2
    reasons = {item.path: item.kind for item in report.skipped}
    assert reasons["binary.py"] == "binary file"
    assert reasons["latin.md"] == "not valid UTF-8"
    assert reasons["big.py"] == "too large"
    assert reasons["pipe.py"] == "not a regular file"
    assert {"loop", "self.py", "outside.txt", "sub/loop"} <= {
        path.rstrip("/") for path, kind in reasons.items() if "symbolic link" in kind
    }
    with opened(index) as generation:
        assert {chunk.path for chunk in generation.store.all()} == {"good.py", "late.py"}


def test_unreadable_files_are_skipped_and_an_unreadable_folder_is_refused(tmp_path, folder, corpus):
    (folder / "good.py").write_text(function("good"))
    (folder / "secret.py").write_text(function("secret"))
    (folder / "secret.py").chmod(0)
    (folder / "closed").mkdir(mode=0)
    done = kb("ingest", folder, **unprivileged())
    assert done.status == 0, done.err
    assert "secret.py: unreadable: permission denied" in done.out
    assert "closed/: unreadable folder: permission denied" in done.out
    error = kb("ingest", folder / "closed", **unprivileged()).error()
    assert "cannot be read" in error
    (corpus.root / "kernels" / "triton" / "plain.py").chmod(0)
    error = kb("ingest", corpus.root, **unprivileged()).error()
    assert "kernels/triton/plain.py: cannot be read: Permission denied" in error


def test_a_source_whose_path_is_not_utf8_is_refused(filled, tmp_path, cli):
    place = tmp_path / os.fsdecode(b"caf\xe9")
    place.mkdir()
    (place / "a.py").write_text(function("a"))
    error = cli("ingest", place).error()
    assert r"caf\xe9 is not valid UTF-8: rename it" in error


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["query", ""], 1, "the query is empty"),
        (["query", "x", "-k", "0"], 1, "k: 0 is less than 1"),
        (["query", "x", "-k", "many"], 2, "not a valid integer"),
        (["query", "x", "--architecture", "hopper"], 1, "unknown GPU 'hopper': use one of"),
        (["query", "x", "--kind", "song"], 2, "'song' is not one of"),
        (["query", "x" * 20_001], 1, "query: has 20001 characters: at most 20000"),
        (["context"], 1, "give a problem, a query, a kernel or a profile"),
        (["context", "x", "--max-tokens", "63"], 1, "max_tokens: 63 is less than 64"),
        (["context", "x", "--max-chars", "255"], 1, "max_chars: "),
        (["context", "x", "--max-chars", "300", "--max-tokens", "300"], 1, "not both"),
        (["context", "x", "--max-examples", "-1"], 1, "max_examples: "),
        (["context", "x", "--gpu", "Voodoo 2"], 1, "unknown GPU 'Voodoo 2': use one of"),
        (["context", "--kernel", "/none.py"], 1, "cannot read /none.py: No such file"),
        (["context", "--profile", "/none.json"], 1, "cannot read /none.json: No such file"),
        (["show", "pid-swizling"], 1, "did you mean pid-swizzling?"),
        (["show", "zzz"], 1, "see `kb tree`"),
        (["remove", "zzz"], 1, "no source 'zzz': it has code, tiny"),
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["query"], 2, "Missing argument 'TEXT...'. See `kb query --help`."),
        (["query", "x", "--index", "/none"], 1, "no index at /none: run `kb ingest` first"),
        (["token", "create"], 2, "; see `kb token create --help`."),
        (["serve", "--port", "99999"], 1, "--port: 99999 is more than 65535"),
        (["ingest", "--name", "x"], 2, "needs exactly one source; see `kb ingest --help`."),
        (["ingest", ".", "--embedder", "word2vec"], 1, "unknown embedder 'word2vec': use"),
        (["import", "/none.tar.gz"], 1, "is not empty"),
        (["export", "/none/x.tar.gz"], 1, "cannot write /none/x.tar.gz: No such file"),
        (["export", "/dev/null/x"], 1, "cannot write /dev/null/x: Not a directory"),
    ],
)
def test_a_wrong_request_is_one_line(filled, cli, arguments, status, words):
    assert words in unchanged_after(filled, lambda: cli(*arguments).error(status))


@pytest.mark.parametrize(
    "arguments", ["query x", "context x", "tree", "stats", "sources", "show x", "export x.tar.gz"]
)
def test_without_an_index_every_reading_command_says_what_to_do(index, cli, arguments):
    assert "run `kb ingest` first" in cli(*arguments.split()).error()
    assert not index.exists()


def test_real_commands_end_with_one_line_and_no_traceback(tmp_path, filled):
    missing = kb("ingest", tmp_path / "missing")
    assert (
        missing.error()
        == f"kb: {tmp_path}/missing does not exist; give a folder or a file to ingest"
    )
    assert "max_chars" in kb("context", "x", "--max-chars", "10").error()
    assert "query" in kb("query", b"tiles \xff\xfe", "--json").error()
    assert "k: " in kb("query", "x", "-k", "0").error()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "must hold one JSON object"),
        (b'{"l2_hit_rate": "low"}', "no metric has a numeric value"),
        (b'{"l2_hit_rate": NaN}', "no metric has a numeric value"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_malformed_profile_is_one_line(filled, tmp_path, cli, content, words):
    profile = tmp_path / "profile.json"
    profile.write_bytes(content)
    error = cli("context", "--profile", profile).error()
    assert words in error.replace("it is not UTF-8", "is not UTF-8")


def test_an_unknown_front_matter_key_is_one_line_with_file_and_line(filled, corpus, cli):
    corpus.technique("pid-swizzling", "memory", colour="red")
    error = unchanged_after(filled, lambda: cli("ingest", corpus.root).error())
    assert re.search(r"techniques/memory/pid-swizzling.md:\d+: unknown key 'colour'", error)


def test_an_ingest_into_a_folder_one_may_only_read_is_one_line_and_reading_works(filled, corpus):
    read_only(filled)
    error = kb("ingest", corpus.root, **unprivileged()).error()
    assert "permission was denied; the published index is intact" in error
    assert kb("query", "pid swizzling", "--json", **unprivileged()).json()["results"]


def test_an_index_that_is_a_file_is_one_line(index, corpus, cli):
    index.parent.mkdir(parents=True)
    index.write_text("not a folder")
    assert "Not a directory" in cli("ingest", corpus.root).error()
    assert "cannot read" in cli("query", "x").error()


def test_two_ingests_at_once_give_one_a_clear_error(filled, folder, cli):
    (folder / "a.py").write_text(function("a"))
    with IndexWriter(filled):
        error = kb("ingest", folder).error()
    assert "another process is writing to the index" in error
    assert cli("ingest", folder).status == 0


SMALL_FILES = """
import resource, sys
limit = int(sys.argv.pop(1))
from cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main()
"""


# Two strike where the cache of vectors is opened, one where it is written, the last one where the
# new generation is.
@pytest.mark.parametrize("limit", [0, 5_000, 60_000, 300_000])
def test_a_disk_that_takes_no_more_leaves_the_index_intact(filled, folder, cli, limit):
    """A limit on file sizes makes writes fail as a full disk does, also inside SQLite."""
    for number in range(30):
        (folder / f"f{number}.md").write_text(f"# Head {number}\n\n" + f"word{number} " * 40)
    before = tree_hash(current_folder(filled))
    pointer = (filled / "CURRENT").read_text()
    command = [sys.executable, "-c", SMALL_FILES, str(limit), "ingest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "unexpected" not in last
    assert last.startswith("kb: ")
    assert (filled / "CURRENT").read_text() == pointer
    assert tree_hash(current_folder(filled)) == before
    assert cli("ingest", folder).status == 0


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("kb.index.build.write_chunks", FULL),
        ("kb.index.build.write_columns", FULL),
        ("kb.index.build.write_vectors", FULL),
        ("kb.index.build.write_lexical", FULL),
        ("kb.index.build.write_manifest", FULL),
        ("kb.index.writer._sync", FULL),
        ("kb.index.writer._sync", FULL),
        ("kb.index.cache.EmbeddingCache.put", sqlite3.OperationalError("database or disk is full")),
        ("kb.index.cache.EmbeddingCache.__init__", sqlite3.OperationalError("disk I/O error")),
        (
            "kb.index.build.write_collection",
            RuntimeError("database or disk is full"),
        ),
        (
            "kb.index.chroma.upsert",
            RuntimeError("IO error: No space left on device (os error 28)"),
        ),
        ("shutil.copyfile", FULL),
    ],
)
def test_a_full_disk_is_explained_wherever_it_strikes(index, folder, monkeypatch, place, error):
    for number in range(8):
        (folder / f"f{number}.py").write_text(function(f"fn{number}"))
    add(folder, index)
    before, pointer = tree_hash(current_folder(index)), (index / "CURRENT").read_text()

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place, fail)
        (folder / "f1.py").write_text(function("fn1", "changed"))
        with pytest.raises(
            IndexUnavailableError, match=r"(no space is left|disk refused)"
        ) as caught:
            add(folder, index)
    assert "intact" in str(caught.value)
    assert (index / "CURRENT").read_text() == pointer
    assert tree_hash(current_folder(index)) == before
    assert not (index / "staging").exists()
    assert add(folder, index).published


def test_copies_that_failed_for_want_of_space_are_explained(tmp_path):
    import shutil

    with (
        pytest.raises(KbError, match="no space is left on the disk"),
        explain_write_errors(tmp_path),
    ):
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")])


def test_a_failing_source_leaves_what_other_sources_of_the_command_would_have_added_out(
    index, folder, tmp_path
):
    (folder / "a.py").write_text(function("a"))
    with pytest.raises(SourceError):
        ingest([Request(folder), Request(tmp_path / "missing")], index, HashingEmbedder())
    assert not (index / "CURRENT").exists()


def test_nothing_in_the_folder_one_stands_in_is_imported(index, folder):
    for name in ("kb.py", "numpy.py", "chromadb.py", "select.py"):
        (folder / name).write_text("raise SystemExit('imported from the working folder')\n")
    done = kb("ingest", ".", cwd=folder)
    assert done.status == 0, done.err
