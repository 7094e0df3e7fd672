"""Row-wise kernels of the package that the retrieval slice searches."""

import triton
import triton.language as tl


@triton.jit
def masked_row_maximum(x_ptr, out_ptr, width, stride, BLOCK: tl.constexpr):
    """Find the largest element of every row while ignoring the padded tail."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x_ptr + row * stride + columns, mask=columns < width, other=float("-inf"))
    tl.store(out_ptr + row, tl.max(values, axis=0))


@triton.jit
def centre_and_scale(x_ptr, y_ptr, w_ptr, b_ptr, width, eps, BLOCK: tl.constexpr):
    """Subtract the mean of a row, divide by its deviation and apply an affine transform."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    x = tl.load(x_ptr + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / width
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / width
    y = centred * tl.rsqrt(variance + eps)
    y = y * tl.load(w_ptr + columns, mask=inside) + tl.load(b_ptr + columns, mask=inside)
    tl.store(y_ptr + row * width + columns, y, mask=inside)


@triton.jit
def token_loss(logits_ptr, labels_ptr, loss_ptr, vocabulary, BLOCK: tl.constexpr):
    """Compute the negative log likelihood of the target class in one pass over the logits."""
    row = tl.program_id(0)
    label = tl.load(labels_ptr + row)
    highest = float("-inf")
    total = 0.0
    for start in range(0, vocabulary, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(
            logits_ptr + row * vocabulary + columns, mask=columns < vocabulary, other=float("-inf")
        )
        above = tl.maximum(highest, tl.max(x, axis=0))
        total = total * tl.exp(highest - above) + tl.sum(tl.exp(x - above), axis=0)
        highest = above
    target = tl.load(logits_ptr + row * vocabulary + label)
    tl.store(loss_ptr + row, highest + tl.log(total) - target)


@triton.jit
def gated_unit(gate_ptr, up_ptr, out_ptr, count, BLOCK: tl.constexpr):
    """Multiply the up projection by the sigmoid-weighted gate, element by element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    gate = tl.load(gate_ptr + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def rotate_halves(x_ptr, cos_ptr, sin_ptr, heads, HALF: tl.constexpr):
    """Encode positions by rotating pairs of channels through an angle per frequency."""
    token = tl.program_id(0)
    channel = tl.arange(0, HALF)
    cosine = tl.load(cos_ptr + token * HALF + channel)
    sine = tl.load(sin_ptr + token * HALF + channel)
    for head in range(heads):
        base = x_ptr + (token * heads + head) * 2 * HALF
        left = tl.load(base + channel)
        right = tl.load(base + HALF + channel)
        tl.store(base + channel, left * cosine - right * sine)
        tl.store(base + HALF + channel, right * cosine + left * sine)


@triton.jit
def absmax_to_eight_bits(x_ptr, q_ptr, scale_ptr, width, BLOCK: tl.constexpr):
    """Store every row as signed bytes with one scale taken from its largest magnitude."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + columns, mask=columns < width, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-10) / 127.0
    quotient = x / scale
    rounded = quotient + tl.where(quotient >= 0, 0.5, -0.5)
    tl.store(q_ptr + row * width + columns, rounded.to(tl.int8), mask=columns < width)
    tl.store(scale_ptr + row, scale)
