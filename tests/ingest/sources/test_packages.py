"""Packages of an index become sources: fetched once, cited, refused where they are unsafe."""

import json
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
import zipfile

import pytest
from package_index import sdist, wheel
from support import KB, tree_hash


def test_pip_is_asked_for_its_settings(packages, pip_settings, monkeypatch):
    from ingest.sources.index import PipSettings

    assert pip_settings() == PipSettings.current()  # what the other tests take it to be
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://one.example https://two.example")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "one.example")
    found = pip_settings()
    assert found.indexes == (packages.url, "https://one.example", "https://two.example")
    assert found.trusted_hosts == ("one.example",)


def first_code(cli, question):
    answer = json.loads(cli("query", question, "--json").out)
    return next(each for each in answer["results"] if each["kind"] == "code")


def report(done):
    assert done.status == 0, done.err
    return json.loads(done.out)


def test_results_from_a_wheel_cite_version_path_lines_licence_and_homepage(packages, filled, cli):
    packages.wheel()
    report(cli("ingest", "pypi:zebra", "--json"))
    found = first_code(cli, "zebra_norm_kernel normalise striped zebra row")
    assert found["symbol"] == "zebra_norm_kernel"
    assert found["path"] == "zebra/norm.py"
    assert (found["start_line"], found["end_line"]) == (7, 12)
    assert found["source"] == {
        "name": "zebra",
        "version": "1.0",
        "licence": "MIT",
        "url": "https://example.org/zebra",
    }
    listed = json.loads(cli("sources", "--json").out)
    mine = next(each for each in listed if each["name"] == "zebra")
    assert mine["location"] == "pypi:zebra"
    assert mine["files"] == 1  # no file of the .dist-info


def test_the_same_version_again_fetches_and_embeds_nothing(packages, filled, cli):
    packages.wheel()
    assert report(cli("ingest", "pypi:zebra==1.0", "--json"))["embedded"] > 0
    packages.requests.clear()
    again = report(cli("ingest", "pypi:zebra==1.0", "--json"))
    assert (again["embedded"], again["published"], packages.requests) == (0, False, [])
    unpinned = report(cli("ingest", "pypi:zebra", "--json"))
    assert (unpinned["published"], packages.fetched()) == (False, [])


def test_a_newer_version_takes_the_place_of_the_older(packages, filled, cli):
    packages.wheel()
    cli("ingest", "pypi:zebra==1.0")
    packages.wheel(version="1.1")
    packages.wheel(version="2.0rc1")
    packages.wheel(version="1.2", yanked="broken")
    taken = report(cli("ingest", "pypi:zebra", "--json"))["sources"][0]
    assert (taken["version"], taken["unchanged_files"]) == ("1.1", 1)
    listed = json.loads(cli("sources", "--json").out)
    assert [each["version"] for each in listed if each["name"] == "zebra"] == ["1.1"]


def hostile_files(marker):
    touch = f"open({str(marker)!r}, 'w').close()\n"
    return {
        "setup.py": f"{touch}from setuptools import setup\nsetup()\n",
        "backend.py": f"{touch}def __getattr__(name):\n    raise AttributeError(name)\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
        'backend-path = ["."]\n',
        "csrc/zebra.cu": "__global__ void zebra_add_kernel(float* out) {\n  out[0] = 1.0f;\n}\n",
    }


def test_an_sdist_is_read_and_nothing_of_it_is_executed(packages, filled, cli, tmp_path):
    marker = tmp_path / "executed"
    packages.sdist(files=hostile_files(marker))
    assert report(cli("ingest", "pypi:zebra", "--json"))["sources"][0]["files"] >= 3
    assert first_code(cli, "zebra_add_kernel")["path"] == "csrc/zebra.cu"
    assert not marker.exists()
    # The marker is made by whoever builds it: the test can fail.
    source = tmp_path / "source"
    with tarfile.open(fileobj=__import__("io").BytesIO(sdist(files=hostile_files(marker)))) as tar:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on
        tar.extractall(source, **safe)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*build, "-w", tmp_path, source / "zebra-1.0"], check=False, capture_output=True)
    assert marker.exists()


