"""Charts: every drawing is well-formed, and its shapes stand where the figures say."""

import math
import re
from itertools import chain
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.records.analysis import Panel
from cplsr.records.estimate import Estimate
from cplsr.records.results import CalibrationBin, CalibrationRow
from cplsr.report.bars import bar_chart
from cplsr.report.differences import before_after_chart, difference_chart
from cplsr.report.figures import figure, figures, shorten, swatches
from cplsr.report.heat_map import MANY, SHADES, heat_map, shade
from cplsr.report.lines import Line, line_chart, moving_mean, reliability_chart
from cplsr.report.scatter import SHAPES, scatter_chart, scatter_legend

HOSTILE = '</svg><script>alert("1")</script>&'
names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=30)


def parse(markup):
    return ElementTree.fromstring(markup.replace("<br>", "<br/>"))


def drawing(markup):
    """The drawing of a figure, without the pictures of its legend."""
    [root] = (svg for svg in parse(markup).iter("svg") if svg.get("aria-hidden") is None)
    return root


def find(markup, tag, class_):
    return [e for e in drawing(markup).iter(tag) if class_ in (e.get("class") or "").split()]


def is_accessible(markup):
    root = drawing(markup)
    return (
        root.get("role") == "img"
        and root.get("aria-label")
        and root.find("title").text
        and root.find("desc") is not None
    )


def bars(values, name="target"):
    return {name: {f"m{n}": Estimate(value, 1.0) for n, value in enumerate(values)}}


def draw_bars(groups, **options):
    return bar_chart(groups, list(chain.from_iterable(groups.values())), title="t", axis="%", **options)


def test_bars_are_as_long_as_their_figures():
    widths = [float(e.get("width")) for e in find(draw_bars(bars((25.0, 50.0, 100.0))), "rect", "bar")]
    assert widths == pytest.approx([widths[2] / 4, widths[2] / 2, widths[2]], abs=0.02)


def test_a_whisker_spans_the_interval_and_stops_at_the_ends():
    drawn = draw_bars({"t": {"m": Estimate(50.0, 10.0)}})
    bar = find(drawn, "rect", "bar")[0]
    whisker = find(drawn, "line", "whisker")[0]
    unit = float(bar.get("width")) / 50
    assert float(whisker.get("x2")) - float(whisker.get("x1")) == pytest.approx(20 * unit, abs=0.05)
    over = find(draw_bars({"t": {"m": Estimate(99.0, 10.0)}}), "line", "whisker")[0]
    assert float(over.get("x2")) == pytest.approx(float(bar.get("x")) + 100 * unit, abs=0.05)


def test_a_reference_line_stands_at_its_figure():
    drawn = draw_bars(bars((20.0,)), reference=20.0)
    bar = find(drawn, "rect", "bar")[0]
    assert float(find(drawn, "line", "reference")[0].get("x1")) == pytest.approx(
        float(bar.get("x")) + float(bar.get("width")), abs=0.05
    )


def draw_difference(target, value, half):
    return difference_chart({target: Estimate(value, half)}, title="m minus frozen")


@pytest.mark.parametrize(
    ("value", "half", "kind"),
    [(1.0, 0.5, "better"), (-1.0, 0.5, "worse"), (0.4, 0.5, "within"), (0.5, 0.5, "within"), (9.0, None, "within")],
)
def test_the_shape_of_a_difference_tells_whether_it_is_chance(value, half, kind):
    drawn = draw_difference("x", value, half)
    marks = [e.get("class") for e in drawing(drawn).iter() if "mark" in (e.get("class") or "").split()]
    assert marks == [f"mark {kind}"]


def test_zero_is_always_on_a_chart_of_differences():
    drawn = draw_difference("x", 5.0, 0.1)
    zero = float(find(drawn, "line", "zero")[0].get("x1"))
    interval = find(drawn, "line", "interval")[0]
    assert zero < float(interval.get("x1")) < float(interval.get("x2"))


def test_before_and_after_are_joined():
    drawn = before_after_chart([("a", [20.0, 60.0]), ("b", [50.0])], ("one", "two"), title="t", axis="%", caption="c")
    points = find(drawn, "circle", "point")
    joint = find(drawn, "line", "joint")[0]
    assert len(points) == 3
    assert float(joint.get("x1")) == pytest.approx(float(points[0].get("cx")), abs=0.02)
    assert float(joint.get("x2")) == pytest.approx(float(points[1].get("cx")), abs=0.02)


def draw_lines(lines, **options):
    return line_chart(lines, title="t", description="d", x="x", y="y", **options)


def path_points(path):
    return [tuple(map(float, pair.split())) for pair in path.get("d").strip("Mz").split("L")]


def test_a_curve_goes_through_its_points():
    drawn = draw_lines([Line("a", ((0.0, 0.0), (1.0, 2.0), (2.0, 1.0)))])
    (x0, y0), (x1, y1), (x2, y2) = path_points(find(drawn, "path", "line")[0])
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert (y0 - y1) == pytest.approx(2 * (y0 - y2), abs=0.3)
    assert y1 < y2 < y0


def test_the_band_is_as_wide_as_the_interval():
    drawn = draw_lines([Line("a", ((0.0, 5.0, 1.0), (1.0, 5.0, 2.0)))])
    (_, low0), (_, low1), (_, high1), (_, high0) = path_points(find(drawn, "path", "band")[0])
    assert (low1 - high1) == pytest.approx(2 * (low0 - high0), abs=0.3)


