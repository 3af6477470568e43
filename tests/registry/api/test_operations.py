"""An answer is the same JSON as everywhere, whatever is in it."""

import json
from datetime import UTC, datetime

from vitrify.registry.api.operations import _encoded
from vitrify.registry.values import Decision, Page, Promotion, Variant, Version

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
VERSION = Version(
    model="churn",
    version="1.0.0",
    number=1,
    digest="sha256:a",
    index="sha256:b",
    variants=(Variant(digest="sha256:a", size=7),),
    stage="production",
    status="active",
    author="ada",
    created=NOW,
    updated=NOW,
    metrics={"auc": 0.9},
    tags={"é": '"quoted"'},
    aliases=("champion",),
)


def test_an_answer_is_what_to_json_says():
    for answer in (VERSION, Page(versions=(VERSION, VERSION), next="x"), Page(versions=())):
        assert json.loads(_encoded(answer)) == json.loads(answer.to_json())


def test_fields_that_we_have_no_name_for_are_in_their_places():
    decided = Decision.from_builtins(
        {"who": "bob", "verdict": "approve", "when": NOW.isoformat(), "later": [1]}, where="a test"
    )
    answer = Promotion(
        id=1,
        model="churn",
        version="1",
        stage="staging",
        author="ada",
        state="open",
        created=NOW,
        expires=NOW,
        decisions=(decided,),
    )
    said = json.loads(_encoded(answer))
    assert said["decisions"][0]["later"] == [1]
    assert said == json.loads(answer.to_json())
