"""Builds the native data plane with cargo, and puts it beside the Python that loads it.

Hatch calls it for every wheel and every editable install; ``python native/build_hook.py`` builds it in a checkout.
Where there is no Rust compiler nothing is built: the server then moves its bytes in Python, and says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "src" / "vitrify" / "serve" / "planes" / "libvitrify_plane.so"


def build() -> Path | None:
    """Build it, and return where it is; None without a compiler.

    Raises:
        subprocess.CalledProcessError: It does not compile.
    """
    cargo = shutil.which("cargo")
    if cargo is None or not sys.platform.startswith("linux"):
        return None
    command = [cargo, "build", "--release", "--quiet", "--offline", "--locked", "--lib"]
    subprocess.run([*command, "--manifest-path", str(HERE / "Cargo.toml")], check=True)
    made = TARGET.with_suffix(".new")
    shutil.copyfile(HERE / "target" / "release" / TARGET.name, made)
    made.replace(TARGET)  # a server that has the one before loaded keeps it
    return TARGET


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called as a script
    pass
else:

    class BuildHook(BuildHookInterface):  # type: ignore[type-arg,misc]
        """Adds the library to the wheel, which is then one of this platform."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Build before the wheel's files are gathered."""
            try:
                built = self.target_name == "wheel" and build() is not None
            except subprocess.CalledProcessError as error:
                self.app.display_warning(f"the native data plane was not built, Python's is used: {error}")
                return
            if not built:
                return
            if version == "standard":
                build_data["artifacts"].append(f"/src/vitrify/serve/planes/{TARGET.name}")
                build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    print(build() or "no Rust compiler: the server moves its bytes in Python")