def test_the_sdist_is_taken_where_no_wheel_fits_this_python(packages, filled, cli):
    packages.add("zebra-1.0-cp27-cp27m-win32.whl", wheel())
    packages.sdist()
    report(cli("ingest", "pypi:zebra", "--json"))
    assert packages.fetched()[-1].endswith(".tar.gz")


def link(name, mode=stat.S_IFLNK):
    member = zipfile.ZipInfo(name)
    member.create_system = 3
    member.external_attr = (mode | 0o777) << 16
    return member


def special(name, kind):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


HOSTILE_WHEELS = [
    ([(zipfile.ZipInfo("../../evil.py"), b"x = 1")], "unsafe name"),
    ([(zipfile.ZipInfo("/tmp/evil.py"), b"x = 1")], "unsafe name"),
    ([(zipfile.ZipInfo("a\\..\\evil.py"), b"x = 1")], "unsafe name"),
    ([(link("zebra/passwd.py"), b"/etc/passwd")], "is a link"),
    ([(link("zebra/device.py", stat.S_IFCHR), b"")], "is a special file"),
    ([(zipfile.ZipInfo("zebra/two.py"), b"a"), (zipfile.ZipInfo("zebra//two.py"), b"b")], "twice"),
]
HOSTILE_SDISTS = [
    ([(special("zebra-1.0/../../evil.py", tarfile.REGTYPE), b"")], "unsafe name"),
    ([(special("/tmp/evil.py", tarfile.REGTYPE), b"")], "unsafe name"),
    ([(special("zebra-1.0/a.py", tarfile.SYMTYPE), b"")], "is a link"),
    ([(special("zebra-1.0/a.py", tarfile.LNKTYPE), b"")], "is a link"),
    ([(special("zebra-1.0/a.py", tarfile.CHRTYPE), b"")], "is a special file"),
    ([(special("zebra-1.0/a.py", tarfile.FIFOTYPE), b"")], "is a special file"),
]


def refused(cli, index, *arguments):
    """The one line of an ingest that fails, after which the index is as it was."""
    before = tree_hash(index)
    error = cli("ingest", *arguments).error()
    assert tree_hash(index) == before
    return error


@pytest.mark.parametrize(("extra", "words"), HOSTILE_WHEELS)
def test_a_hostile_wheel_is_refused(packages, filled, cli, extra, words):
    packages.wheel(extra=extra)
    assert words in refused(cli, filled, "pypi:zebra")


@pytest.mark.parametrize(("extra", "words"), HOSTILE_SDISTS)
def test_a_hostile_sdist_is_refused(packages, filled, cli, extra, words):
    packages.sdist(extra=extra)
    assert words in refused(cli, filled, "pypi:zebra")


@pytest.mark.parametrize("form", ["wheel", "sdist"])
def test_a_decompression_bomb_is_refused(packages, filled, cli, form):
    getattr(packages, form)(files={"zebra/bomb.py": b"#" * 30_000_000})
    assert "decompression bomb" in refused(cli, filled, "pypi:zebra")


@pytest.mark.parametrize("form", ["wheel", "sdist"])
def test_content_that_is_not_what_the_index_promises_is_refused(packages, filled, cli, form, cache):
    getattr(packages, form)(sha256="0" * 64)
    assert "does not have the hash" in refused(cli, filled, "pypi:zebra")
    assert not list(cache.glob("archives/*/*"))


@pytest.mark.parametrize("form", ["wheel", "sdist"])
def test_a_download_that_breaks_off_says_so_and_the_next_run_succeeds(packages, filled, cli, form):
    getattr(packages, form)(cut=True)
    assert "stopped" in refused(cli, filled, "pypi:zebra")
    getattr(packages, form)()
    assert cli("ingest", "pypi:zebra").status == 0


def test_unknown_packages_and_versions_are_told_apart(packages, filled, cli):
    packages.wheel()
    packages.wheel(version="1.1")
    assert "no package 'quagga'" in refused(cli, filled, "pypi:quagga")
    error = refused(cli, filled, "pypi:zebra==7")
    assert "no version 7" in error
    assert "1.1, 1.0" in error


def test_a_yanked_version_is_refused_with_its_reason(packages, filled, cli):
    packages.wheel(yanked="wrong results")
    packages.wheel(version="0.9")
    assert "yanked (wrong results)" in refused(cli, filled, "pypi:zebra==1.0")


