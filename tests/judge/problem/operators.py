"""Twenty problems written as KernelBench's are, one an operator kind."""

_MODULE = """import torch
import torch.nn as nn
import torch.nn.functional as F

{constants}

class Model(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
        {layers}

    def forward(self, {names}):
        return {result}

def get_inputs():
    {inputs}

def get_init_inputs():
    return [{init}]
"""


def _problem(constants, inputs, result, names="x", init="", layers="pass"):
    given = [each.strip() for each in init.split(",") if each.strip()]
    return _MODULE.format(
        constants="\n".join(constants.split("; ")),
        parameters="".join(f", a{i}" for i in range(len(given))),
        layers=layers, names=names, result=result, inputs=inputs, init=init,
    )  # fmt: skip


OPERATORS = {
    "matmul": _problem(
        "M = 1024 * 2; K = 4096 * 2; N = 2048 * 2",
        "A = torch.rand(M, K)\n    B = torch.rand(K, N)\n    return [A, B]",
        "torch.matmul(A, B)", "A, B",
    ),
    "batched matmul": _problem(
        "batch_size = 128; m = 512; k = 1024; n = 2048",
        "return [torch.rand(batch_size, m, k), torch.rand(batch_size, k, n)]",
        "torch.bmm(A, B)", "A, B",
    ),
    "square triangular matmul": _problem(
        "N = 4096", "return [torch.tril(torch.rand(N, N)), torch.tril(torch.rand(N, N))]",
        "torch.tril(torch.matmul(A, B))", "A, B",
    ),
    "diagonal matmul": _problem(
        "M = 4096; N = 4096", "return [torch.rand(N), torch.rand(N, M)]",
        "torch.diag(A) @ B", "A, B",
    ),
    "relu on a shape": _problem(
        "batch_size = 4096; dim = 393216", "x = torch.rand(batch_size, dim)\n    return [x]",
        "torch.relu(x)",
    ),
    "softmax": _problem(
        "batch_size = 4096; dim = 393216", "return [torch.rand((batch_size, dim))]",
        "torch.softmax(x, dim=1)",
    ),
    "batch norm": _problem(
        "batch_size = 64; features = 64; dim1 = 512; dim2 = 512",
        "return [torch.rand(batch_size, features, dim1, dim2)]",
        "self.bn(x)", init="features", layers="self.bn = nn.BatchNorm2d(a0)",
    ),
    "group norm": _problem(
        "batch_size = 112; features = 64; num_groups = 8; dim1 = 512; dim2 = 512",
        "return [torch.rand(batch_size, features, dim1, dim2)]",
        "self.gn(x)", init="features, num_groups", layers="self.gn = nn.GroupNorm(a1, a0)",
    ),
    "layer norm on a tuple": _problem(
        "batch_size = 16; features = 64; dim1 = 256; dim2 = 256",
        "return [torch.rand(batch_size, features, dim1, dim2)]",
        "self.ln(x)", init="(features, dim1, dim2)", layers="self.ln = nn.LayerNorm(a0)",
    ).replace(", a0, a1, a2)", ", a0)"),
    "max pooling 1d": _problem(
        "batch_size = 64; features = 192; sequence_length = 65536; kernel_size = 8; stride = 1; "
        "padding = 4; dilation = 3",
        "return [torch.rand(batch_size, features, sequence_length)]",
        "self.pool(x)", init="kernel_size, stride, padding, dilation",
        layers="self.pool = nn.MaxPool1d(a0, a1, a2, a3)",
    ),
    "average pooling 3d": _problem(
        "batch_size = 16; channels = 32; depth = 128; height = 128; width = 256; kernel_size = 3; "
        "stride = 2; padding = 1",
        "x = torch.rand(batch_size, channels, depth, height, width)\n    return [x]",
        "self.pool(x)", init="kernel_size, stride, padding",
        layers="self.pool = nn.AvgPool3d(a0, a1, a2)",
    ),
    "sum over a dimension": _problem(
        "batch_size = 128; dim1 = 4096; dim2 = 4095; reduce_dim = 1",
        "return [torch.rand(batch_size, dim1, dim2)]",
        "torch.sum(x, dim=self.dim)", init="reduce_dim", layers="self.dim = a0",
    ),
    "convolution 2d": _problem(
        "batch_size = 16; in_channels = 64; out_channels = 128; kernel_size = 3; width = 1024; "
        "height = 1024",
        "return [torch.rand(batch_size, in_channels, height, width)]",
        "self.conv(x)", init="in_channels, out_channels, kernel_size",
        layers="self.conv = nn.Conv2d(a0, a1, a2)",
    ),
    "depthwise convolution": _problem(
        "batch_size = 16; in_channels = 64; kernel_size = 3; width = 512; height = 512",
        "return [torch.rand(batch_size, in_channels, height, width)]",
        "self.conv(x)", init="in_channels, kernel_size",
        layers="self.conv = nn.Conv2d(a0, a0, a1, groups=a0)",
    ),
    "transposed convolution 3d": _problem(
        "batch_size = 8; in_channels = 48; out_channels = 24; kernel_size = 3; size = 96",
        "return [torch.rand(batch_size, in_channels, size, size, size)]",
        "self.conv(x)", init="in_channels, out_channels, kernel_size",
        layers="self.conv = nn.ConvTranspose3d(a0, a1, a2)",
    ),
    "cumulative sum over input_shape": _problem(
        "batch_size = 32768; input_shape = (32768,); dim = 1",
        "return [torch.rand(batch_size, *input_shape)]",
        "torch.cumsum(x, dim=self.dim)", init="dim", layers="self.dim = a0",
    ),
    "cross entropy": _problem(
        "batch_size = 32768; num_classes = 4096; input_shape = (num_classes,)",
        "return [torch.rand(batch_size, *input_shape),\n"
        "            torch.randint(0, num_classes, (batch_size,))]",
        "F.cross_entropy(x, y)", "x, y",
    ),
    "attention": _problem(
        "batch_size = 32; num_heads = 32; sequence_length = 512; embedding_dimension = 1024",
        "shape = (batch_size, num_heads, sequence_length, embedding_dimension)\n"
        "    return [torch.rand(shape), torch.rand(shape), torch.rand(size=shape)]",
        "F.scaled_dot_product_attention(q, k, v)", "q, k, v",
    ),
    "linear with gelu": _problem(
        "batch_size = 1024; in_features = 8192; out_features = 8192",
        "return [torch.rand(batch_size, in_features)]",
        "F.gelu(self.linear(x))", init="in_features, out_features",
        layers="self.linear = nn.Linear(min(a0, 64), 8) if a0 > 4096 else nn.Linear(a0, 8)",
    ),
    "embedding": _problem(
        "batch_size = 4096; length = 512; vocabulary = 32000; width = 64",
        "return [torch.randint(0, vocabulary, (batch_size, length)),\n"
        "            torch.rand(vocabulary, width)]",
        "F.embedding(i, w)", "i, w",
    ),
}  # fmt: skip
