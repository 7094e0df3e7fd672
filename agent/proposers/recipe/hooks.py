"""Lets a core take over the elementwise operators before and after it.

Kernels that can fuse them take `before` and `after`, Triton functions `(values, lead, lane, mask,
operands)` of one element each, and the operands that these read. An element lies at `lead + lane`
of the contiguous tensor, `lane` along neighbours, so an operand of the last dimensions alone lies
at `lead % size + lane` where it has all dimensions that a lane runs along. In kernels of images
(those with a `lane_size`) `lead` counts channels alone, one row for each, and `lane` images too: a
channel's value is loaded once for its row.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent.proposers.recipe import fuse
from agent.proposers.recipe.core import Core, Finder, plain_name
from agent.proposers.recipe.patterns import NoMatchError, attempt, require
from judge.graph import Graph, reference

# How far from the last operator a core is looked for: chains are short.
_REACH: Final = 24


def with_fusion(find: Finder) -> Finder:
    """A finder of what `find` finds together with the elementwise operators around it; of nothing
    where there are none. Put it before `find`, for kernels that cannot fuse."""

    def finder(graph: Graph, root: str) -> Core:
        core = attempt(find, graph, root) or _find_with_epilogue(graph, root, find)
        require(bool(core.main))
        core = _fuse_prologue(graph, core)
        require(bool(core.functions))
        return core

    return finder


def with_epilogue(find: Finder) -> Finder:
    """As `with_fusion`, for kernels that fuse what stands after them alone."""

    def finder(graph: Graph, root: str) -> Core:
        require(attempt(find, graph, root) is None)
        return _find_with_epilogue(graph, root, find)

    return finder


def _find_with_epilogue(graph: Graph, root: str, find: Finder) -> Core:
    """A core whose result alone is worked on until `root`."""
    require(fuse.expressible(graph, root))
    shape = graph.shape(root)
    queue, visited = [root], {root}
    while queue and len(visited) < _REACH:
        for arg in graph[queue.pop(0)].args:
            name = reference(arg)
            if name is None or name in visited:
                continue
            visited.add(name)
            core = attempt(find, graph, name)
            if core is not None and core.main and name in core.results:
                return _fuse_epilogue(graph, core, name, root)
            if fuse.expressible(graph, name) and graph.shape(name) == shape:
                queue.append(name)
    raise NoMatchError


def _fuse_epilogue(graph: Graph, core: Core, result: str, root: str) -> Core:
    steps = fuse.chain(graph, root, core.nodes)
    inputs = fuse.operands_of(graph, steps)
    users = set(graph.users[result])
    require(
        len(core.results) == 1
        and result in inputs
        and users <= set(steps)
        and result not in graph.outputs
        and graph.shape(result) == graph.shape(root)
        and not core.nodes & set(inputs) - {result}
    )
    others = [name for name in inputs if name != result]
    for other in others:
        in_reach = _reaches(graph, other, result, core.out_lanes)
        require(in_reach or _of_lanes(graph, other, result, core))
    name = f"_after_{root}"
    text = _function_text(
        graph, name, steps, result, others, rows=core.op == "matmul", images=bool(core.lane_size)
    )
    arguments = core.arguments | {
        "after": name,
        "after_operands": _tuple(graph, others, graph.shape(root), core.lane_size),
        "out_dtype": f"torch.{graph.dtype(root)}",
    }
    return replace(
        core,
        nodes=core.nodes | set(steps),
        arguments=arguments,
        results={root: core.results[result]},
        functions=(*core.functions, text),
        fused=(*core.fused, *(plain_name(graph[step].op) for step in steps)),
    )


def _fuse_prologue(graph: Graph, core: Core) -> Core:
    """The core with the chain that its main operand comes from, where that is one."""
    main = core.main
    if not fuse.expressible(graph, main) or not set(graph.users[main]) <= core.nodes:
        return core
    if main in graph.outputs or main in core.nodes:
        return core
    steps = fuse.chain(graph, main, frozenset())
    shape = graph.shape(main)
    inputs = fuse.operands_of(graph, steps)
    full = [n for n in inputs if graph.shape(n) == shape and "float" in graph.dtype(n)]
    if not full or core.nodes & {*steps, *inputs}:
        return core
    source, others = full[0], [name for name in inputs if name != full[0]]
    if not all(_reaches(graph, other, main, core.lanes) for other in others):
        return core
    name = f"_before_{main}"
    old, new = f"{{{main}}}", f"{{{source}}}"
    arguments = {key: text.replace(old, new) for key, text in core.arguments.items()}
    arguments |= {"before": name, "before_operands": _tuple(graph, others, shape)}
    # Rounding once to the model's dtype is the kernel's work, whatever the source's dtype.
    root = next(iter(core.results))
    if "float" in graph.dtype(root):
        arguments["out_dtype"] = f"torch.{graph.dtype(root)}"
    return replace(
        core,
        nodes=core.nodes | set(steps),
        arguments=arguments,
        results={key: text.replace(old, new) for key, text in core.results.items()},
        functions=(_function_text(graph, name, steps, source, others), *core.functions),
        fused=(*(plain_name(graph[step].op) for step in steps), *core.fused),
        main=source,
    )


def _reaches(graph: Graph, name: str, of: str, lanes: int) -> bool:
    """Whether an operand can be read at the places of `of`'s elements."""
    shape, own_shape = graph.shape(of), graph.shape(name)
    if fuse.trailing_dims(own_shape, shape) is None or fuse.repeated_dims(own_shape, shape):
        return False
    return own_shape == shape or all(size == 1 for size in own_shape) or len(own_shape) >= lanes


