"""Whatever is asked in whatever order, the registry is what a few dictionaries say that it should be."""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from registries import KINDS, acting, artifact, intact, prove, statement
from sqlalchemy import text

from vitrify.core.errors import ConflictError, DeniedError, ReferenceNotFoundError, VitrifyError
from vitrify.registry import requests as r
from vitrify.registry.audit import verify
from vitrify.registry.registry import Registry

NAMES = ("churn", "churn", "team/price")
VERSIONS = (None, None, "1.0.0", "2.0.0-rc.1")
STAGES = ("development", "staging", "production", "production", "archived")
ALIASES = ("champion", "canary-eu")
SEEDS = ("x", "y", "z")
CONFLICT, GONE, DENIED = ConflictError, ReferenceNotFoundError, DeniedError


@dataclass
class Version:
    version: str
    number: int
    digest: str
    stage: str = "development"
    status: str = "active"
    description: str = ""
    variants: list = field(default_factory=list)


@dataclass
class Model:
    name: str
    counter: int = 0
    deleted: bool = False
    versions: list = field(default_factory=list)
    aliases: dict = field(default_factory=dict)
    past: list = field(default_factory=list)  # what was in production: [version, rolled back]


@dataclass
class Asked:
    model: Model
    version: Version
    stage: str
    state: str = "open"


