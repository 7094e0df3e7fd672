"""Fixtures for all tests: no test touches the user's index, home or network settings."""

import atexit
import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from loaded import Forked, begin, forking_popen
from support import Done, TinyCorpus, kb

if TYPE_CHECKING:
    from judge.evaluate.session import Session
    from judge.sandbox.launch import Zygote

os.environ["ANONYMIZED_TELEMETRY"] = "False"
# Processes that tests start would compile all that they import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Workers share the cores. Threads of one that wait for each other by spinning take the time of the
# rest: with one thread each, judging takes half the processor time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Collecting the tests makes a million objects that stay: going through them again and again, while
# they are made and in every test that collects garbage, takes more time than many files.
gc.disable()

# Waiting for the disk is a third of what publishing an index takes. Only a power cut would show
# whether what is written is on it.
os.fsync = lambda _descriptor: None

# A shell that starts the tests in the background has them ignore Ctrl-C, their children as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A file runs whole in one worker, so those that take longest start first: no worker is left with
# one of them at the end. By processor and waiting time, the longest first; a name that is no more
# does no harm.
LONGEST = (
    "tests/server/test_evaluate_http.py",
    "tests/server/web/test_browser.py",
    "tests/kb/test_verify.py",
    "tests/corpus/test_kernels.py",
    "tests/server/test_reload.py",
    "tests/ingest/test_linear_chunking.py",
    "tests/judge/evaluate/test_attacks.py",
    "tests/server/test_evaluate_mcp.py",
    "tests/ingest/test_pipeline_kill.py",
    "tests/ingest/sources/test_packages.py",
    "tests/kb/test_index_generations.py",
    "tests/server/web/test_pages.py",
    "tests/ingest/test_bad_input.py",
    "tests/server/test_clients.py",
    "tests/server/test_robustness.py",
    "tests/judge/evaluate/test_seeds.py",
    "tests/judge/evaluate/test_timed_values.py",
    "tests/corpus/test_kernels_memory.py",
    "tests/judge/evaluate/test_interpreted.py",
    "tests/corpus/test_kernels_measure.py",
    "tests/ingest/test_hostile_sources.py",
    "tests/kb/test_context_short.py",
    "tests/agent/optimize/test_custom_op.py",
    "tests/benchmarks/optimize/test_lift.py",
    "tests/corpus/test_techniques.py",
    "tests/agent/proposers/recipe/test_families.py",
    "tests/agent/proposers/recipe/test_whole_graphs.py",
    "tests/agent/proposers/recipe/test_windows.py",
    "tests/kb/test_context_problem.py",
    "tests/kb/test_index_damage.py",
    "tests/cli/test_evaluate.py",
    "tests/corpus/test_kernels_matrix.py",
    "tests/agent/cards/test_cluster.py",
    "tests/corpus/test_kernels_drawn.py",
    "tests/benchmarks/test_retrieval_slice.py",
    "tests/agent/proposers/tune/test_tune_parameters.py",
    "tests/ingest/test_runs.py",
    "tests/server/test_readme.py",
    "tests/corpus/test_kernels_nvfp4_fused.py",
    "tests/corpus/test_kernels_conv_transpose.py",
    "tests/kb/test_cli.py",
)


# Files and folders that `--fast` leaves out besides `LONGEST`: they start servers, browsers,
# sandboxes, compilers or a process with torch for most of their tests, or measure how time grows.
SLOW = (
    "tests/agent/",
    "tests/benchmarks/",
    "tests/cli/test_evaluate.py",
    "tests/corpus/",
    "tests/ingest/sources/test_packages.py",
    "tests/ingest/test_linear_chunking.py",
    "tests/judge/evaluate/",
    "tests/judge/profile/",
    "tests/judge/sandbox/",
    "tests/judge/worker/",
    "tests/kb/test_patterns.py",
    "tests/server/",
)

pytest_plugins = ("forked",)

