"""The diagnosis of a profile that comes with a context request, as techniques to tell of."""

from collections.abc import Mapping
from itertools import zip_longest

from agent.diagnose.diagnose import diagnose, gather_facts
from agent.diagnose.inputs import ProfileData
from agent.diagnose.techniques import catalog_of
from kb.context.models import ContextRequest
from kb.index.reader import Generation
from kb.problems.facts import gpu_spec


def suggest_techniques(
    profile: Mapping[str, float], request: ContextRequest, generation: Generation
) -> list[tuple[str, str]]:
    """Techniques that answer the findings, the best of each first: slug and what was found.

    `profile` has full metric names → values in base units; the request has the kernel's source, the
    card and the language.

    Raises
    ------
    InvalidInputError
        No card goes by the name.
    """
    facts = gather_facts(ProfileData(profile), gpu_spec(request.gpu), source=request.kernel)
    diagnosis = diagnose(facts, catalog_of(generation), language=request.language)
    columns = [
        [(advice.slug, finding.cause) for advice in finding.techniques]
        for finding in diagnosis.findings
    ]
    return [pair for row in zip_longest(*columns) for pair in row if pair is not None]
