"""Triton's interpreter with its repeated work done once, for `kb verify` and the judge.

Most of its time goes into what does not depend on the data: it lists the members of
`triton.language` at every launch and at every call of a device function, looks dtypes up in a
dictionary that it makes anew, and computes in 64 bits whether a sum or product of integers
overflows, which it reports in Triton's debug mode alone.
"""

import functools
import inspect
import math
from typing import Any


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