def test_a_wheel_of_built_files_alone_is_refused(packages, filled, cli):
    packages.wheel(files={"zebra/_C.so": b"\x7fELF"})
    assert "holds no sources" in refused(cli, filled, "pypi:zebra")


def test_what_is_not_an_archive_is_refused(packages, filled, cli):
    packages.add("zebra-1.0.tar.gz", b"<html>Not found</html>")
    assert "not a readable archive" in refused(cli, filled, "pypi:zebra")
    packages.add("zebra-1.1.tar.gz", sdist(version="1.1")[:-200])
    assert "not a readable archive" in refused(cli, filled, "pypi:zebra==1.1")


def test_without_a_network_there_is_one_line_and_a_fetched_version_still_works(
    packages, filled, cli, monkeypatch
):
    packages.wheel()
    assert cli("ingest", "pypi:zebra").status == 0
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert "cannot be reached" in refused(cli, filled, "pypi:zebra")
    assert cli("ingest", "pypi:zebra==1.0").status == 0


@pytest.mark.parametrize(
    ("licence", "allow", "words"),
    [
        ("Author: Nobody", None, "is unknown: it states none"),
        ("License: Ask us", None, "says only 'Ask us'"),
        ("License-Expression: GPL-3.0-only", None, "not among the licences"),
        ("License-Expression: GPL-3.0-only", "MIT", "not among the licences"),
        ("License-Expression: GPL-3.0-only", "gpl-3.0-ONLY", None),
        ("Author: Nobody", "MIT", None),
        ("Author: Nobody", "my own", "not an SPDX licence"),
    ],
)
def test_licences_that_are_missing_or_not_listed_need_consent(
    packages, filled, cli, licence, allow, words
):
    packages.wheel(licence=licence)
    arguments = ["pypi:zebra", *(["--allow-licence", allow] if allow else [])]
    if words:
        assert words in refused(cli, filled, *arguments)
        return
    assert cli("ingest", *arguments).status == 0
    cited = first_code(cli, "zebra_norm_kernel")["source"]["licence"]
    assert cited == ("MIT" if licence.startswith("Author") else "GPL-3.0-only")


def test_a_large_download_needs_consent(packages, filled, cli, monkeypatch):
    monkeypatch.setattr("ingest.sources.packages.ASK_ABOVE", 100)
    packages.wheel()
    assert "--yes" in refused(cli, filled, "pypi:zebra")
    assert cli("ingest", "pypi:zebra", "--yes").status == 0


def test_a_run_that_is_killed_while_it_downloads_leaves_nothing_behind(
    packages, filled, cli, cache
):
    stall = threading.Event()
    packages.sdist(stall=stall)
    before = tree_hash(filled)
    process = subprocess.Popen([KB, "ingest", "pypi:zebra==1.0"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(cache.glob("tmp/*/*.tar.gz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(cache.glob("tmp/*/*.tar.gz"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    stall.set()
    assert tree_hash(filled) == before
    packages.sdist()
    assert cli("ingest", "pypi:zebra==1.0").status == 0
    assert not list(cache.glob("tmp/*"))


def test_a_rebuild_takes_the_archive_from_the_cache_or_fetches_it_again(
    packages, filled, cli, cache
):
    packages.wheel()
    packages.wheel(version="2.0")
    cli("ingest", "pypi:zebra==1.0")
    cited = first_code(cli, "zebra_norm_kernel")
    packages.requests.clear()
    assert cli("rebuild").status == 0
    assert packages.requests == []
    shutil.rmtree(cache)
    assert cli("rebuild").status == 0
    assert packages.fetched()
    assert first_code(cli, "zebra_norm_kernel") | {"score": 0} == cited | {"score": 0}


def test_a_damaged_archive_in_the_cache_is_noticed(packages, filled, cli, cache):
    packages.wheel()
    cli("ingest", "pypi:zebra==1.0")
    cli("remove", "zebra")
    next(cache.glob("archives/*/*.whl")).write_bytes(b"PK")
    assert "was damaged and has been deleted" in refused(cli, filled, "pypi:zebra==1.0")
    assert cli("ingest", "pypi:zebra==1.0").status == 0
