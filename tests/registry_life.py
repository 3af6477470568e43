"""A registry's life: everything happens once that can happen to it."""

from __future__ import annotations

from registries import acting, artifact, prove, register, statement

from vitrify.registry import requests as r
from vitrify.registry.registry import Registry


def live(backend, name="churn"):
    """Let everything happen that can happen to a registry."""
    registry = Registry(backend)
    long = "a sentence of some length " * 20
    about = {"metrics": {"auc": 0.9, "n": 3}, "parameters": {"depth": long}, "datasets": {"train": "sha256:aa"}}
    register(
        backend,
        name,
        seed="a",
        commit="abc",
        run="run 7",
        tags={"team": "risk"},
        description=long,
        card="# Card",
        **about,
    )
    variant = artifact(backend, "b")
    second = register(backend, name, seed="c", version="2.0.0")
    prove(backend, variant, second.digest)
    registry.do(r.AddVariant(model=name, version="2.0.0", digest=variant))
    for alias, which in (("champion", "1"), ("champion", "2"), ("other", "2"), ("third", "1")):
        registry.set_alias(name, alias, which)
    registry.remove_alias(name, "other")
    registry.promote(name, "1", "production", "first")
    registry.promote(name, "2", "production")
    registry.rollback(name, "it was wrong")
    asked = registry.request_promotion(name, "2", "staging", "please", days=1)
    acting(backend, "bob", "approver").decide(asked.id, "approve", "fine")
    registry.request_promotion(name, "2", "production", days=1)
    running = registry.deploy(name, "1", "eu", replicas=2)
    registry.deploy(name, "1", "us")
    registry.rename_model(name, f"{name}/eu")
    registry.update_version(f"{name}/eu", "1", tags={"team": None, "kind": "tree"}, card=long)
    registry.update_model(f"{name}/eu", owner="zoe", tags={"x": "1"}, licence="MIT")
    registry.end_deployment(running.id)
    token = registry.do(r.CreateToken(who="robot", roles=("reader",)))
    registry.do(r.CreateToken(who="robot", roles=("writer",), days=None))
    registry.do(r.RevokeToken(id=token.id))
    hook = registry.do(r.CreateWebhook(url="https://example.org/hook"))
    registry.do(r.CreateWebhook(url="https://example.org/other"))
    registry.do(r.DeleteWebhook(id=hook.id))
    register(backend, f"{name}-gone", "z")
    registry.set_alias(f"{name}-gone", "best", "1")
    registry.request_promotion(f"{name}-gone", "1", "staging")
    registry.delete_version(f"{name}-gone", "1", "a mistake")
    register(backend, f"{name}-gone", "z")
    registry.request_promotion(f"{name}-gone", "2", "staging")
    registry.delete_model(f"{name}-gone")
    register(backend, f"{name}-gone", "z")
    registry.set_status(f"{name}-gone", "3", "deprecated", "old")
    registry.promote(f"{name}-gone", "3", "staging")
    registry.attach(second.digest, statement(second.digest, "https://example.org/metrics", auc=0.9).encode())
