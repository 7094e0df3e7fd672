"""What a profile says of a launch's work: bytes of DRAM and floating-point operations."""

from collections.abc import Mapping

from kb.vocabulary import find_metric

TENSOR_OPS = {
    "tensor_fp64_ops": "fp64_tensor", "tensor_tf32_ops": "tf32", "tensor_bf16_ops": "bf16",
    "tensor_fp16_ops": "fp16", "tensor_fp8_ops": "fp8", "tensor_int8_ops": "int8",
    "tensor_fp4_ops": "fp4",
}  # fmt: skip
"""Alias of a counter of the tensor cores → the rate of a card that its operations run at."""
# Below this percentage, the tensor pipe's counter shows background only.
_TENSOR_IDLE = 2.0
# Operations of one thread by counter; an FMA is two.
_COUNTED = {"fadd_thread_inst": 1.0, "fmul_thread_inst": 1.0, "ffma_thread_inst": 2.0}
_COUNTED_HALF = {"hadd_thread_inst": 1.0, "hmul_thread_inst": 1.0, "hfma_thread_inst": 2.0}


def value_of(metrics: Mapping[str, float], alias: str) -> float | None:
    """Value of the metric that goes by `alias`; None where it was not measured."""
    metric = find_metric(alias)
    return metrics.get(metric.name) if metric is not None else None


def dram_bytes(metrics: Mapping[str, float]) -> float | None:
    """Bytes that DRAM read and wrote in one launch; None unless both are known."""
    reads, writes = (value_of(metrics, "dram_bytes_read"), value_of(metrics, "dram_bytes_write"))
    return None if reads is None or writes is None else reads + writes


def counted_flops(metrics: Mapping[str, float]) -> float | None:
    """Operations that the counters saw in one launch; None where some kind was not counted."""
    ordinary = _weighted(metrics, _COUNTED)
    if ordinary is None:
        return None
    tensor = [n for alias in TENSOR_OPS if (n := value_of(metrics, alias)) is not None]
    in_use = value_of(metrics, "tensor_utilization")
    if not tensor and (in_use is None or in_use >= _TENSOR_IDLE):
        return None  # the tensor cores may have done most of the work, uncounted
    return (ordinary + (_weighted(metrics, _COUNTED_HALF) or 0.0) + sum(tensor)) or None


def _weighted(metrics: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    total = 0.0
    for alias, weight in weights.items():
        value = value_of(metrics, alias)
        if value is None:
            return None
        total += weight * value
    return total
