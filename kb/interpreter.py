"""Triton's interpreter with its repeated work done once, for `kb verify` and the judge.

Most of its time goes into what does not depend on the data: it lists the members of
`triton.language` at every launch and at every call of a device function, looks dtypes up in a
dictionary that it makes anew, and computes in 64 bits whether a sum or product of integers
overflows, which it reports in Triton's debug mode alone. A reduction or scan with a function of the
kernel's own calls that function for each element; here it combines whole blocks.
"""

import functools
import inspect
import math
from typing import Any

import numpy as np


def make_faster(interpreter: Any) -> None:
    """Change Triton's interpreter (its module) in this process, before any kernel runs.

    Older versions of it, which patch `triton.language` for good, stay as they are.
    """
    if not hasattr(interpreter, "_LangPatchScope"):
        return
    options = interpreter.interpreter_builder.options
    unchecked = type(options)(**{**vars(options), "sanitize_overflow": False})
    interpreter.interpreter_builder.options = unchecked
    interpreter._get_np_dtype = _numpy_dtype(interpreter)
    interpreter._patch_builtin = _patch_builtin(interpreter)
    _patch_once_a_launch(interpreter)
    _describe_shapes_once(interpreter.tl.core)
    _broadcast_other_shapes_only(type(interpreter.interpreter_semantic))
    _combine_blocks(interpreter)


def _numpy_dtype(interpreter: Any) -> Any:
    """Look the NumPy dtype of a Triton type up once for each dtype of its elements."""
    types, look_up = interpreter.tl.core, interpreter._get_np_dtype
    of_element = functools.cache(look_up)

    def numpy_dtype(given: Any) -> Any:
        element = given.element_ty if isinstance(given, types.block_type) else given
        # A pointer type cannot be hashed.
        return look_up(given) if isinstance(element, types.pointer_type) else of_element(element)

    return numpy_dtype


def _patch_builtin(interpreter: Any) -> Any:
    """Patch the builtins of a module or class by the names that the first look gave."""
    is_builtin = interpreter.tl.core.is_builtin

    @functools.cache
    def names(package: Any) -> list[str]:
        return [name for name, member in inspect.getmembers(package) if is_builtin(member)]

    def patch(package: Any, builder: Any, scope: Any) -> None:
        for name in names(package):
            member = getattr(package, name)
            if is_builtin(member):
                interpreter._patch_attr(package, name, member, builder, scope)

    return patch


def _patch_once_a_launch(interpreter: Any) -> None:
    """Patch the language when a launch begins, and for a device function only what is not yet."""
    patch_language, run_grid = interpreter._patch_lang, interpreter.GridExecutor.__call__
    languages = (interpreter.tl, interpreter.tl.core)
    patched: set[str] = set()

    def patch(function: Any) -> Any:
        used = {
            language.__name__
            for language in languages
            if any(value is language for value in function.__globals__.values())
        }
        if used and used <= patched:
            return interpreter._LangPatchScope()
        patched.update(used)
        return patch_language(function)

    def run(grid: Any, *args: Any, **kwargs: Any) -> Any:
        patched.clear()
        return run_grid(grid, *args, **kwargs)

    interpreter._patch_lang = patch
    interpreter.GridExecutor.__call__ = run