def test_points_without_a_place_are_left_out():
    drawn = draw_lines([Line("a", ((0.0, math.nan), (1.0, 2.0), (2.0, math.inf), (3.0, 0.0), (4.0, 3.0)))], log_y=True)
    assert len(path_points(find(drawn, "path", "line")[0])) == 2
    assert find(draw_lines([Line("a", ())]), "path", "line") == []


def test_moving_mean_against_a_loop():
    points = [(float(n), math.sin(n)) for n in range(20)]
    for window in (1, 3, 50):
        wanted = []
        for n in range(20):
            total, count = 0.0, 0
            for m in range(20):
                if n - window < m <= n:
                    total, count = total + points[m][1], count + 1
            wanted.append((float(n), total / count))
        assert moving_mean(points, window) == tuple((x, pytest.approx(y)) for x, y in wanted)


def draw_map(values, names_, digits=0):
    return heat_map(
        values,
        names_,
        names_,
        title="t",
        description="d",
        axis_names=("true", "taken for"),
        high=100.0,
        digits=digits,
    )


def test_a_cell_is_as_dark_as_its_share():
    drawn = draw_map([[100.0, 0.0], [40.0, 60.0]], ["a", "b"])
    assert [e.get("class") for e in find(drawn, "rect", "heat")] == ["heat h10", "heat h0", "heat h4", "heat h6"]
    assert shade(5.0, 0.0) == 0
    assert [shade(value, 10.0) for value in (-1.0, 0.0, 5.0, 10.0, 20.0)] == [0, 0, SHADES // 2, SHADES, SHADES]


def test_many_classes_are_a_few_paths_with_a_square_for_each_cell():
    count = MANY + 10
    values = [[70.0 if i == j else 30.0 if j == (i + 1) % count else 0.0 for j in range(count)] for i in range(count)]
    drawn = draw_map(values, [f"class {n}" for n in range(count)])
    paths = find(drawn, "path", "heat")
    assert {path.get("class"): path.get("d").count("z") for path in paths} == {"heat h3": count, "heat h7": count}


def test_missing_cells_stay_empty():
    drawn = draw_map([[None, math.nan], [50.0, 50.0]], ["a", "b"])
    assert len(find(drawn, "rect", "heat")) == 2


def test_every_point_of_a_scatter_is_drawn_once_and_neighbors_differ_in_shape():
    labels = tuple(n % 3 for n in range(30))
    x, y = tuple(float(n) for n in range(30)), tuple(float(-n) for n in range(30))
    drawn = scatter_chart(Panel("t", "before", ("a", "b", "c"), labels, x, y))
    paths = find(drawn, "path", "dot")
    assert [len(re.findall("M", path.get("d"))) for path in paths] == [10, 10, 10]
    assert len({re.sub(r"M[\d.]+ [\d.]+", "", path.get("d").split("M")[1]) for path in paths}) == 3
    looks = {(label % len(SHAPES), label % 8) for label in range(40)}
    assert len(looks) == 40


def test_a_bin_on_the_diagonal_has_no_gap():
    bins = tuple(CalibrationBin(*each) for each in ((0.5, 0.5, 0.5), (0.9, 0.7, 0.5), (0.1, 0.9, 0.0)))
    drawn = reliability_chart(CalibrationRow("m", "t", 1, 20.0, 0.1, bins), 1)
    gaps = [abs(float(e.get("y1")) - float(e.get("y2"))) for e in find(drawn, "line", "gap")]
    assert gaps[0] == pytest.approx(0.0, abs=0.02)
    assert gaps[1] > 10
    assert len(gaps) == 2
    assert "ECE 10.0 %" in drawn


@settings(deadline=None, max_examples=15)
@given(st.lists(names, min_size=1, max_size=4, unique=True), st.floats(-1e4, 1e4))
def test_any_names_give_well_formed_drawings_without_scripts(words, value):
    words = [*words, HOSTILE]
    share = min(100.0, abs(value))
    drawings = [
        bar_chart({word: {word: Estimate(share)} for word in words}, words, title=HOSTILE, axis=HOSTILE),
        difference_chart({word: Estimate(value, 1.0) for word in words}, title=HOSTILE),
        before_after_chart([(word, [share]) for word in words], words, title=HOSTILE, axis="a", caption=HOSTILE),
        draw_lines([Line(word, ((0.0, value), (1.0, 0.0)), marked=True) for word in words]),
        draw_map([[share] * len(words)] * len(words), words),
        scatter_chart(Panel(HOSTILE, "before", tuple(words), (0,), (value,), (value,))),
    ]
    for drawing in drawings:
        assert is_accessible(drawing)
        assert not list(parse(drawing).iter("script"))
    for legend in (drawings[0], drawings[2], drawings[3], scatter_legend(words)):
        assert len(list(parse(legend).iter("li"))) == len(words)


def test_long_names_are_cut_and_told_in_full():
    long = "a very long name of a class that nobody could place beside a bar"
    assert len(shorten(long, 16)) <= 16
    assert long in draw_bars(bars((50.0,), name=long))


def test_figures_carry_their_captions():
    assert parse(figure("<p>x</p>", "a < b", wide=True)).find("figcaption").text == "a < b"
    assert swatches([]) == figures([]) == ""
