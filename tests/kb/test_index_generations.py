"""Readers and one writer: whole generations, never a mix, and nothing left behind."""

import errno
import fcntl
import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from support import (
    HashingEmbedder,
    TinyCorpus,
    add,
    current_folder,
    function,
    opened,
    searcher,
    tree_hash,
)

import kb.index.chroma
from ingest.pipeline import Request, ingest, remove
from kb.errors import IndexBusyError, InvalidInputError, NotFoundError, SourceError
from kb.index.chroma import ChromaSearch
from kb.index.layout import IndexLayout
from kb.index.leases import Lease, collect
from kb.index.nearest import Nearest
from kb.index.reader import open_generation
from kb.index.writer import IndexWriter
from kb.search.models import Filters
from server.readers import CurrentSearcher


@pytest.fixture
def code(tmp_path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    stamp(folder, "first")
    return folder


def stamp(folder: Path, words: str, files: int = 4) -> None:
    for number in range(files):
        (folder / f"f{number}.py").write_text(function(f"fn{number}", words))


def texts(index: Path) -> list[str]:
    with opened(index) as generation:
        return [chunk.text for chunk in generation.store.all()]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the folder of this very moment


def test_a_reader_keeps_its_generation_until_it_closes_then_it_is_collected(index, code):
    add(code, index)
    held = open_generation(index)
    folder = held.folder
    for words in ("second", "third", "fourth"):
        stamp(code, words)
        add(code, index)
    assert folder.is_dir()
    assert all("first" in chunk.text for chunk in held.store.all())
    assert held.lexical.scores(["first"]).max() > 0
    assert held.vectors.rows.shape == (held.manifest.chunks, 64)
    assert len(IndexLayout(index).names()) == 2, "those that nobody held are gone"
    held.close()
    stamp(code, "fifth")
    add(code, index)
    assert not folder.exists()
    assert IndexLayout(index).names() == [current_folder(index).name]


def test_a_generation_that_is_let_go_without_closing_is_collected_as_well(index, code):
    add(code, index)
    held = open_generation(index)
    folder = held.folder
    del held
    stamp(code, "second")
    add(code, index)
    assert not folder.exists()


def test_a_lease_lasts_until_the_last_of_several_is_given_back(index, code, tmp_path):
    add(code, index)
    folder = current_folder(index)
    one, two = Lease(folder), Lease(folder)
    one.release()
    one.release()
    assert not collect(folder, tmp_path / "trash")
    two.release()
    assert collect(folder, tmp_path / "trash")
    with pytest.raises(FileNotFoundError):
        Lease(folder)


def test_over_nfs_generations_are_collected_as_well(index, code, tmp_path, monkeypatch):
    """There an exclusive lock is only given on a file that is open for writing."""
    flock = fcntl.flock

    def of_nfs(fd: int, operation: int) -> None:
        mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
        if operation & fcntl.LOCK_EX and mode == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(fd, operation)

    monkeypatch.setattr("fcntl.flock", of_nfs)
    add(code, index)
    folder = current_folder(index)
    lease = Lease(folder)
    assert not collect(folder, tmp_path / "trash")
    lease.release()
    assert collect(folder, tmp_path / "trash")


def test_searches_change_nothing_in_the_published_folder(index, corpus):
    add(corpus.root, index)
    before = tree_hash(index, times=True)
    for limit in (200_000, 0):
        one = searcher(index, exact_limit=limit)
        one.search("pid swizzling", 5, Filters(kinds=["technique"]), explain=True)
        one.search("software pipelining of loads", 5)
        one.close()
    assert tree_hash(index, times=True) == before


def test_publishing_again_changes_nothing_in_an_older_generation(index, code):
    add(code, index)
    held = open_generation(index)
    before = tree_hash(held.folder, times=True)
    for words in ("second", "third"):
        stamp(code, words)
        add(code, index)
    assert tree_hash(held.folder, times=True) == before
    held.close()


def test_an_unchanged_source_embeds_nothing_and_writes_nothing(index, corpus, code):
    embedder = HashingEmbedder()
    add(corpus.root, index, embedder)
    add(code, index, embedder)
    before = tree_hash(index, times=True)
    embedder.embedded.clear()
    report = ingest([Request(corpus.root), Request(code)], index, embedder)
    assert (report.published, report.embedded) == (False, 0)
    assert [source.unchanged_files for source in report.sources] == [7, 4]
    assert embedder.embedded == []
    assert tree_hash(index, times=True) == before


def test_files_touched_but_not_changed_are_unchanged(index, code):
    add(code, index)
    for path in code.iterdir():
        os.utime(path, (1, 1))
    assert not add(code, index).published


def test_a_changed_file_embeds_only_its_own_chunks(index, code):
    add(code, index)
    embedder = HashingEmbedder()
    (code / "f2.py").write_text(function("fn2", "changed"))
    report = add(code, index, embedder)
    assert (report.published, report.embedded) == (True, 1)
    assert len(embedder.embedded) == 1
    assert "changed" in embedder.embedded[0]
    assert report.sources[0].unchanged_files == 3


def test_what_comes_back_is_not_embedded_again(index, code):
    add(code, index)
    kept = (code / "f1.py").read_text()
    (code / "f1.py").unlink()
    assert add(code, index).sources[0].removed_files == 1
    (code / "f1.py").write_text(kept)
    report = add(code, index)
    assert (report.published, report.embedded) == (True, 0)


def test_chunks_of_a_vanished_file_are_gone_from_every_part(index, code):
    add(code, index)
    (code / "f3.py").unlink()
    report = add(code, index)
    assert report.sources[0].removed_files == 1
    assert not any("fn3" in text for text in texts(index))
    for limit in (200_000, 0):
        found = searcher(index, exact_limit=limit).search("Compute fn3 first", 50)
        assert {result.path for result in found.results} <= {"f0.py", "f1.py", "f2.py"}
    with opened(index) as generation:
        assert generation.lexical.known(["fn3_offset"]) == []


@pytest.mark.parametrize("changed", [1, 30])
def test_few_and_many_changes_lead_to_the_same_chroma_collection(index, tmp_path, changed):
    folder = tmp_path / "code"
    folder.mkdir()
    stamp(folder, "first", files=40)
    add(folder, index)
    stamp(folder, "second", files=changed)
    assert add(folder, index).embedded == changed
    for number in (0, 39):
        one = searcher(index, exact_limit=0)
        words = "second" if number < changed else "first"
        (best, *_) = one.search(f"Compute fn{number} {words} fn{number}_offset", 3).results
        assert words in best.text
        one.close()


def test_a_collection_of_many_pages_is_brought_up_to_date_without_writing_it_anew(
    index, tmp_path, monkeypatch
):
    monkeypatch.setattr("kb.index.chroma.PAGE", 7)
    folder = tmp_path / "code"
    folder.mkdir()
    stamp(folder, "first", files=40)
    add(folder, index)
    written: list[int] = []
    upsert = kb.index.chroma.upsert

    def counted(collection, chunks, vectors):
        written.append(len(chunks))
        upsert(collection, chunks, vectors)

    monkeypatch.setattr("kb.index.chroma.upsert", counted)
    stamp(folder, "second", files=2)
    add(folder, index)
    assert written == [2]


def test_fresh_and_incremental_indexes_of_the_same_sources_are_equal(tmp_path, corpus, code):
    def answers(place: Path) -> list[object]:
        one = searcher(place)
        queries = ("pid swizzling", "Compute fn1", "kernel that stores tiles", "offsets")
        found = [
            (result.id, result.score, result.path, result.techniques, result.bottlenecks)
            for query in queries
            for result in one.search(query, 20).results
        ]
        parts = [
            one.generation.vectors.rows.tobytes(),
            [chunk.digest() for chunk in one.generation.store.all()],
            one.generation.manifest.content,
        ]
        assert found
        return [found, parts]

    marked = (
        function("uses", "calls") + "\n\ndef user(x):\n    y = pid_swizzling_of(x)\n    return y\n"
    )
    history, fresh, other = tmp_path / "history", tmp_path / "fresh", tmp_path / "other"
    (code / "extra.py").write_text(function("gone"))
    add(code, history)  # before any entry tells what its code shows
    corpus.technique("pid-swizzling", "memory", examples="[swizzled]", detect="{triton: ['x_y_z']}")
    add(corpus.root, history)
    (code / "extra.py").unlink()
    (code / "user.py").write_text(marked)
    add(code, history)
    corpus.technique("pid-swizzling", "memory", examples="[swizzled]")
    corpus.kernel("later", "pid-swizzling")
    add(corpus.root, history)
    ingest([Request(code), Request(corpus.root)], fresh, HashingEmbedder())
    ingest([Request(corpus.root), Request(code)], other, HashingEmbedder())
    assert answers(history) == answers(fresh) == answers(other)
    assert any("pid-swizzling" in c.techniques for c in open_generation(fresh).store.all()
               if c.source == "code")  # fmt: skip


def test_code_is_tagged_anew_when_only_what_a_technique_relieves_changes(tmp_path, corpus, code):
    (code / "user.py").write_text("def user(x):\n    y = own_trick_of(x)\n    return y + 1\n")
    corpus.technique("own-trick", "memory")
    history, fresh = tmp_path / "history", tmp_path / "fresh"
    for root in (corpus.root, code):
        add(root, history)
    corpus.technique("own-trick", "memory", bottlenecks="[memory, latency]")
    add(corpus.root, history)
    for root in (corpus.root, code):
        add(root, fresh)
    with opened(history) as one, opened(fresh) as two:
        assert [c.digest() for c in one.store.all()] == [c.digest() for c in two.store.all()]


def test_ids_do_not_depend_on_where_the_sources_lie(tmp_path):
    found = []
    for place in ("here", "some/where/else"):
        corpus = TinyCorpus(tmp_path / place / "tiny")
        folder = tmp_path / place / "code"
        folder.mkdir()
        stamp(folder, "same")
        index = tmp_path / place / "index"
        ingest([Request(corpus.root), Request(folder)], index, HashingEmbedder())
        with opened(index) as generation:
            found.append([chunk.id for chunk in generation.store.all()])
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])


