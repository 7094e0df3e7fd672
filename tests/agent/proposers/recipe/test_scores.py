"""Attention with scores of its own becomes one kernel that is right, whatever is done to them."""

import json
import re

import pytest

from agent.proposers.recipe.adapt import adapt
from agent.proposers.recipe.scores.find import attentions
from judge.evaluate.result import Verdict
from judge.graph import export_graph
from tests.agent.proposers.recipe.problems import ROOT, judged

# The judge varies numbers: heads stay, which are in a file as a model's own.
FILE = """
import math
import torch
import torch.nn.functional as F
BATCH, QUERIES, KEYS, WIDTH = 2, 37, 53, 24
HEADS, SHARED = len("ab"), len("ab")


class Model(torch.nn.Module):
    def forward(self, q, k, v, {names}):
        i = torch.arange(q.shape[-2], device=q.device)[:, None]
        j = torch.arange(k.shape[-2], device=q.device)
{body}


def get_inputs():
    q = torch.randn(BATCH, HEADS * SHARED, QUERIES, WIDTH)
    k, v = torch.randn(2, BATCH, HEADS, KEYS, WIDTH).unbind()
    return [q, k, v, {inputs}]


def get_init_inputs():
    return []
"""
GROUPS = "q = q.view(q.shape[0], k.shape[1], -1, *q.shape[2:])"
# By what is done: names of more inputs, these, the body, kernels.
CASES = {
    "a capped window over documents with a sink, written with logarithms": (
        "ids, keys, sink",
        "torch.randint(0, 3, (BATCH, QUERIES)), torch.randint(0, 2, (BATCH, KEYS)),"
        " torch.randn(HEADS, SHARED)",
        f"""{GROUPS}
s = torch.einsum("bkgqd,bksd->bkgqs", q, k).float() / math.sqrt(q.shape[-1])
s = 5.0 * torch.tanh(s / 5.0)
m = ((i + 20 >= j) & (i - j < 30))[None] & (ids[:, :, None] >= keys[:, None, :])
s = s.masked_fill(~m[:, None, None], float("-inf"))
more = sink.float()[None, :, :, None, None].expand(*s.shape[:-1], 1)
lse = torch.logsumexp(torch.cat([s, more], -1), -1, keepdim=True)
o = torch.einsum("bkgqs,bksd->bqkgd", (s - lse).exp().to(v.dtype), v)
return o.flatten(2), lse.squeeze(-1)""",
        1,
    ),
    "biases of distance and a softmax with a sink": (
        "slopes, sink",
        "torch.rand(HEADS * SHARED), torch.randn(HEADS * SHARED)",
        """k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
s = (q @ k.transpose(-1, -2)) * 0.3 - slopes[:, None, None] * (i - j).abs()
sinks = sink.view(1, -1, 1, 1).expand(s.shape[0], -1, s.shape[2], -1)
p = torch.softmax(torch.cat([s, sinks], dim=-1), dim=-1)[..., :-1]
return p @ v""",
        1,
    ),
    "scores of two products, and their logarithms": (
        "r, t, lengths",
        "torch.randn(BATCH, HEADS * SHARED, QUERIES, 8), torch.randn(BATCH, KEYS, 8),"
        " torch.randint(3, KEYS, (BATCH,))",
        """s = torch.einsum("bhqd,bsd->bhqs", q, k[:, 0]) + torch.einsum("bhqr,bsr->bhqs", r, t)
s = s * q.shape[-1] ** -0.5
s = s.masked_fill((j >= lengths[:, None])[:, None, None], float("-inf"))
return torch.einsum("bhqs,bsd->bhqd", s.softmax(-1), v[:, 1]), torch.logsumexp(s, -1)""",
        1,
    ),
    "keys that are expanded, in a layout of their own": (
        "lengths",
        "torch.randint(3, KEYS, (BATCH,))",
        """k, v = (x.transpose(1, 2).contiguous() for x in (k, v))  # as a cache has them
k, v = (x.transpose(1, 2)[:, :, None].expand(-1, -1, 2, -1, -1) for x in (k, v))
k, v = (x.reshape(x.shape[0], -1, *x.shape[3:]) for x in (k, v))
s = torch.matmul(q.float(), k.float().permute(0, 1, 3, 2)) / math.sqrt(q.shape[-1])
s = torch.where((j < lengths[:, None])[:, None, None] | (i > j), s, float("-inf"))
return torch.matmul(torch.softmax(s, dim=-1, dtype=torch.float32).to(q.dtype), v)""",
        1,
    ),
    "a mask of PyTorch's operator, with queries that share keys": (
        "lengths",
        "torch.randint(3, KEYS, (BATCH,))",
        """m = (j < lengths[:, None])[:, None, None] & (i + 30 >= j)
k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
return F.scaled_dot_product_attention(q, k, v, attn_mask=m)""",
        1,
    ),
    "keys in pages that a table names": (
        "pool, table, lengths",
        "torch.randn(2, 20, 4, HEADS, WIDTH), torch.randint(0, 20, (BATCH, KEYS)),"
        " torch.randint(3, 4 * KEYS, (BATCH,))",
        """k, v = (pages[table.long()].flatten(1, 2) for pages in pool.unbind())
q = q[:, :, 0].unflatten(1, (v.shape[2], -1))
s = torch.einsum("bhgd,bshd->bhgs", q, k).float() * q.shape[-1] ** -0.5
unseen = torch.arange(k.shape[1], device=q.device) >= lengths[:, None]
p = s.masked_fill(unseen[:, None, None], float("-inf")).softmax(-1).to(v.dtype)
return torch.einsum("bhgs,bshd->bhgd", p, v).flatten(1)""",
        1,
    ),
    "one query of a batch of one, some of whose scores are all hidden": (
        "lengths",
        "torch.zeros(1)",
        """q, m = q[:1, :, :1], (j < lengths[:, None])[:, None, None]
k, v = (x[:1].repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
s = (q * 0.2) @ k.mT - j * 0.1
return F.scaled_dot_product_attention(q, k, v, attn_mask=m) + s.sigmoid().softmax(-1) @ v""",
        2,
    ),
    "parts that are merged by their logarithms": (
        "more",
        "torch.randn(KEYS, WIDTH)",
        """def part(k, v, equation):
    s = torch.einsum("bhqd," + equation + "->bhqs", q, k) * q.shape[-1] ** -0.5
    lse = torch.logsumexp(s, -1)
    weights = torch.exp(s - lse[..., None])
    return torch.einsum("bhqs," + equation + "->bhqd", weights, v), lse

(a, x), (b, y) = part(k[:, 0], v[:, 0], "bsd"), part(more, more, "sd")
top = torch.maximum(x, y)
x, y = torch.exp(x - top), torch.exp(y - top)
return (a * x[..., None] + b * y[..., None]) / (x + y)[..., None]""",
        2,
    ),
}
# Few heads and many keys, a multiple of no part's: names of more inputs, these, the body.
DECODING = {
    "a sink, logarithms, and keys of which all queries see the first alone": (
        "lengths, sink",
        "torch.randint(1, 90, (BATCH,)), torch.randn(HEADS, SHARED)",
        """q = q[:, :, 0].unflatten(1, (k.shape[1], -1))
s = torch.einsum("bkgd,bksd->bkgs", q, k).float() / math.sqrt(q.shape[-1])
s = s.masked_fill((j >= lengths[:, None])[:, None, None], float("-inf"))
more = sink.float()[None, :, :, None].expand(*s.shape[:-1], 1)
lse = torch.logsumexp(torch.cat([s, more], -1), -1, keepdim=True)
o = torch.einsum("bkgs,bksd->bkgd", (s - lse).exp().to(v.dtype), v)
return o.flatten(1), lse.squeeze(-1)""",
    ),
    "queries that see no key": (
        "lengths",
        "torch.arange(BATCH) * 150",
        """m = (j < lengths[:, None])[:, None, None] & (i + 290 >= j)
k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
return F.scaled_dot_product_attention(q, k, v, attn_mask=m)""",
    ),
    "keys that are the values as well": (
        "more",
        "torch.randn(BATCH, KEYS, 8)",
        """q, r, k = q[:, :, 0], q[:, :, 1, :8], k[:, 0]
s = torch.einsum("bhd,bsd->bhs", q, k) + torch.einsum("bhr,bsr->bhs", r, more)
s = (s * q.shape[-1] ** -0.5).tanh()
return torch.einsum("bhs,bsd->bhd", s.softmax(-1), k), torch.logsumexp(s, -1)""",
    ),
}
# By problem: the values of `SPLITS` that each kernel offers, if it does.
SPLITS = {
    "cascade": [[1, 2], [1, 2, 4, 8, 16, 32]],
    "latent_decode": [[1, 2, 4, 8, 16]],
    "packed_documents": [],
    "paged_decode": [[1, 2]],
    "tree_verify": [[1, 2]],
}
# Kernels, and what of attention's own operators is left beside them.
FIXTURES = {
    "cascade": (2, set()),
    "latent_decode": (1, {"index"}),  # the cosines of the queries' places
    "packed_documents": (1, set()),
    "paged_decode": (1, set()),
    "tree_verify": (1, set()),
}
# What is no such attention, or is left to kernels of the knowledge base.
OTHERS = {
    "scores are products alone": "F.softmax(q @ q.transpose(-1, -2) / 4.0, -1) @ q",
    "weights are returned": "(w := F.softmax((q @ q.transpose(-1, -2)).tanh(), -1)) @ q, w",
    "scores are returned": "(s := (q @ q.transpose(-1, -2)).tanh()).softmax(-1) @ q, s",
    "scores are sorted": "(q @ q.transpose(-1, -2)).sort(-1)[0].softmax(-1) @ q",
    "queries are weighted": "(q @ q.transpose(-1, -2)).tanh().softmax(-2) @ q",
    "heads are too wide": "(q @ q.transpose(-1, -2)).tanh().softmax(-1) @ q.repeat(1, 1, 1, 30)",
}


