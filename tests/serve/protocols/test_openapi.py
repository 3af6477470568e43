"""The descriptions: of the server from its routes, of a model with its columns, and the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import jsonschema
import pytest
import schemathesis
from described import ask_as_described
from rest_serving import RestServer, served_by

from vitrify.core.html import page_headers
from vitrify.core.signature import Field
from vitrify.serve.ports import port
from vitrify.serve.protocols import _openapi_models as models
from vitrify.serve.protocols import _openapi_page, openapi
from vitrify.serve.protocols._described import DescribedRoute

validator = pytest.importorskip("openapi_spec_validator")

PLACES = ["/openapi.json", *(f"/v2/models/{name}/openapi.json" for name in ("everything", "doubled", "passengers"))]


@pytest.mark.parametrize("place", PLACES)
def test_every_description_is_valid_openapi(rest, place):
    status, document = rest.get(place)
    assert status == 200
    validator.validate(document)


def test_every_route_is_described(rest):
    document = rest.get("/openapi.json")[1]
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.pattern) for route in rest.routes}
    assert all(isinstance(route, DescribedRoute) and route.summary for route in rest.routes)


def test_a_model_is_described_with_its_columns(rest):
    document = rest.get("/v2/models/passengers/versions/1/openapi.json")[1]
    schema = document["paths"]["/invocations"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    row = schema["properties"]["dataframe_records"]["items"]
    assert list(row["properties"]) == ["age", "ticket", "class"]
    assert row["required"] == ["ticket"]
    assert row["properties"]["ticket"] == {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


@pytest.mark.parametrize("name", ["everything", "doubled", "passengers"])
def test_the_example_fits_its_schema_and_is_answered_as_described(rest, name):
    document = rest.get(f"/v2/models/{name}/openapi.json")[1]
    (path,) = (path for path in document["paths"] if path.endswith("/infer"))
    operation = document["paths"][path]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    jsonschema.validate(content["example"], content["schema"])
    status, answer = rest.post(path, content["example"])
    assert status == 200, answer
    jsonschema.validate(answer, operation["responses"]["200"]["content"]["application/json"]["schema"])


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (Field(name="x", dtype="int8"), [0, -128], [128, 0.5, "1", None]),
        (Field(name="x", dtype="int8", nullable=True), [0, None], ["1"]),
        (Field(name="x", dtype="float32"), [0.5, 1, "NaN", "-Infinity"], ["1", None, True]),
        (Field(name="x", dtype="bool"), [True], [1]),
        (Field(name="x", dtype="string"), ["a"], [1, None]),
        (Field(name="x", dtype="object"), ["a", 1, True], [None, []]),
        (Field(name="x", dtype="string", categories=("a", "b")), ["a", "new"], [1]),
        (Field(name="x", dtype="datetime64[s]"), ["2020-01-01"], [1]),
    ],
)
def test_a_value_is_described_as_it_is_taken(field, good, bad):
    schema = models.value(port(field))
    for value in good:
        jsonschema.validate(value, schema)
    for value in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, schema)


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.elements, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def seen(page):
    found = Seen()
    found.feed(page)
    return found


@pytest.mark.parametrize("place", ["/", "/docs", "/v2/docs", "/v2/models/passengers/docs"])
def test_the_page_shows_the_columns_and_asks_nobody_else(rest, place):
    answer = rest.client.get(place)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = seen(answer.text)
    assert {"age", "ticket", "class", "label"} <= set(page.text)
    names = [one["name"] for tag, one in page.elements if tag == "input" and "name" in one]
    assert names == ["age", "ticket", "class"]
    assert not [one for _, one in page.elements if str(one.get("src", one.get("href", "/"))).startswith("http")]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_nothing_that_a_model_says_is_allowed_to_run(rest):
    policies = {
        rest.client.get(place).headers["content-security-policy"] for place in ("/", "/v2/models/passengers/docs")
    }
    assert policies == {page_headers(_openapi_page.page([]))["content-security-policy"]}


def test_names_cannot_become_markup():
    served = served_by(Field(name='"><script>alert(1)</script>', dtype="float32"), outputs=())
    page = seen(_openapi_page.page([served]))
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert seen(_openapi_page.page([])).text


def test_names_stand_in_paths_as_urls_have_them():
    import dataclasses

    served = dataclasses.replace(served_by(Field(name="x", dtype="float32")), name="a b?c", version="1.0+x")
    assert "/v2/models/a%20b%3Fc/versions/1.0%2Bx/infer" in openapi.model_document(served)["paths"]
    assert 'action="/v2/models/a%20b%3Fc/versions/1.0%2Bx/infer"' in _openapi_page.page([served])


def test_operations_have_names_of_their_own(rest):
    document = rest.get("/openapi.json")[1]
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"(get|post) /\S*", name) for name in names)


HERE = {"model": "doubled", "version": "1", "label": "stable"}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_schemathesis_finds_no_fault_and_nothing_that_is_not_described(place):
    server = RestServer()
    server.labels["doubled"] = {"stable": "1"}
    schema = schemathesis.openapi.from_dict(server.get(place)[1])
    try:
        for found in schema.get_all_operations():
            operation = found.ok()
            ask_as_described(operation, server.url, examples=6)
            if place == PLACES[0]:
                ask_as_described(operation, server.url, examples=6, here=HERE)
        assert not server.faults, server.faults
    finally:
        server.close()
