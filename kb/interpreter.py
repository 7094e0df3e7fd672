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

# Numbers that are kept as constants of kernels: far more than a kernel has.
_MAX_NUMBERS = 4096


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
    interpreter._patch_attr = _patch_attribute(interpreter)
    _patch_once_a_launch(interpreter)
    _describe_shapes_once(interpreter.tl.core)
    _unwrap_constants_only(interpreter.tl.core)
    _broadcast_other_shapes_only(type(interpreter.interpreter_semantic))
    _resolve_types_once(interpreter)
    _combine_blocks(interpreter)


def _numpy_dtype(interpreter: Any) -> Any:
    """Look the NumPy dtype of a Triton type up once for each dtype of its elements."""
    types, look_up = interpreter.tl.core, interpreter._get_np_dtype
    of_element = functools.cache(look_up)

    def numpy_dtype(type_: Any) -> Any:
        element = type_.element_ty if isinstance(type_, types.block_type) else type_
        # A pointer type cannot be hashed.
        return look_up(type_) if isinstance(element, types.pointer_type) else of_element(element)

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


def _patch_attribute(interpreter: Any) -> Any:
    """Put a builtin's own function in its place, which always gets the interpreter's semantic."""
    semantic = interpreter.interpreter_semantic

    @functools.cache
    def interpreted(member: Any) -> Any:
        # Around it is only a check that it has a semantic.
        function = getattr(member, "__wrapped__", member)

        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return function(*args, **kwargs)

        return call

    def patch(owner: Any, name: str, member: Any, _builder: Any, scope: Any) -> None:
        scope.set_attr(owner, name, interpreted(member))

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
    """Make a block's type, and what it and a tensor hold of a shape, once for each shape."""
    describe, block, tensor = types.block_type.__init__, types.block_type, types.tensor
    descriptions: dict[tuple[int, ...], tuple[Any, Any, str, Any, Any, dict[str, Any]]] = {}

    def init_block(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([size.value if type(size) is types.constexpr else size for size in shape])
        if sizes not in descriptions:
            describe(self, element_ty, shape)  # raises for what is no shape of a block
            of_tensor = types.tuple([types.constexpr(size) for size in sizes])
            numel = types.constexpr(math.prod(sizes))
            descriptions[sizes] = self.shape, self.numel, str(self.shape), of_tensor, numel, {}
        self.element_ty = element_ty
        self.shape, self.numel, text, *self.of_tensor, self.blocks = descriptions[sizes]
        self.name = f"<{text}, {element_ty}>"

    def with_element_ty(self: Any, scalar_ty: Any) -> Any:
        if type(scalar_ty) is not types.dtype:
            return block(scalar_ty, self.shape)  # pointers have no names of their own
        if scalar_ty.name not in self.blocks:
            self.blocks[scalar_ty.name] = block(scalar_ty, self.shape)
        return self.blocks[scalar_ty.name]

    def init_tensor(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = type.of_tensor if type.is_block() else scalar

    scalar = types.tuple([]), types.constexpr(1)
    block.__init__, block.with_element_ty = init_block, with_element_ty
    tensor.__init__ = init_tensor


def _unwrap_constants_only(types: Any) -> None:
    """Return a tensor or a number as it is: every operand is asked whether it is a constant."""
    unwrap, plain = types._unwrap_if_constexpr, {types.tensor, int, float}

    def unwrapped(value: Any) -> Any:
        return value if type(value) in plain else unwrap(value)

    types._unwrap_if_constexpr = unwrapped


def _broadcast_other_shapes_only(semantic: Any) -> None:
    """Return operands of the same shape as they are, which costs half of an addition else."""
    broadcast = semantic.broadcast_impl_value

    def broadcast_impl_value(self: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.type, rhs.type
        if one.is_block() and other.is_block() and one.shape is other.shape:
            return lhs, rhs
        return broadcast(self, lhs, rhs)

    semantic.broadcast_impl_value = broadcast_impl_value


def _resolve_types_once(interpreter: Any) -> None:
    """Find the type that two operands are computed in, and make a constant, once for each.

    A scalar beside a block stays one element, which NumPy repeats by itself.
    """
    types, semantic = interpreter.tl.core, interpreter.interpreter_semantic
    tensor, block, pointer = types.tensor, types.block_type, types.pointer_type
    common = functools.cache(semantic.computation_type_impl)
    # By number: 1 and 1.0 are not the same, nor are the two zeros.
    of_number = functools.lru_cache(_MAX_NUMBERS, typed=True)(semantic.to_tensor_type)
    resolve = type(semantic).binary_op_type_checking_impl

    @functools.lru_cache(_MAX_NUMBERS, typed=True)
    def constant(value: Any, _sign: float, dtype: Any) -> Any:
        return semantic._cast_to_computation_type(value, dtype)

    def cast(value: Any, dtype: Any) -> Any:
        if type(value) is tensor:
            return value if value.dtype is dtype else semantic.cast(value, dtype)
        return constant(value, math.copysign(1.0, value), dtype)

    def spread(scalar: Any, like: Any) -> Any:
        handle, dtype = scalar.handle, scalar.dtype
        if handle.data.dtype != interpreter._get_np_dtype(dtype):
            return semantic.broadcast_impl_value(scalar, like)[0]
        return tensor(handle, like.type.with_element_ty(dtype))

    def resolved(  # noqa: PLR0917 (called as Triton's own)
        self: Any,
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> Any:
        one = lhs.dtype if type(lhs) is tensor else number(lhs)
        other = rhs.dtype if type(rhs) is tensor else number(rhs)
        if one is None or other is None or not arithmetic_check:
            return resolve(
                self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod
            )
        if type(one) is pointer or type(other) is pointer:
            self.check_ptr_type_impl(one, other, allow_lhs_ptr)
            self.check_ptr_type_impl(other, one, allow_rhs_ptr)
            lhs, rhs = cast(lhs, one), cast(rhs, other)
        else:
            scalars = type(lhs) is not tensor, type(rhs) is not tensor
            dtype = common(one, scalars[0], other, scalars[1], div_or_mod)
            lhs, rhs = cast(lhs, dtype), cast(rhs, dtype)
        if type(lhs.type) is block:
            if type(rhs.type) is block:
                return self.broadcast_impl_value(lhs, rhs)
            return lhs, spread(rhs, lhs)
        return (spread(lhs, rhs), rhs) if type(rhs.type) is block else (lhs, rhs)

    def number(value: Any) -> Any:
        """The type of a number; None of what else there may be, and of a truth value."""
        return of_number(value) if type(value) in (int, float) else None

    type(semantic).binary_op_type_checking_impl = resolved


def _combine_blocks(interpreter: Any) -> None:
    """Reduce and scan in as many steps as the logarithm of the length, as the GPU does.

    Elements are combined with their neighbours, so the function need only be associative, as Triton
    demands. What cannot take blocks goes element by element as before.
    """
    reduction, scan, tensor = interpreter.ReduceOps, interpreter.ScanOps, interpreter.tl.core.tensor
    reduce_elements, scan_elements = reduction.generic_reduce, scan.generic_scan

    def combined(self: Any, types: Any, first: list[Any], second: list[Any]) -> list[Any]:
        both = zip([*first, *second], [*types, *types], strict=True)
        operands = [self.to_tensor(*pair) for pair in both]
        truth, tensor.__bool__ = tensor.__bool__, _of_one_value
        try:
            result = self.combine_fn.fn(*operands)
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
