"""Understand a query: techniques, operator, dtype, language, architecture, metrics, code."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property

from kb.corpus.detection import Detector
from kb.corpus.features import features, operators_named
from kb.corpus.operators import operators_asked
from kb.gpus import find_gpu, gpu_names
from kb.index.reader import Generation
from kb.index.state import TechniqueRecord
from kb.index.tokens import identifiers, spaced, terms
from kb.profiles.mentions import read_mentions
from kb.search.meanings import DomainTerms, QueryMeaning, code_meaning, domain_terms, query_meaning
from kb.search.pasted import PastedCode, pasted_code
from kb.search.phrases import Phrases
from kb.search.spelling import Spelling

_LANGUAGES = {"triton": "triton", "cuda": "cuda", "tl": "triton"}
# What dtypes of chunks a word stands for. A width alone stands for all formats of that width.
_FP8 = ("float8_e4m3", "float8_e5m2", "mxfp8")
_FP4 = ("float4_e2m1", "nvfp4", "mxfp4")
_OWN_NAMES = ("bfloat16", "float16", "tf32", "float64", "mxfp8", "nvfp4", "mxfp4", "int8")
_DTYPES = {name: (name,) for name in _OWN_NAMES} | {
    "bf16": ("bfloat16",),
    "fp16": ("float16",),
    "half": ("float16",),
    "fp64": ("float64",),
    "fp8": _FP8,
    "float8": _FP8,
    "e4m3": ("float8_e4m3",),
    "e5m2": ("float8_e5m2",),
    "fp4": _FP4,
    "e2m1": _FP4,
}
# Stemmed words that say that what is asked for stands around a kernel.
_AROUND_KERNELS = frozenset({"launch", "launcher", "wrapper", "wrap", "call", "dispatch", "host"})
# Generations of GPUs, as people name them, and the first architecture of each.
_GENERATIONS = {
    "volta": "sm_70",
    "turing": "sm_75",
    "ampere": "sm_80",
    "ada": "sm_89",
    "hopper": "sm_90a",
    "blackwell": "sm_100a",
}
_ARCHITECTURE = re.compile(r"\bsm_?(\d{2,3})([af]?)\b", re.IGNORECASE)
# One-word aliases are matched whole; shorter ones are too common to mean the technique.
_SHORTEST_NAME = 3
# What packages of kernels have in their names beside the name that people say.
_COMMON_IN_NAMES = frozenset(
    {"cuda", "gpu", "kernel", "kernels", "nvidia", "ops", "py", "python", "torch"}
)


@dataclass(frozen=True, slots=True)
class Understanding:
    """What was recognised in a query."""

    text: str
    """The query, with misspelt words as they were meant."""
    techniques: tuple[str, ...] = ()
    shares: dict[str, float] = field(default_factory=dict)
    """Technique → the share of the query's words that name it; 1 for what an identifier marks."""
    ops: tuple[str, ...] = ()
    ops_apart: frozenset[str] = frozenset()
    """Those that stand apart from a technique's name: the "GEMM" of "implicit GEMM" does not."""
    languages: tuple[str, ...] = ()
    dtypes: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    """Sources of the index that are named: `flashinfer` for flashinfer-python."""
    source_terms: frozenset[str] = frozenset()
    """The tokens that name them."""
    device: str | None = None
    """Architecture named, directly, by a GPU's name or by a generation's."""
    symbols: tuple[str, ...] = ()
    """Words that look like identifiers; of a query of one word, that word."""
    only_symbols: bool = False
    """Whether the query is nothing but identifiers, or one word."""
    plain_word: bool = False
    """Whether that word does not look like an identifier."""
    wants_kernel: bool = False
    """Whether it asks for a kernel, by that word or by showing one."""
    pasted: PastedCode | None = None
    """The code in it."""
    used: frozenset[str] = frozenset()
    """Techniques that the pasted code already uses."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Nsight Compute metric → value, where the query gives both."""
    meaning: QueryMeaning = field(default_factory=QueryMeaning)
    """What its words and counters mean beside what they name."""
    domain: DomainTerms = field(default_factory=DomainTerms)
    """How its words stand to the field."""
    spelled: dict[str, str] = field(default_factory=dict)
    """Misspelt word → the word that it was read as."""


