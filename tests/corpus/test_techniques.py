"""What every technique entry holds: code that runs, patterns that recognise, reasons, sources."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kb import nvcc
from kb.architectures import parse_architecture
from kb.corpus.comments import without_comments
from kb.corpus.entries import IN_SHORT, Gate, Technique
from kb.corpus.loader import KernelFile, TechniqueFile, load_shipped_corpus
from kb.patterns import LinearPattern, encoded

CORPUS = load_shipped_corpus()
TECHNIQUES = {each.entry.slug: each for each in CORPUS.techniques}

# Each of these shows in the structure of the code, so code without it must not be taken for it. The
# others are also a matter of degree (a plain kernel can be coalesced), and match more widely.
STRUCTURAL = ("tma-host-descriptor", "tma-device-descriptor", "persistent-kernel", "split-k")
# Shorter lines may coincide by chance: "Sweep it.", a list of two names.
SHORTEST_PARAGRAPH = 60

every_technique = pytest.mark.parametrize("file", TECHNIQUES.values(), ids=TECHNIQUES)


def fences(text: str, language: str = r"\w+") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(file: TechniqueFile, title: str) -> str:
    parts = re.split(r"^## (.+)$", file.front.body, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[title]


def paragraphs(file: TechniqueFile) -> set[str]:
    prose = re.sub(r"^```.*?^```$", "", file.front.body, flags=re.MULTILINE | re.DOTALL)
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n|\n- ", prose))
    return {block for block in blocks if len(block) >= SHORTEST_PARAGRAPH}


def code_of(kernel: KernelFile) -> str:
    """The kernel without comments and docstrings, which may name a technique that it lacks."""
    if kernel.entry.language == "cuda":
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", kernel.text, flags=re.DOTALL)
    tree = ast.parse(kernel.text)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        if documented and ast.get_docstring(node):
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


def recognised(technique: Technique, language: str, code: str) -> list[str]:
    patterns = technique.detect.triton if language == "triton" else technique.detect.cuda
    return [pattern for pattern in patterns if LinearPattern(pattern).search(encoded(code))]


@every_technique
def test_python_code_in_an_entry_parses(file: TechniqueFile) -> None:
    for code in fences(file.front.body, "python"):
        ast.parse(code)


@every_technique
def test_every_code_block_names_its_language(file: TechniqueFile) -> None:
    opening = re.findall(r"^```(.*)$", file.front.body, re.MULTILINE)[::2]
    assert set(opening) <= {"python", "cuda", "cpp", "bash", "text"}


@every_technique
def test_before_and_after_shows_both_versions(file: TechniqueFile) -> None:
    assert len(fences(section(file, "Before and after"))) >= 2


@every_technique
def test_every_gate_says_why(file: TechniqueFile) -> None:
    for gate in (*file.entry.when, *file.entry.avoid_when):
        assert len(gate.because) >= 20, gate.metric


@every_technique
def test_every_entry_rests_on_two_sources_or_more(file: TechniqueFile) -> None:
    assert len({source.url for source in file.entry.sources}) >= 2


@every_technique
def test_no_measured_value_speaks_both_for_and_against(file: TechniqueFile) -> None:
    def values(gate: Gate) -> tuple[float, float, float]:
        return gate.value - 1e-6, gate.value, gate.value + 1e-6

    for helps in file.entry.when:
        for hurts in file.entry.avoid_when:
            if helps.metric == hurts.metric:
                for value in (*values(helps), *values(hurts)):
                    assert not (helps.holds(value) and hurts.holds(value)), (helps.metric, value)


@every_technique
@pytest.mark.parametrize("language", ["triton", "cuda"])
def test_patterns_recognise_the_kernels_that_show_it(file: TechniqueFile, language: str) -> None:
    entry = file.entry
    shown_by = [
        kernel
        for kernel in CORPUS.kernels
        if entry.slug in kernel.entry.techniques and kernel.entry.language == language
    ]
    patterns = entry.detect.triton if language == "triton" else entry.detect.cuda
    if not shown_by or not patterns:
        pytest.skip(f"no {language} kernel shows it, or it has no pattern there")
    assert any(recognised(entry, language, code_of(kernel)) for kernel in shown_by)


@pytest.mark.parametrize("kernel", CORPUS.kernels, ids=lambda kernel: kernel.entry.slug)
def test_patterns_pass_over_kernels_without_the_technique(kernel: KernelFile) -> None:
    entry = kernel.entry
    for slug in STRUCTURAL:
        if slug in TECHNIQUES and slug not in entry.techniques:
            matched = recognised(TECHNIQUES[slug].entry, entry.language, code_of(kernel))
            assert not matched, f"taken for {slug}"


def test_a_plain_kernel_is_taken_for_no_reordering_or_pipelining() -> None:
    for kernel in CORPUS.kernels:
        if not kernel.entry.techniques:
            for slug in ("pid-swizzling", "software-pipelining", "tensor-cores"):
                matched = recognised(TECHNIQUES[slug].entry, kernel.entry.language, code_of(kernel))
                assert not matched, (kernel.entry.slug, slug)


@every_technique
def test_no_entry_repeats_a_paragraph_of_another(file: TechniqueFile) -> None:
    own = paragraphs(file)
    for other in CORPUS.techniques:
        if other.entry.slug != file.entry.slug:
            assert not own & paragraphs(other), other.entry.slug


SNIPPETS = [
    ("tma-host-descriptor", "triton", "d = TensorDescriptor.from_tensor(x, [64, 64])", True),
    ("tma-host-descriptor", "triton", "d = TensorDescriptor(x, x.shape, x.stride(), [8, 8])", True),
    ("tma-host-descriptor", "triton", "d = tl.make_tensor_descriptor(p, [M], [1], [64])", False),
    ("tma-host-descriptor", "triton", "x = desc.load([i, j])", False),
    ("tma-host-descriptor", "cuda", "void f(const __grid_constant__ CUtensorMap map) {", True),
    ("tma-host-descriptor", "cuda", "encode(cuTensorMapEncodeTiled)", True),
    ("tma-host-descriptor", "cuda", "tensormap_replace_global_address(space, map, p);", False),
    ("tma-device-descriptor", "triton", "d = tl.make_tensor_descriptor(p, [M], [1], [64])", True),
    ("tma-device-descriptor", "triton", "d = tl._experimental_make_tensor_descriptor(p)", True),
    ("tma-device-descriptor", "triton", "d = TensorDescriptor.from_tensor(x, [64])", False),
    ("tma-device-descriptor", "cuda", "ptx::tensormap_cp_fenceproxy(release, gpu, a, b);", True),
    ("tma-device-descriptor", "cuda", "const __grid_constant__ CUtensorMap map", False),
    ("pid-swizzling", "triton", "m, n = tl.swizzle2d(i, j, rows, cols, 8)", True),
    ("pid-swizzling", "triton", "per_group = GROUP_SIZE_M * num_pid_n", True),
    ("pid-swizzling", "triton", "pid_m = pid // tiles_n\npid_n = pid % tiles_n", False),
    ("pid-swizzling", "triton", "scale = tl.load(s_ptr + k // group_size)", False),
    ("pid-swizzling", "cuda", "using Swizzle = GemmIdentityThreadblockSwizzle<8>;", True),
    ("pid-swizzling", "cuda", "using Swizzle = GemmIdentityThreadblockSwizzle<>;", False),
    ("pid-swizzling", "cuda", "const int g = blockIdx.x / blocks_in_group;", True),
    ("pid-swizzling", "cuda", "const int m = blockIdx.x / tiles_n;", False),
    ("persistent-kernel", "triton", "for t in tl.range(pid, tiles, NUM_SMS, flatten=True):", True),
    ("persistent-kernel", "triton", "for t in range(pid, n, tl.num_programs(0)):", True),
    ("persistent-kernel", "triton", "for k in range(0, tl.cdiv(K, BLOCK_K)):", False),
    ("persistent-kernel", "triton", "x = torch.flatten(x)", False),
    ("persistent-kernel", "cuda", "for (int t = blockIdx.x; t < n; t += gridDim.x) {", True),
    (
        "persistent-kernel",
        "cuda",
        "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)",
        False,
    ),
    ("software-pipelining", "triton", "for k in tl.range(0, K, BK, num_stages=STAGES):", True),
    ("software-pipelining", "triton", "for k in tl.range(0, tl.cdiv(K, 8), num_stages=4):", True),
    ("software-pipelining", "triton", "for k in tl.range(0, K, BK, num_stages=1):", False),
    ("software-pipelining", "triton", "for k in range(0, K, BK):", False),
    ("software-pipelining", "cuda", "__pipeline_wait_prior(STAGES - 1);", True),
    ("software-pipelining", "cuda", 'asm volatile("cp.async.wait_group %0;" ::"n"(2));', True),
    ("software-pipelining", "cuda", "__syncthreads();", False),
    ("split-k", "triton", "for k in range(pid_k * BK, K, BK * SPLIT_K):", True),
    ("split-k", "triton", "parts = torch.split(keys, 8)", False),
    ("split-k", "cuda", "const int split_k = gridDim.z;", True),
    ("split-k", "cuda", "const int split = key >> 4;", False),
    ("tensor-cores", "triton", "acc = tl.dot(a.to(tl.float16), b, acc)", True),
    ("tensor-cores", "triton", "acc = tl.dot(a, b.T, acc, input_precision='tf32x3')", True),
    ("tensor-cores", "triton", 'acc = tl.dot(a, b, acc, input_precision="ieee")', False),
    ("tensor-cores", "triton", "acc += tl.sum(a[:, :, None] * b[None, :, :], axis=1)", False),
    ("tensor-cores", "cuda", "wmma::mma_sync(acc, fa, fb, acc);", True),
    ("tensor-cores", "cuda", 'asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ...");', True),
    ("tensor-cores", "cuda", "sum = fmaf(a, b, sum);", False),
]


@pytest.mark.parametrize(("slug", "language", "code", "shows"), SNIPPETS)
def test_a_pattern_tells_code_with_the_technique_from_code_without(
    slug: str, language: str, code: str, shows: bool
) -> None:
    assert bool(recognised(TECHNIQUES[slug].entry, language, code)) is shows


# Runs the two versions of each entry on equal inputs in Triton's CPU interpreter. The function that
# a fragment defines says what it computes; small tiles keep the interpreter fast.
DRIVER = """
import importlib.util, json, pathlib, sys, torch
generator = torch.Generator().manual_seed(0)
normal = lambda *size: torch.randn(*size, generator=generator)
a, b = normal(40, 56).half(), normal(56, 72).half()
x, y, flat, image = normal(70, 40), normal(70, 40), normal(5000), normal(2, 20, 5, 7)
square, wide, offsets = normal(60, 60), normal(60, 40), torch.tensor([0, 7, 7, 4000, 4990])
codes, factors = torch.randint(-8, 8, (56, 72), generator=generator).to(torch.int8), normal(72)
spread = normal(200, 256) * 2.0 ** torch.arange(200)[:, None].remainder(9)
exponents = torch.zeros(256, 8)
exponents[:200] = torch.frexp(spread.view(200, 8, 32).abs().amax(2)).exponent + 126 - 8
CALLS = {
    "matmul": (lambda f: f(a, b, 16, 16, 16), a.float() @ b.float()),
    "add": (lambda f: f(x, y, 16, 16), x + y),
    "scale": (lambda f: f(flat), 2 * flat),
    "softmax": (lambda f: f(x), torch.softmax(x, -1)),
    "row_sums": (lambda f: f(x), x.sum(1)),
    "ragged_sums": (lambda f: f(flat, offsets), torch.stack([
        part.sum() for part in flat[:4990].split(offsets.diff().tolist())])),
    "channel_sum": (lambda f: f(image), image.sum(1)),
    "tril_matmul": (lambda f: f(square, wide, 32, 16, 16), square.tril() @ wide),
    "multiply": (lambda f: f(x, y), x * y),
    "linear": (lambda f: f(a.float(), codes, factors), a.float() @ (codes.float() * factors)),
    "scales": (lambda f: f(spread), exponents.view(2, 4, 32, 2, 4).permute(0, 3, 2, 1, 4)),
}
errors = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, (call, expected) in CALLS.items():
        if hasattr(module, name):
            error = (call(getattr(module, name)).float() - expected).abs().max().item()
            errors[path.stem] = error / expected.abs().max().item()
