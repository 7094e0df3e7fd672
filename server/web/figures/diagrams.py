"""Which techniques have a picture."""

from collections.abc import Callable
from functools import cache

from server.web.figures import layouts, timelines
from server.web.figures.svg import Picture

DIAGRAMS: dict[str, Callable[[], Picture]] = {
    "bank-conflict-avoidance": layouts.shared_swizzle,
    "flash-attention": layouts.online_softmax,
    "fp4-intrinsics": layouts.fp4_packing,
    "implicit-gemm": layouts.implicit_gemm,
    "low-precision-storage": layouts.fp4_packing,
    "online-reduction": layouts.online_softmax,
    "pid-swizzling": layouts.program_ids,
    "software-pipelining": timelines.software_pipelining,
    "split-k": timelines.split_k,
    "stream-k": timelines.stream_k,
    "tma-device-descriptor": layouts.tma_boxes,
    "tma-host-descriptor": layouts.tma_boxes,
    "warp-specialization": timelines.warp_specialization,
    "wave-quantization": timelines.wave_quantization,
}


@cache
def diagram(slug: str) -> Picture | None:
    """The picture of a technique, where it has one."""
    make = DIAGRAMS.get(slug)
    return make() if make is not None else None
