"""``vitrify export --as`` and ``vitrify import``: other tools' layouts, from the command line."""

from __future__ import annotations

import json

import pytest

import vitrify
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.mark.parametrize("layout", ["mlflow", "hugging-face", "kitops", "directory"])
def test_an_artifact_goes_out_and_comes_back(call, shelf, tmp_path, layout):
    code, out, err = call("export", "line", tmp_path / "out", "--as", layout, "--store", shelf, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["layout"] == layout
    assert said["size"] > 1000
    code, out, err = call("import", tmp_path / "out", "back", "--json")
    assert code == 0, err
    back = json.loads(out)
    assert (back["name"], back["format"]) == ("back:latest", "skops")
    if layout != "mlflow":  # there it travels in MLflow's own flavour, and is another artifact
        assert back["digest"] == said["digest"]
    assert vitrify.open("back").document.format == "skops"


def test_an_archive_is_what_is_written_without_a_layout(call, shelf, tmp_path):
    code, _, err = call("export", "line", tmp_path / "line.vit", "--store", shelf)
    assert code == 0, err
    code, out, err = call("import", tmp_path / "line.vit")
    assert code == 0, err
    assert out.strip() == str(vitrify.open("line", store=OciLayout(shelf)).digest)


def test_a_layout_of_ours_is_copied_with_what_is_attested(call, shelf, tmp_path):
    from vitrify import stores

    archive, layout = tmp_path / "line.vit", OciLayout(tmp_path / "layout")
    call("export", "line", archive, "--store", shelf)
    stores.import_(layout, archive)
    code, _, err = call("import", layout.root, "copied")
    assert code == 0, err
    copied = vitrify.open("copied")
    assert len(copied.attestations) == len(vitrify.open("line", store=layout).attestations) > 0


def test_a_card_gets_its_license_and_tags(call, shelf, tmp_path):
    words = ("--license", "apache-2.0", "--tag", "tabular")
    code, _, err = call("export", "line", tmp_path / "out", "--as", "hugging-face", *words, "--store", shelf)
    assert code == 0, err
    text = (tmp_path / "out" / "README.md").read_text()
    assert 'license: "apache-2.0"' in text
    assert '- "tabular"' in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("export", "line", "OUT", "--license", "mit"), (2, "hugging-face")),
        (("export", "line", "OUT", "--as", "zip"), (2, "zip")),
        (("export", "line", "THERE", "--as", "directory"), (2, "there already")),
        (("export", "line", "THERE"), (2, "is a directory")),
        (("export", "line", "OUT", "--as", "hugging-face", "--license", "a b"), (2, "not a license")),
        (("import", "ABSENT"), (2, "there is no")),
        (("import", "hf://org/../name"), (2, "not a reference")),
        (("import", "hf://org/name"), (3, "no revision")),
        (("import", "THERE", "not a name"), (2, "not a valid artifact name")),
    ],
)
def test_a_mistake_is_a_message_and_an_exit_code(call, shelf, tmp_path, words, expected):
    (tmp_path / "THERE").mkdir()
    (tmp_path / "THERE" / "mine").touch()
    places = {name: tmp_path / name for name in ("OUT", "THERE", "ABSENT")}
    store = ("--store", shelf) if words[0] == "export" else ()
    found, _, err = call(*(places.get(word, word) for word in words), *store)
    code, text = expected
    assert found == code, err
    assert text in err
    assert not (tmp_path / "OUT").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "line", "out.vit"),
        ("export", "line", "out", "--as", "mlflow"),
        ("push", "line", "oci://127.0.0.1:1/line:1"),
    ],
    ids=["archive", "layout", "push"],
)
def test_what_the_policy_does_not_let_out_stays(call, shelf, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    policy = tmp_path / "policy.toml"
    policy.write_text('[[require]]\nfor = ["ship"]\nnames = ["*"]\nrules = [{ rule = "sbom" }]\n')
    monkeypatch.setenv("VITRIFY_POLICY", str(policy))
    code, _, err = call(*arguments, "--store", shelf)
    assert code == 15
    assert "does not allow to ship line:latest" in err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == []


SERVERS = {
    "triton": ["--rows", "8", "--backend", "python", "--allow", "acme.Scale"],
    "torchserve": [],
    "ray-serve": ["--replicas", "2-3"],
    "kubernetes": ["--image", "vitrify:1", "--source", "oci://ghcr.io/team/line", "--replicas", "3", "--monitor"],
    "kserve": ["--image", "vitrify:1", "--source", "oci://ghcr.io/team/line"],
}


@pytest.mark.parametrize("layout", SERVERS)
def test_an_artifact_goes_to_a_server(call, shelf, tmp_path, layout):
    words = ("export", "line", tmp_path / "out", "--as", layout, *SERVERS[layout], "--store", shelf, "--json")
    code, out, err = call(*words)
    assert code == 0, err
    assert json.loads(out)["layout"] == layout
    assert any(one.is_file() for one in (tmp_path / "out").rglob("*"))


def test_several_artifacts_go_into_one_repository(call, shelf, tmp_path):
    words = ("--as", "triton", "--also", "parts", "--backend", "python", "--store", shelf)
    code, _, err = call("export", "line", tmp_path / "out", *words)
    assert code == 0, err
    assert {one.name for one in (tmp_path / "out").iterdir()} == {"line", "parts"}


@pytest.mark.parametrize("layout", SERVERS)
def test_what_the_policy_does_not_let_out_goes_to_no_server(call, shelf, tmp_path, monkeypatch, layout):
    policy = tmp_path / "policy.toml"
    policy.write_text('[[require]]\nfor = ["ship"]\nnames = ["line"]\nrules = [{ rule = "sbom" }]\n')
    monkeypatch.setenv("VITRIFY_POLICY", str(policy))
    words = ("--as", layout, *SERVERS[layout], "--store", shelf)
    code, _, err = call("export", "line", tmp_path / "out", *words)
    assert code == 15
    assert "does not allow to ship line:latest" in err
    assert not (tmp_path / "out").exists()


def test_the_policy_is_asked_about_each_of_several_artifacts(call, shelf, tmp_path, monkeypatch):
    policy = tmp_path / "policy.toml"
    policy.write_text('[[require]]\nfor = ["ship"]\nnames = ["line"]\nrules = [{ rule = "sbom" }]\n')
    monkeypatch.setenv("VITRIFY_POLICY", str(policy))
    words = ("--as", "triton", "--also", "line", "--store", shelf)
    code, _, err = call("export", "parts", tmp_path / "out", *words)
    assert code == 15
    assert "does not allow to ship line:latest" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "triton", "--image", "x"], "no option image"),
        (["--as", "mlflow", "--also", "parts"], "no option also"),
        (["--rows", "3"], "no option rows"),
        (["--as", "kubernetes", "--replicas", "many"], "expected a number"),
        (["--as", "kubernetes"], "image"),
        (["--as", "tensorflow-serving"], "saved models only"),
    ],
)
def test_an_option_that_a_layout_does_not_have_is_said(call, shelf, tmp_path, words, said):
    code, _, err = call("export", "line", tmp_path / "out", *words, "--store", shelf)
    assert code != 0
    assert said in err
    assert not (tmp_path / "out").exists()
