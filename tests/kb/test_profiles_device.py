"""The card that a profile names."""

import json

import pytest

from kb.profiles.device import Device
from kb.profiles.reading import read_profile

NAME = "device__attribute_display_name"
RAW = (
    '"ID","Kernel Name","CC","device__attribute_display_name","gpu__time_duration.sum"\n'
    '"","","","","us"\n"0","k","9.0","NVIDIA H200","10"\n'
)
DETAILS = (
    '"ID","Kernel Name","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    '"0","k","8.0","s","Duration","us","10"\n'
)
CONSOLE = """  k(int) (8, 1, 1)x(64, 1, 1), Context 1, Stream 7, Device 0, CC 8.9
    Section: GPU Speed Of Light Throughput
    Metric Name             Metric Unit Metric Value
    Duration                         us         1.50
"""


@pytest.mark.parametrize(
    ("text", "name", "capability"),
    [
        (RAW, "NVIDIA H200", "9.0"),
        (DETAILS, "", "8.0"),
        (CONSOLE, "", "8.9"),
        (json.dumps({NAME: "NVIDIA A10", "duration": 1}), "NVIDIA A10", ""),
        (json.dumps([{"name": "k", "CC": "9.0", NAME: None, "duration": 1}]), "", "9.0"),
    ],
)
def test_the_card_is_read_where_a_page_names_it(text, name, capability):
    read = read_profile(text, "p")
    assert (read.device.name, read.device.capability) == (name, capability)
    assert read.ignored == ()


def test_a_name_finds_the_card_and_a_capability_what_its_cards_share():
    assert Device("NVIDIA H100 80GB HBM3").spec.name == "H100-SXM"
    assert Device("NVIDIA Unknown 9").spec is None
    warps = [Device("", each).warps_per_scheduler for each in ("9.0", "8.9", "3.5", "9" * 9)]
    assert warps == [16, 12, None, None]
    assert Device("NVIDIA A10").warps_per_scheduler == 12
