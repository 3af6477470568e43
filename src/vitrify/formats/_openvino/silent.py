"""OpenVINO without its telemetry, which tells its maker of each import, from a child process: nobody asked for it."""

from __future__ import annotations

from vitrify.core.without import without

with without("openvino_telemetry"):
    import openvino

__all__ = ["openvino"]
