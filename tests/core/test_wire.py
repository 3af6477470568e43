"""JSON values: canonical, validated, and honest about what they do not know."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.attestation import Attestation, Subject
from vitrify.core.document import Code, Document, Environment
from vitrify.core.errors import MalformedError
from vitrify.core.manifest import MANIFEST_TYPE, Descriptor, Manifest
from vitrify.core.plan import Plan, Step
from vitrify.core.report import Finding, Report
from vitrify.core.signature import Field, Signature
from vitrify.core.wire import MAX_DEPTH, MAX_DOCUMENT_BYTES, Value

FIELD = Field(name="x", dtype="int64", nullable=True, categories=(1, 2), key=("q", 1), container_dtype="Int64")
DESCRIPTOR = Descriptor(media_type="application/json", digest="sha256:" + "0" * 64, size=3, annotations={"a": "b"})
VALUES = [
    FIELD,
    Signature(inputs=(FIELD, Field(name="y", dtype="string")), outputs=(FIELD,), container="pandas"),
    Report(check="parity", verdict="found", findings=(Finding(place="row 1", message="off"),), details={"max": 0.5}),
    Plan(source="a", target="b", steps=(Step(transform="t", source="a", target="b", fidelity="exact"),)),
    Attestation(subject=(Subject(name="m", digest={"sha256": "0"}),), predicate_type="t", predicate={"k": [1]}),
    Manifest(config=DESCRIPTOR, layers=(DESCRIPTOR,), schema_version=2, media_type=MANIFEST_TYPE, subject=DESCRIPTOR),
    Document(
        schema=1,
        format="skops",
        runtime="estimator",
        entry={"deep": {"deeper": [1, None]}},
        signature=Signature(inputs=(FIELD,)),
        environment=Environment(python="3.11", platform="linux-x86_64", distributions={"numpy": "2"}),
        code=Code(modules={"m": "code/m.py"}),
    ),
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
)
UNKNOWN = st.dictionaries(st.text("abcXYZ_é", min_size=1, max_size=6).map("future_{}".format), JSON, max_size=3)


def sprinkle(value, raw, draw):
    """Put unknown fields into every object of ``raw`` that is a Value."""
    for field in value.__struct_fields__:
        item = getattr(value, field)
        name = value.__struct_encode_fields__[value.__struct_fields__.index(field)]
        if isinstance(item, Value) and name in raw:
            sprinkle(item, raw[name], draw)
        if isinstance(item, tuple) and name in raw:
            for part, raw_part in zip(item, raw[name], strict=True):
                if isinstance(part, Value):
                    sprinkle(part, raw_part, draw)
    raw |= draw(UNKNOWN)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@given(data=st.data())
def test_unknown_fields_survive_at_every_level(value, data):
    raw = json.loads(value.to_json())
    sprinkle(value, raw, data.draw)
    text = json.dumps(raw, ensure_ascii=False).encode()
    read = type(value).from_json(text, where="x.json")
    assert json.loads(read.to_json()) == raw
    assert type(value).from_json(read.to_json(), where="x.json") == read


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_equal_and_its_json_is_canonical(value):
    text = value.to_json()
    assert type(value).from_json(text, where="x.json") == value
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_a_changed_value_keeps_what_it_does_not_know():
    read = Field.from_json(b'{"name":"x","dtype":"int8","novel":{"a":1}}', where="x")
    assert json.loads(read.replace(name="y").to_json()) == {"name": "y", "dtype": "int8", "novel": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not valid JSON"),
        (b'{"name":', "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[]", "not a valid Field"),
        (b'{"name":"x"}', "dtype"),
        (b'{"name":1,"dtype":"int8"}', r"\$.name"),
        (b'{"name":"x","dtype":"int9"}', "int9"),
        (b'{"name":"x","dtype":"int8","shape":["batch",-1]}', "size"),
        (b'{"name":"x","dtype":"int8","shape":[""]}', "size"),
        (b'{"name":"x","dtype":"int8","shape":[1.5]}', "shape"),
    ],
)
def test_what_is_no_field_is_malformed_and_says_where(text, said):
    with pytest.raises(MalformedError, match=said) as caught:
        Field.from_json(text, where="vitrify.json")
    assert str(caught.value).startswith("vitrify.json: ")


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (Signature, b'{"inputs":[{"name":"x","dtype":"int8"},{"name":"x","dtype":"int8"}]}'),
        (Descriptor, b'{"mediaType":"t","digest":"md5:0","size":1}'),
        (Descriptor, b'{"mediaType":"t","digest":"sha256:' + b"0" * 64 + b'","size":-1}'),
    ],
    ids=["two fields of one name", "no digest", "a negative size"],
)
def test_what_a_value_refuses_about_itself_is_malformed_in_a_file(cls, text):
    with pytest.raises(MalformedError, match=r"^vitrify\.json: not a valid"):
        cls.from_json(text, where="vitrify.json")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 400, 700, 5_000, 200_000])
@pytest.mark.parametrize("brackets", ["[]", '{"a":0}'])
def test_deep_nesting_is_malformed_whatever_the_depth(depth, brackets):
    opening, closing = ("[", "]") if brackets == "[]" else ('{"a":', "}")
    text = '{"check":"c","verdict":"clean","details":{"d":' + opening * depth + "0" + closing * depth + "}}"
    with pytest.raises(MalformedError):
        Report.from_json(text.encode(), where="report")


def test_nesting_up_to_the_limit_is_read_and_written():
    inner = MAX_DEPTH - 2  # below the report and its details
    text = '{"check":"c","verdict":"clean","details":{"d":' + "[" * inner + "]" * inner + "}}"
    report = Report.from_json(text.encode(), where="report")
    assert json.loads(report.to_json()) == json.loads(text)


def test_a_document_above_the_limit_is_refused_before_it_is_parsed():
    with pytest.raises(MalformedError, match="more than the limit"):
        Field.from_json(b"x" * (MAX_DOCUMENT_BYTES + 1), where="big")


@given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
def test_nothing_but_our_own_errors_comes_out_of_a_parser(data):
    for cls in (Field, Signature, Document, Manifest, Report):
        with pytest.raises(MalformedError, match=r"^noise: "):
            cls.from_json(data, where="noise")