class Machine(RuleBasedStateMachine):
    """The rules, each with what should come of it; ``make`` returns an empty registry."""

    make = None

    def __init__(self):
        super().__init__()
        self.backend = type(self).make()
        self.registry = Registry(self.backend)
        self.bob = acting(self.backend, "bob", "approver", "writer")
        self.models = []
        self.asked = {}
        self.digests = {seed: artifact(self.backend, seed) for seed in SEEDS}

    @initialize()
    def begin_with_something(self):
        for _ in range(3):
            self.create_version("churn", None, "x")
        for which in range(2):
            self.promote("churn", which, "production", None)

    # What should be

    def live(self, name):
        return next((model for model in self.models if model.name == name and not model.deleted), None)

    def find(self, name, which):
        model = self.live(name)
        if model is None or not model.versions:
            return model, None
        version = model.versions[which % len(model.versions)]
        return model, version

    def open_request(self, version, stage):
        found = (one for one in self.asked.values() if one.version is version and one.stage == stage)
        return next((one for one in found if one.state == "open"), None)

    def close(self, version, stage):
        if (one := self.open_request(version, stage)) is not None:
            one.state = "done"

    def serving(self, model):
        return next((version for version in model.versions if version.stage == "production"), None)

    def move(self, model, version, stage):
        if version.stage == stage:
            return
        if stage == "production":
            if (before := self.serving(model)) is not None:
                before.stage = "archived"
            model.past.append([version, False])
        version.stage = stage

    def should(self, error, call):
        """Do it; it is refused with this error, or with none."""
        if error is None:
            return call()
        with pytest.raises(error):
            call()
        return None

    # Models

    def start(self, name):
        counted = [model.counter for model in self.models if model.name == name]
        model = Model(name, max(counted, default=0))
        self.models.append(model)
        return model

    @rule(name=st.sampled_from(NAMES))
    def create_model(self, name):
        taken = self.live(name)
        self.should(CONFLICT if taken else None, lambda: self.registry.create_model(name))
        if not taken:
            self.start(name)

    @rule(name=st.sampled_from(NAMES), new=st.sampled_from(NAMES))
    def rename(self, name, new):
        model = self.live(name)
        taken = any(other.name == new for other in self.models)
        error = GONE if model is None else CONFLICT if taken else None
        self.should(error, lambda: self.registry.rename_model(name, new))
        if error is None:
            model.name = new

    @rule(name=st.sampled_from(NAMES))
    def delete_model(self, name):
        model = self.live(name)
        error = GONE if model is None else CONFLICT if self.serving(model) else None
        self.should(error, lambda: self.registry.delete_model(name))
        if error is None:
            model.deleted = True
            self.withdraw_all(lambda one: one.model is model)

    def withdraw_all(self, fits):
        for one in self.asked.values():
            if one.state == "open" and fits(one):
                one.state = "withdrawn"

    # Versions

    @rule(name=st.sampled_from(NAMES), version=st.sampled_from(VERSIONS), seed=st.sampled_from(SEEDS))
    def create_version(self, name, version, seed):
        named = [one.version for model in self.models if model.name == name for one in model.versions]
        error = CONFLICT if version in named else None
        create = r.CreateVersion(model=name, version=version, digest=self.digests[seed], metrics={"auc": 0.5})
        made = self.should(error, lambda: self.registry.do(create))
        if error is None:
            model = self.live(name) or self.start(name)
            model.counter += 1
            expected = Version(version or str(model.counter), model.counter, self.digests[seed])
            assert (made.version, made.number) == (expected.version, expected.number)
            model.versions.append(expected)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 2), seed=st.sampled_from(SEEDS), proven=st.booleans())
    def add_variant(self, name, which, seed, proven):
        _, version = self.find(name, which)
        if version is None or version.status == "deleted":
            return
        variant = artifact(self.backend, f"{seed} of {version.digest}")
        if proven:
            prove(self.backend, variant, version.digest)
        there = variant in version.variants
        request = r.AddVariant(model=name, version=version.version, digest=variant)
        try:
            self.registry.do(request)
        except VitrifyError:
            known = {one.subject for one in self.registry.attestations(variant)}
            assert there or not known
        else:
            assert not there
            version.variants.append(variant)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 2), words=st.sampled_from(["", "new words"]))
    def describe(self, name, which, words):
        _, version = self.find(name, which)
        if version is not None and version.status != "deleted":
            tags = {"said": words or None}
            self.registry.update_version(name, version.version, description=words, tags=tags)
            version.description = words

    @rule(
        name=st.sampled_from(NAMES), which=st.integers(0, 2), status=st.sampled_from(["active", "deprecated", "yanked"])
    )
    def set_status(self, name, which, status):
        _, version = self.find(name, which)
        if version is None:
            return
        gone, serving = version.status == "deleted", status == "yanked" and version.stage == "production"
        error = GONE if gone else CONFLICT if serving else None
        self.should(error, lambda: self.registry.set_status(name, version.version, status, "because"))
        if error is None:
            version.status = status

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 2))
    def delete_version(self, name, which):
        model, version = self.find(name, which)
        if version is None:
            return
        error = GONE if version.status == "deleted" else CONFLICT if version.stage == "production" else None
        self.should(error, lambda: self.registry.delete_version(name, version.version, "because"))
        if error is None:
            version.status, version.stage = "deleted", "archived"
            model.aliases = {alias: to for alias, to in model.aliases.items() if to is not version}
            self.withdraw_all(lambda one: one.version is version)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 2), alias=st.sampled_from(ALIASES))
    def set_alias(self, name, which, alias):
        model, version = self.find(name, which)
        if version is None:
            return
        error = {"deleted": GONE, "yanked": CONFLICT}.get(version.status)
        self.should(error, lambda: self.registry.set_alias(name, alias, version.version))
        if error is None:
            model.aliases[alias] = version

    @rule(name=st.sampled_from(NAMES), alias=st.sampled_from(ALIASES))
    def remove_alias(self, name, alias):
        model = self.live(name)
        self.should(None if model else GONE, lambda: self.registry.remove_alias(name, alias))
        if model:
            model.aliases.pop(alias, None)

    # Stages

    @rule(
        name=st.sampled_from(NAMES),
        which=st.integers(0, 2),
        stage=st.sampled_from(STAGES),
        expected=st.sampled_from([None, None, "", "1"]),
    )
    def promote(self, name, which, stage, expected):
        model, version = self.find(name, which)
        if version is None:
            return
        serving = self.serving(model)
        other = expected is not None and expected != (serving.version if serving else "")
        error = None
        if version.status == "deleted":
            error = GONE
        elif other or (version.stage != stage and version.status == "yanked"):
            error = CONFLICT
        self.should(error, lambda: self.registry.promote(name, version.version, stage, expected=expected))
        if error is None and version.stage != stage:
            self.move(model, version, stage)
            self.close(version, stage)

    @rule(name=st.sampled_from(NAMES))
    def roll_back(self, name):
        model = self.live(name)
        serving = self.serving(model) if model else None
        good, seen = None, [serving]
        for version, rolled_back in reversed(model.past if model else []):
            if not any(version is one for one in seen) and not rolled_back and version.status == "active":
                good = version
                break
            seen.append(version)
        error = GONE if model is None else CONFLICT if good is None else None
        back = self.should(error, lambda: self.registry.rollback(name, "because"))
        if error is None:
            assert back.version == good.version
            if serving is not None:
                next(entry for entry in reversed(model.past) if entry[0] is serving)[1] = True
            self.move(model, good, "production")
            self.close(good, "production")

    # Approvals

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 2), stage=st.sampled_from(STAGES))
    def request(self, name, which, stage):
        model, version = self.find(name, which)
        if version is None:
            return
        error = None
        if version.status == "deleted":
            error = GONE
        elif version.stage == stage or version.status != "active" or self.open_request(version, stage):
            error = CONFLICT
        made = self.should(error, lambda: self.registry.request_promotion(name, version.version, stage))
        if error is None:
            self.asked[made.id] = Asked(model, version, stage)

    @rule(which=st.integers(0, 3), verdict=st.sampled_from(["approve", "reject"]), own=st.booleans())
    def decide(self, which, verdict, own):
        if not self.asked:
            return
        id_ = sorted(self.asked)[which % len(self.asked) if which >= 0 else max(which, -len(self.asked))]
        one = self.asked[id_]
        error = None
        if one.state != "open":
            error = CONFLICT
        elif own:
            error = DENIED
        elif verdict == "approve" and one.version.status == "yanked" and one.version.stage != one.stage:
            error = CONFLICT
        who = self.registry if own else self.bob
        self.should(error, lambda: who.decide(id_, verdict))
        if error is None:
            one.state = "done" if verdict == "approve" else "rejected"
            if verdict == "approve":
                self.move(one.model, one.version, one.stage)

    @rule(which=st.integers(0, 3), other=st.booleans())
    def withdraw(self, which, other):
        if not self.asked:
            return
        id_ = sorted(self.asked)[which % len(self.asked) if which >= 0 else max(which, -len(self.asked))]
        one = self.asked[id_]
        error = CONFLICT if one.state != "open" else DENIED if other else None
        self.should(error, lambda: (self.bob if other else self.registry).withdraw(id_))
        if error is None:
            one.state = "withdrawn"

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 2))
    def attach(self, name, which):
        _, version = self.find(name, which)
        if version is not None:
            said = statement(version.digest, "https://example.org/metrics", auc=0.5).encode()
            first, again = (self.registry.attach(version.digest, said) for _ in range(2))
            assert first == again

    # What is

    @invariant()
    def the_registry_is_what_it_should_be(self):
        there = {model.name: model for model in self.registry.models()}
        assert set(there) == {model.name for model in self.models if not model.deleted}
        for name, found in there.items():
            model = self.live(name)
            serving = self.serving(model)
            assert found.production == (serving.version if serving else None)
            assert found.versions == sum(version.status != "deleted" for version in model.versions)

    def every_version_is_what_it_should_be(self):
        for model in (model for model in self.models if not model.deleted):
            for version in model.versions:
                found = self.registry.version(model.name, version.version)
                assert (found.number, found.digest, found.stage, found.status, found.description) == (
                    version.number,
                    version.digest,
                    version.stage,
                    version.status,
                    version.description,
                )
                assert [variant.digest for variant in found.variants] == [version.digest, *version.variants]
                assert set(found.aliases) == {alias for alias, to in model.aliases.items() if to is version}
            for alias, version in model.aliases.items():
                assert self.registry.version(model.name, f"@{alias}").number == version.number
        states = {one.id: one.state for one in self.registry.promotions()}
        assert states == {id_: one.state for id_, one in self.asked.items()}

    def nothing_dangles(self):
        with self.backend.database.read() as connection:
            twice = "SELECT count(*) FROM versions WHERE stage = 'production' GROUP BY model_id HAVING count(*) > 1"
            assert not connection.execute(text(twice)).all()
            open_ = "SELECT count(*) FROM productions WHERE until IS NULL"
            in_production = "SELECT count(*) FROM versions WHERE stage = 'production'"
            assert connection.execute(text(open_)).scalar() == connection.execute(text(in_production)).scalar()

    def teardown(self):
        self.every_version_is_what_it_should_be()
        self.nothing_dangles()
        report = verify(self.backend.database)
        assert report.passed, report
        intact(self.backend)
        self.backend.close()