_INDEXES = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="Leave out what takes long: make check.")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--fast`, do not even read what is left out: reading it takes longer than the rest."""
    if not config.getoption("--fast"):
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    slow = (*LONGEST, *SLOW)
    return True if name in slow or f"{name}/" in slow else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first: workers take files in this order."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """Keep what the collection made out of later searches for garbage."""
    gc.freeze()
    gc.enable()


# Some extensions complain at the end of the process about objects that are left.
atexit.register(gc.unfreeze)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home folder that lives as long as the run, since compilers keep caches in it."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(home))
        # No test speaks TLS, and every HTTP client reads all certificates: 20 ms for each.
        patch.setenv("SSL_CERT_DIR", str(home))
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "KB_DEBUG", "COLUMNS", "SSL_CERT_FILE"):
            patch.delenv(name, raising=False)
        yield home


@pytest.fixture(autouse=True)
def index(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This test's own index folder, also for the `kb` command; it does not exist yet.

    Most tests need none: making a folder for each test would take longer than many of them.
    """
    place = tmp_path_factory.getbasetemp() / "indexes" / str(next(_INDEXES)) / "index"
    monkeypatch.setenv("KB_INDEX", str(place))
    return place


@pytest.fixture
def corpus(tmp_path: Path) -> TinyCorpus:
    """A valid small corpus."""
    return TinyCorpus(tmp_path / "corpus")


def once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that one of the workers makes, and all of them read."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_WORKER" in os.environ else base) / name
    made = place.with_suffix(".made")
    with FileLock(f"{place}.lock"):
        if not made.exists():
            shutil.rmtree(place, ignore_errors=True)  # of a worker that failed
            place.mkdir()
            make(place)
            made.touch()
    return place


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small corpus, a folder of code, and an index made of both by `kb`."""

    def make(place: Path) -> None:
        TinyCorpus(place / "corpus")
        code = place / "code"
        code.mkdir()
        (code / "norm.py").write_text(
            "def layer_norm(x, weight):\n"
            '    """Normalise rows of x and scale them by weight."""\n'
            "    mean = x.mean(-1, keepdim=True)\n"
            "    centred = x - mean\n"
            "    return centred * (centred * centred).mean(-1, keepdim=True).rsqrt() * weight\n"
        )
        (code / "notes.md").write_text("# Notes\n\nHow rows are normalised, and why in float32.\n")
        done = kb("--index", place / "index", "ingest", place / "corpus", code)
        assert done.status == 0, done.err

    return once(tmp_path_factory, "built", make)


@pytest.fixture(scope="session")
def shipped_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the shipped corpus, made once for all workers by `kb`, and only read.

    Beside it stands the report of the ingest, as `.json`.
    """

    def make(place: Path) -> None:
        corpus = Path(__file__).parents[1] / "corpus"
        done = kb("--index", place / "index", "ingest", corpus, "--json")
        assert done.status == 0, done.err
        (place / "index.json").write_text(done.out)

    return once(tmp_path_factory, "shipped", make) / "index"


@pytest.fixture
def filled(built: Path, index: Path) -> Path:
    """This test's own copy of the index made by `kb`."""
    shutil.copytree(built / "index", index)
    return index


@pytest.fixture(scope="session")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a process listens that has PyTorch loaded, for all workers to fork from."""
    return once(tmp_path_factory, "loaded", begin)


@pytest.fixture(scope="session")
def interpreted(forking: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run a script in Triton's interpreter, from a file or its text; returns what it prints.

    Each has a process of its own, in the repository's root.
    """
    root = Path(__file__).parents[1]
    place = tmp_path_factory.mktemp("interpreted")

    def run(script: Path | str, *arguments: object) -> str:
        if isinstance(script, str):
            # The interpreter reads the source of Triton functions: they have to stand in a file.
            path = place / "script.py"
            path.write_text(script)
            script = path
        output, errors = place / "output", place / "errors"
        with output.open("w") as out, errors.open("w") as err:
            process = Forked(
                forking, [str(each) for each in (script, *arguments)], cwd=str(root),
                env=os.environ | {"TRITON_INTERPRET": "1"},
                handles={1: out.fileno(), 2: err.fileno()},
            )  # fmt: skip
        try:
            status = process.wait()
        finally:
            process.kill()  # also a script that goes on when its test's time is up
        assert status == 0, (status, errors.read_text()[-3000:])
        return output.read_text()

    return run


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """The entry point of the `kb` command in this process: quicker than a new one."""
    from cli import main

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["kb", *(str(each) for each in arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        status = ended.value.code
        return Done(status if isinstance(status, int) else int(status is not None), out, err)

    return run


@pytest.fixture(scope="session", autouse=True)
def _checks_in_process() -> Iterator[None]:
    """Check generations here: a child for each costs a second, and has tests of its own."""
    from kb.index import archive, doctor, writer
    from kb.index.check import problems_of

    def check(folder: Path) -> list[str]:
        try:
            return problems_of(folder)
        except Exception as error:
            return [str(error).removesuffix(": run `kb rebuild`")]

    with pytest.MonkeyPatch.context() as patch:
        for module in (archive, doctor, writer):
            patch.setattr(module, "check_in_child", check)
        yield


@pytest.fixture(scope="session", autouse=True)
def _judges_are_forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Judges are forks of a process with PyTorch loaded, which begins when the first one does."""
    popen = forking_popen(lambda: once(tmp_path_factory, "loaded", begin))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", popen)
        yield


@pytest.fixture
def judges_are_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that looks for judges among the children of its process."""
    monkeypatch.setattr(subprocess, "Popen", subprocess.Popen.__base__)


@pytest.fixture(scope="session")
def interpreting() -> "Iterator[Zygote]":
    """Has torch and Triton's interpreter loaded: workers start in a tenth of a second."""
    from judge.sandbox.launch import Zygote

    with Zygote(interpret=True) as zygote:
        yield zygote


@pytest.fixture
def evaluation(interpreting: "Zygote") -> "Iterator[Session]":
    """A session of the judge on the CPU."""
    from judge.evaluate.session import Session

    with Session("cpu", zygote=interpreting) as session:
        yield session
