"""Find attributes in front of a C++ declaration that the grammar does not know.

The rules are lexical: a macro's definition is usually in another file. Blanking a word that is in
fact a type does little harm, since the grammar still sees a declarator and a body.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

# Balanced parentheses to four levels, as attributes like __launch_bounds__(A<B>(x), (y)) need.
PAREN = rb"\((?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+\)"

_BARE = frozenset(
    b"""__global__ __device__ __host__ __forceinline__ __noinline__ __inline_hint__ __shared__
    __constant__ __managed__ __restrict__ __grid_constant__ __nv_pure__ __tile__ __tile_global__
    __tile_builtin__ __inline__ __extension__ __inline __forceinline __restrict __cdecl
    __stdcall""".split()
)
_WITH_ARGUMENTS = frozenset(
    b"""__launch_bounds__ __cluster_dims__ __block_size__ __maxnreg__ __align__ __attribute__
    __attribute __declspec alignas""".split()
)
# A macro one of whose words is among these decorates a declaration: CUTE_HOST_DEVICE, _CCCL_API.
_MACRO_WORDS = frozenset(
    b"""INLINE FORCEINLINE NOINLINE ALWAYSINLINE DEVICE HOST HOSTDEVICE GLOBAL KERNEL EXPORT IMPORT
    API NODISCARD HIDDEN VISIBILITY ATTRIBUTE ATTRIBUTES NOEXCEPT CONSTEXPR DEPRECATED UNUSED PRAGMA
    UNROLL RESTRICT CONSTANT LIKELY TARGET FUNC FUNCTION DECL CONST SUPPRESS BOUNDS
    QUALIFIERS""".split()
)
# After a macro: the start of a declaration, or a type, a name and a parameter list.
_STARTS_DECLARATION = re.compile(
    rb"""\s+(?:
        (?: static | inline | constexpr | consteval | extern | template | typename | auto | void
          | bool | int | float | double | explicit | virtual | friend | operator )\b
      | (?! const\b | volatile\b | return\b ) [\w:]+ [\s*&]+ \w+ \s* \(
    )""",
    re.VERBOSE,
)

# A word that may be an attribute. The leading set lets the search skip blanks quickly; the
# lookbehind asks that the word begins there.
_WORD = re.compile(rb"[A-Z_a](?<!\w.)\w{2,}", re.DOTALL)
_MACRO = re.compile(rb"_*[A-Z][A-Z0-9_]{3,}")
_MAX_ARGUMENTS = 4_000  # bytes; what is longer is data, and unbalanced text must not cost n squared
_ARGUMENTS = re.compile(rb"\s*" + PAREN)
# What follows an attribute is a name, a type, or a line end; anything else is an expression.
_GOES_ON = re.compile(rb"[\s*&]*[\w:~\[]|[ \t]*(?:\n|\Z)")
_NAME_ON_LINE = re.compile(rb"[ \t]+[A-Za-z_]")
_NO, _BARE_KIND, _ARGUMENTS_KIND, _MACRO_KIND, _CAPITALS_KIND = range(5)


def attributes(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of attributes in `code`, ascending; arguments are part of the range."""
    last_end = 0
    for word in _WORD.finditer(code):
        start, end = word.span()
        kind = _kind(word[0])
        if kind == _NO or start < last_end:
            continue
        if kind != _BARE_KIND:
            arguments = _ARGUMENTS.match(code, end, end + _MAX_ARGUMENTS)
            last = arguments.end() if arguments else end
            if kind == _ARGUMENTS_KIND:
                if not arguments:
                    continue
                end = last
            elif (kind == _MACRO_KIND and _GOES_ON.match(code, last)) or (
                arguments and _NAME_ON_LINE.match(code, last)
            ):
                end = last
            elif not _STARTS_DECLARATION.match(code, end):
                continue
        last_end = end
        yield start, end


@lru_cache(maxsize=4_096)
def _kind(word: bytes) -> int:
    if word in _BARE:
        return _BARE_KIND
    if word in _WITH_ARGUMENTS:
        return _ARGUMENTS_KIND
    if not _MACRO.fullmatch(word):
        return _NO
    return _MACRO_KIND if _MACRO_WORDS.intersection(word.split(b"_")) else _CAPITALS_KIND
