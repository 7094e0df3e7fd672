"""What a context says about a problem: its facts, the kernels to follow, and the techniques."""

from dataclasses import dataclass, field

from kb.context.alike import START, kernels_alike, kernels_named
from kb.context.assuming import Assumptions
from kb.context.choosing import is_slower, min_speedup, rank_kernels, runnable, slower_kernels
from kb.context.materials import Candidate
from kb.context.shortening import Options
from kb.context.surroundings import ROW_REDUCE, in_tile, row_reduction, surroundings
from kb.corpus.entries import Kernel
from kb.gpus import GpuSpec
from kb.index.reader import Generation
from kb.problems.analysis import Analysis, analyse
from kb.problems.attributes import attributes
from kb.problems.facts import bound_of, fact_lines, gpu_spec
from kb.problems.plan import plan_line
from kb.problems.reading import read_problem
from kb.problems.steps import Step
from kb.problems.values import DTYPE_BYTES, Operator, Tensor
from kb.problems.vocabulary import HostArguments, has_family, suits
from kb.search.engine import Searcher

# What helps whatever the operator, by the bound to expect.
_BY_BOUND = {
    "latency": ("cuda-graphs", "kernel-fusion"),
    "memory": ("kernel-fusion", "vectorized-access"),
    "compute": ("tensor-cores", "software-pipelining"),
}
_FUSION = "kernel-fusion"
_ONE_LAUNCH, _IN_PARALLEL = "persistent-kernel", "parallel-scan"
# Named for a shape, and good for any.
# Below this part of PyTorch's speed a kernel is no start either.
_MIN_START = 0.25
_GENERAL = frozenset({"matmul-epilogue", "matmul-tma-fused", "rmsnorm-register-cached",
                      "rmsnorm-plain", "rmsnorm-dim-tiled", "rmsnorm-dim-plain",
                      "lp-normalize-dim"})  # fmt: skip
# Families of operators that modules of every kind use.
_GENERIC = frozenset({
    "", "reduce", "vector-norm", "activation", "elementwise-add", "scale", "layout", "histogram",
    "cumsum", "scan", "argmax", "top-k",
})  # fmt: skip
# How a loop over time steps is one launch, or one a step: with a product in a step, and without.
_RECURRENT = (
    ("recurrent-persistent", "recurrent-steps"),
    "it computes the gates of an LSTM or GRU; put the loop's step in their place",
)
_SCAN = (
    ("cumsum-associative",),
    "its combine function adds; a step h = a h + b needs to combine pairs (a, b)",
)
# Products of two operands, and the kernels that take them as their first two arguments.
_PRODUCTS = frozenset({"linear", "matmul", "mm"})
_BINARY = frozenset({"matmul", "matmul-reduce"})
# Families for what the module needs beside its heaviest operator, at most.
_MAX_OTHERS = 2
# A step that takes less of the estimated time than this needs no example of its own.
_MIN_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Advice:
    """The facts, techniques and kernels for a problem."""

    facts: list[str]
    techniques: list[tuple[str, str]]
    """Slug and reason, the chief one first."""
    first: list[Candidate]
    """Kernels for the heaviest operator, or for those that a reference shares with the module, the
    best first."""
    others: list[Candidate] = field(default_factory=list)
    """The best kernel for each other operator that matters."""


