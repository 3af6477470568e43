"""What the tests of the API need: real servers, and a registry that is not behind one."""

from __future__ import annotations

from servers import postgresql, registry_server, s3

__all__ = ["postgresql", "registry_server", "s3"]
