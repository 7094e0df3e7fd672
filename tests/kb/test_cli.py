"""The `kb` command: JSON in the published shapes, human output that fits, quiet ends."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import KB, function, kb

RESULT = {
    "id", "score", "kind", "title", "path", "start_line", "end_line", "symbol", "language",
    "techniques", "bottlenecks", "architectures", "source", "text", "gates",
}  # fmt: skip
CONTEXT = {
    "text", "tokens", "techniques", "examples", "examples_available", "citations", "ignored",
    "tokenizer", "abstained",
}  # fmt: skip
CITED = {"name", "version", "licence", "url"}


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_query_prints_the_shape_of_the_http_api(filled, cli):
    answer = cli("query", "pid swizzling", "-k", "3", "--json").json()
    assert answer.keys() == {
        "query",
        "results",
        "abstained",
        "metrics",
        "notes",
        "took_ms",
        "index",
    }
    assert answer["index"].keys() == {"generation", "chunks", "embedder"}
    assert answer["query"] == "pid swizzling"
    assert answer["abstained"] is False
    assert 0 < len(answer["results"]) <= 3
    for result in answer["results"]:
        assert result.keys() == RESULT
        assert result["source"].keys() == CITED
        assert not result["path"].startswith("/")
        assert 1 <= result["start_line"] <= result["end_line"]
    explained = cli("query", "pid swizzling", "--json", "--explain").json()["results"][0]
    assert explained.keys() == RESULT | {"explanation"}


def test_filters_of_the_command_reach_the_search(filled, cli):
    found = cli(
        "query", "tiles", "--kind", "kernel", "--source", "tiny", "--json", "-k", "20"
    ).json()
    assert {result["kind"] for result in found["results"]} == {"kernel"}
    none = cli("query", "tiles", "--technique", "stream-k", "--json").json()
    assert (none["results"], none["abstained"]) == ([], True)
    assert cli("query", "tiles", "--technique", "stream-k").out.startswith("Nothing relevant")


def test_a_filter_that_names_nothing_is_an_error(filled, cli):
    for arguments, told in (
        (("--technique", "pid-swizling"), "no technique is called 'pid-swizling': the index has "),
        (("--source", "other"), "no source is called 'other': the index has code, tiny"),
        (("--language", "Triton"), "no language is called 'Triton': the index has "),
        (("--bottleneck", "speed"), "no bottleneck is called 'speed': the index has latency, "),
    ):
        done = cli("query", "tiles", *arguments, "--json")
        assert (done.status, done.out) == (1, "")
        assert told in done.err
    assert "pid-swizzling" in cli("query", "tiles", "--technique", "pid-swizling").err


def test_a_filter_by_what_only_this_index_lacks_is_told_beside_the_empty_answer(filled, cli):
    done = cli("query", "tiles", "--technique", "split-k", "--language", "cuda", "--json")
    assert done.json()["abstained"]
    said = done.err.splitlines()
    assert len(said) == 2
    assert "has the technique 'split-k': the index has " in said[0]
    assert "has the language 'cuda': the index has " in said[1]
    assert cli("query", "tiles", "--technique", "pid-swizzling").err == ""


def test_every_result_names_the_command_that_shows_all_of_it(filled, cli):
    results = cli("query", "tiles swizzled", "-k", "20", "--json").json()["results"]
    shown = re.findall(r"kb show (\S+)", cli("query", "tiles swizzled", "-k", "20").out)
    assert len(shown) == len(results)
    assert {"technique", "kernel", "code"} <= {result["kind"] for result in results}
    for result, slug in zip(results, shown, strict=True):
        data = cli("show", slug, "--json").json()
        if result["kind"] in ("technique", "kernel"):
            assert data["path"].rsplit(".", 1)[0] == result["path"].rsplit(".", 1)[0]
        else:
            assert data["id"] == result["id"]


def test_context_prints_the_shape_of_the_http_api(filled, cli, tmp_path):
    answer = cli("context", "pid swizzling", "--json").json()
    assert answer.keys() == CONTEXT
    assert answer["techniques"][0].keys() == {"slug", "score", "reason"}
    assert answer["citations"][0].keys() == {"title", "url", "licence"}
    profile = tmp_path / "p.json"
    profile.write_text('{"l2_hit_rate": 30, "what_is_this": 1}')
    done = cli("context", "--profile", profile, "--max-chars", "900")
    assert done.status == 0
    assert len(done.out.rstrip("\n")) <= 900
    assert "'what_is_this' is not a known metric" in done.err
    asked = ("context", "pid swizzling", "--profile", profile, "--json")
    reason = cli(*asked).json()["techniques"][0]["reason"]
    assert "; L2 hit rate is 30 % (< 60 %): Tiles are read again" in reason
    assert ".;" not in reason
    assert not reason.endswith(".")


def test_tree_show_stats_and_sources_print_their_shapes(filled, cli):
    tree = cli("tree", "--json").json()
    assert tree.keys() == {"bottlenecks"}
    assert [each["bottleneck"] for each in tree["bottlenecks"]] == [
        "memory",
        "latency",
        "utilization",
    ]
    memory = tree["bottlenecks"][0]["techniques"][0]
    assert memory.keys() == {"slug", "title", "examples"}
    assert [example["slug"] for example in memory["examples"]] == ["swizzled", "streams"]
    technique = cli("show", "pid-swizzling", "--json").json()
    assert {"slug", "title", "when", "body", "examples", "sources", "verified"} <= technique.keys()
    kernel = cli("show", "swizzled", "--json").json()
    assert {"slug", "op", "code", "derived_from"} <= kernel.keys()
    assert "def kernel_function" in kernel["code"]
    chunk_id = cli("query", "normalise rows", "--json").json()["results"][0]["id"]
    assert cli("show", chunk_id, "--json").json().keys() == RESULT - {"score", "gates"}
    stats = cli("stats", "--json").json()
    assert {"generation", "chunks", "embedder", "techniques", "kernels", "sources"} <= stats.keys()
    assert sum(stats["kinds"].values()) == stats["chunks"]
    sources = cli("sources", "--json").json()
    assert [source["name"] for source in sources] == ["code", "tiny"]
    assert sum(source["chunks"] for source in sources) == stats["chunks"]


def test_doctor_and_ingest_print_json(filled, built, cli):
    report = cli("ingest", built / "corpus", "--json")
    assert (report.json()["published"], report.json()["embedded"], report.err) == (False, 0, "")
    findings = cli("doctor", "--json").json()
    assert all(finding.keys() == {"subject", "ok", "detail"} for finding in findings)


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "pid swizzling of tiles"],
        ["query", "how rows are normalised", "--explain"],
        ["tree"],
        ["show", "pid-swizzling"],
        ["show", "swizzled"],
        ["sources"],
        ["ingest", "--dry-run", "--exclude", "x"],
    ],
)
def test_human_output_fits_eighty_columns(filled, built, cli, arguments):
    if arguments[0] == "ingest":
        arguments = [*arguments, built / "corpus"]
    out = cli(*arguments).out
    assert out.strip()
    assert "\x1b" not in out, "no colours in a pipe"
    code = cli("show", "swizzled", "--code").out.splitlines()
    for line in out.splitlines():
        if line in code:
            continue  # code is printed as it is
        longest = max((len(word) for word in line.split()), default=0)
        assert len(line.rstrip()) <= max(80, longest + 20), line


def test_text_of_entries_is_shown_as_it_is_and_never_read_as_markup(index, corpus, cli):
    title = "Tiles [M, N] of [/b] and :warning: a[0]"
    corpus.technique("pid-swizzling", "memory", title=f"'{title}'", examples="[swizzled]")
    corpus.kernel(
        "swizzled", "pid-swizzling", title=f"'{title}'",
        sources=f'[{{title: "{title}", url: "https://example.org/[x]", licence: "[MIT]"}}]',
    )  # fmt: skip
    assert cli("ingest", corpus.root).status == 0
    for arguments in (["tree"], ["show", "swizzled"], ["show", "pid-swizzling"],
                      ["query", "pid swizzling tiles"]):  # fmt: skip
        done = cli(*arguments)
        assert done.status == 0, done.err
        assert title in " ".join(done.out.replace("│", " ").split()), (arguments, done.out)
    assert "https://example.org/[x]" in cli("show", "swizzled").out


def test_sources_and_remove_tell_of_what_is_there(filled, cli):
    assert "norm" not in cli("sources").out
    assert "removed code: " in cli("remove", "code").out
    assert [source["name"] for source in cli("sources", "--json").json()] == ["tiny"]
    assert "no source is called 'code'" in cli("query", "rows", "--source", "code").error()
    assert cli("remove", "tiny").status == 0
    for arguments in (
        ["tree"],
        ["stats"],
        ["sources"],
        ["doctor"],
        ["query", "x"],
        ["context", "x"],
    ):
        assert cli(*arguments).status == 0, arguments


@pytest.mark.parametrize(
    "command", ["kb tree", "kb show swizzled --json", "kb query tiles -k 50 --json"]
)
def test_a_reader_that_closes_the_pipe_early_sees_no_traceback(filled, command):
    environment = os.environ | {"PATH": f"{KB.parent}:{os.environ['PATH']}"}
    for rest in ("| head -1", "| true"):
        done = subprocess.run(
            ["bash", "-c", f"{command} {rest}"], capture_output=True, text=True, env=environment,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.stderr == ""


def test_help_names_every_command_and_every_command_has_help(cli):
    from cli import _COMMANDS

    out = cli("--help").out
    assert "...\n" not in out.partition("Commands:")[2]  # no summary is cut off
    for name in _COMMANDS:
        assert f"\n  {name} " in out
        page = cli(name, "--help")
        assert page.status == 0
        assert max(len(line) for line in page.out.splitlines()) <= 80


def test_a_full_disk_under_the_output_is_one_line(filled):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [KB, "tree"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "kb: the disk is full: nothing more can be written\n"


def test_debug_shows_a_traceback_and_nothing_else_does(index):
    assert "Traceback" not in kb("query", "x").err
    assert "Traceback" in kb("--debug", "query", "x").err


def test_a_rebuild_by_command_keeps_every_answer(filled, built, cli):
    def answer():
        return [(r["id"], r["score"]) for r in cli("query", "tiles", "--json").json()["results"]]

    before = answer()
    assert "0 embedded" in cli("rebuild").out
    assert answer() == before


def test_an_index_of_another_version_of_the_embedder_is_refused_with_the_way_out(filled, cli):
    (folder,) = (filled / "generations").iterdir()
    manifest = folder / "manifest.json"
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(data | {"embedder": "onnx:other@00000000"}))
    assert "run `kb rebuild`" in cli("query", "x").error()
    assert "run `kb rebuild`" in cli("ingest").error()
    assert "embedder: embedder 'onnx:other@00000000' is not the one" in cli("doctor").error()
    assert "run `kb rebuild`" in cli("doctor").error()
    assert cli("rebuild").status == 0
    assert cli("query", "tiles", "--json").json()["results"]


def test_ingest_tells_what_it_did_and_what_it_left_out(index, tmp_path, cli):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a.py").write_text(function("a"))
    for number in range(8):
        (folder / f"b{number}.bin").write_bytes(b"x")
    done = cli("ingest", folder, "--exclude", "b0.bin")
    assert "1 embedded, 0 reused; published g000001-" in done.out
    assert "… and 3 more skipped in mine" in done.out
    assert done.out.count("skipped mine/") == 5
    shutil.rmtree(folder)
    assert "is missing" in cli("doctor").out
