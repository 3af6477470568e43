"""What every test of the registry may ask for."""

from registries import backend, registries, registry
from servers import mortal_postgresql, postgresql, s3

__all__ = ["backend", "mortal_postgresql", "postgresql", "registries", "registry", "s3"]
