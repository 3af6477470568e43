"""Artifacts go to real OCI registries and come back whole; other tools read what we wrote, and we read theirs."""

import json
import os
import shutil
import subprocess
import sys
import threading

import pytest
from servers import oci_registry

from vitrify.artifacts.artifact import list_artifacts
from vitrify.core.digest import Digest
from vitrify.core.errors import ConflictError, CorruptError, DeniedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import INDEX_TYPE, MANIFEST_TYPE, Descriptor
from vitrify.stores import OciLayout, attach, attestations, collect, fsck, pull, push
from vitrify.stores.oci_registry import OciResolver, tags
from vitrify.stores.oci_registry._client import Repository
from vitrify.testing.stores import contents, save

__all__ = ["oci_registry"]

FILES = {"model/weights.bin": os.urandom(1000) * 9000, "vitrify.json": b"{}", "again.json": b"{}", "empty": b""}


@pytest.fixture(params=["docker-registry", "with referrers"])
def host(request):
    """Return a registry without the referrers API, and one with it."""
    if request.param == "docker-registry":
        return request.getfixturevalue("oci_registry").host
    return request.getfixturevalue("small").host


@pytest.fixture
def target(host, tmp_path):
    """Return a repository of this test's own."""
    return f"oci://{host}/team/{Digest.of(str(tmp_path).encode()).short}"


@pytest.fixture
def artifact(store, statement):
    digest = save(store, FILES, "churn:latest")
    attach(store, digest, statement(digest))
    attach(store, digest, statement(digest, "found"))
    return digest


def test_an_artifact_comes_back_with_its_evidence(store, other, artifact, target):
    assert push(store, artifact, f"{target}:1.2.0") == f"{target}@{artifact}"
    assert pull(other, f"{target}:1.2.0", name="mine:1") == artifact
    assert contents(other, artifact) == FILES
    assert other.names.get("mine:1").content == artifact
    assert set(attestations(other, artifact)) == set(attestations(store, artifact))
    assert fsck(other).passed


def test_a_digest_leads_to_it_as_a_tag_does(store, other, artifact, target):
    assert pull(other, push(store, artifact, target)) == artifact
    assert other.names.all() == {}
    assert collect(other).removed == ()  # what was pulled without a name stays, with its evidence
    assert contents(other, artifact) == FILES


def test_pushing_again_sends_no_content(store, artifact, small):
    target = f"oci://{small.host}/churn"
    push(store, artifact, f"{target}:1")
    sent = len(small.requests("POST"))
    push(store, artifact, f"{target}:2")
    assert len(small.requests("POST")) == sent
    assert {"1", "2"} <= set(tags(target))


def test_the_tag_is_set_when_all_else_is_there(store, artifact, small):
    push(store, artifact, f"oci://{small.host}/churn:1.2.0")
    writes = [path for method, path, _ in small.log if method in {"PUT", "POST", "PATCH"}]
    assert writes[-1] == "/v2/churn/manifests/1.2.0"


def test_pulling_again_fetches_no_content(store, other, artifact, small):
    reference = push(store, artifact, f"oci://{small.host}/churn")
    pull(other, reference)
    small.log.clear()
    pull(other, reference)
    assert [path for path in small.requests("GET") if "/blobs/" in path] == []


def test_what_is_damaged_here_is_fetched_again(store, other, artifact, target):
    reference = push(store, artifact, target)
    pull(other, reference)
    for digest in list(other.digests()):
        place = other.place(digest)
        place.chmod(0o644)
        place.write_bytes(place.read_bytes()[:-1] + b"?")
    other.index.root.joinpath("index.json").unlink()
    pull(other, reference)
    assert contents(other, artifact) == FILES
    assert fsck(other).passed


def test_later_evidence_is_added_to_what_is_there(store, other, artifact, target, statement):
    push(store, artifact, target)
    pull(other, target)
    attach(other, artifact, statement(artifact, "later"))
    push(other, artifact, target)
    pull(store, target)
    assert len(attestations(store, artifact)) == 3


def test_evidence_about_evidence_travels_too(store, other, artifact, target, statement):
    first = attach(store, artifact, statement(artifact, "first"))
    attach(store, first, statement(first, "about the first"))
    pull(other, push(store, artifact, target))
    assert len(attestations(other, first)) == 1


