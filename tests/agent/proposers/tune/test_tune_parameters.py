"""What is found in Triton files of many styles, and what changes with it."""

from pathlib import Path

import pytest

from agent.proposers.tune.autotune import collapse, read_tunables
from agent.proposers.tune.parameters import find_parameters
from agent.proposers.tune.tunable import Role

HONEST = sorted(Path("tests/fixtures/judge/honest").glob("*.py"))
CORPUS = sorted(Path("corpus/kernels/triton").glob("*.py"))

HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr, WINDOW: tl.constexpr = 4):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * WINDOW, mask=at < n)

"""


def scale(body: str) -> str:
    """A file whose function has this body."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}\ndef kernel_function(x, block=512):\n{lines}\n    return out\n"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("_scale[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)", 256),
        ("_scale[(triton.cdiv(n, 256),)](x, out, n, 256)", 256),
        ("_scale[((n + 255) // 256,)](x, out, n, BLOCK=256)", 256),
        ("_scale[((n + 256 - 1) // 256,)](x, out, n, BLOCK=256)", 256),
        ("grid = (triton.cdiv(n, 256), 1)\n_scale[grid](x, out, n, BLOCK=256)", 256),
        ("size = 256\n_scale[(triton.cdiv(n, size),)](x, out, n, BLOCK=size)", 256),
        ("_scale[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)", 512),
        ("grid = lambda meta: (triton.cdiv(n, meta['BLOCK']),)\n_scale[grid](x, out, n, BLOCK=64)",
         64),
        ("o = dict(BLOCK=128)\n_scale[(triton.cdiv(n, 128),)](x, out, n, **o)", 128),
        ("o = {'BLOCK': 128}\n_scale[(triton.cdiv(n, o['BLOCK']),)](x, out, n, BLOCK=o['BLOCK'])",
         128),
        ("_scale[(triton.cdiv(n, 256),)](*(x, out), n, 256)", 256),
        ("b = min(256, max(n, 16))\n_scale[(triton.cdiv(n, b),)](x, out, n, BLOCK=b)",
         256),
    ],
)  # fmt: skip
def test_a_block_size_is_found_with_all_that_repeats_it(body: str, value: int) -> None:
    text = scale(f"n = x.numel()\nout = torch.empty_like(x)\n{body}")
    tunable = find_parameters(text)
    (block,) = [each for each in tunable.parameters if each.role is Role.TILE]
    assert block.value == value
    changed = tunable.write({**tunable.start, block.name: 2048})
    host = changed.partition("def kernel_function")[2]
    assert str(value) not in host
    assert "255" not in host
    assert "2048" in host
    assert [each.value for each in find_parameters(changed).parameters] == [
        2048 if each is block else each.value for each in tunable.parameters
    ]


def test_sizes_that_mean_something_are_left_alone() -> None:
    text = scale("out = torch.empty_like(x)\n_scale[(1,)](x, out, 9, BLOCK=256, WINDOW=8)")
    names = {each.name for each in find_parameters(text).parameters}
    assert names == {"BLOCK", "num_warps"}
    text = scale("out = x\n_scale[(1,)](x, out, 9, BLOCK=triton.next_power_of_2(9))")
    assert {each.name for each in find_parameters(text).parameters} == {"num_warps"}


def test_equal_sizes_follow_the_axes_of_the_grid() -> None:
    text = Path("tests/fixtures/judge/honest/matmul_tiles.py").read_text()
    tunable = find_parameters(text)
    assert tunable.dots
    by_name = {each.name: each for each in tunable.parameters}
    assert {name: len(by_name[name].sites) for name in ("BM", "BN", "BK")} == {
        "BM": 2, "BN": 2, "BK": 1,
    }  # fmt: skip
    assert by_name["BM"].least == 16
    changed = tunable.write({"BM": 64, "BN": 128, "BK": 16, "num_warps": 8})
    assert "grid = (triton.cdiv(m, 64), triton.cdiv(n, 128))" in changed
    assert "_matmul[grid](a, b, c, m, n, k, num_warps=8, BM=64, BN=128, BK=16)" in changed


def test_sizes_that_cannot_be_told_apart_change_together() -> None:
    text = Path("tests/fixtures/judge/honest/matmul_grouped.py").read_text()
    changed = find_parameters(text).write({"T": 64})
    assert "(triton.cdiv(m, 64) * triton.cdiv(n, 64),)" in changed
    assert "T=64" in changed