def test_equal_pieces_of_one_file_have_ids_of_their_own(index, tmp_path):
    folder = tmp_path / "twice"
    folder.mkdir()
    (folder / "a.py").write_text(function("same", lines=40) * 3)
    (folder / "a.md").write_text("# Head\n\nSame words.\n\n# Head\n\nSame words.\n")
    report = add(folder, index)
    with opened(index) as generation:
        ids = [chunk.id for chunk in generation.store.all()]
    assert len(set(ids)) == len(ids) == report.chunks > 3


def test_a_second_writer_gets_a_clear_error_and_harms_nothing(index, code, corpus):
    add(code, index)
    with IndexWriter(index) as writer:
        writer.layout.staging.mkdir()
        with pytest.raises(IndexBusyError, match="another process is writing"):
            add(corpus.root, index)
        assert writer.layout.staging.is_dir(), "what the first one builds is left alone"
        with pytest.raises(IndexBusyError):
            remove("code", index, HashingEmbedder())
    assert add(corpus.root, index).published


def test_a_dry_run_changes_nothing_and_needs_no_lock(index, code, corpus):
    assert add(code, index, dry_run=True).chunks == 4
    assert not index.exists()
    add(code, index)
    before = tree_hash(index, times=True)
    with IndexWriter(index):
        report = add(corpus.root, index, dry_run=True)
    assert report.chunks > 4
    assert not report.published
    assert tree_hash(index, times=True) == before


