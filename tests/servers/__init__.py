"""Real servers for tests: each on a free loopback port, one a test process, stopped with it.

A ``conftest.py`` takes what its folder needs: ``from servers import postgresql`` and names it in ``__all__``. A test
whose server cannot be started here is skipped and says why. Nothing is mocked: these are the programs that people run.
"""

from servers._http import call, send
from servers._kms import Kms, kms, kms_server
from servers._oci_registry import OciRegistry, oci_registry, oci_registry_with_password
from servers._postgresql import Postgresql, mortal_postgresql, postgresql
from servers._process import PATIENCE, until
from servers._registry import RegistryServer, registry_server, running_server
from servers._s3 import S3, s3

__all__ = [
    "PATIENCE",
    "S3",
    "Kms",
    "OciRegistry",
    "Postgresql",
    "RegistryServer",
    "call",
    "kms",
    "kms_server",
    "mortal_postgresql",
    "oci_registry",
    "oci_registry_with_password",
    "postgresql",
    "registry_server",
    "running_server",
    "s3",
    "send",
    "until",
]
