"""Signatures: what they say, what they refuse, how they show themselves."""

import html.parser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import MalformedError, SignatureError
from vitrify.core.report import Finding, Report
from vitrify.core.signature import DTYPES, Field, Signature

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=4),
)
SIZES = st.integers(0, 2**40) | st.text("abc", min_size=1, max_size=4)
FIELDS = st.builds(
    Field,
    name=st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
    dtype=st.sampled_from(sorted(DTYPES)),
    shape=st.lists(SIZES, max_size=3).map(tuple),
    nullable=st.booleans(),
    ordered=st.booleans(),
    categories=st.none() | st.lists(SCALARS, max_size=3).map(tuple),
    classes=st.none() | st.lists(SCALARS, max_size=3).map(tuple),
    key=SCALARS | st.lists(SCALARS, max_size=3).map(tuple),
)


def exact(value):
    """Tell 1, 1.0 and True apart, which Python's equality does not."""
    return [exact(part) for part in value] if isinstance(value, tuple) else (type(value), value)


@given(FIELDS)
def test_a_field_comes_back_with_the_types_of_its_labels(field):
    read = Field.from_json(field.to_json(), where="field")
    assert read == field
    for name in ("key", "categories", "classes"):
        assert exact(getattr(read, name)) == exact(getattr(field, name))


def test_a_field_reads_as_one_line():
    assert str(Field(name="age", dtype="int64", nullable=True)) == "age: int64?[batch]"
    assert str(Field(name="x", dtype="float32", shape=("batch", 3))) == "x: float32[batch, 3]"
    assert str(Field(name="scale", dtype="float64", shape=())) == "scale: float64[]"


def test_a_signature_reads_as_a_line_for_each_field():
    text = str(Signature(inputs=(Field(name="a", dtype="bool"),), outputs=(Field(name="b", dtype="int8"),)))
    assert text == "inputs (numpy)\n  a: bool[batch]\noutputs\n  b: int8[batch]"


@pytest.mark.parametrize("change", [{"dtype": "float8"}, {"shape": (-1,)}, {"shape": ("batch", "")}])
def test_a_field_that_nobody_could_make_is_refused(change):
    with pytest.raises(ValueError, match="field 'x'"):
        Field(**{"name": "x", "dtype": "int8"} | change)


def test_two_fields_of_one_name_are_refused():
    twice = (Field(name="x", dtype="int8"), Field(name="x", dtype="int16"))
    for side in ("inputs", "outputs"):
        with pytest.raises(MalformedError, match="same name"):
            Signature(**{"inputs": (), side: twice})


def test_a_signature_is_batched_when_every_input_is():
    batched, fixed = Field(name="a", dtype="int8"), Field(name="b", dtype="int8", shape=(3,))
    assert Signature(inputs=(batched,)).batched
    assert not Signature(inputs=(batched, fixed)).batched
    assert not Signature(inputs=()).batched


@pytest.mark.parametrize(
    ("container", "is_table"), [("pandas", True), ("polars", True), ("records", True), ("torch", False)]
)
def test_frames_and_records_are_tables(container, is_table):
    assert Signature(inputs=(Field(name="a", dtype="int8"),), container=container).is_table is is_table


def test_a_field_that_is_not_there_is_an_error_that_lists_those_that_are():
    signature = Signature(inputs=(Field(name="a", dtype="int8"),), outputs=(Field(name="b", dtype="int8"),))
    assert signature.input("a").name == "a"
    assert signature.output("b").name == "b"
    with pytest.raises(SignatureError, match=r"'b' \(there are: a\)"):
        signature.input("b")


class Cells(html.parser.HTMLParser):
    """Collects the text of each cell and the names of all tags."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in {"td", "th", "caption"}:
            self.cells.append("")

    def handle_data(self, data):
        self.cells[-1] += data


TABLE_TAGS = {"table", "thead", "tbody", "tr", "th", "td", "caption"}


@given(FIELDS)
def test_a_notebook_shows_every_name_as_text(field):
    hostile = field.replace(name=f"<script>{field.name}</script>", container_dtype="<b>&amp;")
    for value in (hostile, Signature(inputs=(hostile,), outputs=(hostile,))):
        shown = Cells(value._repr_html_())
        assert shown.tags <= TABLE_TAGS
        assert "<b>&amp;" in shown.cells
        assert any("<script>" in cell for cell in shown.cells)


def test_a_notebook_shows_the_first_labels_and_how_many_there_are():
    many = Field(name="c", dtype="int64", categories=tuple(range(100)))
    assert "0, 1, 2, 3, 4, 5, 6, 7, ... (100)" in Cells(many._repr_html_()).cells


def test_a_notebook_shows_a_report_with_its_verdict_and_remedies():
    finding = Finding(place="row <1>", message="a & b", remedy="do <this>")
    shown = Cells(Report(check="parity", verdict="found", findings=(finding,))._repr_html_())
    assert shown.cells == ["parity: found", "place", "finding", "what to do", "row <1>", "a & b", "do <this>"]
    assert shown.tags <= TABLE_TAGS
