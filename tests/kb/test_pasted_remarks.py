"""Remarks on pasted kernels: what is planted is seen on its line, and its right form is not."""

from pathlib import Path

import pytest

from kb.pasted.remarks import remarks_on

TRITON = """\
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        value = tl.load(x_ptr + row * n + start + at, mask=start + at < n, other=0.0)
        total += tl.exp(value)
    tl.store(out_ptr + row * BLOCK + at, total, mask=at < n)

def host(x, out):
    kernel[(8,)](x, out, 100, 7, BLOCK=128)
"""
CUDA = """\
// double
__global__ void kernel(const float* x, float* y, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y;
    float total = 0.0f;
    for (int k = 0; k < 8; ++k) {
        total += 1.5f * x[(long long)row * columns + i + k];
    }
    if (i < columns) y[row * columns + i] = total;
}
"""


def planted(text: str, right: str, wrong: str) -> str:
    assert text.count(right) == 1
    return text.replace(right, wrong)


def test_of_right_kernels_nothing_is_said() -> None:
    assert remarks_on(TRITON).lines == ()
    assert remarks_on(CUDA).lines == ()
    assert remarks_on("softmax of long rows, written with tl.load").lines == ()
    assert remarks_on("@triton.jit\ndef broken(").lines == ()


@pytest.mark.parametrize(
    ("right", "wrong", "line", "said", "technique"),
    [
        (", mask=start + at < n, other=0.0", "", 10, "`tl.load` has no mask", None),
        (", mask=at < n", "", 12, "`tl.store` has no mask", None),
        ("dtype=tl.float32", "dtype=tl.float16", 11, "kept in 16 bits", None),
        ("tl.exp(value)", "value * tl.exp(row)", 11, "`tl.exp` does not depend on the loop of "
         "line 9", "register-caching"),
        ("total += tl.exp(value)", "tl.atomic_add(out_ptr + at, value)", 11,
         "an atomic in a loop", "atomics-privatization"),
        ("start + at, mask", "(start + at) // width, mask", 10, "divided by a run-time value",
         "shape-specialization"),
        ("start + at, mask", "(start + at) * width, mask", 10,
         "neighbouring lanes are `width` elements apart", "coalesced-access"),
        ("    tl.store(out_ptr", "    for start in range(0, n, BLOCK):\n"
         "        total += tl.load(x_ptr + row * n + start + at, mask=start + at < n)\n"
         "    tl.store(out_ptr", 5, "`x_ptr` is read in 2 loops", "register-caching"),
        ("BLOCK=128", "BLOCK=100", 15, "BLOCK=100 reaches `tl.arange`", None),
    ],
)  # fmt: skip
def test_what_is_planted_in_triton_is_seen(
    right: str, wrong: str, line: int, said: str, technique: str | None
) -> None:
    found = remarks_on(planted(TRITON, right, wrong))
    (told,) = found.lines
    assert told.startswith(f"Line {line}: ")
    assert said in told
    assert found.techniques == ((technique,) if technique else ())


@pytest.mark.parametrize(
    "form",
    [
        ("start + at, mask=start + at < n, other=0.0", "(start + at) % n"),  # within the length
        ("start + at, mask", "(start + at) * BLOCK, mask"),
        ("start + at, mask", "(start + at) * stride_x, mask"),
        ("total += tl.exp(value)", "tl.atomic_add(out_ptr + start + at, value)"),
        ("total += tl.exp(value)", "tl.atomic_add(out_ptr, 1)"),
    ],
)
def test_what_is_right_for_a_reason_is_not_named(form: tuple[str, str]) -> None:
    assert not [each for each in remarks_on(planted(TRITON, *form)).lines if "divided" not in each]


@pytest.mark.parametrize(
    ("right", "wrong", "line", "said", "technique"),
    [
        ("total += 1.5f * x[", "atomicAdd(&y[row], x[", 7, "an atomic on global memory in a loop",
         "atomics-privatization"),
        ("(long long)row * columns + i + k", "i * columns + k", 7,
         "`i` runs along the lanes (threadIdx.x) and is multiplied by `columns`",
         "coalesced-access"),
        ("1.5f", "1.5", 7, "a literal without `f` is a double", None),
        ("+ i + k]", "+ i / rows + k]", 7, "divides its index", "shape-specialization"),
        ("if (i < columns) y[row * columns + i] = total;",
         "if (threadIdx.x % 2 == 0) y[i] = total; else y[i] = -total;", 9,
         "take different branches", "divergence-avoidance"),
        ("float total = 0.0f", "half total = 0.0f", 7, "kept in 16 bits", None),
    ],
)  # fmt: skip
def test_what_is_planted_in_cuda_is_seen(
    right: str, wrong: str, line: int, said: str, technique: str | None
) -> None:
    text = planted(CUDA, right, wrong)
    found = remarks_on(text.replace("k];", "k]);") if "atomicAdd" in wrong else text)
    (told,) = found.lines
    assert told.startswith(f"Line {line}: ")
    assert said in told
    assert found.techniques == ((technique,) if technique else ())


@pytest.mark.parametrize(
    "form",
    [
        ("blockIdx.x * blockDim.x + threadIdx.x", "(blockIdx.x * blockDim.x + threadIdx.x) / 32"),
        ("total += 1.5f * x[(long long)row * columns + i + k];", "atomicAdd(&y[k], 1.0f);"),
        ("float total = 0.0f;", "float total = 0.0f; // 1.5 of a double"),
    ],
)
def test_of_warps_of_own_addresses_and_of_comments_nothing_is_said(form: tuple[str, str]) -> None:
    text = planted(CUDA, *form).replace("+ i + k]", "* columns + k]")
    assert remarks_on(text).lines == ()


