"""The scan's engine: what it makes of formats that find, fail, hold and never end."""

from __future__ import annotations

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import UsageError
from vitrify.core.report import Report
from vitrify.inspection.scan import Limits, scan, scan_files
from vitrify.reading.files import HeldFiles


def held(data, name="file"):
    return HeldFiles({name: memoryview(data)})


def folder(**files):
    return HeldFiles({name.replace("__", "/"): memoryview(data) for name, data in files.items()})


def rules(report):
    return [(finding.verdict, finding.rule) for finding in report.findings]


def places(report):
    return [finding.place for finding in report.findings]


def test_what_is_looked_at_and_holds_nothing_is_clean(formats):
    formats("safe")
    report = scan_files(held(b"safe and sound"))
    assert (report.check, report.verdict, report.findings) == ("scan", "clean", ())
    assert report.details == {"formats": {"safe": 1}, "files": 1, "bytes": 14}


def test_an_empty_file_is_clean(formats):
    formats("safe")
    assert scan_files(held(b"")).verdict == "clean"
    assert scan_files(HeldFiles({})).verdict == "clean"


def test_what_no_format_knows_is_not_checked(formats):
    formats("safe")
    report = scan_files(held(b"?"))
    assert (report.verdict, rules(report)) == ("not checked", [("not checked", "unknown-format")])


def test_a_finding_keeps_its_place_in_the_file(formats):
    formats("evil")
    assert places(scan_files(held(b"evil", "m.pkl"))) == ["m.pkl:offset 4"]
    assert places(scan_files(folder(a=b"evil", sub__b=b"evil"))) == ["a:offset 4", "sub/b:offset 4"]


def test_a_file_that_is_two_things_is_found_and_looked_at_as_both(formats):
    formats("evil", "anything")
    report = scan_files(held(b"evil"))
    assert [(finding.rule, finding.subject) for finding in report.findings] == [
        ("two-formats", "anything+evil"),
        ("untrusted-global", "evil.run"),
    ]


@pytest.mark.parametrize(
    ("kind", "verdict", "rule"),
    [("cut", "found", "malformed"), ("huge", "not checked", "limit"), ("broken", "not checked", "failed")],
)
def test_a_format_that_stops_says_why_and_never_clean(formats, kind, verdict, rule):
    formats(kind)
    report = scan_files(held(kind.encode()))
    assert rules(report) == [(verdict, rule)]
    assert places(report) == ["file"]
    assert not report.findings[0].message.startswith("file")


def test_a_plugin_that_cannot_look_leaves_every_file_not_checked(formats):
    formats("broken-look", "safe")
    report = scan_files(held(b"safe"))
    assert (report.verdict, rules(report)) == ("not checked", [("not checked", "failed")])
    assert "KeyError" in report.findings[0].message


def test_findings_end_where_the_list_is_full(formats):
    formats("many")
    report = scan_files(held(b"many"), limits=Limits(findings=5))
    assert len(report.findings) == 6
    assert report.findings[-1].rule == "limit"


def test_what_is_held_is_looked_at_in_its_place(formats):
    formats("box", "evil")
    report = scan_files(held(b"box[in=box[a.pkl=evil]]", "b"))
    assert places(report) == ["b!in!a.pkl:offset 4"]
    assert report.details["formats"] == {"box": 2, "evil": 1}


def test_boxes_in_boxes_end_at_a_limit(formats):
    formats("box", "safe")
    data = b"safe"
    for _ in range(8):
        data = b"box[i=" + data + b"]"
    assert scan_files(held(data)).verdict == "clean"
    assert rules(scan_files(held(b"box[i=" + data + b"]"))) == [("not checked", "limit")]


def test_what_holds_itself_for_ever_ends_at_a_limit(formats):
    formats("fan")
    report = scan_files(held(b"fan"), limits=Limits(parts=50))
    assert set(rules(report)) == {("not checked", "limit")}
    report = scan_files(held(b"fan" * 100), limits=Limits(expanded=500, ratio=1))
    assert set(rules(report)) == {("not checked", "limit")}


def test_a_large_file_may_hold_many_times_its_size(formats):
    formats("box", "safe")
    data = b"box[i=safe" + b"." * 1000 + b"]"
    assert scan_files(held(data), limits=Limits(expanded=1, ratio=2)).verdict == "clean"


