"""Distinct questions of real length, made of the names and titles of an index's chunks."""

from kb.index.reader import Generation

_FORMS = (
    "how does {symbol} work in {place}",
    "faster {symbol} with fewer memory transactions",
    "{title}: what limits it",
    "example of {symbol} for {place} on hopper",
    "why is {symbol} slow and how can {place} hide latency",
)


def distinct_queries(generation: Generation, count: int) -> list[str]:
    """`count` different questions; each form comes round in turn."""
    found: dict[str, None] = {}
    chunks = list(generation.store.all())
    for form_number in range(len(_FORMS)):
        for number, chunk in enumerate(chunks):
            form = _FORMS[(number + form_number) % len(_FORMS)]
            place = chunk.path.rpartition("/")[2].removesuffix(".py").replace("_", " ")
            text = form.format(symbol=chunk.symbol or chunk.title, place=place, title=chunk.title)
            found.setdefault(text[:300])
            if len(found) == count:
                return list(found)
    raise SystemExit(f"the index gives {len(found)} of {count} distinct questions")
