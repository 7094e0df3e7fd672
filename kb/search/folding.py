"""Choose which ranked chunks to show: one per entry, one of near copies, few per file."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from kb.index.reader import Generation
from kb.index.tokens import last_name

# Two functions of one name that are this alike are copies, of another package or backend; only the
# better one is shown. Without the name, siblings such as `load_a` and `load_b` would go as copies.
FOLD_SIMILARITY = 0.95
# Functions of one file that are shown before those of other files have had their turn: neighbours
# share their words, and one long file would fill the page.
PER_FILE = 4


def fold(rows: NDArray[np.intp], generation: Generation, k: int) -> list[int]:
    """Positions among ranked rows, (n,), of the k best distinct answers and a few more.

    One chunk per entry, one of each set of near copies, and at most `PER_FILE` functions of a file
    before those of other files.
    """
    columns = generation.columns
    entries, folds = columns["entries"], columns["folds"]
    seen: set[str] = set()
    chosen: list[int] = []
    later: list[int] = []
    files: Counter[tuple[str, ...]] = Counter()
    copies: dict[str, list[NDArray[np.float32]]] = {}
    for place, row in enumerate(rows.tolist()):
        group = entries.of(row) or folds.of(row)
        if group and group[0] in seen:
            continue
        if len(chosen) >= k:
            break
        vector = generation.vectors.rows[row]
        symbol = columns["symbols"].of(row)
        if symbol and columns["kinds"].of(row)[0] == "code":
            alike = copies.setdefault(last_name(symbol[0]), [])
            if any(float(vector @ other) > FOLD_SIMILARITY for other in alike):
                continue
            alike.append(vector)
            file = (*columns["sources"].of(row), *columns["paths"].of(row))
            files[file] += 1
            if files[file] > PER_FILE:
                later.append(place)
                continue
        if group:
            seen.add(group[0])
        chosen.append(place)
    return chosen + later[: max(k - len(chosen), 0)]
