"""What the rules of Nsight Compute say in sentences: its details page has some figures only there.

The sentences are those of the rule files that ncu installs (CPIStall.py and others of its folder
`sections`); they have kept their figures since 2019.
"""

import re
from collections.abc import Iterator

from kb.vocabulary import find_metric

# What a warp waits for, by words of ncu's sentence about it; the first that fits is meant.
_WAITS = (
    ("dependency on a l1tex", "long_scoreboard"), ("on a l1tex operation", "long_scoreboard"),
    ("dependency on a mio", "short_scoreboard"), ("dependency on an mio", "short_scoreboard"),
    ("mio (memory input/output) instruction queue", "mio_throttle"),
    ("cta barrier", "barrier"),
    ("local and global (lg)", "lg_throttle"), ("local/global instruction queue", "lg_throttle"),
    ("queue for texture operations", "tex_throttle"),
    ("fixed latency execution dependency", "wait"),
    ("execution pipe to be available", "math_pipe_throttle"),
    ("branch target to be computed", "branch_resolving"),
    ("memory barrier", "membar"),
    ("immediate constant cache", "imc_miss"),
    ("instruction cache miss", "no_instruction"),
    ("next instruction fetched", "no_instruction"),
    ("dispatch stall", "dispatch_stall"),
    ("micro scheduler to select", "not_selected"),
    ("blocked, yielded, or sleep state", "sleeping"),
)  # fmt: skip
_STALLED = " cycles being stalled "
_SHARE = re.compile(r"represents about (\d{1,3}(?:\.\d{1,4})?)% of the total average")
_CONFLICTS = re.compile(
    r"results in (\d[\d,]{0,20}) bank conflicts, which represent \d{1,3}(?:\.\d{1,4})?% of the "
    r"overall (\d[\d,]{0,20}) wavefronts for shared (load|store)s"
)
_PATTERN = re.compile(r"access pattern for global (load|store)s (?:from|to) L1TEX")
_BYTES = re.compile(r"only (\d{1,2}(?:\.\d{1,4})?)(?: out)? of the 32 bytes")
_EXCESSIVE = re.compile(
    r"uncoalesced global accesses resulting in a total of (\d[\d,]{0,20}) excessive sectors "
    r"\((\d{1,3})% of the total"
)
_OPERATIONS = {"load": "ld", "store": "st"}
_SECTOR_BYTES = 32
# The first sentence names what is waited for; the longest of ncu's has some 130 characters.
_LONGEST_REASON = 200
LONGEST_RULE = 4000
"""Characters of one rule's text that are read; the longest of ncu has some 1,500."""


def rule_figures(text: str) -> dict[str, float]:
    """Metrics, and those that others follow from, that one rule's text gives; in base units."""
    words = _plain(text)
    return dict((*_stall(words), *_conflicts(words), *_sector_use(words)))


def rule_remark(text: str) -> str | None:
    """What a rule says of sectors that uncoalesced accesses move for nothing; no metric has it."""
    match = _EXCESSIVE.search(_plain(text))
    if match is None or not float(match[2]):
        return None
    return (
        f"ncu counts {match[1]} excessive sectors of uncoalesced global accesses, {match[2]} % of "
        "all"
    )


def _plain(text: str) -> str:
    return " ".join(text[:LONGEST_RULE].split())


def _stall(text: str) -> Iterator[tuple[str, float]]:
    _, stalled, rest = text.partition(_STALLED)
    share = _SHARE.search(rest)
    if not stalled or share is None:
        return
    reason = rest[:_LONGEST_REASON].partition(". ")[0].lower()
    waits = next((name for words, name in _WAITS if words in reason), None)
    metric = find_metric(f"stall_{waits}") if waits is not None else None
    if metric is not None and float(share[1]) <= 100:
        yield metric.name, float(share[1])


def _conflicts(text: str) -> Iterator[tuple[str, float]]:
    for match in _CONFLICTS.finditer(text):
        operation = _OPERATIONS[match[3]]
        conflicts, wavefronts = (float(match[at].replace(",", "")) for at in (1, 2))
        if conflicts <= wavefronts:
            yield f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{operation}.sum", conflicts
            yield f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum", wavefronts


def _sector_use(text: str) -> Iterator[tuple[str, float]]:
    pattern = _PATTERN.search(text)
    used = _BYTES.search(text, pattern.end()) if pattern is not None else None
    if pattern is None or used is None or float(used[1]) > _SECTOR_BYTES:
        return
    operation = _OPERATIONS[pattern[1]]
    name = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{operation}.pct"
    yield name, 100 * float(used[1]) / _SECTOR_BYTES
