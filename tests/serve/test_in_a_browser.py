"""The server's two pages in a real browser: what a person sees, types, and is told."""

from __future__ import annotations

import json

import pytest
from browser import browser, in_a_browser
from whole_server import PLANES, logarithm, whole

from vitrify.serve.settings import ModelSettings
from vitrify.stores.oci_layout import OciLayout

pytestmark = [pytest.mark.external, pytest.mark.slow, in_a_browser]
ASK = """
document.querySelector("input[name=x]").value = {typed};
document.querySelector("button").click();
"""


@pytest.fixture(scope="module", params=PLANES)
def tab(request, tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("store"))
    logarithm(store, "logarithm")
    with (
        whole(request.param, store, [ModelSettings(reference="logarithm")]) as running,
        browser(tmp_path_factory.mktemp("profile")) as tab,
    ):
        tab.at = f"http://{running.http}"
        yield tab
        refused = "the server responded with a status of 400"  # what the last test is about
        assert [one for one in tab.said if refused not in str(one)] == []


def test_a_model_is_tried_on_the_first_page(tab):
    tab.open(f"{tab.at}/")
    assert tab.run("document.querySelector('h2').textContent") == "logarithm, version 1"
    for typed, log in (("1", 0.0), ("0", "-Infinity")):
        tab.run(ASK.format(typed=json.dumps(typed)))
        tab.until("document.querySelector('pre').textContent")
        answer = json.loads(tab.run("document.querySelector('pre').textContent"))
        assert {one["name"]: one["data"] for one in answer["outputs"]}["log"] == [log]
        assert tab.run("document.querySelector('pre').className") == ""
        tab.run("document.querySelector('pre').textContent = ''")


def test_the_dashboard_draws_what_is_served(tab):
    tab.open(f"{tab.at}/dashboard")
    tab.until("document.body.innerText.includes('logarithm 1')")
    tab.until("document.body.innerText.includes('ready, live')")
    assert tab.run("document.querySelectorAll('figure').length") == 4


def test_what_is_typed_wrongly_is_told_and_nothing_is_lost(tab):
    tab.open(f"{tab.at}/docs")
    tab.run(ASK.format(typed='"many"'))
    tab.until("document.querySelector('pre').textContent")
    assert tab.run("document.querySelector('pre').className") == "bad"
    assert "error" in json.loads(tab.run("document.querySelector('pre').textContent"))
    assert tab.run("document.querySelector('input[name=x]').value") == "many"
