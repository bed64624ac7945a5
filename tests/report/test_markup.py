"""Elements, escaping and figures in words."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.errors import counted
from cplsr.report.markup import element, listed, number, significant, text


def test_elements_name_attributes_as_html_does():
    written = element("rect", class_="bar s1", stroke_width=1.5, x=2.0, title=None)
    assert written == '<rect class="bar s1" stroke-width="1.5" x="2"></rect>'
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


@settings(deadline=None, max_examples=100)
@given(st.text())
def test_nothing_from_outside_opens_a_tag_or_ends_an_attribute(content):
    assert "<" not in text(content)
    value = element("a", title=content)[len('<a title="') : -len('"></a>')]
    assert '"' not in value
    assert "<" not in value


@pytest.mark.parametrize(
    ("value", "digits", "wanted"),
    [
        (1234.567, 2, "1,234.57"),
        (None, 2, "–"),
        (math.nan, 2, "–"),
        (math.inf, 2, "∞"),
        (-math.inf, 1, "-∞"),
        (0.5, 0, "0"),
    ],
)
def test_figures_that_are_missing_or_endless_have_a_sign(value, digits, wanted):
    assert number(value, digits) == wanted


def test_a_sign_where_asked_for():
    assert number(1.0, sign=True) == "+1.00"
    assert number(-1.0, sign=True) == "-1.00"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(0.01234, "0.0123"), (4.5678, "4.57"), (294912.0, "294,912"), (0, "0"), (1.5e9, "1.50e+09"), (2e-7, "2.00e-07")],
)
def test_significant_digits(value, wanted):
    assert significant(value) == wanted


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-8, 1e12))
def test_significant_digits_keep_the_figure_within_half_a_unit_of_the_last(value):
    assert float(significant(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_lists_and_plurals_read_as_sentences():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([str(n) for n in range(12)], at_most=4) == "0, 1, 2 and 9 more"
    assert listed([]) == ""
    assert counted(1, "class") == "1 class"
    assert counted(2560, "image") == "2,560 images"
