"""Encryption of 1 GiB of weights, beside the same bytes through AES-256-GCM of the ``cryptography`` library alone.

The library encrypts and decrypts chunks of 1 MiB in memory; ours reads from the store, writes durably, and compares
what it decrypts with the digests of what was encrypted.
"""

from __future__ import annotations

from pathlib import Path

from _measure import child, interleaved, scratch, show

ROUNDS = 3
MAKE = """
import numpy as np, vitrify
part = np.random.default_rng(0).random((16, 1024, 1024), np.float32)
vitrify.save({f"layer{i}": part + i for i in range(16)}, "w")
from vitrify.trust.encryption import generate
generate(Path("me.pem"))
report(seconds=0)
"""
BARE = """
import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
data, cipher, step = np.random.default_rng(0).bytes(1 << 30), AESGCM(bytes(32)), 1 << 20
view = memoryview(data)
start = time.perf_counter()
parts = [view[number * step:(number + 1) * step] for number in range(1024)]
sealed = [cipher.encrypt(number.to_bytes(12, "big"), part, None) for number, part in enumerate(parts)]
middle = time.perf_counter()
into = memoryview(bytearray(step))
for number, part in enumerate(sealed):
    cipher.decrypt_into(number.to_bytes(12, "big"), part, None, into)
report(seconds=middle - start, decrypt=time.perf_counter() - middle)
"""
HASH = """
import hashlib, numpy as np
data = np.random.default_rng(0).bytes(1 << 30)
start = time.perf_counter()
hashlib.sha256(data).hexdigest()
report(seconds=time.perf_counter() - start)
"""
OURS = """
import vitrify
from vitrify.artifacts.encrypt import encrypt
from vitrify.trust.encryption import X25519Recipient, identities
(me,) = identities("me.pem")
settle()
start = time.perf_counter()
made = encrypt("w", [X25519Recipient(me.private.public_key())], name=f"e{os.getpid()}")
seconds = time.perf_counter() - start
settle()
start = time.perf_counter()
found = vitrify.open(made.name, identity=me)
for name in found.files.names():
    found.files.map(name)
report(seconds=seconds, decrypt=time.perf_counter() - start)
"""

with scratch() as place:
    folder = Path(place)
    child(MAKE, folder=folder)
    bare, hashed, ours = interleaved(
        ROUNDS,
        lambda: child(BARE, folder=folder),
        lambda: child(HASH, folder=folder),
        lambda: child(OURS, folder=folder),
    )


def speed(seconds):
    return f"{1 / seconds:.2f} GiB/s"


show(
    "1 GiB of weights: encrypt, decrypt",
    [
        ("AES-256-GCM of the library alone", speed(bare["seconds"]), speed(bare["decrypt"])),
        ("SHA-256 alone, one core", speed(hashed["seconds"]), ""),
        ("vitrify: to the disk; from the store, checked", speed(ours["seconds"]), speed(ours["decrypt"])),
    ],
)
