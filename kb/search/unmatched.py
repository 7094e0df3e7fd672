"""Values of filters that nothing in the index has."""

import difflib
from collections.abc import Iterable

from kb.index.reader import Generation
from kb.search.models import Filters

# Beyond this many, names are counted and not listed.
_LISTED = 12


def unknown_filters(filters: Filters, generation: Generation) -> list[str]:
    """A sentence for each value of a filter that nothing in the index has.

    Such a filter is no error, since an index may get what it lacks; but it explains an empty
    answer better than that nothing is relevant.
    """
    told = []
    for name in ("techniques", "bottlenecks", "languages", "sources"):
        wanted = dict.fromkeys(getattr(filters, name))
        if wanted:
            known = {each for values in generation.columns[name].values for each in values}
            told += [
                f"nothing in the index has the {name.removesuffix('s')} '{value}': "
                f"{_known(value, known)}"
                for value in wanted
                if value not in known
            ]
    return told


def _known(value: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if len(names) > _LISTED:
        near = difflib.get_close_matches(value, names, n=3)
        return f"did you mean {', '.join(near)}?" if near else f"it has {len(names)} others"
    return f"it has {', '.join(names)}" if names else "it has none"
