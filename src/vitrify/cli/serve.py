"""``vitrify serve``: artifacts behind REST and gRPC."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from vitrify.serve.server import Listening
    from vitrify.serve.settings import Settings

_FILE = click.Path(exists=True, dir_okay=False)
_PORT = click.IntRange(-1, 65535)


@click.command("serve")
@click.argument("references", nargs=-1, metavar="[NAME=]REFERENCE...")
@click.option("--config", type=_FILE, help="Settings, as TOML; the options here count more than it.")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=_PORT, help="Port of REST; 0 for any free one, -1 for none.  [default: 8080]")
@click.option("--grpc-port", type=_PORT, help="Port of gRPC; likewise.  [default: 8081]")
@click.option("--processes", type=click.IntRange(1, 256), help="Processes on the same ports.  [default: 1]")
@click.option("--batch", "rows", type=click.IntRange(1), help="Rows a batch at most; 1 for no batching.  [default: 32]")
@click.option("--runtime", help="Runtime of every model named here; by default the artifact's own.")
@click.option("--allow", multiple=True, metavar="NAME", help="Exact name of code that the models may run. Repeat.")
@click.option("--lazy", is_flag=True, help="Load the models named here when they are first asked.")
@click.option("--plane", type=click.Choice(["auto", "native", "python"]), help="What moves the bytes.")
@click.option("--access-log", metavar="FILE", help="JSON, a line a request; stderr for standard error.")
@click.option("--prediction-log", metavar="DIR", help="Inputs and outputs as Parquet, for monitoring and replay.")
@click.option("--deployment", metavar="TARGET", help="Record in the registry that its versions run here, on TARGET.")
@click.option("--tls-certificate", "certificate", type=_FILE, help="PEM file of the certificate and its chain.")
@click.option("--tls-key", "key", type=_FILE, help="PEM file of its key.")
@click.option(
    "--tls-clients", "client_authority", type=_FILE, help="PEM file of the authority of clients' certificates."
)
@click.option("--insecure-http", "insecure", is_flag=True, default=None, help="Speak plainly to other machines.")
@click.option("--json", "as_json", is_flag=True, help="Say as JSON where it listens.")
def command(references: tuple[str, ...], config: str | None, as_json: bool, **options: Any) -> None:
    """Serve artifacts over REST and gRPC until SIGTERM or Ctrl-C; what was accepted then is answered.

    It speaks the Open Inference Protocol with Triton's extensions, TensorFlow Serving's API and MLflow's scoring API,
    so that their clients work unchanged. Each model is verified, permitted by this machine's policy, and replayed on
    its golden samples before it answers.
    """
    from vitrify.serve.supervisor import serve

    settings = _settings(references, config, options)

    def ready(listening: Listening) -> None:
        if as_json:
            click.echo(json.dumps({"http": listening.http, "grpc": listening.grpc, "plane": listening.plane}))
            return
        for url in filter(None, (listening.http, listening.grpc and f"grpc://{listening.grpc}")):
            click.echo(f"serving {url}")

    if not serve(settings, config, ready):
        raise SystemExit(1)


def _settings(references: tuple[str, ...], config: str | None, options: dict[str, Any]) -> Settings:
    from vitrify.core.errors import UsageError
    from vitrify.serve.lanes import Batching
    from vitrify.serve.settings import ModelSettings, Settings
    from vitrify.serve.settings_file import read

    settings = read(config) if config else Settings()
    rows, lazy = options.pop("rows"), options.pop("lazy")
    about = {"runtime": options.pop("runtime"), "allow": options.pop("allow"), "lazy": lazy}
    batching = Batching() if rows is None else Batching(rows=rows)
    named = []
    for text in references:
        name, _, reference = text.rpartition("=") if "=" in text.partition("://")[0] else ("", "", text)
        named.append(ModelSettings(reference=reference, name=name, batching=batching, **about))
    if not (named or settings.models or settings.ensembles):
        raise UsageError("nothing to serve", remedy="name an artifact: vitrify serve churn; or --config FILE")
    given = {key: value for key, value in options.items() if value is not None}
    server = settings.server.replace(**given)
    return settings.replace(server=server, models=(*settings.models, *named))