def test_an_index_that_holds_nothing_any_more_still_answers(index, code):
    add(code, index)
    report = remove("code", index, HashingEmbedder())
    assert (report.chunks, report.published) == (0, True)
    one = searcher(index)
    assert one.search("anything at all").abstained
    with pytest.raises(InvalidInputError, match="no source is called 'code': the index has none"):
        one.search("anything", filters=Filters(sources=["code"]))
    with pytest.raises(NotFoundError, match="no source 'code': it has none"):
        remove("code", index, HashingEmbedder())
    assert add(code, index).embedded == 0


def test_the_name_of_a_source_belongs_to_one_place(index, code, corpus, tmp_path):
    add(code, index)
    other = tmp_path / "other" / "code"
    other.mkdir(parents=True)
    stamp(other, "elsewhere")
    with pytest.raises(SourceError, match=r"already has a source 'code' from .*--name"):
        add(other, index)
    assert add(other, index, name="other").published
    assert len(texts(index)) == 8


def test_a_corpus_does_not_replace_a_folder_of_its_name(index, corpus, tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    stamp(folder, "precious")
    add(folder, index)
    with pytest.raises(SourceError, match="already has a folder 'tiny'"):
        add(corpus.root, index)
    assert len(texts(index)) == 4


def test_slugs_of_two_corpora_may_not_collide(index, corpus, tmp_path):
    add(corpus.root, index)
    second = TinyCorpus(tmp_path / "second")
    second.write("corpus.yaml", "name: second\nversion: '1'\nlicence: MIT\n")
    with pytest.raises(SourceError, match="'software-pipelining' is already in the index from"):
        add(second.root, index)


@pytest.fixture
def current(index, monkeypatch):
    """The server's long-lived reader of this test's index."""
    monkeypatch.setattr("server.readers.load_embedder", lambda _: HashingEmbedder())
    return CurrentSearcher(index)


def test_no_file_stays_open_over_a_dozen_publications_and_openings(index, current, tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    counts = []
    for number in range(12):
        stamp(folder, f"round{number}", files=1)
        add(folder, index)
        assert f"round{number}" in next(current.get().generation.store.all()).text
        one = searcher(index)
        one.search(f"round{number}", 1)
        one.generation.close()
        gc.collect()
        counts.append(descriptors())
    assert counts[-1] <= counts[4] + 1, counts
    assert len(IndexLayout(index).names()) <= 2


def test_readers_beside_a_writer_see_no_error_and_no_mix(index, current, tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    stamp(folder, "round0")
    add(folder, index)
    ended = threading.Event()
    failures: list[str] = []
    seen: set[str] = set()

    def read(own: bool) -> None:
        embedder = HashingEmbedder()
        while not ended.is_set():
            try:
                generation = open_generation(index) if own else current.get().generation
                found = [chunk.text for chunk in generation.store.all()]
                stamps = {text.split("Compute ")[1].split()[1].rstrip('."') for text in found}
                if len(found) != generation.manifest.chunks or len(stamps) != 1:
                    failures.append(f"a mix: {stamps}")
                (now,) = stamps
                seen.add(now)
                if generation.lexical.known([now]) != [now]:
                    failures.append("the lexical index is of another generation")
                at = generation.vectors.similarities(embedder.embed_query(f"fn0 {now}"))
                if at.shape != (len(found),) or not np.isfinite(at).all():
                    failures.append("the vectors are of another generation")
                if own:
                    generation.close()
            except Exception as error:
                failures.append(repr(error))

    readers = [threading.Thread(target=read, args=(own,)) for own in (True, False)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, 8):
            stamp(folder, f"round{number}")
            add(folder, index)
    finally:
        ended.set()
        for reader in readers:
            reader.join()
    assert failures == []
    assert len(seen) > 3


def test_the_pointer_is_switched_in_one_step(index, code, monkeypatch):
    """Whatever is read from the pointer at any moment of a publication names a whole generation."""
    add(code, index)
    layout = IndexLayout(index)
    named: set[str] = set()
    from kb.index import writer

    def look(*_: object) -> None:
        name = layout.current()
        assert name is not None
        assert (layout.generation(name) / "manifest.json").is_file()
        named.add(name)

    sync = writer._sync
    monkeypatch.setattr(writer, "_sync", lambda path: (look(), sync(path), look()))
    monkeypatch.setattr(os, "fsync", look)
    stamp(code, "second")
    add(code, index)
    look()
    assert len(named) == 2


def test_a_view_of_chroma_holds_the_graph_alone_and_finds_the_same(index, tmp_path, monkeypatch):
    monkeypatch.setattr("kb.index.chroma._MIN_WRITE", 2)  # all is in the graph's files
    folder = tmp_path / "code"
    folder.mkdir()
    stamp(folder, "first", files=40)
    add(folder, index)
    with opened(index) as generation:
        views = []
        for left_out in ("slim", "whole"):
            if left_out == "whole":
                monkeypatch.setattr("kb.index.chroma._copy_graph", kb.index.chroma.copy_files)
            one = ChromaSearch(generation.chroma_folder, generation.manifest.dimensions)
            view = Path(one._view.name) / "0" / "chroma.sqlite3"
            views.append(
                (one.nearest(generation.vectors.rows[7], 20), b"Compute fn3" in view.read_bytes())
            )
            one.close()
    (slim, has_no_text), (whole, has_text) = views
    assert slim == whole
    assert len(slim) == 20
    assert (has_no_text, has_text) == (False, True)


def test_chroma_of_another_make_gets_all_of_its_files(index, code, monkeypatch):
    add(code, index)
    answers = iter([[], ["an id"]])
    monkeypatch.setattr(ChromaSearch, "nearest", lambda *_: next(answers))
    with opened(index) as generation:
        one = ChromaSearch(generation.chroma_folder, generation.manifest.dimensions)
    assert one._collection.count() == generation.manifest.chunks
    one.close()


@pytest.mark.parametrize("kept_share", [1.0, 0.5, 0.1, 0.01])
def test_the_graph_finds_what_the_product_finds_with_any_filter(index, tmp_path, kept_share):
    folder = tmp_path / "code"
    folder.mkdir()
    stamp(folder, "first", files=400)
    add(folder, index)
    with opened(index) as generation:
        graph, product = Nearest(generation, 0), Nearest(generation, 1_000_000)
        assert graph.similarities(generation.vectors.rows[0]) is not None
        graph.prepare()
        kept = np.random.default_rng(0).random(generation.manifest.chunks) < kept_share
        for row in (0, 17):
            query = generation.vectors.rows[row]
            assert graph.similarities(query) is None
            expected = product.rows(query, product.similarities(query), 10, kept)
            # A graph misses some, and rows that are equally near may change places.
            shared = set(graph.rows(query, None, 10, kept)) & set(expected)
            assert len(shared) >= 0.7 * len(expected)
        graph.close()
