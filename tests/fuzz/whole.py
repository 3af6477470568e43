"""Everything at once, as ``vitrify scan``, ``inspect`` and ``view`` do it: any file, whatever it may be a file of.

Samples of every format and the hostile files of the corpus are changed, and packed into archives with each other. No
format may break (a scan says so and goes on, so that is looked for here), and all that is told can be written as JSON.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import tarfile
import tempfile
import zipfile
from pathlib import Path

from fuzz import _formats, _look
from fuzz._run import Case
from vitrify.core.protocols import Drawn
from vitrify.inspection.identify import survey
from vitrify.inspection.scan import scan_files

SMALL = 1 << 17
BROKEN = "failed"


@functools.cache
def seeds(*, quick=False):
    from corpus import hostile
    from samples import samples

    kinds = {name.partition("/")[0] for name in samples()}
    honest = [case for case in _formats.samples(*kinds, quick=quick) if case.size < SMALL]
    made = []
    for case in () if quick else hostile():
        with tempfile.TemporaryDirectory() as folder:
            path = case.make(Path(folder), Path(folder) / "marker")
            made.append(_look.case_at(path, case.number))
    return honest + [case for case in made if 0 < case.size < SMALL]


def change(case, honest, chance):
    if chance.random() < 0.9:
        case = _formats.change(case, honest, chance)
    if chance.random() < 0.3:
        case = packed(case, honest, chance)
        if chance.random() < 0.3:
            case = _formats.change(case, honest, chance)
    return case


def packed(case, honest, chance):
    """Return an archive of a case and of another, or the two in one file."""
    files = {**chance.choice(honest).files, **case.files}
    stream = io.BytesIO()
    match chance.randrange(4):
        case 0:
            with zipfile.ZipFile(stream, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
                for name, data in files.items():
                    archive.writestr(name, data)
        case 1:
            with tarfile.open(fileobj=stream, mode=chance.choice(("w", "w:gz", "w:xz"))) as archive:
                for name, data in files.items():
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        case 2:
            stream.write(gzip.compress(next(iter(case.files.values()))))
        case _:
            stream.write(b"".join(chance.sample(list(files.values()), len(files))))
    return Case("packed", {"file": stream.getvalue()})


def check(case):
    files = _look.held(case)
    report = scan_files(files)
    json.dumps(report.to_json().decode() if isinstance(report.to_json(), bytes) else report.to_json())
    broken = [finding for finding in report.findings if finding.rule == BROKEN]
    found = survey(files)
    assert not found.failed, found.failed
    for one in found.found:
        _look.ours(lambda one=one: json.dumps(one.format.describe(files, one.entry), allow_nan=False).encode())
        if isinstance(one.format, Drawn):
            _look.ours(lambda one=one: one.format.graph(files, one.entry).to_json())
    assert not broken, broken[0].message
    return bool(found.found)