def _of_lanes(graph: Graph, name: str, of: str, core: Core) -> bool:
    """Whether an operand has one element for each lane of the result, such as a channel's bias."""
    spread = fuse.repeated_dims(graph.shape(name), graph.shape(of))
    return bool(core.lane_size) and spread == core.out_lanes


def _tuple(graph: Graph, names: Sequence[str], shape: tuple[int, ...], lane_size: str = "") -> str:
    """The operands, the number of elements of those that are repeated, and how many elements of
    the result share one of theirs."""
    elements = [f"{{{name}}}.contiguous()" for name in names]
    elements += [f"{{{name}}}.numel()" for name in names if _repeats(graph, name, shape)]
    elements += [lane_size for name in names if fuse.repeated_dims(graph.shape(name), shape)][:1]
    return f"({', '.join(elements)}{',' * (len(elements) == 1)})"


def _repeats(graph: Graph, name: str, shape: tuple[int, ...]) -> bool:
    own_shape = graph.shape(name)
    return own_shape != shape and not all(size == 1 for size in own_shape)


def _function_text(
    graph: Graph,
    name: str,
    steps: Sequence[str],
    source: str,
    others: Sequence[str],
    *,
    rows: bool = False,
    images: bool = False,
) -> str:
    """The function of a chain. `rows`: where lanes are two-dimensional, they count whole rows.
    `images`: lanes run through all images."""
    shape = graph.shape(steps[-1])
    values = {source: "x"}
    lines: list[str] = []
    sizes = len(others)
    inner = sizes + sum(_repeats(graph, other, shape) for other in others)
    for index, other in enumerate(others):
        values[other] = f"x{index}"
        own_shape, repeats, size = (
            graph.shape(other),
            _repeats(graph, other, shape),
            f"operands[{sizes}]",
        )
        place = f"operands[{index}]"
        if own_shape == shape:
            place += " + lead + lane, mask=mask, other=0.0"
        elif fuse.repeated_dims(own_shape, shape):
            place += f" + lead // operands[{inner}] % {size}"
        elif repeats:
            at = f"(lead + lane) % {size}" if images else f"lead % {size} + lane"
            place += f" + {at}, mask=mask, other=0.0"
        load = f"x{index} = tl.load({place}).to(tl.float32)"
        if rows and repeats and own_shape == shape[-1:]:
            # One value a column: a load of each, not of one for every element.
            row = f"operands[{index}] + lane, mask=lane < {size}, other=0.0"
            by_column = f"    x{index} = tl.load({row}).to(tl.float32)"
            lines += ["if len(lane.shape) == 2:", by_column, "else:", f"    {load}"]
        else:
            lines.append(load)
        sizes += repeats
    for index, step in enumerate(steps):
        lines.append(f"v{index} = {fuse.expression(graph[step], values)}")
        values[step] = f"v{index}"
    body = "\n    ".join(lines)
    return (
        f"@triton.jit\ndef {name}(x, lead, lane, mask, operands):\n"
        f"    {body}\n    return {values[steps[-1]]}"
    )
