"""Which of its layouts a file of ``torch.save`` has, at the cost of a look."""

from __future__ import annotations

from vitrify.reading.tar import Tar, is_tar
from vitrify.reading.zip import Zip, ends_like_zip, opened

MAGIC = 0x1950A86A20F9469CFC6C.to_bytes(10, "little")
PICKLE = "data.pkl"
_WITHIN = 32
_TAR_MEMBERS = frozenset({"sys_info", "pickle", "storages", "tensors"})


def layout(view: memoryview) -> str | None:
    """Return ``zip``, ``legacy`` or ``tar``; None where it is no file of ``torch.save``.

    Raises:
        MalformedError: It is a ZIP or TAR file that is damaged.
        LimitExceededError: It has too many members.
    """
    if bytes(view[:1]) == b"\x80" and MAGIC in bytes(view[:_WITHIN]):
        return "legacy"
    if ends_like_zip(view):
        archive = opened(view, where="zip")
        return "zip" if pickles(archive) and not is_script(archive) else None
    if is_tar(view) and Tar(view, where="tar").members.keys() >= _TAR_MEMBERS:
        return "tar"
    return None


def pickles(archive: Zip) -> list[str]:
    """Return the members that PyTorch may take for the object: one in an honest file."""
    return [
        name for name in archive.members if name == PICKLE or (name.endswith(f"/{PICKLE}") and name.count("/") == 1)
    ]


def is_script(archive: Zip) -> bool:
    """Say whether this is a program of TorchScript, which keeps its constants beside its object."""
    return any(f"{name.removesuffix(PICKLE)}constants.pkl" in archive for name in pickles(archive))