def advise(  # noqa: PLR0917 (as a request has them)
    text: str,
    searcher: Searcher,
    gpu: str | None,
    language: str | None,
    device: str | None,
    dtype: str | None = None,
) -> Advice:
    """Read a problem and say which kernels and techniques it needs.

    Parameters
    ----------
    dtype
        The dtype in which it runs, if its text says otherwise.

    Raises
    ------
    InvalidInputError
        The text is not a readable module, or no GPU has that name.
    """
    card, generation = gpu_spec(gpu), searcher.generation
    analysis = analyse(read_problem(text, dtype=dtype), card)
    kernels = runnable(generation, language, device)
    facts = fact_lines(analysis, card)
    plan = plan_line(analysis, card)
    facts += [plan] if plan is not None else []
    techniques = _techniques(analysis, card, generation)
    alike = kernels_alike(analysis, generation, kernels, gpu)
    facts += [alike.fact] if alike is not None else []
    first, others, lacking = _by_family(analysis, kernels, gpu)
    better, chief = (alike.candidates, alike.chief) if alike is not None else ([], False)
    if alike is None and (named := kernels_named(text, analysis, searcher, kernels, gpu)):
        op, chief = kernels[named[0].slug].op, _is_weak(analysis, first)
        if any(kernels[candidate.slug].op == op for candidate in first):
            # Words choose among those that fit.
            first = sorted(first, key=lambda candidate: kernels[candidate.slug].op != op)
        elif chief or not has_family(op):  # else it would have been seen
            better = named
    if better and chief:
        entry = kernels[better[0].slug]
        known = [slug for slug in entry.techniques if slug in generation.techniques]
        used = dict.fromkeys(known, f"used by {entry.op} kernels")
        techniques = [*used.items(), *(pair for pair in techniques if pair[0] not in used)]
        first, others = better, [*first[:1], *others]
    else:
        facts += lacking
        others = [*better[:1], *others]
    shown = {candidate.slug for candidate in first}
    others = [candidate for candidate in others if candidate.slug not in shown]
    return Advice(facts, techniques, first, others[:_MAX_OTHERS])


def _is_weak(analysis: Analysis, first: list[Candidate]) -> bool:
    """Whether the kernels for the heaviest operator are for part of what a problem does: for a
    loop's form, or for operators that everything uses."""
    heaviest = analysis.heaviest
    if heaviest is None or analysis.loop is not None or not first:
        return True
    facts = heaviest.main.facts
    by_vectors = heaviest.kind == "matmul" and 1 in {facts.get("m"), facts.get("n")}
    return by_vectors or heaviest.family_name in _GENERIC


def _by_family(
    analysis: Analysis, kernels: dict[str, Kernel], gpu: str | None
) -> tuple[list[Candidate], list[Candidate], list[str]]:
    """Kernels for the heaviest operator and for others, by their families, and what these lack."""
    heaviest = analysis.heaviest
    family = heaviest.family if heaviest is not None else None
    if heaviest is None or family is None:
        names = ", ".join(dict.fromkeys(step.name for step in analysis.steps)) or "none"
        return [], [], [f"The knowledge base has no kernel for these operators: {names}."]
    first = _for_step(analysis, heaviest, kernels, gpu)
    if loops := _for_loop(analysis, kernels):
        return loops, first[:1], []
    slower = all(
        is_slower(kernels[candidate.slug], gpu) and START in candidate.note for candidate in first
    )
    lacking = [_none_to_follow(kernels, family.ops, family.name, gpu)] if slower else []
    return first, _others(analysis, heaviest, kernels, gpu), lacking


def _for_loop(analysis: Analysis, kernels: dict[str, Kernel]) -> list[Candidate]:
    """Kernels that show how the steps of a module's loop are done, the fastest first."""
    loop = analysis.loop
    if loop is None:
        return []
    slugs, unlike = _RECURRENT if loop.has_product else _SCAN
    note = f"Not the same operation: {unlike}."
    return [Candidate(slug, note=note) for slug in slugs if slug in kernels]


def _none_to_follow(
    kernels: dict[str, Kernel], ops: tuple[str, ...], family: str, gpu: str | None
) -> str:
    slower = slower_kernels(kernels, ops, gpu)
    if not slower:
        return f"The knowledge base has no {family} kernel for this request."
    return (
        f"Every {family} kernel of the knowledge base was measured slower than PyTorch here: "
        f"{slower[0]} comes closest (`kb show {slower[0]} --code`); it is a start, not an "
        "example to follow."
    )


