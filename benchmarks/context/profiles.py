"""Forty profiles beside a problem: are the techniques that a context names those that help?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.search.engine import Searcher
from kb.vocabulary import load_yaml

PROFILES = Path(__file__).with_name("profiles.yaml")
_HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef forward({arguments}):\n    return "
_INPUTS = "\n\n\ndef get_inputs():\n    return [{inputs}]\n"
# One module for each kind of problem that the profiles are of.
_MODULES = {
    "matmul": ("x, w", "x @ w", "torch.rand(4096, 4096), torch.rand(4096, 4096)"),
    "elementwise": ("x", "F.gelu(x)", "torch.rand(8192, 8192)"),
    "rows": ("x", "torch.softmax(x, dim=-1)", "torch.rand(8192, 8192)"),
    "conv": ("x, w", "F.conv2d(x, w)", "torch.rand(32, 64, 56, 56), torch.rand(64, 64, 3, 3)"),
    "attention": (
        "q, k, v",
        "F.scaled_dot_product_attention(q, k, v)",
        ", ".join(["torch.rand(8, 16, 2048, 64)"] * 3),
    ),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """The techniques that one profile was answered with."""

    profile: dict[str, float]
    problem: str
    named: tuple[str, ...]
    helps: frozenset[str]
    ignored: tuple[str, ...]

    @property
    def first(self) -> bool:
        """Whether the first technique helps."""
        return bool(self.named) and self.named[0] in self.helps

    @property
    def share(self) -> float:
        """Share of the named techniques that help."""
        return sum(each in self.helps for each in self.named) / max(len(self.named), 1)


def module_of(kind: str) -> str:
    """Return the module of a kind of problem."""
    arguments, result, inputs = _MODULES[kind]
    return _HEAD.format(arguments=arguments) + result + _INPUTS.format(inputs=inputs)


def judge(searcher: Searcher, *, gpu: str, with_problem: bool = True) -> list[Judged]:
    """Ask with each profile, beside its problem or alone."""
    cases: list[dict[str, Any]] = load_yaml(PROFILES.read_text(encoding="utf-8"))
    found = []
    for case in cases:
        request = ContextRequest(
            profile=case["profile"],
            problem=module_of(case["problem"]) if with_problem else None,
            gpu=gpu,
        )
        response = build_context(request, searcher)
        named = tuple(each.slug for each in response.techniques)
        helps = frozenset(case["helps"])
        ignored = tuple(response.ignored)
        found.append(Judged(case["profile"], case["problem"], named, helps, ignored))
    return found
