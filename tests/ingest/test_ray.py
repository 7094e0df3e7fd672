"""Chunking and embedding on Ray: the same generation as alone."""

import pytest
from support import TinyCorpus, current_folder, function

import ingest.ray_workers
from ingest.pipeline import Request
from ingest.pipeline import ingest as run_ingest
from ingest.ray_workers import ray_workers
from kb.embedders import load_embedder
from kb.errors import KbError
from kb.index.manifest import read_manifest


def test_a_cluster_makes_the_same_generation_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest.ray_workers, "_CHARACTERS", 300)  # several tasks
    monkeypatch.setattr(ingest.ray_workers, "_TEXTS", 4)
    corpus, code = TinyCorpus(tmp_path / "corpus"), tmp_path / "code"
    code.mkdir()
    for number in range(6):
        (code / f"f{number}.py").write_text(function(f"fn{number}", "first"))
    (code / "notes.md").write_text("# Tiles\n\nRead each once.\n\n# Warps\n\nKeep them busy.\n")
    requests = [Request(corpus.root), Request(code)]
    manifests = []
    refused = pytest.raises(KbError, match="a node of the Ray cluster: it has a different version")
    with refused, ray_workers("local") as workers:
        # A second ingest hands only what changed to the cluster.
        for name, by in (("alone", None), ("cluster", workers)):
            run_ingest(requests, tmp_path / name, load_embedder(), workers=by)
            (code / "f1.py").write_text(function("fn1", "second"))
            report = run_ingest([Request(code)], tmp_path / name, load_embedder(), workers=by)
            assert (report.embedded, report.sources[0].unchanged_files) == (1, 6)
            (code / "f1.py").write_text(function("fn1", "first"))
            manifests.append(read_manifest(current_folder(tmp_path / name)))
        # What goes wrong on a node is one line here.
        (code / "f2.py").write_text(function("fn2", "third"))
        monkeypatch.setattr(ingest.ray_workers, "chunking_version", lambda _: "another")
        run_ingest([Request(code)], tmp_path / "cluster", load_embedder(), workers=workers)
    alone, cluster = manifests
    assert alone.content == cluster.content
    # Chroma draws names by lot, and writes when it was.
    same = {name: digest for name, digest in alone.files.items() if not name.startswith("chroma/")}
    assert len(same) > 20
    assert same == {name: cluster.files.get(name) for name in same}


def test_without_ray_one_line_says_what_to_install(cli, index, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    message = cli("ingest", "--ray", "auto").error()
    assert message == "kb: --ray needs Ray: install it with `pip install 'kernel-kb[ray]'`"


def test_without_a_cluster_one_line_says_how_to_start_one(cli, index):
    message = cli("ingest", "--ray", "127.0.0.1:1").error()
    assert "no Ray cluster answers at '127.0.0.1:1'" in message
    assert "ray start --head" in message
