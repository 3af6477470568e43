"""Rules about files that break readers, and about what could not be checked."""

from __future__ import annotations

from vitrify.checks.scan._rule import DO_NOT_USE, SAVE_AGAIN, UNPACK, UPDATE, Rule

LIMITS: dict[str, Rule] = {
    "malformed": Rule(
        "Not what its format allows",
        "The file is cut off, damaged, or made to break a reader: a length, an offset or a structure cannot be.",
        SAVE_AGAIN,
    ),
    "malformed-pickle": Rule(
        "A pickle that breaks",
        "It may have done something before it breaks; what was met until then is listed.",
        SAVE_AGAIN,
    ),
    "malformed-tensor": Rule(
        "A tensor that cannot be",
        "Its storage, strides or offset lie outside of the data.",
        SAVE_AGAIN,
    ),
    "overlap": Rule(
        "Tensors that share bytes",
        "No tool writes that; a change of one changes the other.",
        SAVE_AGAIN,
    ),
    "out-of-bounds": Rule(
        "Data outside of their file",
        "A reader that trusts the offset reads past the end.",
        SAVE_AGAIN,
    ),
    "weights-range": Rule(
        "Weights outside of their file",
        "A reader that trusts the offset reads past the end.",
        SAVE_AGAIN,
    ),
    "checkpoint-range": Rule(
        "Data outside of their file",
        "A reader that trusts the offset reads past the end.",
        SAVE_AGAIN,
    ),
    "tensor-size": Rule(
        "A tensor whose size is not what its shape needs",
        "A reader that believes the shape reads or writes outside of the data.",
        SAVE_AGAIN,
    ),
    "function-bomb": Rule(
        "A graph that explodes",
        "Expanding its functions takes all memory.",
        DO_NOT_USE,
    ),
    "recursive-function": Rule(
        "A function that calls itself",
        "Expanding it never ends.",
        DO_NOT_USE,
    ),
    "shape-bomb": Rule(
        "Data that unpack to far more than the file",
        "Reading all of it may take all memory.",
        "Read it one dataset at a time, in parts.",
        "not checked",
    ),
    "zip-bomb": Rule(
        "Unpacks to far more than it is",
        "It was not unpacked to its end.",
        UNPACK,
        "not checked",
    ),
    "zip-method": Rule(
        "A packing method that is not read",
        "It could not be looked at.",
        UNPACK,
        "not checked",
    ),
    "tar-sparse": Rule(
        "A sparse member",
        "Sparse files are not read here.",
        UNPACK,
        "not checked",
    ),
    "archive-not-read": Rule(
        "An archive that is not read",
        "Its content was not looked at.",
        UNPACK,
        "not checked",
    ),
    "limit": Rule(
        "Larger or deeper than what is looked at",
        "It may be honest, but it was not looked at to its end.",
        "If you know it, unpack it and scan its parts, or raise the limits in the policy.",
        "not checked",
    ),
    "unknown-format": Rule(
        "Of no known format",
        "Its content is of no format that is known here.",
        UPDATE,
        "not checked",
    ),
    "unknown-type": Rule(
        "An unknown element type",
        "How many bytes it takes is not known.",
        UPDATE,
        "not checked",
    ),
    "unreadable": Rule(
        "Could not be read",
        "The file is missing, or may not be read.",
        "See to it that it can be read, and scan again.",
        "not checked",
    ),
    "missing-package": Rule(
        "A package is missing",
        "Only with it this file can be read.",
        "Install the package that the finding names, and scan again.",
        "not checked",
    ),
    "failed": Rule(
        "A format's plugin broke",
        "The code that should look at this file raised an error of its own.",
        "Tell the plugin's author; the file may have been made to break it.",
        "not checked",
    ),
}
