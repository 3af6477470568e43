"""What the tests of a hostile registry share: the artifact that it has, and ways to make it misbehave."""

import json
import os

from vitrify.core.digest import Digest

FILES = {"weights": os.urandom(1000) * 3000, "vitrify.json": b"{}"}
WEIGHTS = str(Digest.of(FILES["weights"]))


def on(part, method="GET"):
    """Return a decorator for a manner that answers the requests whose path has ``part`` in it."""

    def decorate(function):
        return lambda handler: handler.command == method and part in handler.path and function(handler)

    return decorate


def swap(small, **changes):
    """Change the manifest of churn:1, and what it is called."""
    kind, data = small.manifests["churn", "1"]
    data = json.dumps({**json.loads(data), **changes}).encode()
    small.manifests["churn", "1"] = small.manifests["churn", str(Digest.of(data))] = kind, data
