"""The servers and the module under test."""

from servers import kms, kms_server
from trust._softhsm import token

__all__ = ["kms", "kms_server", "token"]
