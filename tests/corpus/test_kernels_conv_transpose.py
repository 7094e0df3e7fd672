"""Transposed convolutions with settings drawn at random equal PyTorch's, when interpreted."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Interpreted in one process of its own, which draws the settings and prints what differed.
SCRIPT = """
import json, random, sys
from pathlib import Path
import torch
from kb.verify.compare import compare
from kb.verify.kernel_module import load_kernel_module

kernel = load_kernel_module(Path(sys.argv[1]))
draw = random.Random(7)
strides = set()
for case in range(24):
    rank = draw.choice([1, 2, 2, 3])
    groups = draw.choice([1, 1, 2])
    each = lambda values: [draw.choice(values) for _ in range(rank)]
    stride, dilation, window = each([1, 2, 3, 4]), each([1, 1, 2, 3]), each([1, 2, 3, 4])
    lengths = [draw.choice([1, 2, 3, 5]) for _ in range(rank - 1)] + [draw.choice([1, 4, 8, 9])]
    spare = [d * (k - 1) for d, k in zip(dilation, window)]
    padding = [draw.choice([0, min(1, s // 2)]) for s in spare]
    more = [draw.randrange(max(s, d)) for s, d in zip(stride, dilation)]
    sizes = [(n - 1) * s - 2 * p + w + m + 1
             for n, s, p, w, m in zip(lengths, stride, padding, spare, more)]
    if min(sizes) < 1:
        continue
    strides.add(stride[-1])
    c, out = draw.choice([2, 6]), draw.choice([1, 3, 20])
    generator = torch.Generator().manual_seed(case)
    x = torch.randn((2, c, *lengths), generator=generator)
    if draw.random() < 0.3:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    weight = torch.randn((c, out, *window), generator=generator)
    bias = torch.randn(groups * out, generator=generator) if draw.random() < 0.5 else None
    given = (x, weight, bias, stride, padding, more, groups, dilation)
    params = dict(block_m=64, block_n=16, block_k=16, pack=draw.random() < 0.5)
    found = compare(kernel.kernel_function(*given, **params), kernel.reference(*given))
    if found.problem:
        print(json.dumps([found.problem, str(given[3:]), str(list(x.shape)), str(params)]))
print(json.dumps(sorted(strides)))
"""


def test_transposed_convolutions_of_any_setting_equal_those_of_pytorch(interpreted):
    kernel = ROOT / "corpus" / "kernels" / "triton" / "conv_transpose_parity.py"
    *wrong, strides = map(json.loads, interpreted(SCRIPT, kernel).splitlines())
    assert wrong == []
    assert strides == [1, 2, 3, 4]  # interleaved in registers, and written class by class
