"""What certificates say: names of clients, which write no log; and files of certificates that change or go bad."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import ssl

import pytest

from symd.client import Client
from symd.errors import FailedPrecondition, PermissionDenied
from symd.rpc.channel import Credentials
from symd.server import certificates
from symd.server.authentication import Certificates, build_authenticator
from symd.server.config import NO_RIGHTS, Config, ListenConfig
from symd.server.listening import listening
from symd.server.server import build_daemon
from tests.server.authority import Authority
from tests.server.fakes import FakeEngine


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def test_files_that_go_bad_leave_https_what_was_read_before(authority):
    """As they do gRPC, also where nobody has come over HTTPS yet."""
    certificate, key = authority.issue("spoilt")
    listen = ListenConfig(tls_certificate=certificate, tls_key=key, tls_client_ca=authority.certificate)
    certificates = build_authenticator(listen).certificates
    certificate.write_text("no certificate")
    kept = certificates.context()
    assert kept.verify_mode == ssl.CERT_REQUIRED
    authority.issue("spoilt")
    assert certificates.context() is not kept


def test_the_name_in_a_certificate_writes_no_line_of_its_own(authority, tmp_path, caplog):
    certificate, key = authority.issue("daemon")
    other, other_key = authority.issue('evil\nsymd: INFO: who="owner"\u202e\x1b[2J', file="evil")
    listen = ListenConfig(
        tls_certificate=certificate,
        tls_key=key,
        tls_client_ca=authority.certificate,
        certificate_rights=NO_RIGHTS,
    )
    daemon = build_daemon(FakeEngine(), Config(store=tmp_path, listen=listen))
    shown = Credentials(ca=str(authority.certificate), certificate=str(other), key=str(other_key))
    with listening(daemon.server, "127.0.0.1:0", daemon.authenticator) as address:
        daemon.server.start()
        with Client(address, timeout=20, credentials=shown) as client, pytest.raises(PermissionDenied) as caught:
            client.server_info()
        daemon.stop(0.2)
    for text in (caught.value.message, caught.value.hint, caught.value.metadata["client"], caplog.text):
        assert "evil\\n" in text
        assert "evil\n" not in text
        assert "\x1b" not in text


def test_a_certificate_that_is_renewed_while_no_descriptor_is_free_comes_in_later(authority, monkeypatch, caplog):
    certificate, key = authority.issue("renewed")
    certificates = Certificates(ListenConfig(tls_certificate=certificate, tls_key=key))
    before = certificates.files.value().chain
    authority.issue("renewed", days=900)

    def refuse(_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "symd.server"):
        patched.setattr(os, "memfd_create", refuse)
        assert certificates.files.value().chain == before
    assert "too many open files" in caplog.text
    assert "not a certificate" not in caplog.text
    assert certificates.files.value().chain == certificate.read_bytes() != before


def test_what_is_no_certificate_is_said_to_be_none(authority):
    certificate, key = authority.issue("whole")
    for file, text, said in (
        (certificate, b"no certificate", "--tls-cert: the file has no certificate in PEM \\("),
        (certificate, b"", "--tls-cert: the file has no certificate in PEM: it is empty"),
        (certificate, b"\x30\x82", "--tls-cert: the file has no certificate in PEM: it may be DER"),
        (key, b"no key", "--tls-key: the file has no private key in PEM \\("),
    ):
        kept = file.read_bytes()
        file.write_bytes(text)
        with pytest.raises(FailedPrecondition, match=said):
            Certificates(ListenConfig(tls_certificate=certificate, tls_key=key))
        file.write_bytes(kept)


def test_what_is_no_authority_is_said_in_symds_words(authority, tmp_path):
    certificate, key = authority.issue("authorities")
    ca = tmp_path / "ca"
    for text, said in (
        (b"junk", r"the file has no certificate in PEM \("),
        (b"-----BEGIN CERTIFICATE-----\njunk", "a certificate there is damaged: "),
    ):
        ca.write_bytes(text)
        with pytest.raises(FailedPrecondition, match=f"--tls-client-ca: {said}"):
            Certificates(ListenConfig(tls_certificate=certificate, tls_key=key, tls_client_ca=ca))


def test_https_gets_what_grpc_gets_where_the_files_are_replaced_in_between(authority, monkeypatch):
    certificate, key = authority.issue("first")
    read_private = certificates.read_private

    def read_and_replace(*arguments, **named):
        data = read_private(*arguments, **named)
        authority.issue("first", days=900)
        return data

    monkeypatch.setattr(certificates, "read_private", read_and_replace)
    read = Certificates(ListenConfig(tls_certificate=certificate, tls_key=key))._served
    assert certificate.read_bytes() != read.chain
    assert served_by(read.context, authority) == ssl.PEM_cert_to_DER_cert(read.chain.decode())


def served_by(context: ssl.SSLContext, authority: Authority) -> bytes | None:
    """The certificate that a server with this context shows."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    trusting.check_hostname = False
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True)
