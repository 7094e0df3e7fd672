"""`kb query`, `show` and `tree` at a terminal and in a pipe: a screen, and code as it is."""

import ast
import os
import re

import pytest


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_five_results_fill_a_screen(shipped_index, cli):
    question = "my matmul rereads the same tiles from DRAM and L2 hit rate is 30%"
    lines = cli("--index", shipped_index, "query", question).out.splitlines()
    assert len(lines) <= 40
    assert lines[0] == "Understood: L2 hit rate 30 % (lts__t_sector_hit_rate.pct)."
    assert lines[1].startswith("1. Program-id swizzling")
    assert "   your 30 %: meets L2 hit rate < 60 %" in lines
    assert [line[0] for line in lines if re.match(r"\d\. ", line)] == list("12345")
    assert any(line.startswith("     import triton") for line in lines)


def test_words_need_no_quotes_and_long_shows_more(filled, cli):
    apart, joined = (
        cli("query", "pid", "swizzling", "-k", "2"),
        cli("query", "pid swizzling", "-k2"),
    )
    assert apart.out == joined.out
    long = cli("query", "pid", "swizzling", "-k", "2", "--long").out
    assert len(long.splitlines()) > len(joined.out.splitlines())
    assert "measured" in long


def test_options_of_kb_work_before_and_behind_the_command(built, cli):
    index = built / "index"
    before = cli("--index", index, "--json", "tree")
    behind = cli("tree", "--json", "--index", index)
    assert before.status == behind.status == 0
    assert before.json() == behind.json()
    assert cli("query", "x", "--index", "/none").error() == (
        "kb: no index at /none: run `kb ingest` first"
    )
    assert "Missing argument" in cli("--json", "query").error(2)


@pytest.mark.parametrize("slug", ["matmul-swizzled", "attention-flash", "rope-heads"])
def test_a_kernel_written_to_a_file_is_a_file(shipped_index, cli, slug):
    done = cli("--index", shipped_index, "show", slug)
    ast.parse(done.out)
    alone = cli("--index", shipped_index, "show", slug, "--code").out
    ast.parse(alone)
    assert alone.strip() in done.out
    assert not alone.startswith("#")


def test_every_kernel_of_the_corpus_is_a_file_when_it_is_shown(shipped_index):
    import io

    from rich.console import Console

    from cli.render import print_kernel
    from kb.index.reader import open_generation

    shown = 0
    for slug, record in open_generation(shipped_index).kernels.items():
        out = io.StringIO()
        print_kernel(Console(file=out, width=80, highlight=False, emoji=False), record, [])
        assert record.code.strip() in out.getvalue(), slug
        if record.entry.language == "triton":
            ast.parse(out.getvalue())
            shown += 1
    assert shown > 90


def test_code_of_a_technique_is_not_wrapped(shipped_index, cli):
    page = cli("--index", shipped_index, "show", "pid-swizzling").out
    lines = "def tile_of(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl."
    assert lines in page


def test_the_tree_has_as_many_levels_as_are_asked_for(filled, cli):
    lines = [len(cli("tree", "--depth", depth).out.splitlines()) for depth in (1, 2, 3)]
    assert lines == sorted(set(lines))
    assert "pid-swizzling" not in cli("tree", "--depth", "1").out
    assert "swizzled" not in cli("tree", "--depth", "2").out.replace("pid-swizzling", "")


def test_an_explanation_adds_up_and_has_a_legend(shipped_index, cli):
    out = cli("--index", shipped_index, "query", "stall_wait 45%", "--explain", "-k", "3").out
    told = " ".join(out.split())
    sums = re.findall(r"((?:[+-]\d\.\d{3} [a-z ,]+? )+)= (-?\d\.\d{3}); score (\d\.\d{3}) = "
                      r"(\d\.\d{3}) / (\d\.\d\d)", told)  # fmt: skip
    assert len(sums) == 3
    for parts, total, score, again, highest in sums:
        values = [float(each) for each in re.findall(r"[+-]\d\.\d{3}", parts)]
        assert sum(values) == pytest.approx(float(total), abs=0.004)
        assert float(total) == float(again)
        assert float(again) / float(highest) == pytest.approx(float(score), abs=0.002)
    for part in ("fused", "meaning", "kind", "gates"):
        assert f"{part}: " in told


def test_a_shell_completes_commands_and_slugs(built, shipped_index, cli, monkeypatch):
    def completed(words, index):
        monkeypatch.setenv("_KB_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        monkeypatch.setenv("KB_INDEX", os.fspath(index))
        return cli().out.split()

    assert "plain,query" in completed("kb que", shipped_index)
    assert "plain,pid-swizzling" in completed("kb show pid-", shipped_index)
    assert "plain,matmul-swizzled" in completed("kb show matmul-sw", shipped_index)
    assert "plain,pid-swizzling" in completed("kb show pid-", "/none")


def test_a_pipe_gets_whole_lines_without_padding(shipped_index, cli, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    question = ("query", "L2 hit rate 30% matmul", "--explain")
    for command in (question, (*question, "--long"), ("tree",), ("show", "pid-swizzling")):
        lines = cli("--index", shipped_index, *command).out.splitlines()
        assert lines == [line.rstrip() for line in lines], command
    places = [line for line in cli("--index", shipped_index, *question).out.splitlines()
              if line.startswith("   kb show ")]  # fmt: skip
    assert len(places) == 5
    assert all(
        re.search(r" · \S+:\d+-\d+ · kernel-kb \S+ \(Apache-2\.0\)$", line) for line in places
    )
    assert not any("…" in line and not line.startswith("     ") for line in
                   cli("--index", shipped_index, *question).out.splitlines())  # fmt: skip


def test_a_card_may_be_named_where_an_architecture_may(shipped_index, cli):
    asked = ("--json", "--index", shipped_index, "query", "fp4 conversion", "-k", "5")
    by_name, by_card, by_option = (
        cli(*asked, *option).json()["results"]
        for option in (("--architecture", "sm_90a"), ("--architecture", "H100"), ("--gpu", "H100"))
    )
    assert by_name == by_card == by_option
    assert "unknown GPU 'Foo'" in cli(*asked, "--gpu", "Foo").error()


def test_the_words_of_a_context_need_no_quotes(filled, cli):
    assert cli("context", "pid", "swizzling").out == cli("context", "pid swizzling").out