def _describe_shapes_once(types: Any) -> None:
    """Make what a block's type and a tensor hold of a shape once for each shape."""
    describe, block, tensor = types.block_type.__init__, types.block_type, types.tensor
    known: dict[tuple[int, ...], tuple[Any, Any, str, Any, Any]] = {}

    def init_block(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([size.value if type(size) is types.constexpr else size for size in shape])
        if sizes not in known:
            describe(self, element_ty, shape)  # raises for what is no shape of a block
            of_tensor = types.tuple([types.constexpr(size) for size in sizes])
            numel = types.constexpr(math.prod(sizes))
            known[sizes] = self.shape, self.numel, str(self.shape), of_tensor, numel
        self.element_ty = element_ty
        self.shape, self.numel, text, *self.of_tensor = known[sizes]
        self.name = f"<{text}, {element_ty}>"

    def init_tensor(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = type.of_tensor if type.is_block() else scalar

    scalar = types.tuple([]), types.constexpr(1)
    block.__init__, tensor.__init__ = init_block, init_tensor


def _broadcast_other_shapes_only(semantic: Any) -> None:
    """Return operands of the same shape as they are, which costs half of an addition else."""
    broadcast = semantic.broadcast_impl_value

    def broadcast_impl_value(self: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.type, rhs.type
        if one.is_block() and other.is_block() and one.shape is other.shape:
            return lhs, rhs
        return broadcast(self, lhs, rhs)

    semantic.broadcast_impl_value = broadcast_impl_value


def _combine_blocks(interpreter: Any) -> None:
    """Reduce and scan in as many steps as the logarithm of the length, as the GPU does.

    Elements are combined with their neighbours, so the function need only be associative, as Triton
    demands. What cannot take blocks goes element by element as before.
    """
    reduction, scan, tensor = interpreter.ReduceOps, interpreter.ScanOps, interpreter.tl.core.tensor
    reduce_elements, scan_elements = reduction.generic_reduce, scan.generic_scan

    def combined(self: Any, types: Any, first: list[Any], second: list[Any]) -> list[Any]:
        both = zip([*first, *second], [*types, *types], strict=True)
        given = [self.to_tensor(*pair) for pair in both]
        truth, tensor.__bool__ = tensor.__bool__, _of_one_value
        try:
            result = self.combine_fn.fn(*given)
        finally:
            tensor.__bool__ = truth
        parts = result if isinstance(result, tuple | interpreter.tl.core.tuple) else (result,)
        arrays: list[Any] = [
            part.handle.data if hasattr(part, "handle") else part for part in parts
        ]
        return [
            np.broadcast_to(array, like.shape).astype(like.dtype)
            for array, like in zip(arrays, first, strict=True)
        ]

    def reduce(self: Any, values: Any) -> Any:
        try:
            types = [value.dtype for value in values]
            parts = [value.handle.data for value in values]
            whole = self.axis is None
            dimensions = parts[0].ndim
            parts = [part.reshape(-1) if whole else part for part in parts]
            axis = 0 if whole else int(self.axis) % dimensions
            while (length := parts[0].shape[axis]) > 1:
                if length % 2:
                    return reduce_elements(self, values)
                even, odd = (_part(axis, slice(start, None, 2)) for start in (0, 1))
                parts = combined(self, types, [p[even] for p in parts], [p[odd] for p in parts])
            if whole:
                parts = [p.reshape([1] * dimensions) if self.keep_dims else p.item() for p in parts]
            elif not self.keep_dims:
                parts = [np.squeeze(part, axis) for part in parts]
            return [self.to_tensor(*pair) for pair in zip(parts, types, strict=True)]
        except Exception:  # such as a branch on a value
            return reduce_elements(self, values)

    def scanned(self: Any, values: Any) -> Any:
        try:
            types = [value.dtype for value in values]
            parts = [value.handle.data.copy() for value in values]
            axis, distance = int(self.axis) % parts[0].ndim, 1
            while distance < parts[0].shape[axis]:
                # A block's sizes are powers of two: so the whole block is combined, and what came
                # round from its end is left out.
                before = [np.roll(part, distance, axis) for part in parts]
                after = _part(axis, slice(distance, None))
                for part, new in zip(parts, combined(self, types, before, parts), strict=True):
                    part[after] = new[after]
                distance *= 2
            return [self.to_tensor(*pair) for pair in zip(parts, types, strict=True)]
        except Exception:
            return scan_elements(self, values)

    reduction.generic_reduce, scan.generic_scan = reduce, scanned


def _of_one_value(tensor: Any) -> bool:
    """Whether a scalar is true. Triton's interpreter takes every block for true."""
    if tensor.handle.data.size > 1:
        raise ValueError("a branch on a block")
    return bool(tensor.handle.data)


def _part(axis: int, part: slice) -> tuple[slice, ...]:
    """An index of `part` along `axis`, and of everything before it."""
    return (slice(None),) * axis + (part,)
