"""What pages say of measurements is what the records say."""

import re

import pytest

from benchmarks.kernels.records import has_technique
from kb.corpus.entries import Technique
from kb.corpus.loader import load_shipped_corpus
from kb.corpus.measured import BASELINES

CORPUS = load_shipped_corpus()
KERNELS = {each.entry.slug: each.entry for each in CORPUS.kernels}
TECHNIQUES = {each.entry.slug: each for each in CORPUS.techniques}

# Technique, what its page quotes, and the record: a kernel, its baseline, and the record's value.
QUOTED = [
    ("warp-specialization", "0.136", "conv-transpose-wgmma-cuda", "eager", "measured_ms"),
    ("warp-specialization", "0.214", "conv-transpose-parity", "eager", "measured_ms"),
    ("warp-specialization", "1.15", "conv-transpose-wgmma-cuda", "eager", "baseline_ms"),
    ("warp-specialization", "0.85", "matmul-warp-specialized", "matmul-plain", "speedup"),
    ("register-pressure", "0.85", "matmul-warp-specialized", "matmul-plain", "speedup"),
    ("cluster-launch", "0.75", "rmsnorm-cluster-cuda", "rmsnorm-plain", "speedup"),
    ("divergence-avoidance", "0.62", "segment-max-lanes-cuda", "segment-max-threads-cuda",
     "speedup"),
    ("synchronization-reduction", "0.96", "rmsnorm-named-barriers-cuda", "rmsnorm-plain",
     "speedup"),
    ("synchronization-reduction", "0.91", "rmsnorm-named-barriers-cuda", "eager",
     "floor_fraction"),
    ("tma-multicast", "0.85", "matmul-tma-multicast-cuda", "eager", "speedup"),
    ("tma-multicast", "1.14", "matmul-tma-multicast-cuda", "matmul-shared-tiled-cuda", "speedup"),
    ("cuda-graphs", "27.8", "smooth-steps-graph-cuda", "eager", "speedup"),
    ("cuda-graphs", "1.06", "smooth-steps-graph-cuda", "torch.compile", "speedup"),
    ("programmatic-dependent-launch", "0.90", "smooth-steps-pdl", "smooth-steps-plain", "speedup"),
    ("programmatic-dependent-launch", "3.2", "smooth-steps-graph-cuda", "smooth-steps-plain",
     "speedup"),
    ("implicit-gemm", "1.31", "conv-tma", "eager", "speedup"),
    ("implicit-gemm", "1.07", "conv-tma", "torch.compile", "speedup"),
    ("implicit-gemm", "0.33", "conv-implicit-gemm", "eager", "speedup"),
    ("block-scaled-layouts", "0.127", "mxfp8-quantize-tiled-scales", "eager", "measured_ms"),
    ("block-scaled-layouts", "1.06", "mxfp8-quantize-tiled-scales", "mxfp8-quantize-two-pass",
     "speedup"),
    ("cache-eviction-hints", "1.10", "matvec-eviction-hints-cuda", "eager", "speedup"),
    ("cache-eviction-hints", "1.11", "matvec-split-k", "eager", "speedup"),
    ("software-pipelining", "1.06", "matmul-pipelined", "matmul-plain", "speedup"),
    ("autotuning", "1.21", "matmul-autotuned", "matmul-plain", "speedup"),
    ("low-precision-storage", "2.4", "matmul-int4-fused", "matmul-int4-plain", "speedup"),
]  # fmt: skip


@pytest.mark.parametrize(("slug", "figure", "kernel", "baseline", "value"), QUOTED)
def test_a_figure_of_a_page_is_its_record_s(
    slug: str, figure: str, kernel: str, baseline: str, value: str
) -> None:
    file = TECHNIQUES[slug]
    assert figure in file.entry.effect + file.front.body, "the page does not quote it: drop it here"
    records = [each for each in KERNELS[kernel].verified if each.baseline == baseline]
    record = next((each for each in records if "H200" in each.gpu), records[0])
    decimals = len(figure.partition(".")[2])
    assert f"{getattr(record, value):.{decimals}f}" == figure


def gains(technique: Technique) -> list[float]:
    """What the examples gained over the kernels that they are derived from."""
    return [
        record.speedup
        for slug in technique.examples
        for record in KERNELS[slug].verified
        if record.baseline not in BASELINES and has_technique(technique, record.gpu)
    ]


@pytest.mark.parametrize("slug", TECHNIQUES)
def test_where_every_example_lost_the_first_lines_say_where_it_does_not_pay(slug: str) -> None:
    file = TECHNIQUES[slug]
    found = gains(file.entry)
    if not found or max(found) >= 1:
        return
    short = file.front.body.partition("## In short")[2].partition("```")[0]
    first = " ".join(re.split(r"(?<=[.;:])\s", " ".join(short.split()))[:3])
    assert re.search(r"\b(does not|shows no gain)\b", first), first