class QueryReader:
    """Reads queries with the words of one generation's entries, which are tokenized once."""

    def __init__(self, generation: Generation) -> None:
        entries = [record.entry for record in generation.techniques.values()]
        self._entries = entries
        self._lexical = generation.lexical
        self._spelling = Spelling(generation)
        ops = {value for values in generation.columns["ops"].values for value in values}
        spoken = ((_spoken_name(source), source) for source in generation.sources)
        self._techniques = _phrases(
            (name, slug)
            for slug, record in generation.techniques.items()
            for name in _names(record)
        )
        self._ops = _phrases((op.replace("-", " "), op) for op in ops)
        self._sources = _phrases((name, source) for name, source in spoken if name is not None)

    @cached_property
    def detector(self) -> Detector:
        """Compiled at the first query with an identifier or code."""
        return Detector(self._entries)

    def read(self, query: str) -> Understanding:
        """Recognise what a query names."""
        pasted = pasted_code(query)
        if pasted is not None:
            return self._read_code(query, pasted)
        query, spelled = self._spelling.correct(query)
        reading = read_mentions(query)
        # A metric's own words name nothing: `achieved_occupancy 31` is no wish for occupancy.
        rest = reading.rest
        words = terms(rest)
        techniques = self._techniques.matches(words)
        symbols = tuple(dict.fromkeys(identifiers(query)))
        length = max(len(self._lexical.query_tokens(query)), 1)
        alone = len(query.split()) == max(len(symbols), 1)
        sources = frozenset(self._sources.matches(words))
        named = operators_named(spaced(rest))
        ops = {*self._ops.matches(words), *named, *operators_asked(rest)}
        ops_apart = frozenset(ops)
        if techniques and ops:
            name_terms = self._techniques.terms_in(words)
            others = [word for word in words if word not in name_terms]
            ops_apart &= {*self._ops.matches(others), *operators_named(" ".join(others))}
        by_share = sorted(techniques, key=lambda slug: (-techniques[slug], slug))
        from_symbols = self._techniques_of(symbols)
        return Understanding(
            text=query,
            # the longest name first: it says most; then what an identifier is a mark of
            techniques=tuple(dict.fromkeys([*by_share, *from_symbols])),
            shares={slug: min(count / length, 1.0) for slug, count in techniques.items()},
            ops=tuple(sorted(ops)),
            ops_apart=ops_apart,
            languages=tuple(dict.fromkeys(_LANGUAGES[w] for w in words if w in _LANGUAGES)),
            dtypes=frozenset(dtype for word in words for dtype in _DTYPES.get(word, ())),
            sources=sources,
            source_terms=frozenset(self._sources.terms_in(words)),
            device=_device(query),
            symbols=symbols or (tuple(query.split()) if alone else ()),
            only_symbols=alone,
            plain_word=alone and not symbols,
            # Who names an operator and whose it is (`liger rope`) asks for it, not for its wrapper.
            wants_kernel=("kernel" in words or bool(sources and ops))
            and _AROUND_KERNELS.isdisjoint(words),
            metrics=reading.metrics,
            meaning=query_meaning(query, reading.metrics),
            domain=domain_terms(query),
            spelled=spelled,
        )

    def _techniques_of(self, symbols: Iterable[str]) -> list[str]:
        """Techniques whose patterns an identifier matches where it is called."""
        calls = " ".join(f"{symbol}(" for symbol in symbols)
        languages = ("triton", "cuda") if calls else ()
        return sorted(
            {slug for language in languages for slug in self.detector.techniques(calls, language)}
        )

    def _read_code(self, query: str, pasted: PastedCode) -> Understanding:
        """Of code: what it computes and how, not what its words happen to name."""
        name = pasted.names[0] if pasted.names else None
        found_features = features(pasted.code, pasted.language, name, "")
        return Understanding(
            text=query,
            ops=(found_features.op,) if found_features.op else (),
            languages=(pasted.language,) if pasted.language in _LANGUAGES else (),
            dtypes=frozenset(found_features.dtypes),
            wants_kernel=True,
            pasted=pasted,
            used=frozenset(self.detector.techniques(pasted.code, pasted.language)),
            meaning=code_meaning(pasted.code),
        )


def _phrases(names: Iterable[tuple[str, str]]) -> Phrases[str]:
    """Names that are long enough to mean something where they stand."""
    return Phrases(
        (name, meaning) for name, meaning in names if len("".join(terms(name))) >= _SHORTEST_NAME
    )


def _names(record: TechniqueRecord) -> Iterable[str]:
    entry = record.entry
    yield entry.slug.replace("-", " ")
    yield re.sub(r"\([^()]*\)", "", entry.title)
    yield from entry.aliases


def _spoken_name(source: str) -> str | None:
    """How people call a package: `cutlass` for nvidia-cutlass; None where that says nothing.

    A language is none: who says Triton rarely means the package.
    """
    words = [word for word in re.split(r"[-_.]", source.lower()) if word not in _COMMON_IN_NAMES]
    name = " ".join(words)
    return None if name in _LANGUAGES or len(name) <= _SHORTEST_NAME else name


def _device(query: str) -> str | None:
    match = _ARCHITECTURE.search(query)
    if match:
        return f"sm_{match[1]}{match[2].lower()}"
    lowered = query.lower()
    for name, whole, architecture in _gpus():
        if name in lowered and whole.search(lowered):
            return architecture
    return next((_GENERATIONS[w] for w in re.findall(r"\w+", lowered) if w in _GENERATIONS), None)


@cache
def _gpus() -> list[tuple[str, re.Pattern[str], str]]:
    """Names in lower case, the longest first, as whole words, and the architecture of each."""
    names = [(name, name.lower()) for name in gpu_names()]
    return [
        (lowered, re.compile(rf"\b{re.escape(lowered)}\b"), find_gpu(name).architecture)
        for name, lowered in names
    ]
