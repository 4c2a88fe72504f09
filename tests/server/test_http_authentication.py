"""Who is let in over HTTP, and what is kept out: other hosts' names, strangers, pages of other origins."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from contextlib import contextmanager

import pytest

from symd.config import DEFAULT_LIMITS
from symd.errors import FailedPrecondition, InvalidInput
from symd.server.access_file import new_token, token_line
from symd.server.config import Config, ListenConfig, parse_rights
from symd.server.http_server import web_served
from symd.server.server import build_daemon
from tests.server.authority import Authority
from tests.server.fakes import DIGEST, GOOD, FakeEngine

MODULES = "api/modules"


@contextmanager
def served(tmp_path, http_address="127.0.0.1:0", limits=DEFAULT_LIMITS, **listen):
    """The page's address, of a daemon that knows ``GOOD``."""
    engine = FakeEngine()
    engine.add(GOOD)
    config = Config(store=tmp_path, http=http_address, listen=ListenConfig(**listen), grace=0.2, limits=limits)
    daemon = build_daemon(engine, config)
    try:
        with web_served(daemon, config) as page:
            yield page
    finally:
        daemon.stop(0.2)


def asked(url, path="", headers=None, method="GET", body=None, tls=None, seconds=30):
    """(status, headers, body) of a request below ``url``."""
    scheme, _, rest = url.partition("://")
    host, _, base = rest.partition("/")
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    connection = kind(host, timeout=seconds, **({"context": tls} if tls else {}))
    try:
        connection.request(method, f"/{base}{path}", body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_without_a_word_about_who_comes_in_the_address_has_a_secret_part(tmp_path):
    with served(tmp_path) as page:
        assert not page.is_open
        assert page.url.startswith(f"{page.address}/")
        assert len(page.url) > len(page.address) + 30
        status, headers, body = asked(page.url, MODULES)
        assert status == 200
        assert [each["sha256"] for each in json.loads(body)["modules"]] == [DIGEST]
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["set-cookie"] is None
        assert asked(page.url)[0] == 200
        for wrong in (f"{page.address}/", f"{page.address}/api/modules", f"{page.url[:-2]}/", f"{page.address}/x/"):
            status, headers, body = asked(wrong)
            assert (status, json.loads(body)["error"]["reason"]) == (401, "UNAUTHENTICATED"), wrong
            assert headers["www-authenticate"] is None, "no password lets anybody in"
        assert asked(page.url.rstrip("/"))[0] == 303


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1"])
def test_a_name_that_is_not_ours_is_not_answered(tmp_path, host):
    with served(tmp_path, insecure=True) as page:
        assert asked(page.url, MODULES, {"Host": host})[0] == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "[::1]:8080", "LOCALHOST", "10.1.2.3:8080"])
def test_our_own_names_are_answered(tmp_path, host):
    with served(tmp_path, insecure=True) as page:
        assert page.is_open
        assert asked(page.url, MODULES, {"Host": host})[0] == 200


def test_a_token_opens_and_nothing_else_does(tmp_path):
    token, access = new_token(), tmp_path / "access"
    access.touch(mode=0o600)
    access.write_text(f"{token_line('ci', parse_rights('read'), token)}\n")
    with served(tmp_path, access=access) as page:
        basic = base64.b64encode(f"anyone:{token}".encode()).decode()
        for header in (f"Bearer {token}", f"bearer  {token}", f"Basic {basic}"):
            assert asked(page.url, MODULES, {"Authorization": header})[0] == 200, header
        wrong = base64.b64encode(b"anyone:wrong").decode()
        for header in ("Bearer wrong", f"Basic {wrong}", "Basic ???", "Digest x", ""):
            status, headers, body = asked(page.url, MODULES, {"Authorization": header})
            assert status == 401, header
            assert headers["www-authenticate"].startswith("Basic ")
            assert DIGEST not in body.decode()


def test_a_client_without_the_right_is_refused(tmp_path):
    token, access = new_token(), tmp_path / "access"
    access.touch(mode=0o600)
    access.write_text(f"{token_line('writer', parse_rights('write'), token)}\n")
    with served(tmp_path, access=access) as page:
        status, _, body = asked(page.url, MODULES, {"Authorization": f"Bearer {token}"})
        assert status == 403
        assert json.loads(body)["error"]["metadata"]["right"] == "read"


def test_tls_with_certificates_of_clients(tmp_path):
    ours = Authority(tmp_path)
    certificate, key = ours.issue("host")
    client = ours.issue("ci")
    listen = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": ours.certificate}
    with served(tmp_path, **listen) as page:
        trusting = ssl.create_default_context(cafile=ours.certificate)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            asked(page.url, MODULES, tls=trusting)
        trusting.load_cert_chain(*client)
        assert asked(page.url, MODULES, tls=trusting)[0] == 200


@pytest.mark.parametrize("with_access", [False, True])
@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:0", "localhost.example:0", "[::]:0"])
def test_plain_http_for_other_machines_has_to_be_asked_for(tmp_path, address, with_access):
    access = tmp_path / "access"
    access.touch(mode=0o600)
    listen = {"access": access} if with_access else {}
    with (
        pytest.raises(FailedPrecondition, match="no plain HTTP for other machines"),
        served(tmp_path, address, **listen),
    ):
        pass


@pytest.mark.parametrize(
    "address",
    ["8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x", f"127.0.0.1:{'9' * 5000}"],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("insecure", [False, True])
def test_what_is_no_address_is_refused(tmp_path, address, insecure):
    with (
        pytest.raises(InvalidInput, match="not an address to listen at"),
        served(tmp_path, address, insecure=insecure),
    ):
        pass


def test_a_port_that_is_taken_is_told(tmp_path):
    with served(tmp_path) as page:
        port = page.address.rpartition(":")[2]
        with pytest.raises(FailedPrecondition, match="--http"), served(tmp_path, f"127.0.0.1:{port}"):
            pass


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("api/modules/xyz", 400, "INVALID_INPUT"),
        (f"api/modules/{'0' * 64}", 404, "UNKNOWN_MODULE"),
        ("assets/..%2f..%2fapp.py", 404, None),
        ("assets/app.py", 404, "NOT_FOUND"),
        ("nothing", 404, None),
    ],
)
def test_errors_have_a_status_and_say_why(tmp_path, path, status, reason):
    with served(tmp_path) as page:
        found, headers, body = asked(page.url, path)
        assert found == status
        assert headers["content-security-policy"]
        if reason:
            assert json.loads(body)["error"]["reason"] == reason


def test_a_body_where_none_is_taken_is_refused(tmp_path):
    with served(tmp_path) as page:
        assert asked(page.url, MODULES, body=b"x" * 10)[0] == 429
        assert asked(page.url, MODULES, method="POST")[0] == 405
