"""The interface to a diagnosis of profiles, whose rules this package does not contain."""

from collections.abc import Callable, Mapping, Sequence

from kb.context.models import ContextRequest
from kb.index.reader import Generation

Diagnose = Callable[[Mapping[str, float], ContextRequest, Generation], Sequence[tuple[str, str]]]
"""Full metric names with values, the request and the index → techniques that answer what the values
show, the best first: slug and reason. Without it, a technique's own gates choose."""
# What the first of them gets beside a technique whose gates all hold, and how much less each next.
FIRST, STEP = 1.0, 0.1


def diagnosed(
    diagnose: Diagnose | None,
    profile: Mapping[str, float],
    request: ContextRequest,
    generation: Generation,
) -> dict[str, tuple[float, str]]:
    """Slug → its score, in [0, 1], and why; empty without a profile or a diagnosis."""
    if diagnose is None or not profile:
        return {}
    techniques = diagnose(profile, request, generation)
    return {slug: (max(FIRST - STEP * n, 0.0), why) for n, (slug, why) in enumerate(techniques)}
