"""A whole server that is looked at: small models, and one way to ask it over REST."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import contextmanager

import numpy as np
from onnx import TensorProto
from served_models import multiplier
from whole_server import same, whole

from vitrify.serve.lanes import Batching
from vitrify.serve.settings import ModelSettings
from vitrify.stores.oci_layout import OciLayout

LIMIT = 60.0
KNOWN = ("times", "text")


def store_in(folder):
    """Return a store with the models."""
    store = OciLayout(folder)
    multiplier(store, "times", 2.0)
    same(store, "text", TensorProto.STRING, "string", np.array([["a", "b"], ["ä", ""]], dtype=object))
    return store


@contextmanager
def seen(plane, store, models=KNOWN, **settings):
    """Serve models."""
    wanted = [ModelSettings(reference=name, batching=Batching(rows=8, delay_us=0)) for name in models]
    with whole(plane, store, wanted, **settings) as running:
        yield running


def ask(address, path, body=None, headers=None):
    """Return the status, the headers by lower-case name, and the body."""
    connection = http.client.HTTPConnection(address, timeout=LIMIT)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, data, headers or {})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def infer(address, rows, model="times", headers=None, **more):
    """Ask for rows of a model, and return the status."""
    body = {"inputs": [tensor(rows, model)], **more}
    return ask(address, f"/v2/models/{model}/infer", body, headers)[0]


def tensor(rows, model="times"):
    """Return the input of a model, so many rows of it."""
    if model == "text":
        return {"name": "x", "shape": [rows, 2], "datatype": "BYTES", "data": ["a", "ö"] * rows}
    return {"name": "X", "shape": [rows, 4], "datatype": "FP32", "data": [float(number) for number in range(4 * rows)]}


def until(condition):
    """Wait until something is so, and return it."""
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.005)
    return found
