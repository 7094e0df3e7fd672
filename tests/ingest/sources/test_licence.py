"""What package metadata says of a licence becomes SPDX, or is left unknown."""

import pytest

from ingest.sources.cache import Fetched
from ingest.sources.licence import accepted_licence, parse_metadata
from kb.errors import SourceError

BSD = (
    "Redistribution and use in source and binary forms, with or without modification. "
    "Redistributions in binary form must reproduce the above copyright notice."
)
ENDORSE = " Neither the name may be used to endorse or promote products derived from this software."

FAMILY = "Classifier: License :: OSI Approved :: BSD License"


def metadata(*lines):
    return ("Metadata-Version: 2.1\nName: a\nVersion: 1\n" + "\n".join(lines) + "\n").encode()


@pytest.mark.parametrize(
    ("lines", "texts", "spdx"),
    [
        (["License-Expression: apache-2.0 AND mit"], [], "Apache-2.0 AND MIT"),
        (["License: Apache License 2.0"], [], "Apache-2.0"),
        (["License: Apache 2.0 License"], [], "Apache-2.0"),
        (
            ["License: BSD-3-Clause", FAMILY],
            [],
            "BSD-3-Clause",
        ),
        ([f"License: BSD 2-CLAUSE LICENSE\n        {BSD}"], [], "BSD-2-Clause"),
        (["Classifier: License :: OSI Approved :: MIT License"], [], "MIT"),
        (["Classifier: License :: OSI Approved :: BSD License"], [], None),
        (["Classifier: License :: OSI Approved :: BSD License"], [BSD + ENDORSE], "BSD-3-Clause"),
        (["License: NVIDIA EULA"], [BSD], None),
        ([], [BSD], "BSD-2-Clause"),
        ([], [BSD + ENDORSE, "All rights reserved."], None),
        ([], [], None),
    ],
)
def test_the_licence_is_read_from_what_says_it_best(lines, texts, spdx):
    files = {f"LICENSE.{n}x": text.encode() for n, text in enumerate(texts)}
    if len(texts) == 2:
        files = {f"third-{n}": text.encode() for n, text in enumerate(texts)}
    assert parse_metadata(metadata(*lines), files).licence == spdx


def test_a_package_s_own_licence_is_not_confused_with_those_of_what_it_bundles():
    files = {"LICENSE": (BSD + ENDORSE).encode(), "licenses/LICENSE.other.txt": b"Ask us."}
    assert parse_metadata(metadata(), files).licence == "BSD-3-Clause"


@pytest.mark.parametrize(
    ("licence", "taken"),
    [
        ("MIT", True),
        ("MIT AND ISC", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("(MIT OR GPL-3.0-only) AND ISC", False),
        ("GPL-3.0-only", False),
    ],
)
def test_an_expression_is_taken_when_what_it_asks_for_is_listed(licence, taken):
    fetched = Fetched("pypi:a", "1", "0", "a.whl", "wheel", licence)
    if taken:
        assert accepted_licence(fetched, ("MIT", "ISC"), ()) == licence
    else:
        with pytest.raises(SourceError, match="not among the licences"):
            accepted_licence(fetched, ("MIT", "ISC"), ())