def test_options_and_loops_can_be_added_or_changed() -> None:
    loop = HEAD.replace(
        "    x = tl.load",
        "    for start in range(0, n, BLOCK):\n        tl.load(x_ptr + start)\n    x = tl.load",
    )
    text = loop + "\ndef kernel_function(x):\n    _scale[(1,)](x, x, 9, BLOCK=64)\n    return x\n"
    tunable = find_parameters(text)
    assert {(each.name, each.value) for each in tunable.parameters} == {
        ("loop_stages", 1), ("BLOCK", 64), ("num_warps", 4),
    }  # fmt: skip
    changed = tunable.write({"loop_stages": 3, "num_warps": 8})
    assert "for start in tl.range(0, n, BLOCK, num_stages=3):" in changed
    assert "_scale[(1,)](x, x, 9, num_warps=8, BLOCK=64)" in changed
    # What was added is found as it stands, and written back the same way.
    again = find_parameters(changed)
    assert again.start == {"loop_stages": 3, "BLOCK": 64, "num_warps": 8}
    assert again.write({"num_warps": 2}) == tunable.write({"loop_stages": 3, "num_warps": 2})


def test_an_autotuned_kernel_is_taken_apart() -> None:
    text = Path("tests/fixtures/judge/honest/leaky_relu_autotune.py").read_text()
    versions = collapse(text)
    assert len(versions) == 4
    first, others = read_tunables(text)
    assert first.start == {"BLOCK": 1024, "num_warps": 4}
    assert [each.start for each in others] == [
        {"BLOCK": 1024, "num_warps": 8},
        {"BLOCK": 4096, "num_warps": 4},
        {"BLOCK": 4096, "num_warps": 8},
    ]
    assert "configs=[triton.Config({'BLOCK': 64}, num_warps=1)]" in first.write(
        {"BLOCK": 64, "num_warps": 1}
    )


@pytest.mark.parametrize(
    ("listed", "count"),
    [
        ("[triton.Config({}, num_warps=w) for w in (1, 2, 4)]", 3),
        ("[triton.Config({'BLOCK': b * 2}, num_warps=4) for b in SIZES if b > 16]", 2),
        ("configs()", 2),
        ("SIZES + other(3)", 0),
        ("[triton.Config({'BLOCK': f(b)}) for b in (1, 2)]", 0),
    ],
)
def test_lists_of_configurations_are_read_without_running(listed: str, count: int) -> None:
    text = HEAD.replace(
        "@triton.jit", f"@triton.autotune(configs={listed}, key=['n'])\n@triton.jit"
    )
    text = text.replace(
        "import torch\n",
        "import torch\nSIZES = [16, 32, 64]\n\n\ndef configs():\n"
        "    return [triton.Config({'BLOCK': b}) for b in (64, 128)]\n\n",
    )
    assert len(collapse(text)) == count


def test_the_corpus_declares_its_own_values() -> None:
    text = Path("corpus/kernels/triton/matmul_persistent.py").read_text()
    tunable = find_parameters(text)
    by_name = {each.name: each for each in tunable.parameters}
    assert by_name["block_m"].choices == (64, 128, 256)
    assert by_name["programs_per_sm"].choices == (1, 2)
    changed = tunable.write({"block_m": 64, "num_stages": 4})
    assert "block_m: int = 64," in changed
    assert "num_stages: int = 4," in changed


@pytest.mark.parametrize("path", [*HONEST, *CORPUS], ids=lambda path: path.stem)
def test_every_kernel_of_ours_can_be_rewritten(path: Path) -> None:
    text = path.read_text()
    tunable, _ = read_tunables(text)
    assert tunable.write(tunable.start) == tunable.text
    for parameter in tunable.parameters:
        if parameter.choices:
            other = next((c for c in parameter.choices if c != parameter.value), None)
            if other is None:
                continue  # one choice: said, and never changed
        else:
            assert isinstance(parameter.value, int)
            other = parameter.value * 2
        assert other != parameter.value
        again = find_parameters(tunable.write({parameter.name: other}))
        assert [again.start[each.name] for each in tunable.parameters] == [
            other if each is parameter else each.value for each in tunable.parameters
        ]
