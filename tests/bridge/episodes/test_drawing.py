"""Series keep their extremes, and drawings are whole pictures that hold text as text."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from command_line import app
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner
from web_app import make_archive

from bridge.episodes.drawing import draw_html, draw_text
from bridge.episodes.figure import COLOURS, NOTEBOOK, SLIDE, draw_png, draw_svg, nice_ticks
from bridge.episodes.pictures import encode_picture, picture_axes
from bridge.episodes.series import read_series, thin_rows
from bridge.episodes.sketch import Course, Sketch, read_sketch
from bridge.results import make_ref, sketch_hit
from wshard import TrajectoryRetriever, open_archive
from wshard.errors import MissingFileError, QueryError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_archive(tmp_path_factory.mktemp("drawing"), 4)


def ref_of(archive, name):
    (row,) = archive.catalog.query.select(f"episode:{name}").rows
    return make_ref(row, 1.0, (0, row.length))


@given(st.integers(1, 400), st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_thinned_rows_keep_the_extremes_of_every_part(count, points, seed):
    rows = np.random.default_rng(seed).normal(size=(count, 3))
    rows[np.random.default_rng(seed + 1).random(rows.shape) < 0.1] = np.nan
    steps, thinned = thin_rows(rows, points)
    assert len(steps) == len(thinned) <= max(2, points)
    assert (np.diff(steps) >= 0).all()
    if count <= max(2, points):
        assert np.array_equal(thinned, rows, equal_nan=True)
        return
    bounds = np.linspace(0, count, len(steps) // 2 + 1).astype(int)
    for part, (begin, end) in enumerate(pairwise(bounds)):
        for channel in range(3):
            piece = rows[begin:end, channel]
            known, found = piece[~np.isnan(piece)], thinned[2 * part : 2 * part + 2, channel]
            if len(known):
                assert sorted(found) == [known.min(), known.max()]
                assert (found[0] <= found[1]) == (np.nanargmin(piece) <= np.nanargmax(piece))
            else:
                assert np.isnan(found).all()


def test_invalid_lane_of_numbers_is_refused(place):
    with open_archive(place) as archive, ref_of(archive, "arm-00").open() as file:
        with pytest.raises(QueryError, match="cam: expected a lane of at most"):
            read_series(file, "cam", (0, 5), points=10)
        assert read_series(file, "state", (70, 10**9), points=100).steps == [*range(70, 80)]
        assert read_series(file, "state", (0, 5), points=10, channels=[2, 9]).channels == [2]


def test_pictures_of_every_layout_become_jpeg():
    rng = np.random.default_rng(0)
    for shape, axes in (
        ((20, 30), "HW"),
        ((20, 30, 3), "HWC"),
        ((20, 30, 4), "HWC"),
        ((3, 20, 30), "CHW"),
        ((1, 20, 30), "CHW"),
    ):
        assert picture_axes(shape) == axes
        for dtype in (np.uint8, np.float32, np.uint16, np.bool_):
            values = (rng.random(shape) * 200).astype(dtype)
            assert Image.open(io.BytesIO(encode_picture(values, axes))).size == (30, 20)
        assert Image.open(io.BytesIO(encode_picture(values, axes, width=10))).size == (10, 7)
    assert [picture_axes(shape) for shape in ((), (39,), (4, 4), (2, 2, 3), (20, 30, 5))] == [""] * 5


def test_a_sketch_is_drawn_as_svg_html_png_and_text(place):
    with open_archive(place) as archive:
        sketch = sketch_hit(replace(ref_of(archive, "arm-00"), span=(10, 50), score=0.5))
    assert sketch.title == "arm-00 10:50  0.500"
    assert [course.lane for course in sketch.courses] == ["signal/state", "action/ctrl", "reward"]
    root = ET.fromstring(draw_svg(sketch))  # noqa: S314  (our own)
    coloured = [one for one in root.findall("{*}polyline") if one.get("stroke") in COLOURS]
    assert len(coloured) == 3 + 3 + 1 + (3 + 3), "each line, and the legends of lanes of several"
    assert draw_html(sketch).count("data:image/jpeg") == len(sketch.frames) == 16
    picture = Image.open(io.BytesIO(draw_png([sketch, sketch])))
    assert (picture.width, picture.format) == (SLIDE.width, "PNG")
    assert len(set(picture.get_flattened_data() if hasattr(picture, "get_flattened_data") else picture.getdata())) > 50
    assert draw_text([0, 0.5, None, 1.0], width=4) == "\u2581\u2585 \u2588"


def test_a_drawing_has_an_axis_of_timesteps_and_the_range_of_values(place):
    with open_archive(place) as archive:
        ref = replace(ref_of(archive, "arm-00"), span=(10, 50))
        with ref.open() as file:
            rewards = np.asarray(file["reward"])[10:50]
            state = np.asarray(file["signal/state"])[10:50]
        sketch = sketch_hit(ref)
    root = ET.fromstring(draw_svg(sketch))  # noqa: S314  (our own)
    words = {text.text: (float(text.get("x")), float(text.get("y"))) for text in root.findall("{*}text")}
    assert {"10", "20", "30", "40", "timestep", "signal/state", "reward", "0", "1", "2"} <= {*words}
    course = sketch.courses[0]
    assert course.range == pytest.approx((state.min(), state.max()), rel=1e-4)
    assert sketch.courses[2].range == pytest.approx((rewards.min(), rewards.max()), rel=1e-4)
    lines = [one.get("points").split() for one in root.findall("{*}polyline") if one.get("stroke") in COLOURS]
    assert max(float(pair.split(",")[0]) for line in lines for pair in line) <= NOTEBOOK.width
    for span in ((3, 4), (0, 0), None):
        ET.fromstring(draw_svg(Sketch("", sketch.courses, span=span)))  # noqa: S314  (our own)
    draw_svg(Sketch("", (), span=(0, 9)))


@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9), st.integers(2, 12), st.booleans())
@example(1e-9, 1e-9, 2, True)
@example(360287971.140625, 1.192092896e-07, 6, False)
def test_ticks_are_few_round_and_within_the_range(low, spread, most, whole):
    high = low + spread
    ticks = nice_ticks(low, high, most, whole=whole)
    assert len(ticks) <= most + 1
    if high > low:
        slack = 1e-6 * spread + np.spacing(max(-low, high))
        assert all(low - slack <= tick <= high + slack for tick in ticks)
        assert len({*ticks}) == len(ticks)
        assert not whole or all(tick == round(tick) for tick in ticks)
        gaps = np.diff(ticks)
        assert np.allclose(gaps, gaps[:1].sum(), rtol=1e-3, atol=1e-9 * abs(low))


def test_names_of_hostile_files_stay_text():
    hostile = '<script>alert("1")</script>'
    sketch = Sketch(hostile, (Course(hostile, ((0.0, None, 1.0),)),))
    for drawn in (draw_svg(sketch), draw_html(sketch)):
        assert "<script>" not in drawn
    ET.fromstring(draw_svg(sketch))  # noqa: S314  (our own)


def test_a_missing_video_leaves_the_lanes_to_be_drawn(place, monkeypatch):
    def fail(*_: object, width: int) -> None:
        raise MissingFileError("cam.mp4: expected the video, found no file")

    monkeypatch.setattr("bridge.episodes.sketch.encode_picture", fail)
    with open_archive(place) as archive, ref_of(archive, "arm-00").open() as file:
        sketch = read_sketch(file, "arm-00 0:50", (0, 50))
    assert (sketch.title, sketch.frames) == ("arm-00 0:50  (its video is missing)", ())
    assert sketch.courses


def test_notebooks_show_episodes_and_hits(place):
    with open_archive(place) as archive:
        ref = ref_of(archive, "arm-00")
        assert "<svg" in ref._repr_html_()
        assert "animation" in ref._repr_html_()
        gone = replace(ref, file_path="/nothing")
        assert gone._repr_html_().startswith("<pre>EpisodeRef(")
    with TrajectoryRetriever(place) as retriever:
        hits = retriever.search_similar_episodes(ref)
    drawn = hits._repr_html_()
    assert drawn.count("<svg") == len(hits) == 4
    assert "4 hits, exact, compared by signal/state" in drawn
    assert drawn.index("<svg") < drawn.index("compared by") < drawn.index("<table>"), "the strip, notes, the table"


def test_the_command_draws_episodes_spans_and_hits(place, tmp_path):
    def run(*arguments: str):
        return CliRunner().invoke(app, [*arguments, "--archive", str(place)])

    assert run("plot", "arm-01@5:40", "-o", str(tmp_path / "a.svg")).exit_code == 0
    assert "arm-01 5:40" in (tmp_path / "a.svg").read_text()
    (tmp_path / "hits.json").write_text(run("search", "arm-01", "--json").stdout)
    assert run("plot", str(tmp_path / "hits.json"), "-o", str(tmp_path / "a.html")).exit_code == 0
    assert (tmp_path / "a.html").read_text().count("<svg") == 4
    assert run("plot", "arm-00", "arm-01", "-o", str(tmp_path / "a.png")).exit_code == 0
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width == SLIDE.width
    for what, name in ((["arm-00"], "a.gif"), (["arm-00", "arm-01"], "a.svg")):
        assert run("plot", *what, "-o", str(tmp_path / name)).exit_code in (1, 2)
    for bad in ('{"items": [{"uid": 1}]}', '{"notes": 1}', "[1]", "{", ""):
        (tmp_path / "bad.json").write_text(bad)
        done = run("plot", str(tmp_path / "bad.json"), "-o", str(tmp_path / "b.html"))
        assert done.exit_code == 1
        assert done.stderr.endswith("prints them: items that each have uid, span and score\n")
    (tmp_path / "none.json").write_text(run("search", "arm-01", "--env", "none", "--json").stdout)
    done = run("plot", str(tmp_path / "none.json"), "-o", str(tmp_path / "b.html"))
    assert (done.exit_code, "none.json: expected hits to draw, found none" in done.stderr) == (1, True)
    assert not (tmp_path / "b.html").exists()
    for span, found in (("0:400", "ends after the last"), ("400:500", "holds no"), ("5:5", "holds no")):
        for verb in (("plot", "-o", str(tmp_path / "c.svg")), ("show", "--open")):
            done = run(*verb, f"arm-01@{span}")
            assert done.exit_code == 1
            assert f"span {span} {found} timestep of episode 'arm-01', which has 83" in done.stderr
    assert not (tmp_path / "c.svg").exists()
    assert "course signal/state" in run("show", "arm-01").output
