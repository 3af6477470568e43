"""Nothing is open: every route of every table, without a token, with one that does not count, and with each role."""

import base64
import time

import pytest
from servers import call

from vitrify.registry.actor import Actor
from vitrify.registry.api.metrics import Metrics
from vitrify.registry.api.serving import all_routes
from vitrify.registry.requests import OPERATIONS, CreateToken, RevokeToken
from vitrify.registry.values import ROLES

OPEN = {"/health/live", "/health/ready", "/health", "/"}
DIGEST = f"sha256:{'0' * 64}"


def path_of(route):
    fields = {"{digest}": DIGEST, "{id}": "1", "{path*}": "a"}
    parts = route.pattern.split("/")
    return "/".join(fields.get(part, "x") if part.startswith("{") else part for part in parts)


@pytest.fixture(scope="module")
def routes(registry_server):
    backend = registry_server.local()
    yield all_routes(backend, Metrics())
    backend.close()


@pytest.fixture(scope="module")
def tokens(registry_server):
    return {role: registry_server.token(role) for role in ROLES}


@pytest.fixture(scope="module")
def useless(registry_server):
    """Tokens that were good, or look so."""
    client = registry_server.client("admin")
    revoked = client.do(CreateToken(who="gone", roles=("admin",)))
    client.do(RevokeToken(id=revoked.id))
    expired = client.do(CreateToken(who="late", roles=("admin",), days=1e-7)).secret
    client.close()
    good = registry_server.token("admin")
    time.sleep(0.05)
    return {
        "forged": good[:-1] + ("A" if good[-1] != "A" else "B"),
        "another's id": revoked.secret[:20] + good[20:],
        "expired": expired,
        "revoked": revoked.secret,
        "empty": "",
        "no token": "x" * 900,
        "too long": good + "x" * 5000,
    }


def ask(server, route, **about):
    body = {} if route.method in {"POST", "PUT", "PATCH"} and not route.streams else None
    status, headers, data = call(server, route.method, path_of(route), body=body, **about)
    return status, headers, data


def test_the_table_has_every_operation_and_only_health_is_open(routes):
    labels = {route.label for route in routes}
    assert {request.__name__ for request in OPERATIONS} <= labels
    assert {"GetContent", "PutContent", "StartUpload", "AppendUpload", "Metrics", "OpenAPI"} <= labels
    assert {route.pattern for route in routes if route.role is None} == OPEN
    assert any("mlflow" in route.pattern for route in routes)


def test_without_a_token_nothing_but_health_answers(registry_server, routes):
    for route in routes:
        status, headers, _ = ask(registry_server, route)
        if route.role is None:
            assert status == 200, route
        else:
            assert status == 401, route
            assert "Bearer" in headers["www-authenticate"]


@pytest.mark.parametrize("kind", ["forged", "another's id", "expired", "revoked", "empty", "no token", "too long"])
def test_a_token_that_does_not_count_opens_nothing(registry_server, routes, useless, kind):
    for route in routes:
        if route.role is not None:
            assert ask(registry_server, route, token=useless[kind])[0] == 401, route


@pytest.mark.parametrize("role", ROLES)
def test_each_role_opens_what_it_includes_and_nothing_else(registry_server, routes, tokens, role):
    actor = Actor(role, (role,))
    for route in routes:
        if route.role is None:
            continue
        status = ask(registry_server, route, token=tokens[role])[0]
        if actor.has(route.role):
            assert status not in {401, 403, 500}, (route, status)
        else:
            assert status == 403, (route, status)


def test_what_is_not_there_is_not_told_to_strangers(registry_server, tokens):
    for path in ("/v1/none", "/v1/models/a/b/c", "/.env"):
        assert call(registry_server, "GET", path)[0] == 401
        assert call(registry_server, "GET", path, token=tokens["reader"])[0] == 404


def test_a_token_is_taken_as_a_password_too_and_from_no_other_place(registry_server, tokens):
    def basic(text):
        return f"Basic {base64.b64encode(text.encode()).decode()}"

    token = tokens["reader"]
    assert call(registry_server, "GET", "/v1/models", Authorization=basic(f"anybody:{token}"))[0] == 200
    assert call(registry_server, "GET", "/v1/models", Authorization=basic(f":{token}"))[0] == 200
    for wrong in (basic(token), basic(f"{token}:"), "Basic %%%", f"Digest {token}", token, f"Bearer {token} {token}"):
        assert call(registry_server, "GET", "/v1/models", Authorization=wrong)[0] == 401
    assert call(registry_server, "GET", f"/v1/models?token={token}")[0] == 401
    assert call(registry_server, "GET", "/v1/models", Cookie=f"token={token}")[0] == 401


def test_a_token_for_some_models_sees_no_others(registry_server):
    owner = registry_server.client("admin", who="owner")
    owner.create_model("team/a")
    owner.create_model("other/b")
    token = registry_server.token("reader", who="guest", models=("team/*",))
    assert call(registry_server, "GET", "/v1/models/team%2Fa", token=token)[0] == 200
    assert call(registry_server, "GET", "/v1/models/other%2Fb", token=token)[0] in {403, 404}
    assert b"other/b" not in call(registry_server, "GET", "/v1/models", token=token)[2]
    owner.close()


def test_a_browser_of_another_site_cannot_write_with_the_password_that_it_knows(registry_server, tokens):
    for said in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        status, _, data = call(
            registry_server, "POST", "/v1/models", token=tokens["writer"], raw=b'{"name":"csrf"}', Content_Type=said
        )
        assert status == 400, data
    assert call(registry_server, "GET", "/v1/models/csrf", token=tokens["reader"])[0] == 404
