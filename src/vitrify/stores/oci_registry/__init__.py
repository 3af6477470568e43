"""OCI registries: artifacts go there and come back with all that they lead to, and with the attestations about them.

>>> push(store, digest, "oci://ghcr.io/team/churn:1.2.0")      # doctest: +SKIP
>>> digest = pull(store, "oci://ghcr.io/team/churn:1.2.0")     # doctest: +SKIP
>>> tags("oci://ghcr.io/team/churn")                           # doctest: +SKIP

Without encryption only the own machine is spoken to, or a host for which ``plain_http`` asks for it. Who we are stands
in the file that ``skopeo login``, ``oras login`` and ``docker login`` write.

Source: OCI distribution specification 1.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError
from vitrify.core.reference import Remote, remote
from vitrify.core.reference import name as tagged
from vitrify.stores.files import read_document
from vitrify.stores.oci_registry._client import Repository
from vitrify.stores.oci_registry._family import gather
from vitrify.stores.oci_registry._pull import pull_family
from vitrify.stores.oci_registry._push import push_family
from vitrify.stores.referrers import referrers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.digest import Digest
    from vitrify.core.reference import Reference
    from vitrify.stores.oci_layout import OciLayout

_FALLBACK = re.compile(r"sha256-[0-9a-f]{64}")

__all__ = ["OciResolver", "pull", "push", "tags"]


def push(
    store: OciLayout, digest: Digest, reference: str, *, plain_http: bool = False, mount_from: str | None = None
) -> str:
    """Send an artifact, or an index of variants, and the attestations about each manifest of it.

    Args:
        store: Where it lies.
        digest: Its digest.
        reference: ``oci://host[:port]/name[:tag]``; the tag is set last.
        plain_http: Speak to the host without encryption.
        mount_from: Another repository of the same registry that may have some of it already.

    Returns:
        The reference by digest, which always leads to the same artifact.

    Raises:
        ReferenceNotFoundError: The store does not have it.
        CorruptError: Something of it is damaged; it was not given its tag.
        AuthenticationError: The registry does not know us.
        DeniedError: It does not allow it.
        UnavailableError: It cannot be reached.
        MalformedError: It does not answer as a registry does.
    """
    target = remote(reference)
    if target.digest not in {None, digest}:
        msg = f"{reference} names another artifact than {digest}"
        raise UsageError(msg, remedy=f"push to a tag: oci://{target.host}/{target.repository}:1.0.0")
    source = remote(f"oci://{target.host}/{mount_from}").repository if mount_from else None
    repository = Repository(target.host, target.repository, write=True, plain_http=plain_http, mount_from=source)

    def about(subject: Digest) -> Iterator[Digest]:
        return (entry.content for entry in referrers(store, subject))

    with store.kept():
        family = gather(lambda found: read_document(store, found), about, digest)
        push_family(repository, store, family, target.tag, source)
    return str(Remote(target.host, target.repository, None, digest))


def pull(store: OciLayout, reference: str, *, name: str | None = None, plain_http: bool = False) -> Digest:
    """Fetch an artifact, or an index of variants, and the attestations about each manifest of it.

    Args:
        store: Where to.
        reference: ``oci://host[:port]/name``, with ``:tag`` or ``@sha256:<hex>`` behind it or without.
        name: The name to give it in the store, ``churn`` or ``churn:1.2.0``.
        plain_http: Speak to the host without encryption.

    Returns:
        Its digest.

    Raises:
        ReferenceNotFoundError: It is not there.
        CorruptError: Something is not what its digest promises.
        MalformedError: The registry does not answer as one, or the artifact is no OCI artifact.
        LimitExceededError: An answer is larger than any is.
        AuthenticationError: The registry does not know us.
        DeniedError: It does not allow it.
        UnavailableError: It cannot be reached.
        StoreError: The store could not take it. In each of these cases it is as it was.
    """
    source = remote(reference)
    repository = Repository(source.host, source.repository, write=False, plain_http=plain_http)
    digest, document = repository.manifest(source.digest or str(source.tag))

    def load(found: Digest) -> bytes:
        return document if found == digest else repository.manifest(found)[1]

    family = gather(load, lambda found: (entry.content for entry in repository.referrers(found)), digest)
    pull_family(repository, store, family, None if name is None else tagged(name))
    return digest


def tags(reference: str, *, plain_http: bool = False) -> tuple[str, ...]:
    """Return every tag of ``oci://host[:port]/name`` but those under which referrers are listed.

    Raises:
        ReferenceNotFoundError: There is no such repository.
        VitrifyError: As for :func:`pull`.
    """
    source = remote(reference)
    found = Repository(source.host, source.repository, write=False, plain_http=plain_http).tags()
    return tuple(tag for tag in found if not _FALLBACK.fullmatch(tag))


class OciResolver:
    """Fetches what ``oci://`` names into the store; see ``resolver`` in :mod:`vitrify.core.rows`."""

    def fetch(self, reference: Reference, store: OciLayout) -> Digest:
        """Return the digest of an artifact that is in the store now; it raises what :func:`pull` raises.

        What is named by its digest and is there already is not asked for again.
        """
        wanted = reference.remote.digest
        if wanted is not None and any(entry.content == wanted for entry in store.index.read().manifests):
            return wanted
        return pull(store, str(reference))