def variants(store, statement):
    """List an index of two artifacts, with evidence about the index and about one of them."""
    one, two = save(store, {"w": b"one"}, "one:1"), save(store, {"w": b"two"}, "two:1")
    entries = [
        {"mediaType": MANIFEST_TYPE, "digest": str(digest), "size": store.place(digest).stat().st_size}
        for digest in (one, two)
    ]
    data = json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}).encode()
    with store.stage() as stage:
        index = stage.add(data)
        stage.publish([(Descriptor(media_type=INDEX_TYPE, digest=str(index), size=len(data)), "both:1")])
    attach(store, one, statement(one))
    attach(store, index, statement(index))
    return index, one, two


def test_an_index_of_variants_travels_with_all_of_them(store, other, target, statement):
    index, one, two = variants(store, statement)
    push(store, index, target)
    assert pull(other, target, name="both:1") == index
    assert contents(other, one) == {"w": b"one"}
    assert contents(other, two) == {"w": b"two"}
    assert len(attestations(other, one)) == len(attestations(other, index)) == 1
    assert {entry.media_type for entry in other.names.all().values()} == {INDEX_TYPE}
    assert list_artifacts(other) == []


def test_a_large_blob_is_sent_in_pieces(store, other, target, monkeypatch):
    monkeypatch.setattr("vitrify.stores.oci_registry._push._CHUNK", 5_000_000)
    digest = save(store, {"w": os.urandom(1000) * 12_345}, "large:1")
    push(store, digest, target)
    pull(other, target)
    assert contents(other, digest) == contents(store, digest)


def test_evidence_that_somebody_else_lists_in_the_same_moment_stays(store, artifact, small):
    """Another's list takes the place of ours twice: first before it was written, then after."""
    small.referrers = False
    theirs = [{"mediaType": MANIFEST_TYPE, "digest": str(Digest.of(bytes([n]))), "size": 1} for n in range(2)]
    tag = ("churn", f"sha256-{artifact.hex}")

    def another(handler):
        if tag[1] in handler.path and handler.command == "GET" and theirs and len(small.requests("PUT")) > 3:
            index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [*seen, theirs.pop()]}
            seen[:] = index["manifests"]
            small.manifests[tag] = INDEX_TYPE, json.dumps(index).encode()
        return False

    seen = []
    small.manners.append(another)
    push(store, artifact, f"oci://{small.host}/churn:1")
    listed = json.loads(small.manifests[tag][1])["manifests"]
    assert len(listed) == 4
    assert theirs == []


def test_others_who_never_stop_are_a_conflict(store, artifact, small, monkeypatch):
    monkeypatch.setattr("vitrify.stores.oci_registry._push._MERGES", 3)
    small.referrers = False

    def forget(handler):
        small.manifests.pop(("churn", f"sha256-{artifact.hex}"), None)
        return False

    small.manners.append(forget)
    with pytest.raises(ConflictError, match="again and again"):
        push(store, artifact, f"oci://{small.host}/churn:1")


def test_many_push_evidence_to_a_real_registry_at_once(store, artifact, oci_registry, statement, tmp_path):
    target = f"oci://{oci_registry.host}/at-once"
    push(store, artifact, target)
    start, failures = threading.Barrier(3), []

    def one(number):
        mine = OciLayout(tmp_path / f"store-{number}")
        try:
            pull(mine, target)
            attach(mine, artifact, statement(artifact, f"number {number}"))
            start.wait()
            push(mine, artifact, target)
        except Exception as error:  # noqa: BLE001 (a thread's failure is shown by the test)
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    final = OciLayout(tmp_path / "final")
    pull(final, target)
    assert len(attestations(final, artifact)) >= 3  # of 5: this registry cannot tell two writers apart


def test_a_blob_is_mounted_from_another_repository(store, artifact, small):
    push(store, artifact, f"oci://{small.host}/first")
    small.log.clear()
    push(store, artifact, f"oci://{small.host}/second", mount_from="first")
    assert all("mount=sha256%3A" in path for path in small.requests("POST"))
    assert len(small.requests("POST")) > 3
    assert not any("/blobs/" in path for path in [*small.requests("PUT"), *small.requests("PATCH")])


def test_a_mount_that_docker_registry_knows_is_taken(store, artifact, oci_registry, other):
    push(store, artifact, f"oci://{oci_registry.host}/mount/first")
    push(store, artifact, f"oci://{oci_registry.host}/mount/second:1", mount_from="mount/first")
    assert pull(other, f"oci://{oci_registry.host}/mount/second:1") == artifact


