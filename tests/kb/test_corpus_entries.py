"""Malformed corpus entries are refused with the file and the line that is wrong."""

import errno
import re
from pathlib import Path

import pytest
from support import SECTIONS, TinyCorpus, kernel_text, technique_text

from kb.corpus.loader import load_corpus
from kb.corpus.sections import count_words
from kb.errors import EntryError

TECHNIQUE = "techniques/memory/pid-swizzling.md"
KERNEL = "kernels/triton/plain.py"


def line_of(text: str, beginning: str) -> int:
    """1-based number of the only line that begins so."""
    (number,) = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith(beginning)]
    return number


def refusal(corpus: TinyCorpus, path: str, text: str | bytes) -> str:
    corpus.write(path, text)
    with pytest.raises(EntryError) as caught:
        load_corpus(corpus.root)
    message = str(caught.value)
    assert "\n" not in message
    return message


def refused_at(corpus: TinyCorpus, path: str, text: str, beginning: str) -> str:
    """The refusal, once it names the file and the line that begins so."""
    message = refusal(corpus, path, text)
    assert message.startswith(f"{path}:{line_of(text, beginning)}: "), message
    return message


def test_the_small_corpus_of_the_tests_is_valid(corpus):
    loaded = load_corpus(corpus.root)
    assert len(loaded.techniques) == len(loaded.kernels) == 3


def test_an_unknown_key_is_refused_at_its_line(corpus):
    text = technique_text("pid-swizzling", "memory", difficulty="hard")
    assert "unknown key 'difficulty'" in refused_at(corpus, TECHNIQUE, text, "difficulty:")


def test_an_unknown_key_in_a_kernel_is_refused_at_its_line(corpus):
    text = kernel_text("plain", speed="fast")
    assert "unknown key 'speed'" in refused_at(corpus, KERNEL, text, "speed:")


def test_an_unknown_nested_key_is_refused_at_its_line(corpus):
    text = technique_text("pid-swizzling", "memory", sources="").replace(
        "---\n\n## In",
        "sources:\n  - title: A guide\n    url: https://example.org\n    licence: MIT\n"
        "    author: someone\n---\n\n## In",
    )
    message = refused_at(corpus, TECHNIQUE, text, "    author:")
    assert "unknown key 'sources.0.author'" in message


def test_a_key_given_twice_is_refused_at_the_second(corpus):
    text = technique_text("pid-swizzling", "memory")
    text = text.replace("risks: [", "effect: Another one.\nrisks: [")
    second = max(n for n, line in enumerate(text.splitlines(), 1) if line.startswith("effect:"))
    assert refusal(corpus, TECHNIQUE, text).startswith(
        f"{TECHNIQUE}:{second}: key 'effect' is given twice"
    )


def test_sections_in_the_wrong_order_are_refused_at_the_first_wrong_one(corpus):
    text = technique_text("pid-swizzling", "memory")
    text = text.replace("## Pitfalls", "## X").replace("## How (CUDA)", "## Pitfalls")
    text = text.replace("## X", "## How (CUDA)")
    message = refused_at(corpus, TECHNIQUE, text, "## Pitfalls")
    assert "'Pitfalls' is where 'How (CUDA)' belongs" in message


@pytest.mark.parametrize("section", SECTIONS)
def test_a_missing_section_is_named(corpus, section):
    text = technique_text("pid-swizzling", "memory")
    start = text.index(f"## {section}\n")
    end = text.find("\n## ", start)
    message = refusal(corpus, TECHNIQUE, text[:start] + (text[end + 1 :] if end > 0 else ""))
    assert re.match(rf"{re.escape(TECHNIQUE)}:\d+: ", message)
    assert f"'{section}'" in message


def test_an_extra_section_is_refused(corpus):
    text = technique_text("pid-swizzling", "memory") + "\n## Afterword\n\nThe end.\n"
    assert "'Afterword'" in refused_at(corpus, TECHNIQUE, text, "## Afterword")