def problem(names: str, inputs: str, body: str) -> str:
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    return FILE.format(names=names, inputs=inputs, body=indented)


@pytest.mark.parametrize("name", CASES)
def test_scores_of_any_form_stay_in_one_kernel(interpreting, tmp_path, name):
    names, inputs, body, count = CASES[name]
    source = problem(names, inputs, body)
    graph = export_graph(source, "problem.py", "float32", interpreting)
    pairs = attentions(graph)
    assert len(pairs) == count
    adapted = adapt(graph, pairs, "problem")
    assert not {"softmax", "matmul", "einsum", "index", "where"} & {*adapted.beside}
    assert "visible" in adapted.source or "masked_fill" not in body
    found = judged(source, adapted.source, tmp_path, interpreting)
    assert found.verdict in {Verdict.CORRECT, Verdict.LIBRARY}, found


@pytest.mark.parametrize("splits", [1, 2, 4])
@pytest.mark.parametrize("name", DECODING)
def test_keys_are_split_over_programs(interpreting, tmp_path, name, splits):
    # A program that merges has 64 queries.
    source = problem(*DECODING[name]).replace("37, 53, 24", "70, 300, 24")
    least = {"QUERIES": {"min": 2}, "KEYS": {"min": 260}, "WIDTH": {"min": 8}}
    source += f"JUDGE = {{'constants': {least}}}\n"
    graph = export_graph(source, "problem.py", "float32", interpreting)
    kernel = adapt(graph, attentions(graph), "problem").source
    assert '"SPLITS": [1, 2],' in kernel
    kernel, count = re.subn(r"(?m)^    SPLITS=1,$", f"    SPLITS={splits},", kernel)
    assert count == 1
    found = judged(source, kernel, tmp_path, interpreting)
    assert found.verdict in {Verdict.CORRECT, Verdict.LIBRARY}, found