WALK = {
    "create_version": 4,
    "promote": 5,
    "request": 6,
    "decide": 5,
    "withdraw": 1,
    "roll_back": 3,
    "set_status": 3,
    "set_alias": 3,
    "remove_alias": 1,
    "describe": 1,
    "delete_version": 2,
    "create_model": 1,
    "delete_model": 1,
    "rename": 1,
    "add_variant": 1,
    "attach": 1,
}
"""How often each thing happens on a long walk: Hypothesis leaves most rules out of each of its short ones."""
STEPS = {"sqlite+disk": 600, "postgresql+disk": 300, "sqlite+s3": 80, "postgresql+s3": 80}
EXAMPLES = {"sqlite+disk": 8, "postgresql+disk": 3}


def arguments(name, dice):
    chosen = {
        "name": dice.choice(NAMES),
        "new": dice.choice([*NAMES, "renamed", "renamed-again"]),
        "version": dice.choice(VERSIONS),
        "seed": dice.choice(SEEDS),
        "which": dice.randrange(-3, 0),
        "proven": dice.random() < 0.8,
        "words": dice.choice(["", "new words"]),
        "status": dice.choice(["active", "active", "deprecated", "yanked"]),
        "alias": dice.choice(ALIASES),
        "stage": dice.choice(STAGES),
        "expected": dice.choice([None, None, "", "1"]),
        "verdict": dice.choice(["approve", "approve", "reject"]),
        "own": dice.random() < 0.1,
        "other": dice.random() < 0.3,
    }
    return {key: chosen[key] for key in inspect.signature(getattr(Machine, name)).parameters if key in chosen}


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_long_walk_the_registry_is_what_a_few_dictionaries_say(registries, kind):
    Machine.make = staticmethod(lambda: registries.open(kind))
    machine, dice = Machine(), random.Random(20)
    machine.begin_with_something()
    for step in range(STEPS[kind]):
        name = dice.choices(list(WALK), WALK.values())[0]
        getattr(machine, name)(**arguments(name, dice))
        if step % 10 == 0:
            machine.the_registry_is_what_it_should_be()
        if step % 100 == 0:
            machine.every_version_is_what_it_should_be()
    if kind == "sqlite+disk":
        assert {one.state for one in machine.asked.values()} >= {"done", "rejected", "withdrawn"}
    machine.teardown()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_in_any_order_the_registry_is_what_a_few_dictionaries_say(registries, kind):
    class Bound(Machine):
        make = staticmethod(lambda: registries.open(kind))

    chosen = settings(
        max_examples=EXAMPLES[kind], stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Bound, settings=chosen)