def _for_step(
    analysis: Analysis, step: Step, kernels: dict[str, Kernel], gpu: str | None
) -> list[Candidate]:
    family = step.family
    assert family is not None
    special = attributes(step) | surroundings(analysis, step)
    preferred = [slug for tag in family.prefer if tag in special for slug in family.prefer[tag]]
    fitting = {slug: kernel for slug, kernel in kernels.items() if suits(slug, special)}
    made_for = frozenset(slug for slugs in family.prefer.values() for slug in slugs) - _GENERAL
    slugs = rank_kernels(fitting, family.ops, preferred, gpu, made_for)
    needed = [slug for tag in family.needs if tag in special for slug in family.needs[tag]]
    lacks = ", ".join(tag for tag in family.needs if tag in special)
    spelled = len(step.operators) > 1
    starts = [s for s in slower_kernels(fitting, family.ops, gpu) if s not in slugs]
    # Where nothing that may be followed fits into a budget, a whole kernel to begin with does.
    starts = [s for s in starts if min_speedup(kernels[s], gpu) >= _MIN_START]
    if spelled and family.fused:
        # Measured beside a fused call of PyTorch, which this module does not make.
        slugs = [s for s in needed if s in fitting and s not in slugs] + slugs
        slugs += [s for s in starts if s not in slugs]
    if any(slug in needed for slug in slugs):
        slugs = [slug for slug in slugs if slug in needed]
    starts = [] if any(slug in needed for slug in slugs) else [s for s in starts if s not in slugs]
    candidates = []
    for slug in [*slugs, *starts]:
        options, lacking = _options(analysis, step, slug, kernels)
        notes = []
        if spelled and family.fused and is_slower(kernels[slug], gpu):
            notes.append(f"Eager is {family.fused} there, a call that this module does not make.")
        elif lacks and slug not in needed:
            notes.append(f"Not the same operation: it is not {lacks}, which has to be added.")
        if slug in starts:
            notes.append(START)
        inner = [s.name for s in analysis.after if in_tile(s)]
        if inner and slug in family.prefer.get(ROW_REDUCE, ()):
            notes.append(
                f"Put {', '.join(inner)} on the tile of the product, before its reduction."
            )
        if kernels[slug].op in family.training and step.main.facts.get("training") is not False:
            notes.append(f"Not the same operation: {family.training[kernels[slug].op]}.")
        unlike = [text for tag, text in family.unlike_for.items() if tag in special]
        if family.unlike:
            unlike.append(family.unlike)
        if lacking and not unlike:
            unlike.append(f"replace the kernel's function with {step.name}")
        notes += [f"Not the same operation: {text}." for text in unlike]
        assumed = _assumed(analysis, step, kernels[slug], on_gpu=gpu is not None)
        candidates.append(Candidate(slug, options, assumed, " ".join(notes)))
    return candidates


def _options(
    analysis: Analysis, step: Step, slug: str, kernels: dict[str, Kernel]
) -> tuple[Options, bool]:
    """Arguments that the problem settles, and whether the kernels lack its operator."""
    family = step.family
    assert family is not None
    if slug in family.prefer.get(ROW_REDUCE, ()):
        reduction = row_reduction(analysis)
        return ((("kind", reduction.name),) if reduction is not None else ()), False
    if kernels[slug].op != family.ops[0]:
        return (), False
    settled: HostArguments = {}
    lacking = False
    if step.main.name in _PRODUCTS and len(step.main.inputs) == 2:  # no bias
        settled["bias"] = None
    if family.options:
        options = family.options.get(step.name)
        lacking = options is None
        settled |= options if options is not None else family.options.get("other", {})
    for tag, arguments in family.settles.items():
        if tag in attributes(step):
            settled |= arguments
    heaviest = step is analysis.heaviest
    if heaviest and not analysis.before and not analysis.after:
        settled |= family.alone
    if family.epilogue:
        following = analysis.after[0].name if heaviest and analysis.after else "other"
        settled |= family.epilogue.get(following, family.epilogue["other"])
    for name in family.usual:
        value = step.main.facts.get(name)
        lengths = value if isinstance(value, list | tuple) else [value]
        if value is not None and all(length == 1 for length in lengths):
            settled[name] = 1
    return tuple(sorted(settled.items(), key=lambda pair: pair[0])), lacking


