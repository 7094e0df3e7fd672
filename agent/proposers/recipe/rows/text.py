"""Writes what is done to rows as a Triton kernel and its launcher.

Rows of up to `WIDEST` columns are held in registers. Longer ones are read by chunks, once for each
reduction that needs the one before, and once more for what is written; a row's largest element and
the sum of its exponentials are found in one of these passes (arXiv:1805.02867). Where something is
reduced over rows, a program takes several blocks of them, and PyTorch adds up what programs found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.proposers.recipe.lanes.elements import Element, Load, Ref, Step, UnsupportedError, needed
from agent.proposers.recipe.lanes.text import number_text
from agent.proposers.recipe.rows.launching import BOTH, IDENTITY, File, Kernel, Tensor, first_of
from agent.proposers.recipe.rows.operators import (
    ACROSS,
    EXPONENTIALS,
    FINITE,
    INTEGERS,
)  # fmt: skip
from agent.proposers.recipe.rows.views import ALONG, COLUMN, LOADED, RUNNING

WIDEST: Final = 8192
"""As many columns are held in registers; twice as many where they are summed over rows."""
_KIND: Final = {template: kind for kind, template in ALONG.items()}
_KIND_ACROSS: Final = {template: kind for kind, template in ACROSS.items()}


@dataclass(frozen=True)
class Store:
    """Writes an element of a result."""

    out: int
    at: tuple[int | None, ...]
    value: Element


@dataclass
class _Scope:
    """Lines of one level, and what is known in it."""

    indent: str
    lines: list[str] = field(default_factory=list)
    loads: dict[Load, str] = field(default_factory=dict)
    steps: dict[int, str] = field(default_factory=dict)

    def add(self, line: str) -> None:
        self.lines.append(self.indent + line)


class Writer:
    """Writes one kernel.

    Parameters
    ----------
    inputs
        By value of the graph: tensors that are read, in the order of the parameters.
    outputs
        Tensors that are written.
    sizes
        Of the lanes' dimensions in the problem; the last are the columns.
    """

    def __init__(
        self,
        inputs: Mapping[str, Tensor],
        outputs: Sequence[Tensor],
        sizes: Sequence[int],
        steps: Sequence[Step],
    ) -> None:
        self._tensors = [*inputs.values(), *outputs]
        self._number = {name: number for number, name in enumerate(inputs)}
        self._sizes, self._columns = sizes, len(sizes) - 1
        self._steps = steps
        self._wide: list[bool] = []
        """By step: whether it differs from column to column."""
        for step in steps:
            self._wide.append(self._makes_wide(step))
        columns = self._columns
        is_wide = any(tensor.kind and columns in tensor.axes for tensor in outputs)
        self._is_long = is_long(sizes[-1]) or (sizes[-1] > WIDEST and not is_wide)
        self._is_looped = any(tensor.kind for tensor in outputs) and not self._is_long
        """Whether a program has several blocks of rows."""
        self._strides: set[tuple[int, int]] = set()
        self._head = _Scope("")
        """Before the first block of rows."""
        self._body = _Scope("")
        self._tail: list[str] = []
        self._pass = self._body
        """Where what is as wide as a row goes."""

    def kernel(self, stores: Sequence[Store]) -> str:
        """The kernel and `kernel_function`, which takes the inputs in their order."""
        if self._is_long:
            self._passes(stores)
        else:
            for load in self._first_loads(stores):
                self._text_of(load, self._body)
            for store in stores:
                self._require(store.value)
            for store in stores:
                self._store(store)
        kernel = Kernel(
            tensors=tuple(self._tensors),
            inputs=len(self._number),
            sizes=tuple(self._sizes),
            strides=frozenset(self._strides),
            head=tuple(self._head.lines),
            body=tuple(self._body.lines),
            tail=tuple(self._tail),
            is_long=self._is_long,
            is_looped=self._is_looped,
            widest=2 * WIDEST,
        )
        return File(kernel).text()

    def _first_loads(self, stores: Sequence[Store]) -> list[Load]:
        """What is read: all at once, so that no load waits for a reduction."""
        values = [store.value for store in stores]
        steps = self._needed(values)
        plain = (self._steps[step] for step in steps if self._steps[step].template != LOADED)
        elements = [*values, *(arg for step in plain for arg in step.args)]
        return list(dict.fromkeys(each for each in elements if isinstance(each, Load)))

    # Values

    def _needed(self, elements: Iterable[Element]) -> list[int]:
        """Steps that elements are made of, in order."""
        return needed(self._steps, elements)

    def _require(self, element: Element) -> None:
        """Write the steps of an element that are not there yet."""
        for step in self._needed([element]):
            if step not in self._scope_of(step).steps:
                self._step(step)

    def _scope_of(self, step: int) -> _Scope:
        return self._pass if self._is_wide(Ref(step)) else self._body

    def _step(self, number: int) -> None:
        step, scope = self._steps[number], self._scope_of(number)
        name = scope.steps[number] = f"v{number}"
        if step.template in _KIND_ACROSS:
            self._accumulate(number, step)
        elif not step.args:  # a place along rows, or columns
            scope.steps[number] = step.template
        elif step.template == LOADED:
            load, column = step.args
            assert isinstance(load, Load)
            self._load(scope, load, name, self._text_of(column, scope))
        else:
            args = [self._text_of(arg, scope) for arg in step.args]
            if all(arg.startswith("(") for arg in args):
                args = [f"(zero + {args[0]})", *args[1:]]
            scope.add(f"{name} = {step.template.format(*args)}")

    def _accumulate(self, number: int, step: Step) -> None:
        """Take a block of rows into what a program has found of all its rows."""
        kind, wide = _KIND_ACROSS[step.template], self._is_wide(step.args[0])
        shape = "(ROWS, COLUMNS)" if wide else "(ROWS, 1)"
        self._head.add(f"all{number} = {first_of(kind, shape)}")
        value = self._text_of(step.args[0], self._body)
        self._body.add(f"all{number} = {_added(kind, f'all{number}', value, 'in_row')}")

    def _is_wide(self, element: Element) -> bool:
        """Whether it differs from column to column."""
        if isinstance(element, Load):
            number = self._number.get(element.name)  # None: nothing needs it
            return number is not None and self._columns in self._tensors[number].axes
        return isinstance(element, Ref) and self._wide[element.step]

    def _makes_wide(self, step: Step) -> bool:
        if step.template in _KIND or step.template == LOADED:
            return False
        return step.template == COLUMN or any(map(self._is_wide, step.args))

    def _text_of(self, element: Element, scope: _Scope) -> str:
        """An element as Triton code, loaded where it was not yet."""
        if isinstance(element, Ref):
            return self._scope_of(element.step).steps[element.step]
        if not isinstance(element, Load):
            return number_text(element)
        tensor = self._tensors[self._number[element.name]]
        if not self._is_wide(element):
            scope = self._body
        if self._is_looped and not {*tensor.axes} & {*range(self._columns)}:
            scope = self._head
        if element not in scope.loads:
            name = scope.loads[element] = f"x{self._number[element.name]}" + "".join(
                f"_{place}" for place in element.at if place is not None
            )
            self._load(scope, element, name)
        return scope.loads[element]

    # Memory

    def _load(self, scope: _Scope, load: Load, name: str, column: str = "") -> None:
        """Read a tensor, or its elements at one column of each row."""
        number = self._number[load.name]
        tensor = self._tensors[number]
        mask = self._mask(tensor)
        if column:
            within = f"({column} >= 0) & ({column} < columns)"
            mask = f"in_row & {within}" if mask == "inside" else within
        masked = f", mask={mask}, other=0" if mask else ""
        dtype = "tl.int32" if tensor.dtype in INTEGERS else "tl.float32"
        pointer = self._pointer(number, load.at, column or "column")
        scope.add(f"{name} = tl.load({pointer}{masked}).to({dtype})")

    def _store(self, store: Store) -> None:
        number = len(self._number) + store.out
        tensor = self._tensors[number]
        pointer = self._pointer(number, store.at)
        if tensor.kind:
            assert isinstance(store.value, Ref)
            function = tensor.kind
            mask = ", mask=in_column" if self._columns in tensor.axes else ""
            value = f"tl.{function}(all{store.value.step}, 0)[None, :]"
            self._tail.append(f"tl.store({pointer}, {value}{mask})")
            return
        scope = self._pass if self._columns in tensor.axes else self._body
        value = self._text_of(store.value, scope)
        if value.startswith("("):
            value = f"(zero + {value})"
        scope.add(
            f"tl.store({pointer}, {value}.to(p{number}.dtype.element_ty),"
            f" mask={self._mask(tensor)})"
        )

    def _mask(self, tensor: Tensor) -> str:
        has_rows = not {*tensor.axes}.isdisjoint(range(self._columns))
        has_columns = self._columns in tensor.axes
        if has_rows:
            return "inside" if has_columns else "in_row"
        return "in_column" if has_columns else ""

    def _pointer(self, number: int, at: Sequence[int | None], column: str = "column") -> str:
        tensor = self._tensors[number]
        terms = [f"p{number}"]
        if tensor.kind:
            terms.append(f"tl.program_id(0) * s{number}_all")
            if self._columns not in tensor.axes:
                terms.append("tl.arange(0, 1)[None, :]")
        elif not {*tensor.axes}.isdisjoint(range(self._columns)):
            terms.append(f"b{number}")
        last = ""
        for dim, (place, axis) in enumerate(zip(at, tensor.axes, strict=True)):
            if axis == self._columns:
                self._strides.add((number, dim))
                last = f"{column} * s{number}_{dim}"
            elif axis is None and place:
                self._strides.add((number, dim))
                terms.append(f"{place} * s{number}_{dim}")
        return " + ".join([*terms, last] if last else terms)

    # Long rows

    def _passes(self, stores: Sequence[Store]) -> None:
        """Reductions by chunks, each as soon as those that it needs are known; then results."""
        needed = self._needed(store.value for store in stores)
        if any(self._steps[step].template == RUNNING for step in needed):
            raise UnsupportedError("running sums of long rows")
        online = dict(self._online(needed))
        ready: dict[int, int] = {}
        """By step: after how many passes it is known."""
        levels: dict[int, list[int]] = {}
        for step in needed:
            before = [ready[a.step] for a in self._steps[step].args if isinstance(a, Ref)]
            level = max(before, default=0)
            if self._steps[step].template in _KIND:
                level = ready[online[step]] - 1 if step in online else level
                levels.setdefault(level, []).append(step)
                level += 1
            ready[step] = level
        for level in sorted(levels):
            self._reduce(levels[level], {a: b for a, b in online.items() if a in levels[level]})
        wide = [s for s in stores if self._columns in self._tensors[len(self._number) + s.out].axes]
        for store in stores:
            if store not in wide:
                self._require(store.value)
                self._store(store)
        if wide:
            self._begin_pass()
            for store in wide:
                self._require(store.value)
                self._store(store)
            self._end_pass()

    def _online(self, needed: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Sums of exponentials of something less its largest element, and the step of that."""
        for number in needed:
            args = self._exponents(self._steps[number])
            if len(args) == 2 and isinstance(args[1], Ref):
                at = args[1].step
                if self._steps[at].template == FINITE and isinstance(
                    inner := self._steps[at].args[0], Ref
                ):
                    at = inner.step
                if self._steps[at].template == ALONG["max"] and self._steps[at].args == args[:1]:
                    yield number, at

    def _exponents(self, step: Step) -> tuple[Element, ...]:
        """Of a sum of exponentials of a difference its two parts."""
        if step.template != ALONG["sum"] or not isinstance(step.args[0], Ref):
            return ()
        power = self._steps[step.args[0].step]
        if power.template == EXPONENTIALS[2] and isinstance(power.args[0], Ref):
            inner = self._steps[power.args[0].step]
            return inner.args if inner.template == EXPONENTIALS[1] else ()
        return power.args if power.template == EXPONENTIALS[0] else ()

    def _begin_pass(self) -> None:
        self._pass = _Scope("    ")
        self._pass.add("column = start + tl.arange(0, COLUMNS)[None, :]")
        self._pass.add("in_column = column < columns")
        self._pass.add("inside = in_row & in_column")

    def _end_pass(self) -> None:
        self._body.add("for start in tl.range(0, columns, COLUMNS, num_stages=STAGES):")
        self._body.lines += self._pass.lines
        self._pass = _Scope("")

    def _reduce(self, reductions: Sequence[int], online: Mapping[int, int]) -> None:
        """One pass for some reductions."""
        tops = sorted(set(online.values()))
        plain = [number for number in reductions if number not in {*tops, *online}]
        # What is the same in all columns is known before.
        for part in self._needed(arg for n in [*tops, *plain] for arg in self._steps[n].args):
            if not self._is_wide(Ref(part)) and part not in self._body.steps:
                self._step(part)
        for number in tops:
            self._body.add(f'top{number} = tl.full((ROWS, 1), float("-inf"), tl.float32)')
            self._body.add(f"base{number} = tl.zeros((ROWS, 1), tl.float32)")
        for number in [*plain, *online]:
            kind = _KIND[self._steps[number].template]
            first = first_of(kind, "(ROWS, COLUMNS)")
            self._body.add(f"sum{number} = {first}")
        self._begin_pass()
        for number in [*tops, *plain]:
            step = self._steps[number]
            for arg in step.args:
                self._require(arg)
            args = [self._text_of(arg, self._pass) for arg in step.args]
            if number in tops:
                self._take_online(number, args[0], [a for a, b in online.items() if b == number])
                continue
            name, kind = f"sum{number}", _KIND[step.template]
            self._pass.add(f"{name} = {_added(kind, name, args[0], 'in_column')}")
        self._end_pass()
        for number in reductions:
            self._body.steps[number] = f"v{number}"
            found = f"tl.{_KIND[self._steps[number].template]}(sum{number}, 1)[:, None]"
            self._body.add(f"v{number} = {f'top{number}' if number in tops else found}")

    def _take_online(self, top: int, value: str, sums: Sequence[int]) -> None:
        """A chunk's largest element, and sums of exponentials less the largest one so far."""
        add = self._pass.add
        add(f'part{top} = tl.where(in_column, {value}, float("-inf"))')
        add(f"upper{top} = tl.maximum(top{top}, tl.max(part{top}, 1)[:, None])")
        add(f'next{top} = tl.where(tl.abs(upper{top}) < float("inf"), upper{top}, 0.0)')
        add(
            f'shrink{top} = tl.where(top{top} == float("-inf"), 0.0, tl.exp(base{top} - next{top}))'
        )
        for number in sums:
            add(f"sum{number} = sum{number} * shrink{top} + tl.exp(part{top} - next{top})")
        add(f"top{top} = upper{top}")
        add(f"base{top} = next{top}")


def is_long(columns: int) -> bool:
    """Whether rows are read by chunks in any case."""
    return columns > 2 * WIDEST


def _added(kind: str, total: str, value: str, mask: str) -> str:
    """A reduction so far and what a block has where the mask holds."""
    return BOTH[kind].format(total, f"tl.where({mask}, {value}, {IDENTITY[kind]})")
