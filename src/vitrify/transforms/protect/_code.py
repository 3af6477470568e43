"""The error-correcting code of a mark's id: convolutional, rate 1/2, constraint length 7, decoded softly (Viterbi).

The polynomials are 171 and 133 (octal), the best of that length; six zeros bring the encoder back to where it began.

Source: CCSDS 131.0-B-5, section 3; Viterbi (1967).
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAYLOAD = 64
"""Bits of an id."""

_CHECK = 16
"""Bits of the CRC (CCITT) behind it: an id that was decoded wrongly is not taken for one."""

_MEMORY = 6
_STATES = 1 << _MEMORY
_POLYNOMIALS = (0o171, 0o133)
_STEPS = PAYLOAD + _CHECK + _MEMORY
LENGTH = 2 * _STEPS
"""Bits of a codeword."""


def encode(payload: bytes) -> NDArray[np.int8]:
    """Return the codeword of eight bytes, most significant bit first, as +1 (zero) and -1 (one)."""
    checked = payload + binascii.crc_hqx(payload, 0xFFFF).to_bytes(_CHECK // 8, "big")
    bits = [*np.unpackbits(np.frombuffer(checked, np.uint8)), *[0] * _MEMORY]
    register, word = 0, []
    for bit in bits:
        register = (int(bit) << _MEMORY) | (register >> 1)
        word += [1 - 2 * ((register & polynomial).bit_count() & 1) for polynomial in _POLYNOMIALS]
    return np.array(word, np.int8)


def decode(soft: NDArray[np.float64]) -> bytes | None:
    """Return the eight bytes whose codeword agrees best with ``LENGTH`` numbers, positive where a zero is likely.

    None where the best codeword is no id's.
    """
    signs, score = _branches(), np.full(_STATES, -np.inf)
    score[0] = 0.0
    choices = np.empty((_STEPS, _STATES), np.int8)
    states = np.arange(_STATES)
    first = (states << 1) & (_STATES - 1)
    for step, (left, right) in enumerate(soft.reshape(-1, 2)):
        # A state's newest bit is its highest; it is reached from two states, which differ in their oldest bit.
        candidates = np.stack(
            [score[first | oldest] + signs[:, oldest, 0] * left + signs[:, oldest, 1] * right for oldest in (0, 1)]
        )
        if step >= _STEPS - _MEMORY:
            candidates[:, states >= _STATES // 2] = -np.inf  # the tail is zeros
        choices[step] = candidates.argmax(axis=0)
        score = candidates.max(axis=0)
    state, bits = 0, []
    for step in range(_STEPS - 1, -1, -1):
        bits.append(state >> (_MEMORY - 1))
        state = int(first[state]) | int(choices[step, state])
    found = np.packbits(np.array(bits[::-1][: PAYLOAD + _CHECK], np.uint8)).tobytes()
    payload, check = found[: PAYLOAD // 8], found[PAYLOAD // 8 :]
    return payload if binascii.crc_hqx(payload, 0xFFFF) == int.from_bytes(check, "big") else None


def _branches() -> NDArray[np.float64]:
    """Return the two output signs for each state that is reached and the oldest bit of the one before it."""
    signs = np.empty((_STATES, 2, 2))
    for state in range(_STATES):
        for oldest in (0, 1):
            register = (state << 1) | oldest
            for number, polynomial in enumerate(_POLYNOMIALS):
                signs[state, oldest, number] = 1 - 2 * ((register & polynomial).bit_count() & 1)
    return signs