def test_a_folder_that_no_format_knows_is_looked_at_file_by_file(formats):
    formats("safe", "evil")
    report = scan_files(folder(a=b"safe", deep__er__b=b"evil", c=b"?"))
    assert places(report) == ["deep/er/b:offset 4", "c"]
    assert report.details["files"] == 3


def test_a_folder_in_a_folder_is_asked_about_as_a_whole(formats):
    formats("pair", "safe")
    report = scan_files(folder(model__index=b"a", model__a=b"bad", notes=b"safe", more__x=b"safe", more__y=b"safe"))
    assert places(report) == ["model/a"]
    assert report.details["formats"] == {"pair": 1, "safe": 3}


def test_a_folder_s_format_answers_only_for_what_it_opened(formats):
    formats("pair", "evil")
    report = scan_files(folder(index=b"a", a=b"good", extra=b"evil", sub__extra=b"evil"))
    assert places(report) == ["extra:offset 4", "sub/extra:offset 4"]
    assert report.details["files"] == 4


def test_a_pickle_among_what_a_folder_s_format_opened_is_found(formats):
    formats("pair", "pickle", pickle={"anywhere": True})
    assert places(scan_files(folder(index=b"a b", a=b"good", b=b"evil"))) == ["b:offset 4"]


def test_folders_as_deep_as_a_path_can_be_are_walked(formats):
    formats("evil", "safe")
    report = scan_files(HeldFiles({"d/" * 1500 + "a": memoryview(b"evil"), "b": memoryview(b"safe")}))
    assert rules(report) == [("found", "untrusted-global")]


def test_a_file_that_may_not_be_read_is_not_checked(formats, tmp_path):
    formats("safe")

    class Refused(HeldFiles):
        def map(self, name):
            raise PermissionError(13, "Permission denied")

    report = scan_files(Refused({"file": memoryview(b"safe")}))
    assert rules(report)[-1] == ("not checked", "unreadable")


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        scan(tmp_path / "nothing")


def test_the_same_files_give_the_same_report(formats):
    formats("pair", "evil", "box", "anything")
    files = folder(index=b"a", a=b"bad", extra=b"evil", sub__extra=b"box[i=evil]")
    assert scan_files(files).to_json() == scan_files(files).to_json()


@given(st.binary(max_size=200), st.booleans())
def test_whatever_the_bytes_there_is_a_report_and_it_survives_json(data, boxed):
    report = scan_files(held(b"PK\x03\x04" + data if boxed else data))
    assert report.verdict in {"clean", "found", "not checked"}
    assert Report.from_json(report.to_json(), where="report").findings == report.findings


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (os.system, (f"touch {self.marker}",))


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("name", ["model.pkl", "notes.txt", "weights.safetensors", "picture.png", "none"])
def test_a_pickle_that_runs_code_is_found_under_every_name_and_does_not_run(tmp_path, name, protocol):
    marker = tmp_path / "marker"
    (tmp_path / name).write_bytes(pickle.dumps(Payload(marker), protocol))
    assert scan(tmp_path / name).verdict == "found"
    assert scan(tmp_path).verdict == "found"
    assert not marker.exists()


def test_a_link_out_of_a_folder_is_told_and_not_followed(formats, tmp_path):
    formats("safe", "evil")
    outside = tmp_path / "outside"
    outside.write_bytes(b"evil")
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "a").write_bytes(b"safe")
    (inside / "b").symlink_to(outside)
    (inside / "c").symlink_to(inside / "a")
    report = scan(inside)
    assert rules(report) == [("found", "link")]
    assert places(report) == ["b"]
    assert report.details["formats"] == {"safe": 2}


def test_a_name_that_is_no_text_is_told_in_characters_that_are(formats, tmp_path):
    formats("evil")
    (tmp_path / os.fsdecode(b"\xff.pkl")).write_bytes(b"evil")
    report = scan(tmp_path)
    assert places(report) == ["\\udcff.pkl:offset 4"]
    assert Report.from_json(report.to_json(), where="report").findings == report.findings


def test_code_is_looked_for_in_what_a_folder_s_format_handed_on_too(formats):
    """Whoever opens a file while it hands others on does not answer for what it means to other loaders."""
    formats("handing", "pickle", pickle={"anywhere": True})
    assert places(scan_files(folder(index=b"a", a=b"evil"))) == ["a:offset 4"]