def test_a_heading_inside_a_code_fence_is_no_section(corpus):
    text = technique_text("pid-swizzling", "memory")
    text = text.replace("## Pitfalls", "```python\n## not a heading\n```\n\n## Pitfalls")
    corpus.write(TECHNIQUE, text)
    load_corpus(corpus.root)


def in_short(content: str) -> str:
    """A technique entry whose *In short* holds `content`."""
    text = technique_text("pid-swizzling", "memory")
    start = text.index("## In short\n")
    return f"{text[:start]}## In short\n\n{content}\n\n{text[text.index('## What it is') :]}"


CODE = "```python\nassert True\n```"


@pytest.mark.parametrize(
    ("content", "at", "words"),
    [
        ("Do this.", "## In short", "exactly one code block, it has 0"),
        (f"Do this.\n\n{CODE}\n\n{CODE}", "## In short", "exactly one code block, it has 2"),
        (CODE, "## In short", "has 0 words before its code"),
        ("word " * 121 + "\n\n" + CODE, "## In short", "has 121 words before its code"),
        ("Do this.\n\n```text\na\n```", "```text", "a code block in 'text'"),
        ("Do this.\n\n```\na\n```", None, "a code block in ''"),
        ("Do this.\n\n```cuda\n```", "```cuda", "has 0 lines of code"),
        ("Do this.\n\n```cuda\n" + "a;\n" * 26 + "```", "```cuda", "has 26 lines of code"),
        (f"Do this.\n\n{CODE}\nThen that.", None, "continues after its code"),
    ],
)
def test_an_in_short_that_is_none_is_refused_with_its_line(corpus, content, at, words):
    text = in_short(content)
    if at is None:
        assert words in refusal(corpus, TECHNIQUE, text)
    else:
        assert words in refused_at(corpus, TECHNIQUE, text, at)


def test_an_in_short_at_its_limits_is_taken(corpus):
    code = "```cuda\n" + "a;\n" * 25 + "```"
    corpus.write(TECHNIQUE, in_short("word " * 120 + "\n\n" + code))
    load_corpus(corpus.root)


@pytest.mark.parametrize(
    ("prose", "words"),
    [
        ("Load a 128-bit vector.", 4),
        ("Set `num_stages = 3` - then time it.", 5),
        ("1. Check.\n2. Change.", 4),
        ("", 0),
    ],
)
def test_a_code_span_or_a_hyphenated_word_is_one_word(prose, words):
    assert count_words(prose) == words


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("sources", "", "missing key 'sources'"),
        ("sources", "[]", "sources"),
        ("sources", '[{title: T, url: "ftp://x.org", licence: MIT}]', "sources.0.url"),
        ("when", "[]", "when"),
        ("when", "[{metric: l3_hit_rate, op: '<', value: 1, because: B.}]", "l3_hit_rate"),
        ("when", "[{metric: l2_hit_rate, op: '==', value: 1, because: B.}]", "when.0.op"),
        ("when", "[{metric: l2_hit_rate, op: '<', value: .nan, because: B.}]", "when.0.value"),
        ("when", "[{metric: l2_hit_rate, op: '<', value: .inf, because: B.}]", "when.0.value"),
        ("detect", "{triton: ['(open'], cuda: []}", "cannot be used: missing )"),
        ("detect", "{triton: ['a(?=b)'], cuda: []}", "detect.triton.0: detect pattern 'a(?=b)'"),
        ("detect", r"{triton: [], cuda: ['(\w)\1']}", "without look-around and numbered back"),
        ("detect", "{triton: ['(?:x{900}){900}'], cuda: []}", "cannot be used"),
        ("detect", "{triton: ['a(?=b)'], cuda: []}", "detect.triton.0: detect pattern 'a(?=b)'"),
        ("detect", r"{triton: [], cuda: ['(\w)\1']}", "without look-around and numbered back"),
        ("detect", "{triton: ['(?:x{900}){900}'], cuda: []}", "cannot be used"),
        ("architectures", "[hopper]", "'hopper' is not an architecture"),
        ("architectures", "[]", "architectures"),
        ("bottlenecks", "[bandwidth]", "bottlenecks.0"),
        ("languages", "[opencl]", "languages.0"),
        ("title", "''", "title"),
        ("verified", "[{date: 2026-13-45}]", "month must be in 1..12"),
        ("verified", "[{date: 2026-01-01}]", "missing key 'verified.0.gpu'"),
    ],
)
def test_a_bad_value_is_refused_with_its_file_and_line(corpus, key, value, words):
    text = technique_text("pid-swizzling", "memory", **{key: value})
    message = refusal(corpus, TECHNIQUE, text)
    assert words in message
    if value and "month" not in words:
        assert message.startswith(f"{TECHNIQUE}:{line_of(text, key + ':')}: "), message
    else:
        assert re.match(rf"{re.escape(TECHNIQUE)}:\d+: ", message)