print(json.dumps(errors))
"""

# The entries whose two versions follow the driver's calling convention.
RUNNABLE = [
    "tma-host-descriptor",
    "tma-device-descriptor",
    "pid-swizzling",
    "persistent-kernel",
    "software-pipelining",
    "split-k",
    "stream-k",
    "tensor-cores",
    "online-reduction",
    "thread-coarsening",
    "thread-utilization",
    "load-balancing",
    "data-layout-transform",
    "structural-sparsity",
    "programmatic-dependent-launch",
    "dequant-fusion",
    "block-scaled-layouts",
]
# Half-precision results of a 56-term sum, rounded once.
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def relative_errors(
    tmp_path_factory: pytest.TempPathFactory, interpreted: Callable[..., str]
) -> dict[str, float]:
    folder = tmp_path_factory.mktemp("fragments")
    for slug in RUNNABLE:
        versions = fences(section(TECHNIQUES[slug], "Before and after"), "python")
        for name, code in zip(("before", "after"), versions, strict=True):
            (folder / f"{slug}_{name}.py").write_text(code, encoding="utf-8")
    return json.loads(interpreted(DRIVER, folder))


@pytest.mark.parametrize("slug", RUNNABLE)
def test_both_versions_of_an_entry_compute_the_same(
    slug: str, relative_errors: dict[str, float]
) -> None:
    assert relative_errors[f"{slug}_before"] < TOLERANCE
    assert relative_errors[f"{slug}_after"] < TOLERANCE


# Runs the Python code of *In short* of all entries in one process, each file as it would be pasted.
SHORT_DRIVER = """
import json, os, pathlib, runpy, sys, traceback
os.chdir(sys.argv[1])
failed = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    try:
        runpy.run_path(str(path), run_name="__main__")
    except BaseException:
        failed[path.stem] = traceback.format_exc(limit=-3)
