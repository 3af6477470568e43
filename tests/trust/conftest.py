"""The servers and the module under test; a directory of a model, its signature, and the OpenSSF tool with our key."""

from __future__ import annotations

import pytest
from servers import kms, kms_server
from trust._signed_model import KEY
from trust._softhsm import token

__all__ = ["keys", "kms", "kms_server", "model", "signature", "they", "token"]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(range(256)) * 500)
    (folder / "empty").write_bytes(b"")
    (folder / "tokenizer" / "vocab.json").write_text("{}")
    (folder / "tokenizer.json").write_text("sorts before tokenizer/ as text, and behind it by its parts")
    (folder / "tokenizer-ü.json").write_text("ü")
    return folder


@pytest.fixture
def signature(tmp_path):
    return tmp_path / "model.sig"


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    KEY.save(folder / "key.pem", unencrypted=True)
    (folder / "key.pub").write_bytes(KEY.public.pem)
    return folder


@pytest.fixture
def they(keys):
    """Return the OpenSSF tool: a function that signs, and one that raises where it does not verify."""
    tool = pytest.importorskip("model_signing")

    class They:
        @staticmethod
        def sign(folder, signature, **hashing):
            config = tool.signing.Config().use_elliptic_key_signer(private_key=keys / "key.pem")
            if hashing:
                config.set_hashing_config(tool.hashing.Config().set_ignored_paths(**hashing))
            config.sign(folder, signature)

        @staticmethod
        def verify(folder, signature):
            config = tool.verifying.Config().use_elliptic_key_verifier(public_key=keys / "key.pub")
            config.verify(folder, signature)

    return They