def test_a_speedup_that_is_not_the_ratio_of_its_times_is_refused(corpus):
    record = (
        "[{gpu: H100, date: 2026-01-01, shape: '8', dtype: float32, baseline: eager, "
        "baseline_ms: 2.0, measured_ms: 1.0, speedup: 3.0}]"
    )
    text = technique_text("pid-swizzling", "memory", verified=record)
    assert "= 2.000" in refused_at(corpus, TECHNIQUE, text, "verified:")


def test_a_technique_that_leaves_out_its_place_in_the_taxonomy_is_refused(corpus):
    text = technique_text("pid-swizzling", "latency")
    (corpus.root / TECHNIQUE).unlink()
    message = refusal(corpus, "techniques/latency/pid-swizzling.md", text)
    assert "the taxonomy puts 'pid-swizzling' under memory" in message


def test_a_slug_that_differs_from_the_file_name_is_refused_at_its_line(corpus):
    text = technique_text("pid-swizzling", "memory", slug="pid-swizling")
    assert "differs from the file name" in refused_at(corpus, TECHNIQUE, text, "slug:")


def test_a_technique_in_a_folder_that_is_no_bottleneck_of_it_is_refused(corpus):
    text = technique_text("own-trick", "memory")
    message = refused_at(corpus, "techniques/latency/own-trick.md", text, "bottlenecks:")
    assert "is in folder 'latency'" in message


def test_an_example_that_is_no_kernel_is_refused_at_its_line(corpus):
    text = technique_text("pid-swizzling", "memory", examples="[missing]")
    message = refused_at(corpus, TECHNIQUE, text, "examples:")
    assert "'missing', which is not a kernel of this corpus" in message


def test_an_example_that_does_not_show_the_technique_is_refused_at_its_line(corpus):
    text = technique_text("pid-swizzling", "memory", examples="[plain]")
    message = refused_at(corpus, TECHNIQUE, text, "examples:")
    assert "'plain' does not list technique 'pid-swizzling'" in message


def test_an_unknown_technique_of_a_kernel_is_refused_at_its_line(corpus):
    text = kernel_text("plain", "warp-magic")
    assert "'warp-magic'" in refused_at(corpus, KERNEL, text, "techniques:")


def test_a_kernel_derived_from_nothing_known_is_refused_at_its_line(corpus):
    text = kernel_text("plain", derived_from="ghost")
    assert "'ghost'" in refused_at(corpus, KERNEL, text, "derived_from:")


def test_a_slug_taken_twice_is_refused_with_both_files(corpus):
    message = refusal(corpus, "kernels/triton/zz_again.py", kernel_text("plain"))
    assert message.startswith("kernels/triton/zz_again.py:3: ")
    assert KERNEL in message


def test_front_matter_that_is_not_closed_is_refused(corpus):
    text = technique_text("pid-swizzling", "memory").replace("\n---\n", "\n")
    assert refusal(corpus, TECHNIQUE, text).startswith(f"{TECHNIQUE}:1: front matter is not closed")


