"""What a source may hold to be read elsewhere, to hang an ingest, or to fill the memory."""

import os
import resource
import threading
import time
from pathlib import Path

import pytest
from support import TinyCorpus

from ingest.corpus_source import corpus_state
from ingest.directory import directory_state
from ingest.discovery import discover
from ingest.reading import Reading
from ingest.report import SourceReport
from ingest.run_source import run_state
from kb.corpus.detection import Detector
from kb.corpus.loader import is_corpus
from kb.errors import EntryError, KbError, SourceError
from kb.files import RefusedFileError, read_below
from kb.index.state import IndexState

SECRET = "aws_secret_access_key = wJalrXUtnFEMI"
SECONDS = 10


@pytest.fixture
def corpus(tmp_path: Path) -> TinyCorpus:
    return TinyCorpus(tmp_path / "corpus")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "credentials"
    path.write_text(SECRET)
    return path


@pytest.fixture(autouse=True)
def bounded():
    """No test of this file may take long or much memory: that is what they are about."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    yield
    assert time.monotonic() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB


def read(root: Path) -> IndexState:
    return directory_state(root, reading(root))


def reading(root: Path) -> Reading:
    return Reading("x", Detector([]), IndexState(), SourceReport("x", str(root)))


def test_a_launcher_that_is_a_link_is_not_read(corpus, secret):
    kernel = next((corpus.root / "kernels").rglob("*.cu"), None)
    if kernel is None:
        kernel = corpus.root / "kernels" / "cuda" / "x.cu"
        kernel.parent.mkdir(parents=True)
        source = next((corpus.root / "kernels").rglob("*.py")).read_text()
        head = source.split('"""')[1].replace("language: triton", "language: cuda")
        kernel.write_text(f"/*{head}*/\n")
    launcher = kernel.with_suffix(".py")
    launcher.unlink(missing_ok=True)
    launcher.symlink_to(secret)
    with pytest.raises(EntryError, match=r"\.py: cannot be read: symbolic link"):
        corpus_state(corpus.root)


@pytest.mark.parametrize("name", ["corpus.yaml", "techniques", "kernels"])
def test_no_part_of_a_corpus_is_a_link(corpus, tmp_path, name):
    (corpus.root / name).rename(tmp_path / "elsewhere")
    (corpus.root / name).symlink_to(tmp_path / "elsewhere")
    try:
        state = corpus_state(corpus.root)
    except KbError:
        return
    assert not state.chunks or all(not each.path.startswith(name) for each in state.chunks)


@pytest.mark.parametrize("linked", ["a.md", "notes"])
def test_a_runs_notes_are_no_links(tmp_path, secret, linked):
    notes = tmp_path / "run" / "notes"
    if linked == "notes":
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "a.md").write_text(f"---\ntitle: x\n---\n{SECRET}\n")
        notes.parent.mkdir()
        notes.symlink_to(tmp_path / "elsewhere")
    else:
        notes.mkdir(parents=True)
        (notes / "a.md").symlink_to(secret)
    with pytest.raises(SourceError, match="symbolic link; links are not followed"):
        run_state(tmp_path / "run", reading(tmp_path))


def test_a_file_that_becomes_a_link_after_it_was_found_is_not_read(tmp_path, secret):
    root = tmp_path / "source"
    root.mkdir()
    (root / "a.md").write_text("# A\n\nText of a file.\n")
    (root / "b.md").write_text("# B\n\nText of another.\n")
    found = list(discover(root))
    (root / "a.md").unlink()
    (root / "a.md").symlink_to(secret)
    from ingest.discovery import UnreadableError, read_text

    with pytest.raises(UnreadableError, match="symbolic link"):
        read_text(found[0])


@pytest.mark.parametrize("path", ["../credentials", "/etc/hostname", "a/../../credentials", ""])
def test_a_path_that_leads_out_is_refused(tmp_path, secret, path):
    (tmp_path / "source" / "a").mkdir(parents=True)
    with pytest.raises(RefusedFileError, match="leads out of its source"):
        read_below(tmp_path / "source", path)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8_000_000_000)


@pytest.mark.parametrize("make", [fifo, zeros, loop])
@pytest.mark.parametrize("name", [".gitignore", ".git", "a/.gitignore", "b.md", "corpus.yaml"])
def test_a_pipe_or_device_of_any_name_is_passed_over(tmp_path, make, name):
    root = tmp_path / "source"
    (root / "a").mkdir(parents=True)
    (root / "a" / "a.md").write_text("# A\n\nText of a file.\n")
    make(root / name)
    assert not is_corpus(root) or make is zeros
    assert [path for path, _ in read(root).sources[0].files] == ["a/a.md"]


@pytest.mark.parametrize("part", ["commondir", "info/exclude"])
def test_a_git_folder_with_a_pipe_in_it_does_not_hang(tmp_path, part):
    root, git = tmp_path / "source", tmp_path / "git"
    (git / "info").mkdir(parents=True)
    root.mkdir()
    (root / "a.md").write_text("# A\n\nText of a file.\n")
    (root / ".git").write_text(f"gitdir: {git}\n")
    fifo(git / part)
    assert len(read(root).sources[0].files) == 1


def test_a_huge_ignore_file_ends_in_one_line(tmp_path):
    (tmp_path / "a.md").write_text("# A\n\nText.\n")
    huge(tmp_path / ".gitignore")
    with pytest.raises(SourceError, match=r"\.gitignore: too large: .*use --exclude"):
        read(tmp_path)


def test_an_ignore_pattern_of_many_stars_takes_no_time(tmp_path):
    (tmp_path / ".gitignore").write_text("*a" * 60 + "*b\n**/" * 100 + "x\n")
    (tmp_path / ("a" * 200 + ".md")).write_text("# A\n\nText.\n")
    assert len(read(tmp_path).sources[0].files) == 1


BOMB = "\n".join(
    ["a0: &a0 {k: v}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 60))]
)


@pytest.mark.parametrize(
    "yaml",
    ["[" * 100_000, "name: " + "[" * 100_000 + "]" * 100_000, BOMB, "name: &a [x]\nurl: *a",
     "- " * 50_000, "name: 1" + ":59" * 300_000, "a: {" * 100_000, "\n".join("- a" * 200_000)],
    ids=["open", "brackets", "merge keys", "alias", "dashes", "base 60", "braces", "many"],
)  # fmt: skip
def test_yaml_that_grows_is_refused_with_its_line(corpus, yaml):
    (corpus.root / "corpus.yaml").write_text(yaml)
    with pytest.raises(EntryError, match=r"^corpus.yaml:\d+: "):
        corpus_state(corpus.root)


def test_a_technique_with_a_pattern_that_backtracks_is_tried_in_no_time(corpus):
    from kb.patterns import LinearPattern

    assert not LinearPattern("(x+x+)+y").search(b"x" * 100_000)


def test_a_pipe_does_not_block_even_where_somebody_writes(tmp_path):
    fifo(tmp_path / "a.md")
    writer = threading.Thread(target=lambda: (tmp_path / "a.md").open("wb").close(), daemon=True)
    writer.start()
    with pytest.raises(RefusedFileError, match="not a regular file"):
        read_below(tmp_path, "a.md")
    os.close(os.open(tmp_path / "a.md", os.O_RDONLY | os.O_NONBLOCK))
    writer.join(5)
