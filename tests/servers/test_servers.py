"""The servers are what they say they are; other tests stand on them."""

import urllib.error
import urllib.request
from base64 import b64encode

import pytest

from servers import PATIENCE

pytestmark = pytest.mark.external


def status(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_postgresql_gives_each_caller_a_database(postgresql):
    import psycopg

    first, second = (postgresql.database().replace("+psycopg", "") for _ in range(2))
    assert first != second
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE t (x int)")
        assert connection.execute("SHOW server_version").fetchone()
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT to_regclass('t')").fetchone() == (None,)


def test_the_s3_server_takes_a_key_only_once_when_it_is_asked_to(s3):
    import boto3
    from botocore.exceptions import ClientError

    client, bucket = boto3.client("s3", endpoint_url=s3.endpoint), s3.bucket()
    client.put_object(Bucket=bucket, Key="key", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=bucket, Key="key", Body=b"second", IfNoneMatch="*")
    assert client.get_object(Bucket=bucket, Key="key")["Body"].read() == b"first"


def test_the_registry_has_no_referrers_api_so_that_the_fallback_is_tested(oci_registry):
    assert status(f"http://{oci_registry.host}/v2/") == 200
    assert status(f"http://{oci_registry.host}/v2/a/referrers/sha256:{'0' * 64}") == 404


def test_the_registry_with_a_password_lets_in_who_has_it(oci_registry_with_password):
    server = oci_registry_with_password
    basic = b64encode(f"{server.user}:{server.password}".encode()).decode()
    assert status(f"http://{server.host}/v2/") == 401
    assert status(f"http://{server.host}/v2/", Authorization=f"Basic {basic}") == 200