def _assumed(analysis: Analysis, step: Step, kernel: Kernel, *, on_gpu: bool) -> Assumptions:
    """What a step settles about a kernel's tensors; the dimension only where all of its family
    work along the same."""
    main = step.main
    last_flags = {_along_last(s.main) for s in analysis.steps if s.family is step.family}
    shapes = [input_.shape for input_ in (*main.inputs, *main.outputs)]
    sized = all(shape is not None and all(shape) for shape in shapes)
    sizes = {DTYPE_BYTES.get(input_.dtype) for input_ in main.inputs}
    same = len(sizes) == 1 and len({input_.dtype for input_ in main.inputs}) == 1
    itemsize = sizes.pop() if same else None
    transposed = _transposed(main, itemsize) if sized and itemsize and kernel.op in _BINARY else ()
    present = ("bias",) if transposed and len(main.inputs) > len(transposed) else ()
    return Assumptions(
        gpu=on_gpu,
        itemsize=itemsize,
        sized=sized,
        transposed=transposed,
        contiguous=all(map(_contiguous, main.inputs)),
        last=_along_last(main) if len(last_flags) == 1 else None,
        present=present,
    )


def _along_last(main: Operator) -> bool | None:
    """Whether an operator works along the last dimension; None where that is not known."""
    dim, shape = main.facts.get("dim"), main.inputs[0].shape if main.inputs else None
    if not isinstance(dim, int) or isinstance(dim, bool) or not shape:
        return None
    return dim % len(shape) == len(shape) - 1


def _transposed(main: Operator, itemsize: int) -> tuple[bool, ...]:
    """For the operands of a product whether they lie turned round; empty if that is not known."""
    if main.name not in _PRODUCTS or not all(map(_contiguous, main.inputs)):
        return ()
    rows = [tensor.shape[-1] for tensor in (*main.inputs, *main.outputs) if tensor.shape]
    if any(length is None or length * itemsize % 16 for length in rows):
        return ()
    return False, main.name == "linear"


def _contiguous(tensor: Tensor) -> bool:
    """Whether a tensor is no view: given to the module, or as an operator made it."""
    if tensor.made_by is not None:
        return any(tensor is output for output in tensor.made_by.outputs)
    return tensor.origin in {"input", "parameter"}


def _others(
    analysis: Analysis, heaviest: Step, kernels: dict[str, Kernel], gpu: str | None
) -> list[Candidate]:
    total = sum(step.seconds for step in analysis.steps) or 1.0
    steps: dict[str, Step] = {}
    for step in sorted(analysis.steps, key=lambda s: -s.seconds):
        family = step.family
        if family is None or family is heaviest.family or step.kind == "elementwise":
            continue
        if step.seconds >= _MIN_SHARE * total:
            steps.setdefault(family.name, step)
    candidates = []
    for step in list(steps.values())[:_MAX_OTHERS]:
        candidates += _for_step(analysis, step, kernels, gpu)[:1]
    return candidates


def _techniques(
    analysis: Analysis, card: GpuSpec | None, generation: Generation
) -> list[tuple[str, str]]:
    heaviest = analysis.heaviest
    family = heaviest.family if heaviest is not None else None
    bound = bound_of(analysis, card)
    special = attributes(heaviest) if heaviest is not None else frozenset()
    names: dict[str, str] = {}
    loop = analysis.loop
    chief = list(family.techniques) if family is not None and loop is None else []
    chief = [slug for slug in chief if suits(slug, special)]
    if loop is not None and loop.has_product:
        names[_ONE_LAUNCH] = f"one launch for all {loop.steps} steps of the loop"
    elif loop is not None:
        names[_IN_PARALLEL] = "steps that are linear in the state are a scan"
    for slug in chief[:1]:
        names[slug] = f"what makes a {family.name if family else ''} kernel fast"
    around = [*analysis.before, *analysis.after]
    if around:
        listed = ", ".join(dict.fromkeys(step.name for step in around))
        names.setdefault(_FUSION, f"{listed} can be done in the same kernel")
    if bound == "latency":
        for slug in _BY_BOUND["latency"]:
            names.setdefault(slug, "launches take longer than the work")
    for slug in chief[1:]:
        names.setdefault(slug, f"used by {family.name if family else ''} kernels")
    for slug in _BY_BOUND.get(bound or "", ()):
        names.setdefault(slug, f"the problem is bound by {bound}")
    if len(analysis.steps) == 1:
        names.pop(_FUSION, None)  # there is nothing to fuse
    return [(slug, why) for slug, why in names.items() if slug in generation.techniques]
