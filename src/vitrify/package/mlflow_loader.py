"""What MLflow imports to open a model that only Vitrify can run: ``loader_module`` of its ``python_function``.

The artifact lies beside the MLmodel file as an OCI layout; every byte is checked before it is opened. Code that the
artifact needs must be allowed by name, as everywhere::

    mlflow.pyfunc.load_model(path, model_config={"allow": ["acme.steps.Scale"]})
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.artifacts import open_artifact
from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from vitrify.core.protocols import Session


class Model:
    """A session as MLflow calls it.

    Attributes:
        session: The open model.
    """

    def __init__(self, session: Session) -> None:
        """Take an open session."""
        self.session = session

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:  # noqa: ARG002 (MLflow passes it)
        """Return the outputs: of a frame a frame with a column an output, where each is one value a row.

        Anything else, and outputs of several values a row, is a dict of arrays by name.
        """
        outputs = self.session.predict(data)
        frame = type(data).__module__.partition(".")[0] == "pandas"
        if frame and all(array.ndim == 1 for array in outputs.values()):
            import pandas as pd

            return pd.DataFrame(outputs, index=data.index)
        return outputs


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> Model:
    """Open the artifact in a layout; MLflow calls this.

    Raises:
        UsageError: ``model_config`` has something that is not known here.
        CorruptError: A byte is not what its digest promises.
        UntrustedCodeError: The artifact needs code that ``allow`` does not name.
    """
    options = {key: value for key, value in (model_config or {}).items() if value is not None}
    allow, runtime = options.pop("allow", []), options.pop("runtime", None)
    if options or not isinstance(allow, list | tuple) or not isinstance(runtime, str | None):
        msg = f"model_config takes allow (a list of names) and runtime (a name), not {sorted(options) or options}"
        raise UsageError(msg)
    artifact = open_artifact(str(Path(path).absolute()))
    return Model(artifact.session(runtime=runtime, allow=allow))
