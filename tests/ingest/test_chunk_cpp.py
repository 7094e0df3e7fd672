"""CUDA and C++ become pieces by function, with exact extents."""

from pathlib import PurePosixPath

import pytest

from ingest.chunkers import Piece, chunk_file
from ingest.chunkers.cpp import definitions
from ingest.chunkers.limits import CLASS_CHARS, MAX_CHARS


def chunk(text: str, name: str = "a.cu") -> list[Piece]:
    return chunk_file(PurePosixPath(name), text)


def named(pieces: list[Piece], symbol: str) -> Piece:
    (piece,) = [piece for piece in pieces if piece.symbol == symbol]
    return piece


KERNEL = """\
template <typename T, int N = 4>
__global__ void __launch_bounds__(256, 2) scale(T* __restrict__ x, const __grid_constant__ P p) {
  asm volatile("{ mov.u32 %0, 1; }" : "=r"(n) :: "memory");
  if (i < n) { x[i] *= a; }
}
"""


def test_a_kernel_holds_its_template_header_attributes_and_comment() -> None:
    text = (
        f"#include <a.h>\n\nnamespace ns {{\n// Scales in place.\n{KERNEL}\n}}  // namespace ns\n"
    )
    kernel = named(chunk(text), "ns::scale")
    assert kernel.text == "// Scales in place.\n" + KERNEL.rstrip("\n")
    assert (kernel.start_line, kernel.end_line) == (4, 9)
    assert kernel.is_kernel
    assert kernel.language == "cuda"
    assert kernel.signature is not None
    assert kernel.signature.startswith("template <typename T, int N = 4> __global__ void")


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void k(int a)",
        'extern "C" __global__ void k(int a)',
        "__global__ void __launch_bounds__(A<B>(1), (2)) __cluster_dims__(2, 1, 1) k(int a)",
        "__global__ FOO_LAUNCH_BOUNDS(N) void k(int a)",
        "CUTLASS_GLOBAL void k(int a)",
        "template <class T, class = std::enable_if_t<(N > 0)>>\n__global__ void k(T a)",
        "static __global__ __attribute__((maxnreg(32))) void\nk(int a)",
        "FOO_EXPORT\n__global__ void k(int a)",
        "template <int N>\nrequires(N > 1)\n__global__ void k(int a)",
        "#if X\n__global__ void k(int a)\n#else\n__global__ void k(float a)\n#endif\n",
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        "{ }",
        "{\n#if X\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n}",
        '{\n  const char* s = "}"; char c = \'}\'; /* } */ // }\n  auto r = R"x(}})x";\n}',
        "{\n  auto f = [&](int x) { return x; };\n  g<<<1, 2>>>(f);\n  int big = 1'000'000;\n}",
    ],
)
def test_a_kernel_is_found_to_the_byte(head: str, body: str) -> None:
    before = "FOO_NAMESPACE_BEGIN\n\nint table[] = {1, 2};\n"
    source = f"{before}{head} {body}\nvoid after() {{}}\n".encode()
    kernels = [definition for definition in definitions(source) if definition.is_kernel]
    assert [definition.symbol for definition in kernels] == ["k"]
    # In the two-headed case the first header that is compiled begins the definition.
    start = source.index(head.removeprefix("#if X\n").encode())
    end = source.index(b"\nvoid after")
    assert (kernels[0].start, kernels[0].end) == (start, end)


def test_declarations_and_explicit_instantiations_are_no_kernels() -> None:
    text = "__global__ void k(int);\ntemplate __global__ void k<1>(int);\n#define K __global__ {}\n"
    assert not any(piece.is_kernel or piece.symbol for piece in chunk(text))


def test_a_macro_call_above_a_blank_line_does_not_begin_the_function() -> None:
    source = b"DEFINE_MEMBER(a)\nDEFINE_MEMBER(b)\n\nvoid f() {}\n"
    (definition,) = definitions(source)
    assert source[definition.start : definition.end] == b"void f() {}"


def test_a_namespace_macro_before_a_namespace_hides_nothing() -> None:
    text = f"LIB_NAMESPACE_BEGIN\n\nnamespace a::b {{\n{KERNEL}}}\nLIB_NAMESPACE_END\n"
    assert named(chunk(text), "a::b::scale").is_kernel


def test_a_launcher_is_no_kernel() -> None:
    text = KERNEL + "\nvoid run() {\n  scale<float, 4><<<grid, block, 0, s>>>(x);\n}\n"
    assert not named(chunk(text), "run").is_kernel


