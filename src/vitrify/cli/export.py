"""``vitrify export``: an artifact in one file, or in the layout of another tool."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import REFERENCE, common, open_store

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact

_ARCHIVE = "archive"
_LAYOUTS = (
    *(_ARCHIVE, "mlflow", "hugging-face", "kitops", "directory"),
    *("triton", "tensorflow-serving", "torchserve", "ray-serve", "kubernetes", "kserve"),
)
_REPLICAS = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)


@click.command("export")
@click.argument("reference", type=REFERENCE)
@click.argument("path", type=click.Path())
@click.option(
    "--as",
    "layout",
    type=click.Choice(_LAYOUTS),
    default=_ARCHIVE,
    show_default=True,
    help="What to write: one file, or a directory that another tool reads.",
)
@click.option("--license", "license_", metavar="ID", default="", help="hugging-face: for the card, apache-2.0.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="hugging-face: for the card. Repeat for more.")
@click.option("--also", multiple=True, metavar="REF", help="triton, tensorflow-serving: one more model or version.")
@click.option("--backend", type=click.Choice(["auto", "python"]), help="triton: python has Vitrify run every model.")
@click.option("--rows", type=click.IntRange(1), help="triton: rows a batch at most; 1 for no batching.  [default: 32]")
@click.option("--base", metavar="DIR", help="tensorflow-serving: where it finds the models.  [default: /models]")
@click.option("--allow", multiple=True, metavar="NAME", help="Servers: exact name of code that may run. Repeat.")
@click.option("--image", help="kubernetes, kserve: the container image that has Vitrify in it.")
@click.option("--source", metavar="oci://HOST/NAME", help="kubernetes, kserve: where the artifact was pushed.")
@click.option("--replicas", metavar="MIN-MAX", help="kubernetes, kserve, ray-serve: how many.")
@click.option(
    "--client", "clients", multiple=True, metavar="NAME=SHA256", help="kubernetes: who may ask, by its token."
)
@click.option("--login", metavar="SECRET", help="kubernetes, kserve: the Secret with the registry's password.")
@click.option("--monitor", is_flag=True, help="kubernetes: a ServiceMonitor for Prometheus, too.")
@common
def command(
    reference: str,
    path: str,
    layout: str,
    license_: str,
    tags: tuple[str, ...],
    also: tuple[str, ...],
    store: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write an artifact: an OCI archive with its attestations, or a directory for another tool.

    MLflow, Hugging Face and KitOps take the model; Triton, TensorFlow Serving, TorchServe and Ray Serve serve it;
    for Kubernetes and KServe it is manifests. The same artifact gives the same bytes. A directory must not be there
    yet. The policy of this machine is asked whether it may be shipped.
    """
    from vitrify import stores
    from vitrify.artifacts import open_artifact
    from vitrify.artifacts.permit import permit
    from vitrify.cli._render import progress_bars, show_json, size
    from vitrify.core.errors import UsageError

    if (license_ or tags) and layout != "hugging-face":
        raise UsageError("--license and --tag are for the card of --as hugging-face")
    chosen = _chosen(options)
    artifact, *others = (open_artifact(one, store=open_store(store)) for one in (reference, *also))
    for one in (artifact, *others):
        permit(one, "ship")
    where = Path(path)
    with progress_bars():
        if layout == _ARCHIVE:
            if where.is_dir():
                msg = f"{path} is a directory; an archive is one file"
                raise UsageError(msg, remedy="name a file, or choose a layout: --as directory")
            if chosen or others:
                msg = f"an archive has no option {', '.join(sorted({**chosen, **({'also': 1} if others else {})}))}"
                raise UsageError(msg, remedy="choose a layout: --as triton")
            stores.export(artifact.store, artifact.digest, where)
        else:
            if others:
                chosen["also"] = others
            _write(artifact, where, layout, license_, tags, chosen)
    count = where.stat().st_size if where.is_file() else sum(one.stat().st_size for one in where.rglob("*"))
    if as_json:
        show_json({"path": path, "digest": str(artifact.digest), "size": count, "layout": layout})
    else:
        click.echo(f"{path}: {artifact}, {size(count)}")


def _write(
    artifact: Artifact, folder: Path, layout: str, license_: str, tags: tuple[str, ...], options: dict[str, Any]
) -> None:
    from vitrify import package

    if license_ or tags:
        from vitrify.package._hugging_face_card import Card

        options["card"] = Card(license=license_, tags=tags)
    package.export(artifact, folder, layout, **options)


def _chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as the layouts take them.

    Raises:
        UsageError: One cannot be meant.
    """
    from vitrify.core.errors import UsageError

    chosen = {name: value for name, value in options.items() if value not in (None, (), False)}
    if "replicas" in chosen:
        found = _REPLICAS.fullmatch(chosen["replicas"])
        if not found:
            msg = f"--replicas is {chosen['replicas']!r:.100}; expected a number, or two of them"
            raise UsageError(msg, remedy="for example: --replicas 2-8")
        chosen["replicas"] = int(found[1]), int(found[2] or found[1])
    if "clients" in chosen:
        chosen["clients"] = dict(one.partition("=")[::2] for one in chosen["clients"])
    return chosen
