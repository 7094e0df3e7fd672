"""Pictures: computed from their parameters, true to the records, and safe inside a page."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
import torch
from markup_checks import assert_confined, parsed, text_of
from test_pages import VERIFIED

from server.web.figures import layouts, timelines
from server.web.figures.bars import contenders
from server.web.figures.diagrams import DIAGRAMS, diagram
from server.web.figures.roofline import Mark, Roofs, roofline

TOPICS = [
    "pid-swizzling", "tma-host-descriptor", "bank-conflict-avoidance", "software-pipelining",
    "warp-specialization", "wave-quantization", "split-k", "stream-k", "fp4-intrinsics",
    "online-reduction", "implicit-gemm",
]  # fmt: skip


def tree(picture):
    return ET.fromstring(str(picture.svg))


def words(picture):
    return [each.text for each in tree(picture).iter("text")]


@pytest.mark.parametrize("slug", DIAGRAMS)
def test_a_drawing_is_well_formed_has_a_text_alternative_and_stays_in_its_frame(slug):
    drawing = tree(diagram(slug))
    assert drawing.get("role") == "img"
    named = drawing.get("aria-labelledby").split()
    assert [drawing.find(f".//*[@id='{name}']").text for name in named] == [
        drawing.find("title").text, drawing.find("desc").text,
    ]  # fmt: skip
    assert all(drawing.find(f".//*[@id='{name}']").text for name in named)
    _, _, width, height = map(float, drawing.get("viewBox").split())
    for each in drawing.iter("rect"):
        assert float(each.get("x")) + float(each.get("width")) <= width + 1
        assert float(each.get("y")) + float(each.get("height")) <= height
    assert {each.tag for each in drawing.iter()} <= {
        "svg", "title", "desc", "rect", "text", "polyline", "circle",
    }  # fmt: skip


def test_the_techniques_that_need_a_picture_have_one_on_their_page(shipped_client):
    for slug in TOPICS:
        page = parsed(shipped_client.get(f"/technique/{slug}"))
        assert_confined(page)
        assert len(list(page.iter("svg"))) == 1, slug
        assert text_of(page.find(".//figcaption"))


def test_the_grouped_order_is_that_of_triton_and_visits_every_tile_once():
    # As `tl.swizzle2d` documents it, for a group that divides the rows and one that does not.
    for rows, cols, group in ((4, 4, 2), (5, 3, 2), (6, 6, 3)):
        order = [layouts.swizzled(pid, rows, cols, group) for pid in range(rows * cols)]
        assert sorted(order) == [(row, col) for row in range(rows) for col in range(cols)]
    assert [layouts.swizzled(pid, 4, 4, 2) for pid in range(4)] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert "8 panels against 6" in layouts.program_ids().caption


@pytest.mark.parametrize("value", [0.25, 0.75, 1.75, 2.5, -2.5, 3.5, 5.0, 7.5, -0.1, 0.4, -1.6])
def test_fp4_codes_are_the_nearest_with_ties_to_even(value):
    levels = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    away = [abs(min(abs(value), 6.0) - level) for level in levels]
    nearest = [code for code in range(8) if away[code] == min(away)]
    expected = next((code for code in nearest if code % 2 == 0), nearest[0])
    assert layouts.e2m1(value) == expected + (8 if value < 0 else 0)


def test_the_running_sum_is_the_softmax_of_the_whole_row():
    values = (0.5, -1.0, 3.0, 2.0, 4.0, 4.0)
    picture = layouts.online_softmax(values, block=2)
    row = torch.tensor(values, dtype=torch.float64)
    total = float(torch.exp(row - row.max()).sum())
    assert f"l = {total:.3f}" in words(picture)[-1]
    assert f"{total:.3f}" in picture.caption


def test_rows_of_the_implicit_matrix_are_what_unfold_gives():
    side, taps = 5, 3
    pixels = torch.arange(side * side, dtype=torch.float32).reshape(1, 1, side, side)
    expected = torch.nn.functional.unfold(pixels, taps)[0].T.reshape(-1).int().tolist()
    drawn = words(layouts.implicit_gemm(side, taps))
    after = drawn[drawn.index("Matrix A: outputs × taps") + 1 :]
    rows = (side - taps + 1) ** 2
    got = [int(w) for n in range(rows) for w in after[n * 10 + 1 : n * 10 + 10]]
    assert got == expected


def test_stream_k_covers_every_step_once_and_evenly():
    for tiles, steps, sms in ((5, 8, 4), (7, 6, 4), (3, 5, 2)):
        picture = timelines.stream_k(tiles, steps, sms)
        assert f"{tiles * steps / sms:g} steps" in tree(picture).find("desc").text


def test_a_pipeline_reuses_no_buffer_early_and_computes_in_order():
    for stages in (1, 2, 4):
        spans = timelines.pipeline(8, stages, latency=3.0, issue=0.5, work=1.5)
        loads, work = spans[::2], spans[1::2]
        for block, (load, done) in enumerate(zip(loads, work, strict=True)):
            assert done.start >= load.end
            if block >= stages:
                assert load.start >= work[block - stages].end
        assert all(after.start >= before.end for before, after in pairwise(work))


def records(text):
    import yaml

    from kb.corpus.entries import Verified

    return [Verified.model_validate(each) for each in yaml.safe_load(text)]


def test_bars_are_as_long_as_their_times_and_say_them():
    first, *_ = contenders("x", records(VERIFIED))
    assert words(first) == [
        "floor: 1.6 ms", "this kernel: 2 ms, 1.25× the floor", "plain: 3 ms, 1.88× the floor",
    ]  # fmt: skip
    widths = [float(each.get("width")) for each in tree(first).iter("rect")]
    assert widths == pytest.approx([400 * 1.6 / 3, 400 * 2 / 3, 400], abs=0.1)
    assert "NVIDIA H200, 2026-11-01" in first.caption


def test_a_bar_that_would_dwarf_the_others_is_cut_and_still_tells_its_time():
    slow = VERIFIED.replace("baseline_ms: 3.0", "baseline_ms: 300.0").replace("1.5,", "150.0,", 1)
    first, *_ = contenders("x", records(slow))
    widths = [float(each.get("width")) for each in tree(first).iter("rect")]
    assert widths[1] == pytest.approx(400 / 6, abs=0.1)
    assert "300 ms" in words(first)[2]
    assert [each.get("class") for each in tree(first).iter("polyline")].count("cut") == 2


def test_marks_stand_where_the_model_puts_them():
    roofs = Roofs("card", 1e12, {"fp32": 1e13, "bf16": 1e14})
    picture = roofline(roofs, [Mark("low", 2.0), Mark("high", 1e3), Mark("seen", 2.0, 1e12)])
    dots = [(float(e.get("cx")), float(e.get("cy"))) for e in tree(picture).iter("circle")]
    said = [each for each in words(picture) if re.match(r"\d\. ", str(each))]
    assert said[0] == "1. low: 2 FLOP/B, at most 2 TFLOP/s, memory"
    assert said[1] == "2. high: 1,000 FLOP/B, at most 100 TFLOP/s, compute"
    assert said[2] == "3. seen: 2 FLOP/B, 1 TFLOP/s, memory"
    assert dots[0][0] == dots[2][0] < dots[1][0]
    decade = (dots[0][1] - dots[1][1]) / math.log10(1e14 / 2e12)
    assert dots[2][1] - dots[0][1] == pytest.approx(decade * math.log10(2), abs=0.2)


MODULE = """
import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand(1024, 1024), torch.rand(1024, 1024)]
def get_init_inputs():
    return []
"""


def test_a_problem_and_its_profile_stand_on_a_roofline(client):
    profile = (
        '{"dram__bytes_read.sum": 8e6, "dram__bytes_write.sum": 4e6, "gpu__time_duration.sum": 1e5}'
    )
    for given, marks in (({}, 1), ({"profile": profile}, 2)):
        page = parsed(client.post("/context", data={"problem": MODULE, "gpu": "H100", **given}))
        assert_confined(page)
        assert len(list(page.iter("circle"))) == marks
        # 2·1024³ FLOP over three matrices of 4 MiB.
        assert "Fused: 170.7 FLOP/B" in text_of(page.find(".//svg"))
    without = parsed(client.post("/context", data={"problem": MODULE}))
    assert not list(without.iter("svg"))


def test_a_title_becomes_no_markup():
    evil = "</title><script>alert(1)</script>"
    first, *_ = contenders(
        evil, records(VERIFIED.replace("baseline: plain", f"baseline: '{evil}'"))
    )
    assert "<script" not in first.svg
    assert evil in tree(first).find("title").text
