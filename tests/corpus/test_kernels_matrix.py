"""Products, convolutions, attention, rotary embedding and quantization equal PyTorch with settings,
sizes and strides drawn at random, when interpreted."""

import json

import pytest

# Interpreted in one process for each subject, which draws the settings and prints what differed.
PROLOGUE = """
import json, random, sys
from pathlib import Path
import torch, triton
import triton.language as tl
from kb.verify.compare import compare
from kb.verify.kernel_module import load_kernel_module

FOLDER = Path("corpus/kernels/triton")
draw = random.Random(5)
generator = torch.Generator().manual_seed(5)
seen = set()

def kernel(name):
    return load_kernel_module(FOLDER / f"{name}.py")

def tensor(*shape):
    # Contiguous, with a gap after each row, or with its last two dimensions the other way round.
    form = draw.choice(["whole", "gap", "turned"])
    seen.add(form)
    if form == "gap":
        return torch.randn((*shape[:-1], shape[-1] + 3), generator=generator)[..., : shape[-1]]
    if form == "turned" and len(shape) > 1:
        return torch.randn((*shape[:-2], shape[-1], shape[-2]), generator=generator).mT
    return torch.randn(shape, generator=generator)

def check(actual, expected, *what):
    if problem := compare(actual, expected).problem:
        print(json.dumps([problem, *map(str, what)]))

def size():
    return draw.choice([1, 2, 7, 16, 33, 48])

@triton.jit
def relu_and_more(x, lead, lane, mask, operands):
    residual = tl.load(operands[0] + lead + lane, mask=mask, other=0.0)
    bias = tl.load(operands[1] + (lead + lane) % operands[2], mask=mask, other=0.0)
    return tl.where(x + bias > 0.0, x + bias, 0.0) + residual
"""
SUBJECTS = {
    "products": """
fused, short, skinny = map(kernel, ("matmul_tma_fused", "matmul_short_k", "matmul_skinny"))
for case in range(12):
    m, n, k = size(), size(), size()
    a, b, residual, bias = tensor(m, k), tensor(k, n), torch.randn(m, n), torch.randn(n)
    operands = (residual, bias, n)
    expected = torch.relu(a @ b + bias) + residual
    for each, params in (
        (fused, dict(block_m=32, block_n=16, block_k=16, group_m=2)),
        (short, dict(block_m=32, block_n=16, walk=2)),
        (skinny, dict(block_n=16, block_k=16, programs=6)),
    ):
        found = each.kernel_function(a, b, after=relu_and_more, after_operands=operands, **params)
        check(found, expected, each.kernel_function.__module__, m, n, k, a.stride(), b.stride())
    check(fused.kernel_function(a, b, bias), a @ b + bias, "bias", m, n, k)
zeros = fused.kernel_function(torch.randn(3, 0), torch.randn(0, 4))
check(zeros, torch.zeros(3, 4), "an empty inner dimension")
""",
    "batched products": """
batched = kernel("matmul_batched_tma")
for case in range(12):
    m, n, k = size(), size(), size()
    one = draw.choice([(), (1,), (2,), (3, 2), (3, 1)])
    other = draw.choice([(), (2,), (1, 2), (3, 2)])
    a, b = tensor(*one, m, k), tensor(*other, k, n)
    found = batched.kernel_function(a, b, block_m=32, block_n=16, block_k=16, group_m=2)
    check(found, torch.matmul(a, b), one, other, m, n, k, a.stride(), b.stride())
""",
    "triangular products": """
triangular = kernel("matmul_triangular")
cut = {-1: torch.tril, 0: lambda x: x, 1: torch.triu}
for parts in [(i, j, l) for i in (-1, 0, 1) for j in (-1, 0, 1) for l in (-1, 0, 1)]:
    m, n, k = size(), size(), size()
    a, b = cut[parts[0]](tensor(m, k)), cut[parts[1]](tensor(k, n))
    found = triangular.kernel_function(a, b, *parts, block_m=16, block_n=16, block_k=16)
    expected = cut[parts[2]](a @ b)
    if expected.abs().sum():
        check(found, expected, parts, m, n, k)
    elif found.abs().sum():
        print(json.dumps(["not zero", str(parts), m, n, k]))
seen |= {"whole", "gap", "turned"}
""",
    "convolutions": """
conv = kernel("conv_tma")
for case in range(24):
    rank = draw.choice([1, 2, 2, 3])
    groups = draw.choice([1, 1, 2])
    each = lambda values: [draw.choice(values) for _ in range(rank)]
    stride, dilation = each([1, 1, 2, 3]), each([1, 1, 2, 3])
    window, padding, lengths = each([1, 2, 3]), each([0, 1, 2, 4]), each([1, 3, 6, 9])
    reach = [d * (w - 1) + 1 for d, w in zip(dilation, window)]
    if any(l + 2 * p < r for l, p, r in zip(lengths, padding, reach)):
        continue
    x = torch.randn(2, 6, *lengths)
    if draw.random() < 0.3:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    weight = torch.randn(draw.choice([2, 20]), 6 // groups, *window)
    bias = torch.randn(weight.shape[0]) if draw.random() < 0.5 else None
    given = (x, weight, bias, stride, padding, dilation, groups)
    found = conv.kernel_function(*given, block_m=32, block_n=16, block_k=16)
    check(found, conv.reference(*given), given[3:], x.shape, x.stride(), weight.shape)
    operands = (torch.randn(found.shape), torch.randn(found.shape[2:]), found[0, 0].numel())
    expected = torch.relu(conv.reference(*given) + operands[1]) + operands[0]
    found = conv.kernel_function(
        *given, after=relu_and_more, after_operands=operands, block_m=32, block_n=16, block_k=16
    )
    check(found, expected, "after", given[3:], x.shape)
seen |= {"whole", "gap", "turned"}
""",
    "transposed convolutions": """
conv = kernel("conv_transpose_tma")
for case in range(24):
    rank = draw.choice([1, 2, 2, 3])
    groups = draw.choice([1, 1, 2])
    each = lambda values: [draw.choice(values) for _ in range(rank)]
    stride, dilation, window = each([1, 2, 3]), each([1, 1, 2, 3]), each([1, 2, 3, 4])
    lengths = each([1, 2, 3, 5])
    spare = [d * (k - 1) for d, k in zip(dilation, window)]
    padding = [draw.choice([0, min(1, s // 2)]) for s in spare]
    more = [draw.randrange(max(s, d)) for s, d in zip(stride, dilation)]
    sizes = [(n - 1) * s - 2 * p + w + m + 1
             for n, s, p, w, m in zip(lengths, stride, padding, spare, more)]
    if min(sizes) < 1:
        continue
    x, weight = torch.randn(2, 6, *lengths), torch.randn(6, draw.choice([1, 20]), *window)
    bias = torch.randn(groups * weight.shape[1]) if draw.random() < 0.5 else None
    given = (x, weight, bias, stride, padding, more, groups, dilation)
    params = dict(block_m=64, block_n=16, block_k=16, fill=draw.random() < 0.5)
    expected = conv.reference(*given)
    check(conv.kernel_function(*given, **params), expected, given[3:], x.shape, params)
seen |= {"whole", "gap", "turned"}
""",
    "attention": """
attend = torch.nn.functional.scaled_dot_product_attention
causal_kernel, decode = kernel("attention_causal"), kernel("attention_decode_split")
for case in range(12):
    b, g, sharing = draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 3])
    n, keys = size(), size()
    d, e = draw.choice([4, 20, 32]), draw.choice([4, 20, 32])
    q, k, v = tensor(b, g * sharing, n, d), tensor(b, g, keys, d), tensor(b, g, keys, e)
    causal, scale = draw.random() < 0.4, draw.choice([None, 0.3, -0.4])
    bias = None
    if not causal and draw.random() < 0.6:
        bias = torch.randn(draw.choice([(n, keys), (g * sharing, 1, keys), (b, 1, n, keys)]))
        if keys > 1 and draw.random() < 0.5:
            bias[..., : keys // 2] = float("-inf")  # all keys of the first blocks are hidden
    # PyTorch takes the root of the scale.
    sign, size_ = (-1, -scale) if scale and scale < 0 else (1, scale)
    expected = attend(
        sign * q, k, v, attn_mask=bias, is_causal=causal, scale=size_, enable_gqa=True
    )
    found = causal_kernel.kernel_function(q, k, v, causal, scale, bias, block_m=16, block_n=16)
    check(found, expected, q.shape, k.shape, e, causal, None if bias is None else bias.shape)
    if not causal:
        found = decode.kernel_function(q, k, v, scale, bias, block_n=16, programs=8)
        check(found, expected, "decode", q.shape, k.shape, e, None if bias is None else bias.shape)
""",
    "rotary embeddings": """
rope = kernel("rope_heads")
for case in range(12):
    n, d = size(), draw.choice([2, 6, 24])
    lead = draw.choice([(), (3,), (2, 3), (2, 1, 3)])
    x = tensor(*lead, n, d)
    shape = draw.choice([(n, d // 2), (*(1,) * len(lead), n, d // 2), (*lead, n, d // 2)])
    cos, sin = torch.randn(shape), torch.randn(shape)
    turned = draw.random() < 0.5
    found = rope.kernel_function(x, cos, sin, turned, tile=128, heads=2)
    check(found, rope.reference(x, cos, sin, turned), x.shape, x.stride(), shape, turned)
""",
    "quantization": """
names = ("fp8_quantize_rows", "fp8_quantize_blocks", "fp8_quantize_tensor")
rows, blocks, whole = map(kernel, names)
for case in range(10):
    x = tensor(size(), size()) * draw.choice([1e-6, 1.0, 1e6])
    if draw.random() < 0.3:
        x = x * 0
    for each, more, params in (
        (rows, (), dict(tile=64)),
        (blocks, draw.choice([(1, 32), (16, 16), (1, 1)]), dict(tile=256)),
        (whole, (), dict(block=64)),
    ):
        codes, scales = each.kernel_function(x, *more, **params)
        expected, theirs = each.reference(x, *more)
        if not torch.equal(codes.view(torch.uint8) & 127, expected.view(torch.uint8) & 127):
            print(json.dumps(["codes differ", str(x.shape), str(more)]))
        check(scales, theirs, x.shape, more)
""",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_settings_sizes_and_strides_drawn_at_random_give_what_pytorch_gives(interpreted, subject):
    script = f"{PROLOGUE}{SUBJECTS[subject]}\nprint(json.dumps(sorted(seen)))"
    *wrong, forms = map(json.loads, interpreted(script).splitlines())
    assert wrong == []
    assert forms == ["gap", "turned", "whole"]
