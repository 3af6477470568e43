"""Make the page of conversions by running it: every source to every target, each cell proven or with its reason.

    python docs/generate/matrix.py             # all rows: each in a process of its own, since frameworks do not mix
    python docs/generate/matrix.py XGBoost     # some rows again; the others stay as they were

It writes ``docs/reference/conversions.json``, what was seen, and ``docs/reference/conversions.md``, the page.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SEEN = HERE.parent / "reference" / "conversions.json"
PAGE = HERE.parent / "reference" / "conversions.md"
TARGETS = (
    *("onnx", "ort", "openvino", "saved-model", "tflite", "coreml", "torch-export", "torchscript"),
    *("jax-export", "stablehlo", "pmml", "pfa", "treelite", "skops", "hybrid", "safetensors"),
)
ROWS = 2000
LONGEST = 300
LIBRARIES = (
    *("scikit-learn", "xgboost-cpu", "lightgbm", "catboost", "statsmodels", "torch", "transformers", "keras"),
    *("tensorflow-cpu", "jax", "flax", "onnx", "onnxruntime", "openvino", "ai-edge-litert", "coremltools"),
    *("iree-base-runtime", "treelite", "jpmml-evaluator"),
)
HOLDS = {
    "pmml": "its roads start at a live model of scikit-learn or of a booster, of which it writes what they learnt",
    "treelite": "holds forests and boosted trees, and reads those of scikit-learn, XGBoost and LightGBM",
    "skops": "holds objects of scikit-learn",
    "hybrid": "is for a pipeline of scikit-learn with steps that have no road to ONNX",
}
"""Why there is no road to a format that not every source leads to."""
SINGLE = "precision float32"
"""What a refusal advises where float32 is all that a target has."""
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "2", "KERAS_BACKEND": "tensorflow"}


def row(name: str) -> list[dict[str, Any]]:
    """Convert one source to everything within reach."""
    sys.path.insert(0, str(HERE))
    from sources import SOURCES

    import vitrify
    from vitrify.checks.parity import Parity
    from vitrify.core.wire import to_builtins

    model, options = SOURCES[name]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VITRIFY_HOME"] = folder
        source = vitrify.save(model, "model", **options)
        gate = Parity(rows=ROWS)
        forms = [to_builtins(form) for form in vitrify.matrix(source, fidelity="lossy", checks=[gate])]
        return [form | (single(source, form["target"], gate) if form["verdict"] == "refused" else {}) for form in forms]


def single(source: Any, target: str, gate: Any) -> dict[str, Any]:
    """Return what came of a road in single precision, where that is what the refusal advises; else nothing."""
    import vitrify
    from vitrify.core.errors import VitrifyError
    from vitrify.transforms.conversion import foresee
    from vitrify.transforms.matrix import proof, reason

    _, error = foresee(source, target, fidelity="lossy")
    advice = [getattr(error, "remedy", ""), *(one.remedy for one in getattr(error, "problems", ()))]
    if not any(SINGLE in one for one in advice):
        return {}
    try:
        made = vitrify.convert(source, to=target, name="single", fidelity="lossy", precision="float32", checks=[gate])
    except VitrifyError as refused:
        return {"why": reason(refused), "precision": "float32"}
    report = proof(made)
    if report["verdict"] != "clean":
        why = "; ".join(finding["message"] for finding in report["findings"])
        return {"verdict": "not checked", "why": why, "precision": "float32"}
    outputs = report["details"]["outputs"].values()
    errors = [float(output["absolute"]["max"]) for output in outputs if output["kind"] == "float"]
    return {"verdict": "proven", "error": max(errors, default=0.0), "precision": "float32"}


def page(seen: dict[str, Any]) -> str:
    """Return the page."""
    rows, notes = seen["rows"], []
    head = "| from | " + " | ".join(f"`{target}`" for target in TARGETS) + " |"
    lines = [head, "| --- |" + " :-: |" * len(TARGETS)]
    for name, forms in rows.items():
        known = {form["target"]: form for form in forms}
        native = forms[0]["target"]
        cells = [
            _cell(known[target], target == native, notes, f"{name} to {target}")
            if target in known
            else _nowhere(native, target, notes)
            for target in TARGETS
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    counted = [form["verdict"] for forms in rows.values() for form in forms[1:] if form["target"] in TARGETS]
    total = ", ".join(f"{counted.count(verdict)} {verdict}" for verdict in ("proven", "not checked", "refused"))
    total += f", {sum(line.count('no road [') for line in lines)} without a road"
    versions = ", ".join(f"{library} {version}" for library, version in seen["versions"].items())
    return "\n".join(
        [
            "# The map of conversions",
            "",
            "Each row is a small model of one framework, each column a format. Every cell was made by converting that",
            "model and comparing some thousand rows with its source; the figure is the largest absolute error of all",
            "floating-point outputs, extreme inputs included: where answers reach 1e37, an error of 1e31 is rounding.",
            "● is the format that the model is saved in. *Weights* are tensors alone, equal to the bit. A number in",
            "brackets leads to the reason below; *float32* in brackets says that the source's own precision was",
            "refused, and `--precision float32` asked for, as the refusal advises. Road by road, with what each",
            "step may change: `vitrify formats`. For a model of your own: `vitrify matrix NAME`.",
            "",
            "![Which format leads where](../images/map.svg)",
            "",
            "*Every road that there is, drawn by `vitrify formats -o map.svg`: the colour says what it may change, the",
            "number how many steps it has.*",
            "",
            *lines,
            "",
            f"{total[0].upper()}{total[1:]}.",
            "",
            "## Why not",
            "",
            *(f"{number}. {note}" for number, note in enumerate(notes, start=1)),
            "",
            f"Made by `{seen['command']}` on {seen['machine']} with {versions}.",
            "",
        ]
    )


def _nowhere(source: str, target: str, notes: list[str]) -> str:
    """Return the cell of a target that the planner has no road to."""
    from vitrify.core.errors import UnsupportedModelError
    from vitrify.transforms.planner import plan

    try:
        road = plan(source, target, fidelity="lossy")
    except UnsupportedModelError:
        note = f"no road to {target}: {HOLDS[target]}"
        if note not in notes:
            notes.append(note)
        return f"no road [{notes.index(note) + 1}]"
    sys.exit(f"{road}: this road was not tried; run this row again")


def _cell(form: dict[str, Any], native: bool, notes: list[str], place: str) -> str:
    if native:
        return "●"
    if form["verdict"] == "proven":
        return (f"{form['error']:.0e}" if form["error"] else "0") + _asked(form)
    if form["target"] == "safetensors" and form["verdict"] == "not checked":
        return "weights"
    why = " ".join(form["why"].split())
    note = f"{place}: {why if len(why) <= LONGEST else why[:LONGEST] + ' ...'}".replace("|", "\\|")
    if note not in notes:
        notes.append(note)
    return f"{form['verdict']}{_asked(form)} [{notes.index(note) + 1}]"


def _asked(form: dict[str, Any]) -> str:
    return f" ({form['precision']})" if "precision" in form else ""


def main(names: list[str]) -> None:
    """Run the rows, each in a process of its own, and write both files."""
    sys.path.insert(0, str(HERE))
    from sources import SOURCES

    seen = json.loads(SEEN.read_text()) if SEEN.exists() and names else {"rows": {}}
    for name in names or SOURCES:
        command = [sys.executable, __file__, "--row", name]
        done = subprocess.run(command, env={**os.environ, **QUIET}, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-3000:]}")
        seen["rows"][name] = json.loads(done.stdout.splitlines()[-1])
        print(name, [form["target"] + ": " + form["verdict"] for form in seen["rows"][name]], flush=True)
    seen["rows"] = {name: seen["rows"][name] for name in SOURCES if name in seen["rows"]}
    seen["command"] = "python docs/generate/matrix.py"
    seen["machine"] = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    seen["versions"] = {library: metadata.version(library) for library in LIBRARIES}
    for forms in seen["rows"].values():
        for form in forms:  # times are this machine's, and make no sense in a page
            for key in ("one_ms", "batch_ms", "load_ms"):
                form.pop(key, None)
    SEEN.write_text(json.dumps(seen, indent=1) + "\n")
    PAGE.write_text(page(seen))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--row"]:
        print(json.dumps(row(sys.argv[2])))
    else:
        main(sys.argv[1:])
