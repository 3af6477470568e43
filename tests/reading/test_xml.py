"""The reader of XML: what it gives, what it refuses, and that nothing takes more than it may."""

import tracemalloc
from contextlib import suppress
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.reading import xml

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"))
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True).filter(lambda name: name.lower() != "xmlns")


def parse(content, **limits):
    data = content.encode() if isinstance(content, str) else content
    return xml.parse(memoryview(data), where="test", **limits)


def trees():
    leaf = st.builds(element, NAMES, st.dictionaries(NAMES, TEXT, max_size=3), TEXT, st.just(()))
    return st.recursive(
        leaf, lambda inner: st.builds(element, NAMES, st.just({}), TEXT, st.lists(inner, max_size=3)), max_leaves=8
    )


def element(tag, attributes, text, children):
    made = ET.Element(tag, attributes)
    made.text = text
    made.extend(children)
    return made


def same(ours, theirs):
    inside = (theirs.text or "") + "".join(child.tail or "" for child in theirs)
    assert (ours.tag, dict(ours.attributes)) == (theirs.tag, theirs.attrib)
    assert ours.text.split() == inside.split()
    for mine, other in zip(ours.children, theirs, strict=True):
        same(mine, other)


@given(trees(), st.sampled_from(["utf-8", "utf-16", "us-ascii", "iso-8859-1"]))
def test_the_tree_is_what_another_reader_reads(tree, encoding):
    content = ET.tostring(tree, encoding=encoding, xml_declaration=True)
    same(parse(content), ET.fromstring(content))


def test_elements_are_found_by_their_path_and_attributes_by_name():
    top = parse("<net a='1'><layers><layer id='0'/><layer id='1'>x</layer></layers><edges/></net>")
    assert [one.get("id") for one in top.all("layers", "layer")] == ["0", "1"]
    assert top.find("layers", "layer").get("id") == "0"
    assert top.find("layers", "nothing", "here") is None
    assert top.get("a") == "1"
    assert top.get("b", "none") == "none"
    assert [one.tag for one in top.walk()] == ["net", "layers", "layer", "layer", "edges"]


def test_names_are_split_from_their_namespace():
    top = parse('<p:PMML xmlns:p="http://example.org/4" p:a="1" b="2"/>')
    assert (top.tag, top.namespace) == ("PMML", "http://example.org/4")
    assert dict(top.attributes) == {"http://example.org/4 a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<!DOCTYPE a><a/>", "document type"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "document type"),
        ('<!DOCTYPE a SYSTEM "http://example.org/a.dtd"><a/>', "document type"),
        ('<!DOCTYPE a [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]><a/>', "document type"),
        ("<a>&x;</a>", "undefined entity"),
        ('<?xml version="1.0" encoding="zip"?><a/>', "encoding"),
        ('<?xml version="1.0" encoding="cp037"?><a/>', "encoding"),
        ("<a><b></a>", "mismatched"),
        ("<a/><b/>", "junk"),
        ("<a", "unclosed"),
        ("", "no element"),
        ("<a b='1' b='2'/>", "duplicate"),
        ("<x:a/>", "prefix"),
        (b"<a>\xff</a>", "invalid"),
    ],
)
def test_what_no_model_needs_is_refused(content, message):
    with pytest.raises(MalformedError, match=f"test: .*{message}"):
        parse(content)


def test_a_billion_laughs_are_refused_at_the_first():
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    with pytest.raises(MalformedError, match="document type"):
        parse(f'<!DOCTYPE l [<!ENTITY l0 "lol">{laughs}]><l>&l9;</l>')


@pytest.mark.parametrize(
    "content",
    [
        b"<a>" * 100_000,
        b"<a>" + b"<b/>" * 1_000_000,
        b"<a>" + b"<b c='xyz'>qqq</b>" * 400_000,
        b"<a b='" + b"x" * 4_000_000,
        b"<a><!--" + b"x" * 4_000_000,
        b"<a " + b" ".join(b"a%d=''" % number for number in range(150_000)) + b"/>",
    ],
    ids=["deep", "wide", "attributes", "long attribute", "long comment", "many attributes"],
)
def test_what_is_too_large_is_given_up_within_its_memory(content):
    allowed = 8 << 20
    tracemalloc.start()
    with pytest.raises(LimitExceededError):
        parse(content, memory=allowed)
    assert tracemalloc.get_traced_memory()[1] < 3 * allowed  # the whole trees take ten times as much
    tracemalloc.stop()


def test_events_come_piece_by_piece_in_constant_memory():
    content = memoryview(b"<a>" + b"<b c='xyz'>qqq</b>" * 100_000 + b"</a>")
    tracemalloc.start()
    starts = texts = ends = 0
    for kind, name, *_ in xml.events(content, where="test"):
        starts += kind == "start"
        texts += len(name) if kind == "text" else 0
        ends += kind == "end"
    assert (starts, texts, ends) == (100_001, 300_000, 100_001)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("start", "tag"),
    [
        (b'<?xml version="1.0"?><!-- by someone --><PMML xmlns="http://www.dmg.org" version="4.4"><Hea', "PMML"),
        (b"<!DOCTYPE net [<!ENTITY", "net"),
        (b"<net>", "net"),
        (b"<net", None),
        (b"PK\x03\x04", None),
        (b"", None),
        (b"<?xml version='1.0' encoding='zip'?><net>", None),
    ],
)
def test_the_first_element_is_known_from_the_first_bytes(start, tag):
    found = xml.root(start)
    assert (found.tag if found else None) == tag


@given(st.binary(max_size=60) | st.text("<>/ab='\" &;!-?[]x", max_size=60).map(str.encode))
def test_no_bytes_make_it_raise_anything_else(content):
    xml.root(content)
    with suppress(MalformedError):
        parse(content)
