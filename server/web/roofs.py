"""Where a problem and a profile stand under a card's roofs: the picture on a context's page."""

from collections.abc import Mapping

from kb.context.models import ContextRequest
from kb.gpus import GpuSpec
from kb.problems.analysis import Analysis, analyse
from kb.problems.facts import gpu_spec
from kb.problems.reading import read_problem
from kb.problems.steps import total
from kb.profiles.keys import resolve_profile
from kb.profiles.work import TENSOR_OPS, counted_flops, dram_bytes, value_of
from server.web.figures.roofline import Mark, Roofs, roofline
from server.web.figures.svg import Picture

# Where operators alone move this much more than the whole has to, fusing them is worth a mark.
_WORTH = 1.1
_NS = 1e-9


def roofline_of(request: ContextRequest) -> Picture | None:
    """The roofline of what is asked about; None without a card, or where its work is not known.

    Raises
    ------
    InvalidInputError
        The problem cannot be read, or no card goes by the name.
    """
    card = gpu_spec(request.gpu)
    if card is None:
        return None
    analysis = analyse(read_problem(request.module), card) if request.module else None
    profile, _ = resolve_profile(request.profile or {})
    marks = [] if analysis is None else _of_problem(analysis)
    marks += _of_profile(profile, analysis)
    rates = _rates(card, analysis, profile)
    return roofline(Roofs(card.name, card.memory_bps, rates), marks) if marks and rates else None


def _of_problem(analysis: Analysis) -> list[Mark]:
    flops = _flops(analysis)
    if not flops or not analysis.io_bytes:
        return []
    marks = [Mark("Fused", flops / analysis.io_bytes)]
    if analysis.moved_bytes and analysis.moved_bytes > _WORTH * analysis.io_bytes:
        marks.append(Mark("Unfused", flops / analysis.moved_bytes))
    return marks


def _of_profile(profile: Mapping[str, float], analysis: Analysis | None) -> list[Mark]:
    flops = counted_flops(profile) or (_flops(analysis) if analysis is not None else None)
    traffic = dram_bytes(profile)
    time = value_of(profile, "duration")
    if not flops or not traffic or not time:
        return []
    return [Mark("As profiled", flops / traffic, flops / (time * _NS))]


def _flops(analysis: Analysis) -> int | None:
    return total(step.useful_flops for step in analysis.steps)


def _rates(
    card: GpuSpec, analysis: Analysis | None, profile: Mapping[str, float]
) -> dict[str, float]:
    """The pipes that the work may run on: tensor cores only where there are products."""
    names = ["fp32"]
    if analysis is not None and analysis.tensor_flops:
        names.append("tf32" if analysis.dtype == "float32" else analysis.dtype)
    names += [rate for alias, rate in TENSOR_OPS.items() if value_of(profile, alias)]
    flops = {name: card.dense_flops(name) for name in dict.fromkeys(names)}
    return {name: rate for name, rate in flops.items() if rate is not None}
