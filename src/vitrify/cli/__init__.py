"""The command line: one file a command; each parses, calls one verb, and renders as text or JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from vitrify.cli._lazy import LazyGroup

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from vitrify.core.errors import VitrifyError

_PIPE_CLOSED = 141
"""128 and the number of SIGPIPE, as a shell has it."""
_SECTIONS = {
    "Models": {
        "save": "Seal a model that a Python file makes: save train.py:model churn --example train.py:X",
        "pack": "Seal a model file: pack model.onnx churn",
        "inspect": "Show what an artifact or a file is, without running it.",
        "view": "Draw a model's graph: view model.onnx -o model.html",
        "predict": "Predict from a data file: predict churn rows.csv",
        "convert": "Convert and prove: convert churn --to onnx",
        "matrix": "Try every target within reach, prove and time each: matrix churn",
        "formats": "Show the map: formats, runtimes and the roads between them.",
        "verify": "Hash every byte again, replay the golden samples, check signatures.",
        "replay": "Ask the models of a prediction log again.",
    },
    "Trust": {
        "scan": "Say whether a model file could hurt whoever loads it.",
        "keys": "Make and show keys.",
        "sign": "Sign an artifact or a directory: sign churn --key release",
        "attest": "Say something about an artifact, signed.",
        "policy": "Say what a policy makes of an artifact, rule by rule.",
        "sbom": "Write a bill of materials: sbom churn --format cyclonedx",
        "protect": "Encrypt, obfuscate or watermark a model.",
    },
    "Registry": {
        "register": "Register an artifact as a version: register churn risk/churn:1.2.0",
        "variant": "Add another form to a version: variant add churn-onnx risk/churn:1.2.0",
        "models": "List the models of the registry.",
        "search": 'Find versions: search "stage = production and metrics.auc >= 0.9"',
        "show": "Show a version, and the evidence about it.",
        "promote": "Move a version to a stage: promote churn:1.2.0 production",
        "promotion": "List and decide on requests to promote.",
        "rollback": "Put the last good version back into production.",
        "alias": "Give a version a name of its own: alias churn:1.2.0 champion",
        "tag": "Tag a version or a model: tag churn:1.2.0 team=risk",
        "edit": "Change what is said about a model or a version: edit churn --owner ann",
        "rename": "Give a model another name.",
        "deprecate": "Say that a version should not be used any more.",
        "yank": "Refuse a version from now on.",
        "restore": "Take a deprecation or a yank back.",
        "delete": "Give up a version's content, or a whole model.",
        "deployment": "Record where versions run: deployment start churn@production eu-west",
        "lineage": "Follow a model from its data to where it runs, and draw it.",
        "gto": "Versions and stages as git tags, in GTO's convention.",
        "audit": "Read and verify the log: what was in production when, who approved it.",
        "registry": "Serve a registry, make tokens, back up, collect garbage.",
    },
    "Serving": {
        "serve": "Serve artifacts over REST and gRPC: serve churn@production",
        "rollout": "Change which versions answer on a running server.",
    },
    "Store and transport": {
        "ls": "List the artifacts in the store.",
        "rm": "Take a name away.",
        "gc": "Delete what no name leads to.",
        "export": "Write an artifact: one file, or a directory for MLflow, Hugging Face, KitOps.",
        "import": "Take a model in: an archive, another tool's directory, hf:// from the cache.",
        "push": "Send an artifact to an OCI registry: push churn oci://host/churn:1.2.0",
        "pull": "Bring one from an OCI registry.",
    },
    "More": {
        "demo": "Train, save, convert, prove and predict, on real data.",
        "completion": "Print the completion script of a shell.",
    },
}


class _Vitrify(LazyGroup):
    package = __name__
    sections = _SECTIONS

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whoever reads its output may leave before the end, which is no error to tell of.

        Click would leave with 1, which is what ``scan`` says when it found something.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # What is still in the buffer has nowhere to go, and Python writes it when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_PIPE_CLOSED)


@click.group(cls=_Vitrify, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vitrify", prog_name="vitrify")
def group() -> None:
    """Carry a trained model to where it has to run, and prove that it still is the same model."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; this is the one boundary at which errors become exit codes."""
    as_json = "--json" in (arguments if arguments is not None else sys.argv)
    try:
        group.main(arguments, prog_name="vitrify", standalone_mode=False)
    except click.ClickException as error:
        if not as_json:
            error.show()
            sys.exit(error.exit_code)
        from vitrify.core.errors import UsageError

        remedy = f"{error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        _fail(UsageError(error.format_message(), remedy=remedy), as_json=as_json)
    except click.Abort:
        sys.exit(130)
    except Exception as error:
        from vitrify.core.errors import StoreError, VitrifyError

        if isinstance(error, OSError) and error.filename is not None:
            # A path that the user gave cannot be read or written: that is no fault of ours to trace back.
            error = StoreError(
                f"{os.fsdecode(error.filename)}: {error.strerror}", remedy="check the path and its rights"
            )
        if not isinstance(error, VitrifyError):
            raise
        _fail(error, as_json=as_json)


def _fail(error: VitrifyError, *, as_json: bool) -> NoReturn:
    from vitrify.cli._render import show_error

    show_error(error, as_json=as_json)
    sys.exit(error.exit_code)
