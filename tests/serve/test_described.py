"""schemathesis against the whole server on the native plane: what it says is what its description says, and no 500."""

from __future__ import annotations

import http.client
import json

import pytest
import schemathesis
from described import ask_as_described
from whole_server import models, whole

from vitrify.serve.settings import ModelSettings
from vitrify.stores.oci_layout import OciLayout

HERE = {"model": "times", "version": "1"}


def described(address):
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", "/openapi.json")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@pytest.mark.slow
def test_schemathesis_finds_no_fault_on_the_native_plane(tmp_path):
    store = OciLayout(tmp_path)
    wanted = [ModelSettings(reference=name) for name in models(store)]
    with whole("native", store, wanted) as running:
        url = f"http://{running.http}"
        for found in schemathesis.openapi.from_dict(described(running.http)).get_all_operations():
            operation = found.ok()
            for here in (None, HERE):
                ask_as_described(operation, url, examples=4, here=here)
