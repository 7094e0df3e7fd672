"""Export a generation to one file, and import it on another machine."""

import contextlib
import os
import shlex
import shutil
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path

from kb.errors import IndexMismatchError, IndexUnavailableError, InvalidInputError, KbError
from kb.index.cache import EmbeddingCache
from kb.index.check import check_in_child
from kb.index.layout import CHUNKS, VECTORS
from kb.index.manifest import Manifest, read_manifest, write_manifest
from kb.index.reader import open_generation
from kb.index.store import ChunkStore
from kb.index.vectors import VectorMatrix
from kb.index.writer import IndexWriter, explain_write_errors
from kb.printable import one_line
from kb.records import text_hash

_ROOT = "kernel-kb-index"
# What an archive may unpack to: an index of a few million chunks, and no more.
MAX_UNPACKED_BYTES = 50 * 10**9


def export_index(root: Path, target: Path) -> Manifest:
    """Write the current generation as a gzipped tar file; appears whole or not at all.

    Raises
    ------
    KbError
        If the target exists already or cannot be written.
    """
    if os.path.lexists(target):
        raise KbError(f"{target} exists already: give another name or delete it first")
    generation = open_generation(root)
    partial = target.with_name(target.name + ".part")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=1) as archive:
            archive.add(generation.folder, arcname=_ROOT)
        partial.replace(target)
    except OSError as error:
        raise KbError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
        generation.close()
    return generation.manifest


def import_index(
    archive: Path, root: Path, *, replace_existing: bool = False, embedder: str | None = None
) -> Manifest:
    """Publish the generation in an exported file as the current one of the index at `root`.

    Its vectors enter the embedding cache, so a later ingest of the same texts embeds nothing.

    Parameters
    ----------
    embedder
        The embedder that may be used besides the shipped one. The file names the one that made it,
        and every query would go to it: to an endpoint with the user's key, or a model's own files.

    Raises
    ------
    InvalidInputError
        It was made by another embedder than these.
    KbError
        If the file is no export, is damaged, or the index holds something and `replace_existing`
        is not set.
    """
    with IndexWriter(root) as writer:
        if not replace_existing and writer.current_manifest() is not None:
            raise KbError(
                f"the index at {root} is not empty: import into another --index, or "
                "replace it with --replace"
            )
        with explain_write_errors(root):
            unpacked = _unpack(archive, writer.layout.staging)
            manifest = _manifest(unpacked, archive)
            _refuse_unchosen(manifest.embedder, embedder, archive)
            name = writer.next_name(manifest.content)
            staged = writer.layout.staging / name
            unpacked.rename(staged)
            manifest = replace(manifest, generation=name)
            write_manifest(staged, manifest)
            problems = check_in_child(staged)
            if problems:
                raise IndexUnavailableError(f"{archive} is damaged: {'; '.join(problems)}")
            _remember_vectors(staged, manifest, writer.layout.cache)
            writer.adopt(staged)
    return manifest


def _unpack(archive: Path, staging: Path) -> Path:
    target = staging / "import"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        stream = archive.open("rb")
    except OSError as error:
        raise KbError(f"cannot read {archive}: {error.strerror}") from error
    try:
        with stream, tarfile.open(fileobj=stream, mode="r:gz") as tar:
            total = 0
            for member in tar:
                total += member.size
                if total > MAX_UNPACKED_BYTES:
                    raise KbError(f"{archive} unpacks to more than {MAX_UNPACKED_BYTES} bytes")
                inside = member.name == _ROOT or member.name.startswith(f"{_ROOT}/")
                inside &= ".." not in member.name.split("/")
                if not inside or not (member.isfile() or member.isdir()):
                    raise KbError(f"{archive} is not an exported index: it holds {member.name}")
                _write(tar, member, target / member.name)
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise KbError(f"{archive} is not an exported index: {error}") from error
    folder = target / _ROOT
    if not (folder / CHUNKS).is_file():
        raise KbError(f"{archive} is not an exported index: it holds no {_ROOT}/{CHUNKS}")
    return folder


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write a file or folder; `TarFile.extract` has no safe filter before Python 3.11.4."""
    content = tar.extractfile(member)
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)


def _manifest(unpacked: Path, archive: Path) -> Manifest:
    try:
        return read_manifest(unpacked)
    except IndexMismatchError as error:
        raise IndexMismatchError(
            f"{archive} was exported by a version with another schema: export it again with this "
            "version, or ingest the sources"
        ) from error
    except (FileNotFoundError, IndexUnavailableError) as error:
        raise KbError(f"{archive} is not an exported index: it holds no valid manifest") from error


def _refuse_unchosen(made_by: str, chosen: str | None, archive: Path) -> None:
    if not made_by.startswith(("openai:", "st:")) or made_by == chosen:
        return
    name = one_line(made_by)[:200]
    sends = "sends every query, with your key, to the endpoint of OPENAI_BASE_URL"
    does = sends if made_by.startswith("openai:") else "loads that model"
    raise InvalidInputError(
        f"{archive} was made with embedder {name}: using it {does}. If you want that, add "
        f"--embedder {shlex.quote(name)}"
    )


def _remember_vectors(folder: Path, manifest: Manifest, cache_path: Path) -> None:
    vectors = VectorMatrix(folder / VECTORS).rows
    chunks = ChunkStore(folder / CHUNKS).all()
    with contextlib.closing(EmbeddingCache(cache_path)) as cache:
        pairs = (
            (text_hash(chunk.embedding_text()), vector)
            for chunk, vector in zip(chunks, vectors, strict=True)
        )
        cache.put(manifest.embedder, pairs)