def test_an_entry_without_front_matter_is_refused(corpus):
    assert refusal(corpus, TECHNIQUE, "# Swizzling\n").startswith(f"{TECHNIQUE}:1: ")
    corpus.technique("pid-swizzling", "memory", examples="[swizzled]")
    assert refusal(corpus, KERNEL, "import torch\n").startswith(f"{KERNEL}:1: ")


def test_malformed_yaml_is_refused_at_its_line(corpus):
    text = technique_text("pid-swizzling", "memory", effect="[open")
    message = refusal(corpus, TECHNIQUE, text)
    at = int(re.match(rf"{re.escape(TECHNIQUE)}:(\d+): malformed YAML", message)[1])
    assert at >= line_of(text, "effect:")


@pytest.mark.parametrize(
    "yaml",
    [
        "- a\n- b",
        "just words",
        "",
        "aliases: &a [*a]",
        "? [a, b]\n: c",
        "aliases: " + "[" * 3000 + "]" * 3000,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: !!python/object:os.system [*c]",
        "slug: \x07bell",
        "1: 2",
        "slug: !!binary '*'",
    ],
)
def test_yaml_of_another_shape_is_refused_and_never_breaks_the_loader(corpus, yaml):
    message = refusal(corpus, TECHNIQUE, f"---\n{yaml}\n---\n\nText.\n")
    assert re.match(rf"{re.escape(TECHNIQUE)}:\d+: ", message)


def test_yaml_that_refers_to_itself_many_times_over_is_refused_at_once(corpus):
    levels = [f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9)}]" for i in range(1, 30)]
    yaml = "\n".join(["k0: &k0 [x]", *levels])
    assert "aliases (*name)" in refusal(corpus, TECHNIQUE, f"---\n{yaml}\n---\n\nText.\n")


@pytest.mark.parametrize("path", [TECHNIQUE, KERNEL, "corpus.yaml"])
def test_an_entry_that_is_not_utf8_is_refused(corpus, path):
    message = refusal(corpus, path, b"---\nslug: caf\xe9\n---\n")
    assert message.startswith(path)
    assert "UTF-8" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: tiny\nversion: '1'\n", "corpus.yaml:1: missing key 'licence'"),
        ("name: tiny\nversion: '1'\nlicence: MIT\ncolour: red\n", "corpus.yaml:4: unknown key"),
        ("name: tiny\nversion: '1'\nlicence: MIT\nquality: 7\n", "corpus.yaml:4: quality"),
        ("name: tiny\nversion: '1'\nlicence: MIT\nquality: .nan\n", "corpus.yaml:4: quality"),
        ("name: ''\nversion: '1'\nlicence: MIT\n", "corpus.yaml:1: name"),
    ],
)
def test_a_bad_manifest_is_refused_at_its_line(corpus, text, words):
    assert refusal(corpus, "corpus.yaml", text).startswith(words)


def test_a_cuda_kernel_needs_its_launch_code_in_utf8(corpus):
    text = kernel_text("scale", language="cuda")
    front = text[text.index("---") : text.index("What scale")]
    cuda = f"/*\n{front}\nScales.\n*/\n__global__ void k(float* x) {{ x[0] *= 2.0f; }}\n"
    message = refusal(corpus, "kernels/cuda/scale.cu", cuda)
    assert message.startswith("kernels/cuda/scale.cu")
    assert "scale.py" in message
    assert "UTF-8" in refusal(corpus, "kernels/cuda/scale.py", b"# \xff\n")
    corpus.write("kernels/cuda/scale.py", "import torch\n")
    assert len(load_corpus(corpus.root).kernels) == 4


def test_a_kernel_in_a_file_of_another_language_is_refused(corpus):
    text = kernel_text("plain", language="cuda")
    assert "language 'cuda' in a .py file" in refused_at(corpus, KERNEL, text, "language:")


def test_an_entry_that_may_not_be_read_is_refused_by_name(corpus, tmp_path, monkeypatch):
    def read_below(_root: Path, path: str) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("kb.corpus.loader.read_below", read_below)
    with pytest.raises(EntryError, match=r"^corpus.yaml: cannot be read: Permission denied$"):
        load_corpus(corpus.root)