print(json.dumps(failed))
"""
# The oldest compute capability that nvcc 13 compiles for.
NVCC_FLOOR = 75
# From this one on, instructions such as multicast exist only for a target with the suffix `a`.
SUFFIXED = 90


def short_code(language: str) -> dict[str, str]:
    """Slug → the code block of *In short*, of the entries that have it in this language."""
    found = {slug: fences(section(file, IN_SHORT), language) for slug, file in TECHNIQUES.items()}
    return {slug: blocks[0] for slug, blocks in found.items() if blocks}


def asserts(code: str) -> bool:
    """Whether Python code compares what it computed: by `assert`, or by torch's own."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Attribute) and node.attr == "assert_close")
        for node in ast.walk(ast.parse(code))
    )


@pytest.fixture(scope="module")
def failures_in_short(
    tmp_path_factory: pytest.TempPathFactory, interpreted: Callable[..., str]
) -> dict[str, str]:
    """Slug → traceback, of the blocks of *In short* that failed in Triton's CPU interpreter."""
    folder = tmp_path_factory.mktemp("short")
    for slug, code in short_code("python").items():
        (folder / f"{slug}.py").write_text(code, encoding="utf-8")
    return json.loads(interpreted(SHORT_DRIVER, folder).splitlines()[-1])


@pytest.mark.parametrize("slug", short_code("python"))
def test_the_python_code_in_short_runs_and_compares_its_result(
    slug: str, failures_in_short: dict[str, str]
) -> None:
    assert asserts(short_code("python")[slug])
    assert slug not in failures_in_short, failures_in_short[slug]


