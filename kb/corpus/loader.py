"""Load a corpus folder: every technique and kernel entry, with references between them checked."""

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kb.corpus.entries import Kernel, Technique
from kb.corpus.frontmatter import (
    FrontMatter,
    line_of_key,
    split_front_matter,
    validate_front_matter,
)
from kb.corpus.sections import check_sections
from kb.errors import EntryError
from kb.files import read_below
from kb.vocabulary import taxonomy

MANIFEST = "corpus.yaml"
_KERNEL_SUFFIXES = {".py", ".cu"}


class CorpusManifest(BaseModel):
    """`corpus.yaml`: how results from this corpus are cited."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    version: str
    licence: str
    url: str | None = None
    quality: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Source quality weight in ranking, 0 to 1."""


@dataclass(frozen=True, slots=True)
class TechniqueFile:
    """A technique entry and its file."""

    entry: Technique
    path: str
    text: str
    front: FrontMatter


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A kernel entry and its file; `launcher` is the `.py` beside a `.cu`, and
    `launch_code` what stands there."""

    entry: Kernel
    path: str
    text: str
    front: FrontMatter
    launcher: str | None = None
    launch_code: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A validated corpus folder."""

    root: Path
    manifest: CorpusManifest
    techniques: tuple[TechniqueFile, ...]
    kernels: tuple[KernelFile, ...]


def is_corpus(root: Path) -> bool:
    """Whether `root` is a corpus folder: it holds a `corpus.yaml`."""
    return os.path.isfile(root / MANIFEST)  # noqa: PTH113 - False, too, where none may look


def load_corpus(root: Path) -> Corpus:
    """Read and validate every entry under `techniques/` and `kernels/`.

    Raises
    ------
    EntryError
        A malformed entry, a duplicate slug, or a reference to an entry that does not exist;
        names file and line.
    """
    manifest = _load_manifest(root)
    techniques = tuple(_technique(root, path) for path in _files(root / "techniques", {".md"}))
    kernels = tuple(_kernels(root))
    _check_unique(techniques)
    _check_unique(kernels)
    _check_references(techniques, kernels)
    return Corpus(root, manifest, techniques, kernels)


def _load_manifest(root: Path) -> CorpusManifest:
    if not is_corpus(root):
        raise EntryError(f"{root} is not a corpus: it has no readable {MANIFEST}")
    _, text = _read(root, root / MANIFEST)
    front = FrontMatter(yaml=text, first_line=1, body="", body_line=1)
    return validate_front_matter(front, CorpusManifest, MANIFEST)


def _files(folder: Path, suffixes: set[str]) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(
            path
            for path in folder.rglob("*")
            if path.suffix in suffixes and "__pycache__" not in path.parts and not path.is_dir()
        )


def _read(root: Path, path: Path) -> tuple[str, str]:
    name = path.relative_to(root).as_posix()
    try:
        return name, read_below(root, name).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise EntryError(f"{name}: not valid UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise EntryError(f"{name}: cannot be read: {error.strerror}") from error


def _technique(root: Path, path: Path) -> TechniqueFile:
    name, text = _read(root, path)
    front = split_front_matter(text, name)
    if front is None:
        raise EntryError(f"{name}:1: a technique entry starts with front matter between --- lines")
    entry = validate_front_matter(front, Technique, name)
    file = TechniqueFile(entry, name, text, front)
    if entry.slug != path.stem:
        raise _at(file, "slug", f"slug '{entry.slug}' differs from the file name")
    if path.parent.name not in entry.bottlenecks:
        listed = ", ".join(entry.bottlenecks)
        problem = f"is in folder '{path.parent.name}', but its bottlenecks are {listed}"
        raise _at(file, "bottlenecks", problem)
    check_sections(name, front)
    return file


def _kernels(root: Path) -> Iterator[KernelFile]:
    for path in _files(root / "kernels", _KERNEL_SUFFIXES):
        launcher = path.with_suffix(".py") if path.suffix == ".cu" else None
        if path.suffix == ".py" and os.path.lexists(path.with_suffix(".cu")):
            continue  # the launch code of a .cu file
        name, text = _read(root, path)
        front = split_front_matter(text, name)
        if front is None:
            raise EntryError(f"{name}:1: a kernel's leading comment holds front matter between ---")
        entry = validate_front_matter(front, Kernel, name)
        relative, launch_code = None, ""
        if launcher is not None:
            if not os.path.lexists(launcher):
                raise EntryError(f"{name}:1: its launch code, {launcher.name}, is missing")
            relative, launch_code = _read(root, launcher)
        file = KernelFile(entry, name, text, front, relative, launch_code)
        if (entry.language == "cuda") != (path.suffix == ".cu"):
            raise _at(file, "language", f"language '{entry.language}' in a {path.suffix} file")
        yield file


def _check_unique(files: tuple[TechniqueFile, ...] | tuple[KernelFile, ...]) -> None:
    path_of: dict[str, str] = {}
    for file in files:
        slug = file.entry.slug
        if slug in path_of:
            raise _at(file, "slug", f"slug '{slug}' is already taken by {path_of[slug]}")
        path_of[slug] = file.path


def _at(file: TechniqueFile | KernelFile, key: str, problem: str) -> EntryError:
    return EntryError(f"{file.path}:{line_of_key(file.front, key)}: {problem}")


def _check_references(
    techniques: tuple[TechniqueFile, ...], kernels: tuple[KernelFile, ...]
) -> None:
    known_kernels = {file.entry.slug: file.entry for file in kernels}
    known_techniques = {file.entry.slug for file in techniques}
    known_techniques.update(slug for slugs in taxonomy().values() for slug in slugs)
    for technique in techniques:
        own_slug = technique.entry.slug
        for slug in technique.entry.examples:
            if slug not in known_kernels:
                problem = f"examples names '{slug}', which is not a kernel of this corpus"
                raise _at(technique, "examples", problem)
            # The kernel's own list makes the link; `examples` only puts the best first.
            if own_slug not in known_kernels[slug].techniques:
                problem = f"example '{slug}' does not list technique '{own_slug}'"
                raise _at(technique, "examples", problem)
    for kernel in kernels:
        base = kernel.entry.derived_from
        if base is not None and base not in known_kernels:
            problem = f"derived_from names '{base}', which is not a kernel of this corpus"
            raise _at(kernel, "derived_from", problem)
        for slug in kernel.entry.techniques:
            if slug not in known_techniques:
                raise _at(kernel, "techniques", f"unknown technique '{slug}'")


def shipped_corpus() -> Path:
    """The corpus that comes with the package: inside it when installed, beside it in a checkout.

    Raises
    ------
    EntryError
        If the installation has none.
    """
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "data" / "corpus", package.parent / "corpus"):
        if is_corpus(candidate):
            return candidate
    raise EntryError("this installation has no corpus: give the path of one")


@functools.cache
def load_shipped_corpus() -> Corpus:
    """The shipped corpus, read once: an installation does not change under a process.

    Raises
    ------
    EntryError
        The installation has none.
    """
    return load_corpus(shipped_corpus())
