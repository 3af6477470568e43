"""Which format: by content, every one of them, whatever a plugin does."""

from __future__ import annotations

import io
import zipfile

import pytest

from vitrify.core.errors import UnsupportedModelError
from vitrify.inspection.identify import describe, describe_all, identify, survey
from vitrify.reading.files import HeldFiles


def held(data, name="file"):
    return HeldFiles({name: memoryview(data)})


def names(found):
    return [one.row.name for one in found]


def test_a_generic_format_is_asked_only_where_no_other_knows_the_file(formats):
    formats("safe", "anything", anything={"generic": True})
    assert names(identify(held(b"safe"))) == ["safe"]
    assert names(identify(held(b"else"))) == ["anything"]


def test_a_format_whose_magic_is_not_there_is_not_asked(formats):
    formats("broken-look", "safe", **{"broken-look": {"magic": ((0, b"x"), (2, b"yz"))}})
    assert not survey(held(b"safe")).failed
    assert survey(held(b"..yz")).failed
    assert survey(held(b"x")).failed


def test_a_folder_is_asked_about_whatever_the_magic(formats):
    formats("pair", pair={"magic": ((0, b"x"),)})
    assert names(identify(HeldFiles({"index": memoryview(b""), "a": memoryview(b"")}))) == ["pair"]


def test_a_plugin_that_cannot_look_is_named_and_the_others_are_asked(formats):
    formats("broken-look", "safe")
    seen = survey(held(b"safe"))
    assert names(seen.found) == ["safe"]
    assert [(name, type(error)) for name, error in seen.failed] == [("broken-look", KeyError)]


@pytest.fixture
def zipped():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a", "b")
    return stream.getvalue()


def test_a_zip_file_behind_other_content_is_seen(formats, zipped):
    formats("safe", "zip", zip={"generic": True})
    assert names(identify(held(b"safe" + zipped))) == ["safe", "zip"]
    assert names(identify(held(b"safe" + zipped + b"junk"))) == ["safe", "zip"]
    assert names(identify(held(zipped))) == ["zip"]
    assert names(identify(held(b"safe, as tar is" + zipped + b"\0" * 1024))) == ["safe"]
    assert names(identify(held(b"safe"))) == ["safe"]


def test_a_format_that_is_a_zip_file_is_one_thing(formats, zipped):
    formats("packed", "zip", zip={"generic": True})
    assert names(identify(held(zipped))) == ["packed"]


def test_two_generic_formats_of_which_one_is_a_zip_file_are_two_things(formats, zipped):
    formats("packed", "zip", zip={"generic": True}, packed={"generic": True})
    assert names(identify(held(zipped))) == ["packed", "zip"]


def test_what_is_several_things_is_described_as_each_of_them(formats, tmp_path):
    formats("evil", "pickle")
    (tmp_path / "file").write_bytes(b"evil")
    assert [about["format"] for about in describe_all(tmp_path / "file")] == ["evil", "pickle"]
    with pytest.raises(UnsupportedModelError, match="several formats at once: evil, pickle"):
        describe(tmp_path / "file")


def test_what_nothing_knows_is_an_error_that_shows_how_it_begins(formats, tmp_path):
    formats("safe")
    (tmp_path / "file").write_bytes(b"other")
    with pytest.raises(UnsupportedModelError, match="no format that is known here; it begins with b'other'"):
        describe_all(tmp_path / "file")


def test_a_folder_is_what_is_around_the_models_in_it_and_a_scan_asks_all(formats):
    files = HeldFiles({"index": memoryview(b"a"), "a": memoryview(b"x")})
    formats("folder", "pair", pair={"around": True})
    assert names(identify(files)) == ["pair"]
    assert names(survey(files).found) == ["folder", "pair"]
    formats("folder", "pair")
    assert names(identify(files)) == ["folder", "pair"]


def test_a_file_with_a_zip_file_behind_it_is_one_thing_where_its_format_answers_for_that(formats, zipped):
    formats("safe", "zip", zip={"generic": True}, safe={"appended": True})
    assert names(identify(held(b"safe" + zipped))) == ["safe"]
