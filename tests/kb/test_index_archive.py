"""Export and import: equal answers on the other side, and no trust in the file."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from support import HashingEmbedder, add, current_folder, opened, searcher, tree_hash

from kb.errors import InvalidInputError, KbError
from kb.index.archive import export_index, import_index
from kb.index.check import problems_of

ROOT = "kernel-kb-index"


@pytest.fixture
def archive(corpus, index, tmp_path) -> Path:
    add(corpus.root, index)
    export_index(index, tmp_path / "index.tar.gz")
    return tmp_path / "index.tar.gz"


def test_an_imported_index_gives_equal_answers_and_embeds_nothing_again(
    archive, index, corpus, tmp_path
):
    other = tmp_path / "other"
    manifest = import_index(archive, other)
    assert manifest.generation == current_folder(other).name
    assert problems_of(current_folder(other)) == []
    for query in ("pid swizzling", "kernel that stores tiles"):
        one, two = (searcher(place).search(query, 20).results for place in (index, other))
        assert one == two
        assert one
    embedder = HashingEmbedder()
    corpus.technique("own-trick", "memory")
    add(corpus.root, other, embedder)
    assert embedder.embedded
    assert all("own trick" in text for text in embedder.embedded)


def test_an_export_appears_whole_or_not_at_all_and_replaces_nothing(archive, index, tmp_path):
    before = archive.read_bytes()
    with pytest.raises(KbError, match="exists already"):
        export_index(index, archive)
    assert archive.read_bytes() == before
    assert [path.name for path in tmp_path.glob("*.part")] == []
    dangling = tmp_path / "link.tar.gz"
    dangling.symlink_to(tmp_path / "target")
    with pytest.raises(KbError, match="exists already"):
        export_index(index, dangling)


def test_an_import_into_a_filled_index_needs_to_be_asked_for(archive, index):
    before = tree_hash(current_folder(index))
    with pytest.raises(KbError, match="--replace"):
        import_index(archive, index)
    assert tree_hash(current_folder(index)) == before
    import_index(archive, index, replace_existing=True)
    assert current_folder(index).name.startswith("g000002-")


def test_an_import_replaces_a_damaged_index(archive, index):
    (current_folder(index) / "manifest.json").write_text("{")
    import_index(archive, index, replace_existing=True)
    with opened(index) as generation:
        assert generation.manifest.chunks > 0


def repacked(archive: Path, target: Path, change) -> Path:
    """A copy of an archive whose members `change` has seen: (member, data) → list of the same."""
    with tarfile.open(archive) as source, tarfile.open(target, "w:gz") as result:
        for member in source:
            data = source.extractfile(member).read() if member.isfile() else b""
            for new, content in change(member, data):
                if new.isfile():
                    new.size = len(content)
                result.addfile(new, io.BytesIO(content))
    return target


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


EXTRA = {
    "traversal": member("../../escaped.txt"),
    "absolute path": member("/tmp/kernel-kb-escaped.txt"),
    "symbolic link": member(f"{ROOT}/link", tarfile.SYMTYPE, "/etc"),
    "relative symbolic link": member(f"{ROOT}/link", tarfile.SYMTYPE, "chunks.sqlite"),
    "hard link": member(f"{ROOT}/link", tarfile.LNKTYPE, f"{ROOT}/chunks.sqlite"),
    "character device": member(f"{ROOT}/null", tarfile.CHRTYPE),
    "pipe": member(f"{ROOT}/pipe", tarfile.FIFOTYPE),
    "extra file": member(f"{ROOT}/extra.py"),
}


def edited(changes: dict[str, object]):
    def change(info, data):
        if info.name == f"{ROOT}/manifest.json":
            data = json.dumps(json.loads(data) | changes).encode()
        return [(info, data)]

    return change


def hostile(archive: Path, tmp_path: Path, how: str) -> Path:
    target = tmp_path / "hostile.tar.gz"
    whole = archive.read_bytes()
    if how in EXTRA:
        added = iter([EXTRA[how]])
        return repacked(
            archive, target, lambda info, data: [(i, b"") for i in added] + [(info, data)]
        )
    if how.startswith("manifest "):
        changes = {
            "manifest schema": {"schema": 99},
            "manifest content": {"content": "../../x"},
            "manifest type": {"content": 5},
            "manifest count": {"chunks": 10**12},
        }[how]
        return repacked(archive, target, edited(changes))
    if how == "no manifest":
        return repacked(
            archive, target,
            lambda info, data: [] if info.name.endswith("manifest.json") else [(info, data)],
        )  # fmt: skip
    if how == "other vectors":
        return repacked(
            archive, target,
            lambda i, d: [(i, d[:-4] + b"\0\0\0\1" if i.name.endswith("vectors.npy") else d)],
        )  # fmt: skip
    if how == "a folder":
        target.mkdir()
        return target
    if how == "missing":
        return target
    content = {
        "no archive": b"just words" * 1000,
        "empty": b"",
        "shortened": whole[: len(whole) // 2],
        "damaged": whole[: len(whole) // 2] + b"\xff" * 64 + whole[len(whole) // 2 + 64 :],
    }[how]
    target.write_bytes(content)
    return target


@pytest.mark.parametrize(
    "how",
    [
        *EXTRA, "manifest schema", "manifest content", "manifest type", "manifest count",
        "no manifest", "other vectors", "a folder", "missing", "no archive", "empty", "shortened",
        "damaged",
    ],
)  # fmt: skip
def test_a_hostile_or_damaged_file_is_refused_in_one_line_and_the_index_stays(
    archive, index, tmp_path, cli, how
):
    file = hostile(archive, tmp_path, how)
    before = tree_hash(index)
    error = cli("import", "--replace", file).error()
    assert str(file) in error
    assert "cannot write the index" not in error
    assert tree_hash(index) == before
    assert not Path("/tmp/kernel-kb-escaped.txt").exists()
    assert not (index / "escaped.txt").exists()
    assert not (index.parent / "escaped.txt").exists()


def test_an_archive_that_would_fill_the_disk_is_refused(archive, index, monkeypatch):
    from kb.index import archive as module

    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 1000)
    before = tree_hash(index)
    with pytest.raises(KbError, match="unpacks to more than 1000 bytes"):
        import_index(archive, index, replace_existing=True)
    assert tree_hash(index) == before


def test_an_export_that_cannot_be_written_leaves_nothing(archive, index, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(tarfile.TarFile, "add", full)
    with pytest.raises(KbError, match=r"cannot write .*again.tar.gz: No space left on device"):
        export_index(index, tmp_path / "again.tar.gz")
    assert list(tmp_path.glob("again*")) == []


@pytest.mark.parametrize("name", ["openai:text-embedding-3-small", "st:/home/me/model"])
def test_an_imported_index_chooses_no_embedder_for_the_user(corpus, index, tmp_path, name):
    add(corpus.root, index, HashingEmbedder(name))
    archive, other = tmp_path / "index.tar.gz", tmp_path / "other"
    export_index(index, archive)
    with pytest.raises(InvalidInputError, match=f"--embedder {name}"):
        import_index(archive, other)
    with pytest.raises(InvalidInputError):
        import_index(archive, other, embedder="openai:another")
    assert not (other / "CURRENT").exists()
    assert import_index(archive, other, embedder=name).embedder == name