def test_many_referrers_stand_on_several_pages(store, other, artifact, small):
    small.page = 1
    pull(other, push(store, artifact, f"oci://{small.host}/churn"))
    assert len(attestations(other, artifact)) == 2
    assert "/v2/churn/referrers/" in "".join(path for path in small.requests("GET") if "from=1" in path)


def test_tags_on_several_pages_are_listed(store, artifact, small):
    small.page = 2
    names = [f"v{number}" for number in range(5)]
    for name in names:
        push(store, artifact, f"oci://{small.host}/churn:{name}")
    assert tags(f"oci://{small.host}/churn") == tuple(names)


def test_the_tags_that_list_referrers_are_not_shown(store, artifact, target):
    push(store, artifact, f"{target}:1.2.0")
    assert tags(target) == ("1.2.0",)


def test_what_is_not_there_is_said(other, target):
    with pytest.raises(ReferenceNotFoundError, match="not in the registry"):
        pull(other, f"{target}:nothing")
    with pytest.raises(ReferenceNotFoundError):
        tags(target)
    assert list(other.digests()) == []


def test_what_is_damaged_here_is_not_given_a_tag_there(store, artifact, small):
    (weights,) = (layer for layer in json.loads(store.place(artifact).read_bytes())["layers"] if layer["size"] > 10**6)
    place = store.place(Digest.parse(weights["digest"]))
    place.chmod(0o644)
    with place.open("r+b") as stream:
        stream.write(b"?")
    with pytest.raises(CorruptError):
        push(store, artifact, f"oci://{small.host}/churn:1")
    assert not any("manifests" in path for path in small.requests("PUT"))


def test_a_file_that_changes_while_it_is_sent_is_given_up(store, artifact, small, monkeypatch):
    (weights,) = (layer for layer in json.loads(store.place(artifact).read_bytes())["layers"] if layer["size"] > 10**6)
    place = store.place(Digest.parse(weights["digest"]))
    changed = place.with_name("changed")
    changed.write_bytes(b"?" * weights["size"])
    monkeypatch.setattr(store, "blob", lambda digest: changed if digest.hex == place.name else store.place(digest))
    with pytest.raises(CorruptError, match=r"model/weights\.bin"):
        push(store, artifact, f"oci://{small.host}/churn:1")
    assert small.uploads == {}
    assert ("churn", weights["digest"]) not in small.blobs


def test_a_digest_to_push_to_must_be_its_own(store, artifact, small):
    with pytest.raises(UsageError, match="another artifact"):
        push(store, artifact, f"oci://{small.host}/churn@{Digest.of(b'')}")
    push(store, artifact, f"oci://{small.host}/churn@{artifact}")
    assert ("churn", str(artifact)) in small.manifests


def test_a_reference_is_opened_where_it_lies(small, home, other):
    import vitrify
    from vitrify.core.reference import parse

    digest = save(other, FILES, "churn:1")
    reference = push(other, digest, f"oci://{small.host}/churn:1")
    opened = vitrify.open(f"oci://{small.host}/churn:1")
    assert (opened.digest, opened.name) == (digest, "churn:1")
    small.log.clear()
    assert OciResolver().fetch(parse(reference), opened.store) == digest
    assert small.log == []


def test_what_a_policy_demands_of_a_name_it_demands_of_what_is_opened_in_a_registry(
    small, other, tmp_path, monkeypatch
):
    import vitrify
    from vitrify.artifacts.permit import permit

    push(other, save(other, FILES, "mine:1"), f"oci://{small.host}/team/churn:1")
    policy = tmp_path / "policy.toml"
    policy.write_text('[[require]]\nfor = ["load"]\nnames = ["team/*"]\nrules = [{ rule = "provenance" }]\n')
    monkeypatch.setenv("VITRIFY_POLICY", str(policy))
    with pytest.raises(DeniedError, match="team/churn"):
        permit(vitrify.open(f"oci://{small.host}/team/churn:1"))


