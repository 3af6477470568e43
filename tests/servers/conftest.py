"""The servers under test."""

from servers import oci_registry, oci_registry_with_password, postgresql, s3

__all__ = ["oci_registry", "oci_registry_with_password", "postgresql", "s3"]
