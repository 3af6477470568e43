"""Verify: is it still the same model, byte for byte and prediction for prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify import stores
from vitrify.artifacts.artifact import open_artifact
from vitrify.checks.replay import Replay
from vitrify.core.errors import DeniedError
from vitrify.core.report import Finding, Report

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.stores.oci_layout import OciLayout


def verify(
    reference: str, *, runtime: str | None = None, allow: Collection[str] = (), store: OciLayout | None = None
) -> Report:
    """Hash every byte again, whatever was verified before, and replay the golden samples.

    Args:
        reference: As for :func:`vitrify.open`.
        runtime: Replay on this runtime; by default the artifact's own.
        allow: Exact dotted names of code that may run.
        store: Where to look; by default the user's store.

    Raises:
        CorruptError: A byte is not what its digest promises.
        UntrustedCodeError: It needs code that ``allow`` does not name.
    """
    artifact = open_artifact(reference, store=store)
    stores.rehash(artifact.store, artifact.manifest)
    if artifact.sealed:
        try:
            artifact.sealed.unlock()
        except DeniedError as error:
            why = Finding(place="golden samples", message=error.message, remedy=error.remedy, verdict="not checked")
            return Report.of("verify", [why], {"bytes": artifact.size})
    if not artifact.document.golden:
        details = {"bytes": artifact.size, "why": "there are no golden samples: bare weights cannot predict"}
        return Report(check="verify", verdict="clean", details=details)
    if artifact.document.runtime is None and runtime is None:
        kind = artifact.document.format
        why = Finding(
            place="golden samples",
            message=f"no runtime here opens {kind}: they were not replayed",
            remedy="replay them where it runs",
            verdict="not checked",
        )
        return Report.of("verify", [why], {"bytes": artifact.size})
    report = Replay(runtime=runtime).run(artifact.subject(allow=allow), None)
    return report.replace(check="verify", details={"bytes": artifact.size, **report.details})
