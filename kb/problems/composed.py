"""Layers of `torch.nn` that are made of others, spelled out as a module's own text would be.

Formulas as in PyTorch's documentation of each class. Dropout changes no shape and moves nothing.
"""

import ast
from functools import cache
from typing import Final

from kb.parsing import PARSING

_TEXT: Final = """
import torch
import torch.nn as nn

class Cell(nn.Module):
    gates = 1

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", **kwargs):
        self.hidden_size = hidden_size
        self.of_input = nn.Linear(input_size, self.gates * hidden_size, bias)
        self.of_state = nn.Linear(hidden_size, self.gates * hidden_size, bias)
        self.activation = torch.tanh if nonlinearity == "tanh" else torch.relu

    def zeros(self, input):
        return input.new_zeros(*input.shape[:-1], self.hidden_size)

class RNNCell(Cell):
    def forward(self, input, hx=None):
        h = self.zeros(input) if hx is None else hx
        return self.activation(self.of_input(input) + self.of_state(h))

class GRUCell(Cell):
    gates = 3

    def forward(self, input, hx=None):
        h = self.zeros(input) if hx is None else hx
        reset_x, update_x, new_x = self.of_input(input).chunk(3, -1)
        reset_h, update_h, new_h = self.of_state(h).chunk(3, -1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + reset * new_h)
        return new + update * (h - new)

class LSTMCell(Cell):
    gates = 4

    def forward(self, input, hx=None):
        h, c = (self.zeros(input), self.zeros(input)) if hx is None else hx
        i, f, g, o = (self.of_input(input) + self.of_state(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

class TransformerEncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu",
                 layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, **kwargs):
        self.settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                         batch_first, norm_first, bias)
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout, bias,
                                               batch_first=batch_first)
        self.linear1 = nn.Linear(d_model, dim_feedforward, bias)
        self.linear2 = nn.Linear(dim_feedforward, d_model, bias)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.norm_first = norm_first
        self.activation = activation
        if activation == "relu":
            self.activation = torch.relu
        if activation == "gelu":
            self.activation = torch.nn.functional.gelu

    def mlp(self, x):
        return self.linear2(self.activation(self.linear1(x)))

    def forward(self, src, *args, **kwargs):
        if self.norm_first:
            x = self.norm1(src)
            x = src + self.self_attn(x, x, x)[0]
            return x + self.mlp(self.norm2(x))
        x = self.norm1(src + self.self_attn(src, src, src)[0])
        return self.norm2(x + self.mlp(x))

class TransformerEncoder(nn.Module):
    def __init__(self, encoder_layer, num_layers, norm=None, *args, **kwargs):
        settings = encoder_layer.settings
        self.layers = nn.ModuleList([TransformerEncoderLayer(*settings) for _ in range(num_layers)])
        self.norm = norm

    def forward(self, src, *args, **kwargs):
        for layer in self.layers:
            src = layer(src)
        if self.norm is not None:
            src = self.norm(src)
        return src
"""
COMPOSITE_LAYERS: Final = frozenset(
    {"RNNCell", "GRUCell", "LSTMCell", "TransformerEncoderLayer", "TransformerEncoder"}
)
"""Names of the classes that `composite_module` spells out."""


@cache
def composite_module() -> ast.Module:
    """The classes, as a file of them is read."""
    with PARSING:
        return ast.parse(_TEXT)
