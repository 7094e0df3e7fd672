"""Archives are read within limits that their headers cannot talk away."""

import gzip
import io
import tarfile
import zipfile

import pytest

from ingest.sources.archive import ArchiveLimits, extract
from kb.errors import SourceError

SMALL = ArchiveLimits(files=3, single=1_000, total=2_000, ratio=50, ratio_from=1_500)


def tar_of(*files, mode="w:gz", pax=None):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=tarfile.PAX_FORMAT) as archive:
        for name, size in files:
            member = tarfile.TarInfo(name)
            member.size = size
            member.pax_headers = pax or {}
            archive.addfile(member, io.BytesIO(b"a" * size))
    return made.getvalue()


def zip_of(*files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, size in files:
            archive.writestr(name, b"a" * size)
    return made.getvalue()


@pytest.mark.parametrize(
    ("make", "files", "words"),
    [
        (tar_of, [(f"{n}.py", 1) for n in range(4)], "more than 3 files"),
        (zip_of, [(f"{n}.py", 1) for n in range(4)], "more than 3 files"),
        (tar_of, [("a.py", 1_001)], "decompression bomb"),
        (zip_of, [("a.py", 1_001)], "decompression bomb"),
        # A tar's total is allowed a megabyte of headers; the test of what is not kept covers it.
        (zip_of, [("a.py", 999), ("b.py", 999), ("c.py", 999)], "decompression bomb"),
    ],
)
def test_an_archive_beyond_a_limit_is_refused(tmp_path, make, files, words, monkeypatch):
    archive = tmp_path / "archive"
    archive.write_bytes(make(*files))
    (tmp_path / "out").mkdir()
    limits = SMALL if make is zip_of else ArchiveLimits(files=3, single=1_000)
    monkeypatch.setattr("ingest.sources.archive.LIMITS", limits)
    with pytest.raises(SourceError, match=words):
        extract(archive, tmp_path / "out", lambda _: True)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
def test_every_usual_compression_is_read(tmp_path, mode):
    archive = tmp_path / "archive"
    archive.write_bytes(tar_of(("top/a.py", 10), ("top/b/c.cu", 20), mode=mode))
    out = tmp_path / "out"
    out.mkdir()
    kept = extract(archive, out, lambda path: path.endswith(".cu"), strip_top=True)
    assert kept == 1
    assert [path.relative_to(out).as_posix() for path in out.rglob("*.*")] == ["b/c.cu"]


def test_an_extended_header_cannot_fill_the_memory(tmp_path):
    # A member of type x (extended header) that claims 3 GB: tarfile would read it at once.
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 3_000_000_000
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + b"0" * 10_000))
    (tmp_path / "out").mkdir()
    with pytest.raises(SourceError, match="decompression bomb"):
        extract(archive, tmp_path / "out", lambda _: True)


def test_what_is_not_kept_still_counts_in_a_tar_which_must_be_decompressed_to_be_read(tmp_path):
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(tar_of(("zeros.bin", 60_000_000), ("a.py", 10)))
    (tmp_path / "out").mkdir()
    with pytest.raises(SourceError, match="decompression bomb"):
        extract(archive, tmp_path / "out", lambda path: path.endswith(".py"))


def test_a_damaged_member_is_named_as_damage(tmp_path):
    archive = tmp_path / "archive.whl"
    data = bytearray(zip_of(("a.py", 900)))
    data[40] ^= 0xFF
    archive.write_bytes(data)
    (tmp_path / "out").mkdir()
    with pytest.raises(SourceError, match="not a readable archive"):
        extract(archive, tmp_path / "out", lambda _: True)