RIGHT_CUDA = {
    "a histogram in shared memory, through a pointer": (
        "extern __shared__ char raw[]; int* bins = reinterpret_cast<int*>(raw);\n"
        "    for (int k = i; k < n; k += 99) atomicAdd(bins + key, 1);"
    ),
    "the next tile of a persistent kernel": (
        "while (true) { if (i == 0) tile = atomicAdd(counter, 1); }"
    ),
    "a sum whose address follows the loop": (
        "for (int t = 0; t < n; ++t) { int at = index[t]; atomicAdd(&out[at], 1.0f); }"
    ),
    "literals that are converted while compiling": (
        'float zero = 0.0; float most = fmaxf(x[0], 0.0); printf("version 1.0 * 2");'
    ),
    "a store of one lane in four": "if (threadIdx.x % 4 == 0) out[0] = zero;",
    "whole warps that branch": "if (threadIdx.x % 64 < 32) a(); else b();",
    "a value that is no sum over the loop": (
        "for (int k = 0; k < n; ++k) { half a = s[k]; a = a + s[k + 1]; acc += float(a); }"
    ),
    "a divisor of the template": "for (int k = 0; k < n; ++k) j = i / (WIDTH / 8);",
    "numbers that are no addresses": "float at = start + i * step;",
}


@pytest.mark.parametrize("name", RIGHT_CUDA)
def test_of_right_cuda_nothing_is_said(name: str) -> None:
    head = "template <int WIDTH>\n__global__ void later(float*, int);\nfloat b = n * 1.5;\n"
    head += "__global__ void k(float* out, const float* x, int n) {\n"
    head += "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    "
    assert remarks_on(head + RIGHT_CUDA[name] + "\n}\n").lines == ()


RIGHT_TRITON = {
    "what a loop stores is loaded again": (
        "    for s in range(n):\n        a = tl.load(o_ptr + at, mask=at < n)\n"
        "        tl.store(o_ptr + at, tl.exp(a), mask=at < n)\n"
    ),
    "annotated names": (
        "    for s in range(n):\n        a: tl.tensor = tl.load(x_ptr + s)\n        b = tl.exp(a)\n"
    ),
    "a sum that was converted": (
        "    acc = tl.zeros([B], tl.float16)\n    acc = acc.to(tl.float32)\n"
        "    for s in range(n):\n        acc += s\n"
    ),
    "a branch for whole blocks": (
        "    if EVEN:\n        a = tl.load(x_ptr + at)\n    else:\n"
        "        a = tl.load(x_ptr + at, mask=at < n)\n"
    ),
    "loops of which one runs": (
        "    if EVEN:\n        for s in range(n):\n            a = tl.load(x_ptr + s)\n"
        "    else:\n        for s in range(n):\n            a = tl.load(x_ptr + s)\n"
    ),
    "a divisor that is constant": (
        "    part = B // 4\n    for s in range(n):\n        a = (s + at) % part\n"
    ),
}


@pytest.mark.parametrize("name", RIGHT_TRITON)
def test_of_right_triton_nothing_is_said(name: str) -> None:
    head = "@triton.jit\ndef k(x_ptr, o_ptr, n, EVEN: tl.constexpr, B: tl.constexpr):\n"
    assert remarks_on(head + "    at = tl.arange(0, B)\n" + RIGHT_TRITON[name]).lines == ()


@pytest.mark.parametrize(
    "body",
    [
        "x = " + "+".join("p" * 1500),
        "x = " + "-" * 1500 + "p",
        "for i in range(9):\n"
        + "".join(f"        a{n} = a{n + 1}\n" for n in range(190))
        + "        b = " + " + ".join(["tl.exp(c)"] * 30),
    ],
)  # fmt: skip
def test_hostile_triton_is_read_at_once(body: str) -> None:
    remarks_on(f"@triton.jit\ndef k(p, c):\n    {body}\n")


def test_many_lines_with_the_same_fault_are_one_sentence() -> None:
    loads = "\n".join(f"    v{n} = tl.load(x_ptr + at)" for n in range(9))
    text = planted(
        TRITON, "    total = tl.zeros([BLOCK], dtype=tl.float32)", loads + "\n    total = 0"
    )
    (told,) = remarks_on(text).lines
    assert told.startswith("Lines 8, 9, 10, 11 and more: `tl.load` has no mask")


@pytest.mark.parametrize(
    "unit",
    ["x = 1.0 * a / b; ", "for (;;) { ", "atomicAdd(&", "int i = threadIdx.x;", "half a = 0;"],
)
def test_the_time_for_foreign_cuda_grows_with_its_length(unit: str) -> None:
    text = "__global__ void k() { " + unit * (30_000 // len(unit))
    assert len(text) > 20_000
    remarks_on(text)  # ends: what is quadratic in 30,000 characters takes minutes


def test_corpus_kernels_have_few_remarks() -> None:
    files = [*Path("corpus/kernels").rglob("*.py"), *Path("corpus/kernels").rglob("*.cu")]
    told = [line for file in files for line in remarks_on(file.read_text()).lines]
    assert len(told) < len(files) / 4
