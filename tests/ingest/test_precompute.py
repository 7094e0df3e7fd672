"""The file of precomputed embeddings: equal input gives an equal file, and it is used."""

import numpy as np
import pytest
from support import HashingEmbedder, add

from ingest import precompute as module
from ingest.corpus_source import corpus_state
from ingest.precompute import precompute
from kb.index import cache
from kb.index.cache import load_precomputed, precomputed_name
from kb.records import text_hash


@pytest.fixture
def embedder(monkeypatch, tmp_path):
    one = HashingEmbedder()
    monkeypatch.setattr(module, "load_embedder", lambda: one)
    for where in (module, cache):
        monkeypatch.setattr(
            where, "files" if where is cache else "load_precomputed",
            (lambda _package: tmp_path) if where is cache else cache.load_precomputed,
        )  # fmt: skip
    return one


def test_equal_input_gives_an_equal_file_with_a_vector_of_every_text(corpus, embedder, tmp_path):
    texts = {chunk.embedding_text() for chunk in corpus_state(corpus.root).chunks}
    files = []
    for name in ("a", "b"):
        assert precompute(corpus.root, tmp_path / name) == (len(texts), len(texts))
        (path,) = (tmp_path / name).iterdir()
        assert path.name == precomputed_name(embedder.name)
        files.append(path.read_bytes())
    assert files[0] == files[1]


def test_a_second_run_embeds_only_what_is_new_and_drops_what_is_gone(corpus, embedder, tmp_path):
    folder = tmp_path / "data" / "embeddings"
    texts, _ = precompute(corpus.root, folder)
    (folder / "stale.npz").write_bytes(b"")
    assert precompute(corpus.root, folder) == (texts, 0)
    assert not (folder / "stale.npz").exists()
    corpus.kernel("later")
    more, new = precompute(corpus.root, folder)
    assert more - texts == new > 0
    (corpus.root / "kernels" / "triton" / "later.py").unlink()
    assert precompute(corpus.root, folder) == (texts, 0)
    assert len(load_precomputed(embedder.name)) == texts


def test_a_first_ingest_of_a_precomputed_corpus_embeds_nothing(corpus, embedder, index, tmp_path):
    precompute(corpus.root, tmp_path / "data" / "embeddings")
    embedder.embedded.clear()
    report = add(corpus.root, index, embedder)
    assert (report.published, report.embedded, embedder.embedded) == (True, 0, [])


@pytest.mark.parametrize("damage", [b"", b"no zip", None])
def test_a_damaged_file_is_left_out_since_it_only_saves_work(
    corpus, embedder, index, tmp_path, damage
):
    folder = tmp_path / "data" / "embeddings"
    precompute(corpus.root, folder)
    path = folder / precomputed_name(embedder.name)
    path.write_bytes(path.read_bytes()[:-200] if damage is None else damage)
    assert add(corpus.root, index, embedder).embedded > 0


def test_vectors_are_kept_under_the_hash_of_their_text(corpus, embedder, tmp_path):
    precompute(corpus.root, tmp_path / "data" / "embeddings")
    stored = load_precomputed(embedder.name)
    for chunk in corpus_state(corpus.root).chunks:
        text = chunk.embedding_text()
        np.testing.assert_array_equal(stored[text_hash(text)], embedder.embed_query(text))