def test_a_small_class_stays_whole_and_a_large_one_becomes_its_methods() -> None:
    method = "  int method{n}(int a) {{\n{body}  }}\n"
    body = "    a += a * 2;  // keeps the method above the size of an accessor\n" * 8
    small = "struct S {\n  int get() { return 1; }\n};\n"
    large = "namespace n {\ntemplate <class T>\nclass L : public B<T> {\n public:\n  int field;\n"
    large += "".join(method.format(n=n, body=body) for n in range(6)) + "};\n}\n"
    assert len(large) > CLASS_CHARS
    pieces = chunk(small + "\n" + large, "a.hpp")
    assert named(pieces, "S").text == small.rstrip("\n")
    for n in range(6):
        assert named(pieces, f"n::L::method{n}").text.startswith(f"  int method{n}(int a)")
    field = next(piece for piece in pieces if "int field;" in piece.text)
    assert field.symbol == "n::L"


def test_accessors_of_a_large_class_stay_together_under_its_name() -> None:
    getters = "".join(f"  int get{n}() const {{ return field{n}; }}\n" for n in range(100))
    pieces = chunk("class L {\n" + getters + "};\n", "a.hpp")
    assert {piece.symbol for piece in pieces} == {"L"}
    assert len(pieces) < 10


def test_the_language_is_cuda_only_where_cuda_is_spoken() -> None:
    assert {piece.language for piece in chunk("int f() { return 1; }\n", "a.hpp")} == {"cpp"}
    assert {piece.language for piece in chunk("__device__ int f() { return 1; }\n", "a.h")} == {
        "cuda"
    }
    assert {piece.language for piece in chunk("int f() { return 1; }\n", "a.cuh")} == {"cuda"}


def test_an_over_long_function_is_cut_between_statements() -> None:
    block = "  if (x > {n}) {{\n    foo(x,\n        {n});\n    bar();\n  }}\n"
    text = "void f(int x) {\n" + "".join(block.format(n=n) for n in range(400)) + "}\n"
    parts = [piece for piece in chunk(text) if piece.symbol == "f"]
    assert len(parts) > 1
    assert all(len(part.text) <= MAX_CHARS for part in parts)
    assert all(part.text.startswith("  if (x > ") for part in parts[1:])
    assert len({part.signature for part in parts}) == 1
    assert "\n".join(part.text for part in parts) == text.rstrip("\n")


def test_cuts_prefer_the_outermost_statements() -> None:
    inner = "      a();\n" * 30
    loop = "  for (;;) {\n    {\n" + inner + "    }\n  }\n"
    parts = chunk("void f() {\n" + loop * 40 + "}\n")
    assert all(part.text.startswith("  for (;;) {") for part in parts[1:])


def test_what_follows_broken_code_is_still_found() -> None:
    text = "}\n}\nint = = 3 @ $;\nclass {;\n};\nvoid broken() { ((( ]] }\n\n" + KERNEL
    assert named(chunk(text), "scale").is_kernel


def test_a_licence_header_stands_alone_and_is_trivial() -> None:
    text = "/*\n * Copyright (c) 2026 X.\n * Licensed under the Y.\n */\n#pragma once\nint x = 1;\n"
    licence, rest = chunk(text, "a.h")
    assert licence.is_trivial
    assert (licence.start_line, licence.end_line) == (1, 4)
    assert not rest.is_trivial


@pytest.mark.parametrize(
    "text",
    [
        "}  // namespace a",
        "#endif  // A_H_\n\n}",
        "};",
        "//////////",
        "LIB_NAMESPACE_END",
        " public:",
    ],
)
def test_what_only_closes_scopes_is_trivial(text: str) -> None:
    assert all(piece.is_trivial for piece in chunk(text))


@pytest.mark.parametrize("text", ["int x;", "// Explains a trick.", "#define N 4", "f();"])
def test_what_says_something_is_not_trivial(text: str) -> None:
    assert not any(piece.is_trivial for piece in chunk(text))


def test_symbols_are_short_and_on_one_line() -> None:
    arguments = ",\n    ".join(f"Parameter{n}" for n in range(10))
    text = f"template <class T>\nstruct S<\n    {arguments}> {{}};\n"
    text += "template <>\nstruct V<half> {};\n"
    text += "void S<int>::run() {}\nbool operator<(A a, A b) { return true; }\n"
    assert [piece.symbol for piece in chunk(text)] == ["S", "V<half>", "S::run", "operator<"]
