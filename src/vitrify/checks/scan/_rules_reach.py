"""Rules about files that reach out of themselves, or mean two things at once."""

from __future__ import annotations

from vitrify.checks.scan._rule import DO_NOT_USE, SAVE_AGAIN, UNPACK, WHOLE, WITHOUT, Rule

REACH: dict[str, Rule] = {
    "path": Rule(
        "A path",
        "The model names a file on the machine that it runs on, which it reads.",
        WITHOUT,
    ),
    "external-address": Rule(
        "An address of another place",
        "Whoever opens the model reads from there.",
        WITHOUT,
    ),
    "link": Rule(
        "A link that was not followed",
        "The link leads out of the directory, or to something that is no file; what is behind it was not looked at.",
        "Scan what it leads to, or copy the directory with its links resolved.",
        "not checked",
    ),
    "special-file": Rule(
        "No file, but a pipe, a socket or a device",
        "It was not opened: reading it may never end, or do something.",
        "Remove it: no model has such a thing.",
        "not checked",
    ),
    "linked-file": Rule(
        "A link",
        "Loading the model reads another file than the one that is here.",
        DO_NOT_USE,
    ),
    "linked-model": Rule(
        "A model that lies elsewhere",
        "It is looked for on the machine that runs this one.",
        WITHOUT,
    ),
    "package-path": Rule(
        "A path out of the package",
        "Readers would take another file for a part of the model.",
        DO_NOT_USE,
    ),
    "asset-path": Rule(
        "An asset outside of the model's directory",
        "Loading the model reads a file of its author's choice.",
        DO_NOT_USE,
    ),
    "asset-missing": Rule(
        "An asset is missing",
        "The model is not here as a whole.",
        SAVE_AGAIN,
        "not checked",
    ),
    "checkpoint-path": Rule(
        "A checkpoint outside of its directory",
        "Restoring it reads files of its author's choice.",
        DO_NOT_USE,
    ),
    "weights-path": Rule(
        "Weights outside of the package",
        "Loading the model reads a file of its author's choice.",
        DO_NOT_USE,
    ),
    "weights-missing": Rule(
        "Weights are missing",
        "The model is not here as a whole.",
        WHOLE,
        "not checked",
    ),
    "missing-file": Rule(
        "A file is missing",
        "The model is not here as a whole.",
        WHOLE,
        "not checked",
    ),
    "checkpoint-data-missing": Rule(
        "Data of the checkpoint are missing",
        "The checkpoint is not here as a whole.",
        WHOLE,
        "not checked",
    ),
    "digest": Rule(
        "Bytes that are not what their digest promises",
        "The file was changed after it was sealed, or damaged.",
        SAVE_AGAIN,
    ),
    "external-data": Rule(
        "Data in another file",
        "A part of the model lies in a file beside it, or is said to lie somewhere else.",
        WHOLE,
    ),
    "external-data-path": Rule(
        "External data outside of the model's directory",
        "Whoever loads the model reads a file of its author's choice from the machine, as weights.",
        DO_NOT_USE,
    ),
    "external-data-link": Rule(
        "External data behind a link",
        "The data file is a symbolic or hard link: loading the model reads another file than the one that is here.",
        DO_NOT_USE,
    ),
    "external-data-missing": Rule(
        "External data are missing",
        "The data file that the model names is not here.",
        WHOLE,
        "not checked",
    ),
    "external-data-range": Rule(
        "External data outside of their file",
        "Offset and length point outside of the data file.",
        SAVE_AGAIN,
    ),
    "external-data-overlap": Rule(
        "External data that overlap",
        "Two tensors share bytes of the data file in a way that no tool writes.",
        SAVE_AGAIN,
    ),
    "external-data-key": Rule(
        "An unknown word about external data",
        "The standard does not have it: a reader may take it for something.",
        SAVE_AGAIN,
    ),
    "external-link": Rule(
        "A link into another file",
        "Following it opens a file of the author's choice.",
        SAVE_AGAIN,
    ),
    "external-reference": Rule(
        "References that can name another file",
        "What they lead to was not looked at.",
        SAVE_AGAIN,
        "not checked",
    ),
    "external-driver": Rule(
        "One of several files",
        "HDF5 opens the others together with it.",
        SAVE_AGAIN,
    ),
    "virtual-dataset": Rule(
        "A dataset whose data lie elsewhere",
        "Reading it reads other datasets, in other files if it says so.",
        SAVE_AGAIN,
    ),
    "soft-link": Rule(
        "A link where only objects are written",
        "It leads to nothing, or hides what it leads to.",
        SAVE_AGAIN,
    ),
    "user-link": Rule(
        "A link that somebody's own code follows",
        "What it leads to is decided by code elsewhere.",
        SAVE_AGAIN,
    ),
    "two-formats": Rule(
        "A file that is two things at once",
        "It is valid in several formats. What a scanner checks as one, a loader takes as the other.",
        DO_NOT_USE,
    ),
    "duplicate-name": Rule(
        "Two files with one name",
        "Which of the two is meant is not known.",
        DO_NOT_USE,
    ),
    "hidden-bytes": Rule(
        "Bytes that belong to nothing",
        "Nothing in the file leads to them: another file may hide there, for a reader that begins elsewhere.",
        SAVE_AGAIN,
    ),
    "trailing-bytes": Rule(
        "Bytes after the end",
        "Another file may hide there, for a reader that goes on or begins at the end.",
        SAVE_AGAIN,
    ),
    "zip-ambiguous": Rule(
        "A zip file that says two things",
        "Its directory and its members disagree; readers differ.",
        DO_NOT_USE,
    ),
    "zip-duplicate": Rule(
        "Two members with one name",
        "Readers differ in which of the two they take, or overwrite one.",
        DO_NOT_USE,
    ),
    "zip-overlap": Rule(
        "Members that overlap",
        "Bytes belong to several members, as in a bomb or a forged file.",
        DO_NOT_USE,
    ),
    "zip-hidden-bytes": Rule(
        "Bytes in a zip file that no member has",
        "Another file may hide there.",
        SAVE_AGAIN,
    ),
    "zip-name": Rule(
        "A member's name that leads elsewhere",
        "Unpacking writes outside of the directory, or over other files.",
        DO_NOT_USE,
    ),
    "zip-link": Rule(
        "A link in a zip file",
        "Unpacking it makes a link, through which other files are written.",
        DO_NOT_USE,
    ),
    "zip-encrypted": Rule(
        "An encrypted member",
        "What it holds cannot be looked at.",
        UNPACK,
    ),
    "tar-ambiguous": Rule(
        "A tar file that says two things",
        "Readers differ in what it holds.",
        DO_NOT_USE,
    ),
    "tar-duplicate": Rule(
        "Two members with one name",
        "The second overwrites the first where it is unpacked.",
        DO_NOT_USE,
    ),
    "tar-hidden-bytes": Rule(
        "Bytes in a tar file that no member has",
        "Another file may hide there.",
        SAVE_AGAIN,
    ),
    "tar-name": Rule(
        "A member's name that leads elsewhere",
        "Unpacking writes outside of the directory, or over other files.",
        DO_NOT_USE,
    ),
    "tar-link": Rule(
        "A link out of a tar file",
        "Unpacking it reads or writes outside of the directory.",
        DO_NOT_USE,
    ),
    "tar-device": Rule(
        "A device in a tar file",
        "Unpacking it makes a device or a pipe.",
        DO_NOT_USE,
    ),
}
