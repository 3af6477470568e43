from __future__ import annotations

import subprocess
import sys


def test_openvino_is_imported_without_its_telemetry():
    code = (
        "import sys; from vitrify.formats._openvino.silent import openvino; "
        "assert openvino.Core().available_devices; "
        "assert not [name for name in sys.modules if name.startswith('openvino_telemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
