"""Damage to any file of an index is met with one line, found by doctor, repaired by rebuild."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from support import (
    HashingEmbedder,
    add,
    current_folder,
    function,
    kb,
    opened,
    read_only,
    searcher,
    tree_hash,
    unprivileged,
)

from ingest.rebuild import rebuild
from kb.errors import IndexMismatchError, IndexUnavailableError, KbError
from kb.index import doctor
from kb.index.cache import EmbeddingCache
from kb.index.check import check_in_child, problems_of
from kb.index.layout import IndexLayout
from kb.index.reader import open_generation
from kb.records import text_hash


@pytest.fixture(autouse=True)
def _hashing_is_installed(monkeypatch):
    """Let everything that loads an embedder by name know the quick one of the tests."""
    from kb.embedders import load_embedder

    def load(name=None):
        return HashingEmbedder() if name == "test:hashing" else load_embedder(name)

    monkeypatch.setattr(doctor, "load_embedder", load)


@pytest.fixture
def small(corpus, index) -> Path:
    add(corpus.root, index)
    return index


def flip(path: Path, share: float = 0.5) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 0xFF
    path.write_bytes(bytes(data))


def findings(index: Path) -> dict[str, doctor.Finding]:
    return {finding.subject: finding for finding in doctor.examine(index)}


def problems(index: Path) -> list[str]:
    return [f"{f.subject}: {f.detail}" for f in findings(index).values() if not f.ok]


def files_of_a_generation(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_sound_index_has_no_problem_and_looking_at_it_changes_nothing(small):
    before = tree_hash(small, times=True)
    assert problems(small) == []
    assert tree_hash(small, times=True) == before


def test_a_sound_index_in_a_folder_one_may_only_read_has_no_problem(filled):
    read_only(filled)
    done = kb("doctor", **unprivileged())
    assert (done.status, done.err) == (0, "")
    assert "PROBLEM" not in done.out


def test_every_file_of_a_generation_is_guarded_against_a_changed_byte(small):
    folder = current_folder(small)
    files = files_of_a_generation(folder)
    assert len(files) > 20
    for path in files:
        whole = path.read_bytes()
        if not whole:
            continue
        flip(path)
        try:
            found = problems_of(folder)
        except (KbError, FileNotFoundError) as error:
            found = [str(error)]
        assert found, path.relative_to(folder)
        path.write_bytes(whole)
    assert problems_of(folder) == []


def test_a_missing_and_an_extra_file_are_found(small):
    folder = current_folder(small)
    (folder / "extra.bin").write_bytes(b"1")
    assert problems_of(folder) == ["extra.bin is not what was written"]
    (folder / "extra.bin").unlink()
    (folder / "columns" / "ops.npy").unlink()
    assert problems_of(folder) == ["columns/ops.npy is missing"]


def damaged(small: Path, name: str) -> None:
    """Damage one part in a way that the checks of its format would not all tell."""
    folder = current_folder(small)
    match name:
        case "pointer with other words":
            (small / "CURRENT").write_text("garbage\n")
        case "pointer that leads outside":
            (small / "CURRENT").write_text("../../../etc\n")
        case "pointer that is binary":
            (small / "CURRENT").write_bytes(b"g\xff\x00")
        case "pointer to nothing":
            (small / "CURRENT").write_text("g000099-00000000\n")
        case "empty pointer":
            (small / "CURRENT").write_text("")
        case "no pointer":
            (small / "CURRENT").unlink()
        case "manifest that is no JSON":
            (folder / "manifest.json").write_text("{")
        case "manifest with a wrong type":
            data = json.loads((folder / "manifest.json").read_text())
            (folder / "manifest.json").write_text(json.dumps(data | {"chunks": "many"}))
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "emptied vectors":
            (folder / "vectors.npy").write_bytes(b"")
        case "shortened vectors":
            data = (folder / "vectors.npy").read_bytes()
            (folder / "vectors.npy").write_bytes(data[: len(data) // 2])
        case "other vectors":
            rows = np.load(folder / "vectors.npy")
            np.save(folder / "vectors.npy", np.roll(rows, 1, axis=0))
        case "chunks that are no database":
            (folder / "chunks.sqlite").write_bytes(b"no database" * 1000)
        case "no chunks":
            (folder / "chunks.sqlite").unlink()
        case "a chunk with other text":
            with sqlite3.connect(folder / "chunks.sqlite") as connection:
                connection.execute("UPDATE chunk SET data = '{\"id\": 1}' WHERE row = 3")
            connection.close()
        case "chroma without its database":
            (folder / "chroma" / "chroma.sqlite3").unlink()
        case "chroma with a changed byte":
            flip(folder / "chroma" / "chroma.sqlite3", 0.9)
        case "no chroma":
            shutil.rmtree(folder / "chroma")
        case "emptied column":
            (folder / "columns" / "kinds.npy").write_bytes(b"")
        case "no lexical index":
            shutil.rmtree(folder / "lexical")
        case "sources that are no JSON":
            (folder / "sources.json").write_text("[{]")
        case "entries of another shape":
            (folder / "entries.json").write_text('{"techniques": [5], "kernels": []}')
        case _:
            raise AssertionError(name)


KINDS_OF_DAMAGE = [
    "pointer with other words",
    "pointer that leads outside",
    "pointer that is binary",
    "pointer to nothing",
    "empty pointer",
    "no pointer",
    "manifest that is no JSON",
    "manifest with a wrong type",
    "no manifest",
    "emptied vectors",
    "shortened vectors",
    "other vectors",
    "chunks that are no database",
    "no chunks",
    "a chunk with other text",
    "chroma without its database",
    "chroma with a changed byte",
    "no chroma",
    "emptied column",
    "no lexical index",
    "entries of another shape",
]


@pytest.mark.parametrize("name", KINDS_OF_DAMAGE)
def test_doctor_finds_damage_readers_meet_one_line_and_rebuild_repairs_it(small, name, capfd):
    with opened(small) as generation:
        before = [chunk.id for chunk in generation.store.all()]
    damaged(small, name)
    found = problems(small)
    assert found
    assert "kb rebuild" in found[0]
    assert found[0].count("kb rebuild") == 1
    try:
        one = searcher(small)
        one.search("pid swizzling of tiles", 50)
        list(one.generation.store.all())
    except KbError as error:
        assert "\n" not in str(error)
        assert "kb " in str(error)
    embedder = HashingEmbedder()
    report = rebuild(small, embedder)
    assert report.embedded == 0, "the cache still had every vector"
    assert problems(small) == []
    with opened(small) as generation:
        assert [chunk.id for chunk in generation.store.all()] == before
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["pointer to nothing", "pointer with other words"])
def test_an_ingest_into_a_damaged_index_is_refused_rather_than_losing_other_sources(
    small, name, tmp_path
):
    damaged(small, name)
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text(function("a"))
    with pytest.raises(IndexUnavailableError, match="run `kb rebuild`"):
        add(code, small)


@pytest.mark.parametrize("how", ["no generation", "sources that are no JSON"])
def test_where_nothing_says_what_was_ingested_the_way_out_is_named_and_works(small, corpus, how):
    if how == "no generation":
        shutil.rmtree(small / "generations")
    else:
        damaged(small, how)
    assert "kb rebuild" in problems(small)[0]
    with pytest.raises(IndexUnavailableError, match=r"delete .*CURRENT and run `kb ingest`"):
        rebuild(small, HashingEmbedder())
    (small / "CURRENT").unlink()
    assert add(corpus.root, small).embedded == 0
    assert problems(small) == []


def test_a_stray_folder_among_the_generations_disturbs_nobody(small, corpus):
    (small / "generations" / "garbage").mkdir()
    (small / "generations" / "g1").mkdir()
    corpus.kernel("extra")
    assert add(corpus.root, small).published
    assert (small / "generations" / "garbage").is_dir()


def test_a_rebuild_without_a_source_that_is_gone_takes_its_chunks_over(small, corpus):
    with opened(small) as generation:
        before = [chunk.id for chunk in generation.store.all()]
    shutil.rmtree(corpus.root)
    rebuild(small, HashingEmbedder())
    with opened(small) as generation:
        assert [chunk.id for chunk in generation.store.all()] == before


def test_a_damaged_index_whose_source_is_gone_is_not_dropped_silently(small, corpus):
    damaged(small, "no chunks")
    shutil.rmtree(corpus.root)
    with pytest.raises(IndexUnavailableError, match="--drop-missing"):
        rebuild(small, HashingEmbedder())
    assert rebuild(small, HashingEmbedder(), drop_missing=True).chunks == 0


@pytest.mark.parametrize("how", ["no database", "changed pages", "shortened"])
def test_a_damaged_embedding_cache_is_found_and_rebuilt(small, corpus, how):
    cache = small / "embeddings.sqlite"
    data = cache.read_bytes()
    if how == "no database":
        cache.write_bytes(b"garbage" * 5000)
    elif how == "changed pages":
        cache.write_bytes(data[:4096] + b"\xee" * (len(data) - 4096))
    else:
        cache.write_bytes(data[: len(data) // 2])
    assert any(
        "embedding cache" in problem and "kb rebuild" in problem for problem in problems(small)
    )
    corpus.kernel("extra")
    try:
        add(corpus.root, small)
    except IndexUnavailableError as error:
        assert "embeddings.sqlite" in str(error) or "cannot write the index" in str(error)
    rebuild(small, HashingEmbedder())
    assert problems(small) == []
    assert not add(corpus.root, small).published


def test_a_damaged_vector_in_the_cache_is_computed_anew_and_never_published(small, corpus):
    with sqlite3.connect(small / "embeddings.sqlite") as connection:
        keys = connection.execute("SELECT text_hash, vector FROM embedding ORDER BY 1").fetchall()
        for (key, vector), blob in zip(keys, (b"", b"\0" * 256, keys[2][1][:-3]), strict=False):
            assert vector != blob
            connection.execute("UPDATE embedding SET vector=? WHERE text_hash=?", (blob, key))
    connection.close()
    corpus.kernel("extra")
    embedder = HashingEmbedder()
    add(corpus.root, small, embedder)
    assert {key for key, _ in keys[:3]} < {text_hash(text) for text in embedder.embedded}
    assert problems(small) == []


def test_an_index_of_another_schema_is_refused_with_the_command_that_fixes_it(small, corpus):
    path = current_folder(small) / "manifest.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"schema": 99, "something": "new"}))
    for use in (lambda: open_generation(small), lambda: add(corpus.root, small)):
        with pytest.raises(IndexMismatchError, match=r"schema 99.*run `kb rebuild`"):
            use()
    rebuild(small, HashingEmbedder())
    assert problems(small) == []


def test_an_index_of_another_embedder_is_refused_with_the_command_that_fixes_it(small, corpus):
    other = HashingEmbedder("test:other", 32)
    with pytest.raises(IndexMismatchError, match="test:hashing, not test:other: run `kb rebuild`"):
        add(corpus.root, small, other)
    assert rebuild(small, other).embedded > 0
    with opened(small) as generation:
        assert generation.manifest.embedder == "test:other"
        assert generation.vectors.rows.shape[1] == 32


def test_the_check_runs_apart_and_imports_nothing_from_the_working_folder(
    small, tmp_path, monkeypatch
):
    place = tmp_path / "elsewhere"
    (place / "kb").mkdir(parents=True)
    for name in ("numpy.py", "chromadb.py", "kb/__init__.py", "json.py"):
        (place / name).write_text("raise SystemExit('imported from the working folder')\n")
    monkeypatch.chdir(place)
    assert check_in_child(current_folder(small)) == []


def test_a_check_that_crashes_is_a_problem_and_not_our_end(small, monkeypatch):
    from kb.index import check

    monkeypatch.setattr(check.sys, "executable", "/bin/false")
    assert check_in_child(current_folder(small)) == ["the check ended with status 1: no output"]


def test_a_generation_that_fails_its_check_is_not_published(small, corpus, monkeypatch):
    from kb.index import writer

    before = (small / "CURRENT").read_text()
    monkeypatch.setattr(writer, "check_in_child", lambda _folder: ["chroma holds 3"])
    corpus.kernel("extra")
    with pytest.raises(IndexUnavailableError, match="failed its check: chroma holds 3"):
        add(corpus.root, small)
    assert (small / "CURRENT").read_text() == before
    assert IndexLayout(small).names() == [before.strip()]
    assert not (small / "staging").exists()


def test_the_cache_keeps_vectors_by_embedder(tmp_path):
    cache = EmbeddingCache(tmp_path / "cache.sqlite")
    vector = np.array([0.6, 0.8], dtype=np.float32)
    cache.put("a", [("k", vector)])
    assert cache.get("b", ["k"]) == {}
    np.testing.assert_array_equal(cache.get("a", ["k", "l"])["k"], vector)
    cache.close()


@pytest.mark.parametrize("column", ["vector", "text_hash", "embedder", "checksum"])
def test_a_bit_that_flips_in_the_embedding_cache_is_found_and_its_vector_not_used(small, column):
    path = small / "embeddings.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        row = connection.execute("SELECT * FROM embedding LIMIT 1").fetchone()
        embedder, key, blob, checksum = row
        changed = {
            "vector": bytes([blob[0] ^ 1]) + blob[1:],  # its length stays 1 within any tolerance
            "text_hash": chr(ord(key[0]) ^ 1) + key[1:],
            "embedder": embedder[:-1] + chr(ord(embedder[-1]) ^ 1),
            "checksum": checksum ^ 4,
        }[column]
        connection.execute(
            f"UPDATE embedding SET {column} = ? WHERE embedder = ? AND text_hash = ?",
            (changed, embedder, key),
        )
    with contextlib.closing(EmbeddingCache(path)) as cache:
        assert key not in cache.get(embedder, [key])
    (problem,) = problems(small)
    assert "1 of" in findings(small)["embedding cache"].detail
    assert "kb rebuild" in problem


def test_a_cache_of_an_older_version_is_taken_over(small):
    path = small / "embeddings.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE embedding DROP COLUMN checksum")
        embedder, key = connection.execute("SELECT embedder, text_hash FROM embedding").fetchone()
    assert problems(small) == []
    with contextlib.closing(EmbeddingCache(path)) as cache:
        vector = cache.get(embedder, [key])[key]
        cache.put(embedder, [(key, vector)])
        assert key in cache.get(embedder, [key])
    assert problems(small) == []


def test_a_flipped_code_of_a_column_ends_in_one_line(small):
    for path in sorted((current_folder(small) / "columns").glob("*.npy")):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 0x80]))
        with pytest.raises(IndexUnavailableError, match=r"is damaged.*kb rebuild"):
            open_generation(small)
        path.write_bytes(content)
    open_generation(small).close()