@pytest.mark.parametrize("slug", short_code("cuda"))
def test_the_cuda_code_in_short_compiles_for_the_oldest_architecture(
    slug: str, tmp_path: Path
) -> None:
    try:
        nvcc.find_nvcc()
    except nvcc.NvccError as missing:
        pytest.skip(str(missing))
    source = tmp_path / f"{slug}.cu"
    source.write_text(short_code("cuda")[slug], encoding="utf-8")
    targets = map(parse_architecture, TECHNIQUES[slug].entry.architectures)
    capability = max(NVCC_FLOOR, min(target.capability for target in targets))
    nvcc.compile_cubin(source, f"sm_{capability}{'a' if capability >= SUFFIXED else ''}")


@every_technique
def test_the_code_in_short_shows_its_technique(file: TechniqueFile) -> None:
    slug = file.entry.slug
    language = "triton" if slug in short_code("python") else "cuda"
    code = short_code("python" if language == "triton" else "cuda")[slug]
    patterns = file.entry.detect.triton if language == "triton" else file.entry.detect.cuda
    if not patterns:
        pytest.skip(f"it has no {language} pattern")
    assert recognised(file.entry, language, without_comments(code, language))


@every_technique
def test_the_prose_in_short_ends_its_sentences(file: TechniqueFile) -> None:
    prose = section(file, IN_SHORT).split("```")[0].strip()
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", prose):
        assert paragraph.rstrip()[-1] in ".:", paragraph
