"""A small OCI registry with the referrers API, tokens and mounts, which Debian's does not have; and with bad manners.

It follows the distribution specification 1.1 as far as a client sees it. ``manners`` are functions that may answer a
request before it does: they are how the tests make it hostile.
"""

import base64
import json
import re
import secrets
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from vitrify.core.digest import Digest

INDEX = "application/vnd.oci.image.index.v1+json"


class SmallRegistry:
    """Its content, what was asked, and how it behaves.

    Attributes:
        host: Where it listens.
        blobs: By repository and digest.
        manifests: By repository and digest or tag: media type and bytes.
        log: Method, path and headers of every request.
        manners: Functions of a handler that return True if they have answered.
        referrers: Whether it has the referrers API.
        password: What a token costs, or None where nobody is asked.
        page: How many referrers or tags stand on one page.
    """

    def __init__(self, host):
        self.host = host
        self.blobs, self.manifests, self.uploads, self.log, self.manners = {}, {}, {}, [], []
        self.referrers, self.password, self.page, self.tokens = True, None, 1000, set()

    def requests(self, method):
        return [path for verb, path, _ in self.log if verb == method]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # it would wait 40 ms with every answer

    def log_message(self, *_):
        pass

    @property
    def registry(self):
        return self.server.registry

    def answer(self, status, body=b"", **headers):
        """Send an answer; a header's underscores are dashes, and None leaves it out."""
        self.send_response(status)
        for name, text in {"Content_Length": len(body), **headers}.items():
            if text is not None:
                self.send_header(name.replace("_", "-"), str(text))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def missing(self, code="MANIFEST_UNKNOWN"):
        return self.answer(404, json.dumps({"errors": [{"code": code, "message": "it is not here"}]}).encode())

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def handle_any(self):
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.registry.log.append((self.command, self.path, dict(self.headers)))
        if any(manner(self) for manner in self.registry.manners):
            return
        if parts.path == "/token":
            self.token(parse_qs(parts.query))
            return
        if self.registry.password and self.headers.get("Authorization", "")[7:] not in self.registry.tokens:
            self.body()
            challenge = (
                f'Bearer realm="http://{self.registry.host}/token",service="small, \\"registry\\"",scope="x:y:z"'
            )
            self.answer(401, WWW_Authenticate=challenge)
            return
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs|referrers|tags)/(.*)", parts.path)
        if found is None:
            self.missing()
        else:
            getattr(self, f"{self.command.lower()}_{found[2]}")(found[1], found[3])

    def token(self, query):
        expected = "Basic " + base64.b64encode(self.registry.password.encode()).decode()
        if self.headers.get("Authorization") != expected or query["service"] != ['small, "registry"']:
            self.answer(401)
            return
        self.registry.scopes = query["scope"]
        self.registry.tokens.add(token := secrets.token_hex(8))
        self.answer(200, json.dumps({"token": token}).encode())

    def get_manifests(self, name, reference):
        if (name, reference) not in self.registry.manifests:
            self.missing()
            return
        kind, data = self.registry.manifests[name, reference]
        self.answer(200, data, Content_Type=kind, Docker_Content_Digest=Digest.of(data))

    head_manifests = get_manifests

    def put_manifests(self, name, reference):
        data = self.body()
        entry = self.headers["Content-Type"], data
        raw = json.loads(data)
        for needed in [raw.get("config"), *raw.get("layers", ())]:
            assert not needed or (name, needed["digest"]) in self.registry.blobs, "a manifest before its blobs"
        for needed in raw.get("manifests", ()):
            assert reference.startswith("sha256-") or (name, needed["digest"]) in self.registry.manifests
        for key in (reference, str(Digest.of(data))):
            self.registry.manifests[name, key] = entry
        subject = raw.get("subject") if self.registry.referrers else None
        extra = {"OCI_Subject": subject["digest"]} if subject else {}
        self.answer(201, Docker_Content_Digest=Digest.of(data), **extra)

    def get_referrers(self, name, digest):
        if not self.registry.referrers:
            self.missing()
            return
        entries = []
        for (repository, key), (kind, data) in self.registry.manifests.items():
            raw = json.loads(data)
            if repository == name and key.startswith("sha256:") and raw.get("subject", {}).get("digest") == digest:
                entries.append({"mediaType": kind, "digest": key, "size": len(data)})
        start = int(self.query.get("from", 0))
        page = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries[start : start + self.registry.page]}
        following = start + self.registry.page
        link = f'</v2/{name}/referrers/{digest}?from={following}>; rel="next"' if following < len(entries) else None
        self.answer(200, json.dumps(page).encode(), Content_Type=INDEX, Link=link)

    def get_tags(self, name, _):
        tags = [key for repository, key in self.registry.manifests if repository == name and ":" not in key]
        if not tags:
            self.missing("NAME_UNKNOWN")
            return
        start = int(self.query.get("from", 0))
        following = start + self.registry.page
        link = f'<tags/list?from={following}>; rel="next"' if following < len(tags) else None
        page = {"name": name, "tags": tags[start:following]}
        self.answer(200, json.dumps(page).encode(), Link=link and link.replace("tags/", ""))

    def get_blobs(self, name, reference):
        if reference.startswith("uploads/"):
            sent = self.registry.uploads[reference.partition("/")[2]]
            self.answer(204, Location=self.path, Range=f"0-{max(len(sent) - 1, 0)}")
        elif (name, reference) not in self.registry.blobs:
            self.missing("BLOB_UNKNOWN")
        else:
            data = self.registry.blobs[name, reference]
            ranged = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(ranged[1]) if ranged else 0
            extra = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if ranged else {}
            self.answer(206 if ranged else 200, data[start:], **extra)

    head_blobs = get_blobs

    def post_blobs(self, name, _):
        source = self.query.get("from"), self.query.get("mount")
        if source in self.registry.blobs:
            self.registry.blobs[name, source[1]] = self.registry.blobs[source]
            self.answer(201, Location=f"/v2/{name}/blobs/{source[1]}")
            return
        upload = secrets.token_hex(8)
        self.registry.uploads[upload] = b""
        self.answer(202, Location=f"/v2/{name}/blobs/uploads/{upload}?state=1")

    def patch_blobs(self, _, reference):
        upload = reference.partition("/")[2]
        sent = self.registry.uploads[upload]
        first = int(self.headers["Content-Range"].partition("-")[0])
        data = self.body()
        if first != len(sent):
            self.answer(416)
            return
        self.registry.uploads[upload] = sent + data
        self.answer(202, Location=f"http://{self.registry.host}{self.path}", Range=f"0-{len(sent) + len(data) - 1}")

    def put_blobs(self, name, reference):
        data = self.registry.uploads.pop(reference.partition("/")[2]) + self.body()
        if str(Digest.of(data)) != self.query["digest"]:
            self.answer(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')
            return
        self.registry.blobs[name, self.query["digest"]] = data
        self.answer(201, Docker_Content_Digest=self.query["digest"])

    def delete_blobs(self, _, reference):
        self.registry.uploads.pop(reference.partition("/")[2])
        self.answer(204)


for _method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler.handle_any)


@contextmanager
def small_registry(tls=None):
    """Run one on a free loopback port, with TLS if a context is given."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # clients that hang up are what is tested
        server.registry = SmallRegistry(f"127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.registry
        finally:
            server.shutdown()
            thread.join()
