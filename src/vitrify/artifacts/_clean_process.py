"""The other side of the trial: run as ``python -I -m vitrify.artifacts._clean_process``.

Reads a request on standard input, writes the outputs to a file and one line of JSON to standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from vitrify.artifacts import code, environment, golden
from vitrify.core import arrays as npz
from vitrify.core.catalog import catalog
from vitrify.core.document import Document
from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Allow
from vitrify.core.wire import to_builtins
from vitrify.reading.files import LocalFiles


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    files = LocalFiles({name: Path(path) for name, path in request["files"].items()})
    document = Document.from_builtins(request["document"], where="trial request")
    try:
        if request["read"]:
            _open_and_predict(files, document, Allow.of(request["allow"]), Path(request["result"]))
        else:
            catalog().row("format", document.format).look().describe(files, document.entry)
    except (VitrifyError, ImportError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    else:
        answer = {"environment": to_builtins(environment.capture(tuple(sys.modules)))}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def _open_and_predict(files: LocalFiles, document: Document, allow: Allow, result: Path) -> None:
    code.install(document.code, files)
    inputs, _ = golden.load(files)
    if document.runtime is None or document.signature is None:
        catalog().load("format", document.format).read(files, document.entry, allow)
        return
    session = catalog().load("runtime", document.runtime).open(files, document, allow)
    if inputs:
        with result.open("wb") as stream:
            npz.dump(session.run(inputs), stream)


if __name__ == "__main__":
    main()