def test_the_command_line_pushes_lists_and_pulls(store, artifact, small, tmp_path, monkeypatch):
    from click.testing import CliRunner

    from vitrify.cli import ls, pull, push

    run = CliRunner()
    target = f"oci://{small.host}/team/churn"
    sent = run.invoke(push.command, ["churn", f"{target}:1.2.0"])
    assert sent.output.strip() == f"{target}@{artifact}", sent
    assert run.invoke(ls.command, [target]).output.split() == ["1.2.0"]
    assert json.loads(run.invoke(ls.command, [target, "--json"]).output) == [{"tag": "1.2.0"}]
    got = run.invoke(pull.command, [f"{target}:1.2.0", "--store", str(tmp_path / "b"), "--json"])
    assert json.loads(got.output) == {"digest": str(artifact), "name": "team/churn:1.2.0"}
    got = run.invoke(pull.command, [f"{target}@{artifact}", "mine", "--store", str(tmp_path / "c")])
    assert got.output.split() == ["mine:latest", str(artifact)]
    assert isinstance(run.invoke(push.command, ["churn", "churn"]).exception, UsageError)


# Other tools.


def skopeo(*arguments):
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not on the path")
    done = subprocess.run(["skopeo", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.external
def test_skopeo_reads_what_we_pushed(store, artifact, oci_registry, tmp_path):
    push(store, artifact, f"oci://{oci_registry.host}/for-skopeo:1")
    there = f"docker://{oci_registry.host}/for-skopeo:1"
    raw = skopeo("inspect", "--tls-verify=false", "--raw", there)
    assert raw.encode() == store.blob(artifact).read_bytes()
    skopeo("copy", "--src-tls-verify=false", there, f"oci:{tmp_path / 'copy'}:mine")
    copy = OciLayout(tmp_path / "copy")
    assert copy.names.get("mine").content == artifact
    assert contents(copy, artifact) == FILES


@pytest.mark.external
def test_we_read_what_skopeo_pushed(store, artifact, other, oci_registry):
    there = f"docker://{oci_registry.host}/by-skopeo:1"
    skopeo("copy", "--dest-tls-verify=false", f"oci:{store.root}:churn:latest", there)
    assert pull(other, f"oci://{oci_registry.host}/by-skopeo:1") == artifact
    assert contents(other, artifact) == FILES


_ORAS = """
import sys, warnings
import oras.client
client = oras.client.OrasClient(insecure=True)
if sys.argv[1] == "pull":
    print(client.get_manifest(client.get_container(sys.argv[2]))["config"]["digest"])
    client.pull(target=sys.argv[2], outdir=sys.argv[3])
else:
    client.push(files=[sys.argv[3]], target=sys.argv[2], disable_path_validation=True)
"""


def oras(*arguments, cwd):
    pytest.importorskip("oras")
    command = [sys.executable, "-W", "ignore", "-c", _ORAS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.external
def test_oras_reads_what_we_pushed(store, artifact, oci_registry, tmp_path):
    push(store, artifact, f"oci://{oci_registry.host}/for-oras:1")
    said = oras("pull", f"{oci_registry.host}/for-oras:1", tmp_path / "out", cwd=tmp_path)
    assert json.loads(store.blob(artifact).read_bytes())["config"]["digest"] in said


@pytest.mark.external
def test_we_read_what_oras_pushed(other, oci_registry, tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"onnx" * 1000)
    oras("push", f"{oci_registry.host}/by-oras:1", "model.onnx", cwd=tmp_path)
    digest = pull(other, f"oci://{oci_registry.host}/by-oras:1")
    (layer,) = json.loads(other.blob(digest).read_bytes())["layers"]
    assert other.blob(Digest.parse(layer["digest"])).read_bytes() == b"onnx" * 1000


@pytest.mark.external
def test_the_fallback_tag_is_an_index_that_other_tools_read(store, artifact, oci_registry):
    push(store, artifact, f"oci://{oci_registry.host}/fallback:1")
    tag = f"sha256-{artifact.hex}"
    raw = json.loads(skopeo("inspect", "--tls-verify=false", "--raw", f"docker://{oci_registry.host}/fallback:{tag}"))
    assert raw["mediaType"] == INDEX_TYPE
    assert len(raw["manifests"]) == 2
    assert {entry["artifactType"] for entry in raw["manifests"]} == {"application/vnd.in-toto+json"}


def test_a_repository_says_its_name_and_no_secret(small):
    assert str(Repository(small.host, "a/b", write=False)) == f"oci://{small.host}/a/b"