def test_keys_of_many_queries_are_not_split(interpreting):
    source = problem("more", "torch.rand(1)", "return (q @ q.mT).tanh().softmax(-1) @ q")
    source = source.replace("37, 53, 24", "9000, 53, 24")
    graph = export_graph(source, "problem.py", "float32", interpreting)
    assert "SPLITS" not in adapt(graph, attentions(graph), "problem").source


@pytest.mark.parametrize("name", SPLITS)
def test_a_split_of_keys_is_offered_where_few_programs_would_have_them(interpreting, name):
    source = (ROOT / "tests" / "fixtures" / "scores" / f"{name}.py").read_text()
    graph = export_graph(source, f"{name}.py", "bfloat16", interpreting)
    kernel = adapt(graph, attentions(graph), name).source
    offered = re.findall(r'(?m)^    "SPLITS": (.*),$', kernel)
    assert [*map(json.loads, offered)] == SPLITS[name]
    assert len(re.findall(r"(?m)^    SPLITS\w*=1,$", kernel)) == len(offered)


@pytest.mark.parametrize("name", FIXTURES)
def test_problems_of_serving_and_training_leave_no_scores(interpreting, name):
    count, beside = FIXTURES[name]
    source = (ROOT / "tests" / "fixtures" / "scores" / f"{name}.py").read_text()
    graph = export_graph(source, f"{name}.py", "bfloat16", interpreting)
    found = attentions(graph)
    assert len(found) == count
    assert not {"softmax", "einsum", "index"} & {*adapt(graph, found, name).beside} - beside


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_attention_with_scores_of_its_own_is_left(interpreting, name):
    source = problem("more", "torch.rand(1)", f"return {OTHERS[name]}")
    assert not attentions(export_graph(source, "problem.py", "float32", interpreting))
