"""Who is let in and what they may do: a daemon with each way to listen, and the strangers that try it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd.async_client import AsyncClient
from symd.cli import command_line
from symd.client import Client
from symd.config import DEFAULT_LIMITS, Limits, default_socket
from symd.errors import (
    FailedPrecondition,
    InvalidInput,
    ModuleNotFound,
    PermissionDenied,
    ServerUnavailable,
    Unauthenticated,
    Unavailable,
    UnknownFormat,
)
from symd.model.grabs import GrabRequest
from symd.rpc.channel import Credentials
from symd.server.access_file import new_token, token_line
from symd.server.authentication import build_authenticator
from symd.server.config import ALL_RIGHTS, NO_RIGHTS, Config, ListenConfig, Right, Rights, parse_rights
from symd.server.listening import listening
from symd.server.server import _said, build_daemon
from symd.system.process import confinement
from symd.v1 import symbol_service_pb2 as s
from symd.v1.module_service_pb2 import DeleteModuleRequest
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.impatient import be_impatient
from tests.server.authority import Authority
from tests.server.fakes import DIGEST, GOOD, FakeEngine

NOBODY = 65534
NOTHING = Credentials()
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextmanager
def served(address: str, limits: Limits = DEFAULT_LIMITS, **listen):
    """The address of a daemon with these options; its engine knows ``GOOD``."""
    config = Config(
        store=Path("/nonexistent"), workers=4, streams=3, grace=1.0, listen=ListenConfig(**listen), limits=limits
    )
    engine = FakeEngine()
    engine.add(GOOD)
    daemon = build_daemon(engine, config)
    with listening(daemon.server, address, daemon.authenticator) as bound:
        daemon.server.start()
        try:
            yield bound
        finally:
            daemon.stop(0.2)


@contextmanager
def client(address: str, token: str | None = None, **credentials: object):
    shown = Credentials(token, **{name: str(value) for name, value in credentials.items()})
    with Client(address, timeout=20, credentials=shown) as made:
        yield made


def may(address: str, token: str | None = None, **credentials: object) -> Rights:
    """Which rights the daemon finds that the client has, each tried by one call."""
    attempts = {
        Right.READ: lambda it: it.server_info(),
        Right.WRITE: lambda it: it.relabel(DIGEST, "label"),
        Right.GRAB: lambda it: it.grab(GrabRequest("opencl", "source", b"good")),
        Right.ADMIN: lambda it: it.remove("0" * 64),
    }
    have = set()
    for right, attempt in attempts.items():
        with client(address, token, **credentials) as it:
            try:
                attempt(it)
            except PermissionDenied as error:
                if error.metadata["right"] not in {right.value, "read"}:
                    raise
                continue
            except ModuleNotFound:
                pass
            have.add(right)
    return frozenset(have)


def eventually(ask):
    """What ``ask`` returns once there is a connection."""
    until = time.monotonic() + 20
    while True:
        try:
            return ask()
        except ServerUnavailable:
            assert time.monotonic() < until
            time.sleep(0.05)


# Unix sockets


def as_user(uid: int, address: str, call: str) -> subprocess.CompletedProcess[str]:
    """What a client of another user prints: the answer, or the error's reason and sentence."""
    program = f"""
import os, sys
from symd.client import Client
from symd.errors import SymdError
from symd.rpc.wire import failures
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
try:
    with Client({address!r}, timeout=20) as client: print({call})
except SymdError as error: print(error.reason, error)
"""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)


@pytest.fixture
def sock(folder: Path) -> str:
    return f"unix:{folder}/symd.sock"


def test_the_owner_has_every_right(sock: str) -> None:
    with served(sock) as address:
        assert may(address) == ALL_RIGHTS
        assert Path(address.removeprefix("unix:")).stat().st_mode & 0o777 == 0o600


@as_root
def test_another_user_is_kept_out_by_the_kernel(sock: str) -> None:
    with served(sock) as address:
        said = as_user(NOBODY, address, "client.server_info()").stdout
    assert said.startswith("SERVER_UNAVAILABLE")
    assert "the daemon's user has not let you use this socket (symd serve --socket-group" in said


@as_root
@pytest.mark.parametrize(("anonymous", "rights"), [(None, "read"), ("read,write", "read,write"), ("none", "none")])
def test_a_group_has_the_rights_that_are_said_and_nobody_else_comes_in(sock: str, anonymous: str, rights: str) -> None:
    given = None if anonymous is None else NO_RIGHTS if anonymous == "none" else parse_rights(anonymous)
    with served(sock, socket_group=NOBODY, anonymous=given) as address:
        assert Path(address.removeprefix("unix:")).stat().st_mode & 0o777 == 0o660
        asked = as_user(NOBODY, address, "client.server_info().store").stdout.strip()
        assert asked.startswith("UNAUTHENTICATED") if rights == "none" else asked == "", "a folder of another user's"
        said = as_user(NOBODY, address, f"client.relabel({DIGEST!r}, 'mine').label").stdout
        assert said.startswith("mine") is ("write" in rights)
        assert "has not let you use this socket" in as_user(1000, address, "client.server_info()").stdout
        if given != NO_RIGHTS:
            assert may(address) == parse_rights(rights), "the owner by the same socket"


def test_who_comes_by_a_groups_socket_shows_a_token_where_there_are_tokens(sock: str, access) -> None:
    """As a reverse proxy does for its clients: that it may open the socket gives it no right."""
    with served(sock, socket_group=os.getegid(), access=access("read")) as address:
        with pytest.raises(Unauthenticated), client(address) as it:
            it.server_info()
        with grpc.insecure_channel(address, (("grpc.default_authority", "localhost"),)) as channel:
            call = channel.unary_unary("/symd.v1.ServerService/GetServerInfo")
            delete = channel.unary_unary("/symd.v1.ModuleService/DeleteModule")
            shown = (("authorization", "Bearer read"),)
            assert call(b"", metadata=shown, timeout=20)
            for refused, metadata in ((call, ()), (call, (("authorization", "Bearer wrong"),)), (delete, shown)):
                with pytest.raises(grpc.RpcError) as caught:
                    refused(b"", metadata=metadata, timeout=20)
                code = caught.value.code()
                assert (
                    code is grpc.StatusCode.PERMISSION_DENIED if metadata == shown else grpc.StatusCode.UNAUTHENTICATED
                )


@pytest.mark.parametrize(
    ("mode", "said"),
    [(0o777, "other users may change"), (0o770, "other users may change"), (0o1777, "other users may change")],
)
def test_a_folder_that_others_may_change_is_refused(sock: str, folder: Path, mode: int, said: str) -> None:
    folder.chmod(mode)
    with pytest.raises(FailedPrecondition, match=said) as caught, served(sock):
        pass
    assert caught.value.hint.endswith(f"--address unix:{default_socket().parent}/{Path(sock).name}")
    assert ("chmod" in caught.value.hint) is (mode != 0o1777)  # nobody narrows a folder of all users
    assert not list(folder.iterdir())


@as_root
def test_a_folder_of_another_user_is_refused(sock: str, folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(FailedPrecondition, match="belongs to another user"), served(sock):
        pass


def test_whoever_may_list_the_folder_keeps_no_daemon_from_starting(sock: str, folder: Path) -> None:
    """To hold the lock of a folder it is enough to open it."""
    folder.chmod(0o755)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    with served(sock):
        pass
    os.close(descriptor)
    assert not list(folder.iterdir())


def test_a_folder_that_others_may_move_is_refused(folder: Path) -> None:
    inside = folder / "open" / "own"
    inside.mkdir(parents=True)
    inside.parent.chmod(0o777)
    with pytest.raises(FailedPrecondition, match="put another folder in the place"), served(f"unix:{inside}/s"):
        pass
    inside.parent.chmod(0o1777)
    with served(f"unix:{inside}/s") as address:
        assert may(address) == ALL_RIGHTS


@as_root
def test_a_link_that_another_user_may_turn_is_refused(folder: Path) -> None:
    (folder / "own").mkdir()
    link = folder / "link"
    link.symlink_to("own")
    with served(f"unix:{link}/s") as address:
        assert may(address) == ALL_RIGHTS
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(FailedPrecondition, match="put another folder in the place"), served(f"unix:{link}/s"):
        pass


# TCP


@pytest.fixture
def access(tmp_path: Path):
    """An access file with a token for each set of rights, called as they are."""
    path = tmp_path / "access"

    def write(*rights: str) -> Path:
        lines = (token_line(each.replace(",", "-"), parse_rights(each), each) for each in rights)
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(0o600)
        return path

    return write


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls(authority: Authority) -> dict[str, Path]:
    certificate, key = authority.issue("daemon")
    return {"tls_certificate": certificate, "tls_key": key}


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "0.0.0.0:0", "[::1]:0"])
def test_tcp_without_anything_is_refused(address: str) -> None:
    with (
        pytest.raises(FailedPrecondition, match="no plain TCP: it lets in anyone who can reach the port") as caught,
        served(address),
    ):
        pass
    for way in ("unix:PATH", "--tls-cert", "--access", "--insecure"):
        assert way in str(caught.value)
    assert str(caught.value).count("(") == 1


def test_tokens_over_plain_tcp_stay_on_this_machine(access) -> None:
    with (
        pytest.raises(FailedPrecondition, match="tokens would be read on their way"),
        served("0.0.0.0:0", access=access("read")),
    ):
        pass
    with pytest.raises(InvalidInput, match="a token would travel readable"), client("elsewhere:1", "token"):
        pass


def test_tls_without_a_certificate_is_refused(authority: Authority) -> None:
    with pytest.raises(FailedPrecondition, match="a certificate and its key"), served("tls:127.0.0.1:0", insecure=True):
        pass
    with (
        pytest.raises(FailedPrecondition, match="over TLS only"),
        served("127.0.0.1:0", tls_client_ca=authority.certificate),
    ):
        pass


def test_insecure_is_read_and_write_and_no_more() -> None:
    with served("127.0.0.1:0", insecure=True) as address:
        assert may(address) == parse_rights("read,write")
    with served("127.0.0.1:0", insecure=True, anonymous=parse_rights("read")) as address:
        assert may(address) == parse_rights("read")


@pytest.mark.parametrize("rights", ["read", "write", "grab", "admin", "read,write", "read,write,grab,admin"])
def test_a_token_has_the_rights_of_its_line(access, rights: str) -> None:
    file = access("read", "write", "grab", "admin", "read,write", "read,write,grab,admin")
    with served("127.0.0.1:0", access=file) as address:
        have = parse_rights(rights)
        if Right.READ not in have:
            have -= {Right.WRITE, Right.GRAB}  # what the client asks beside these takes read
        assert may(address, rights) >= have
        assert may(address, rights) <= parse_rights(rights)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer read read",
        "Bearer Bearer read",
        "Basic read",
        "read",
        "Bearer " + "x" * 4000,
    ],
)
def test_no_token_and_a_wrong_one_are_nobody(access, header: str | None) -> None:
    with served("127.0.0.1:0", access=access("read")) as address, grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/symd.v1.ServerService/GetServerInfo")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", metadata=None if header is None else (("authorization", header),), timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert call(b"", metadata=(("authorization", "bearer  read"),), timeout=20)


def test_a_client_that_is_nobody_hears_what_to_do(access) -> None:
    with served("127.0.0.1:0", access=access("read")) as address, client(address) as it:
        with pytest.raises(Unauthenticated, match="this daemon asks who you are") as caught:
            it.server_info()
        assert "show a bearer token, which the daemon's operator makes" in caught.value.hint
        assert caught.value.exit_code == 3


def test_a_client_has_its_token_from_the_environment(access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with served("127.0.0.1:0", access=access("read")) as address:
        monkeypatch.setenv("SYMD_TOKEN", "read")
        with Client(address, timeout=20) as it:
            assert it.server_info()
        monkeypatch.delenv("SYMD_TOKEN")
        (tmp_path / "token").write_text("read\n")
        monkeypatch.setenv("SYMD_TOKEN_FILE", str(tmp_path / "token"))
        with Client(address, timeout=20) as it:
            assert it.server_info()
        monkeypatch.setenv("SYMD_TOKEN_FILE", str(tmp_path / "nothing"))
        with pytest.raises(InvalidInput, match="cannot be read"):
            Client(address)
        (tmp_path / "nothing").write_text("\n")
        with pytest.raises(InvalidInput, match="the file of a token is empty"):
            Client(address)


def test_a_client_with_another_timeout_has_its_token_from_the_first_call_on(access) -> None:
    async def asked(address: str) -> None:
        async with AsyncClient(address, credentials=Credentials(token="read")) as it:  # noqa: S106 - a made one
            assert await it.with_timeout(20).server_info()

    with served("127.0.0.1:0", access=access("read")) as address:
        asyncio.run(asked(address))


def test_tokens_are_added_and_revoked_without_a_restart(access) -> None:
    with served("127.0.0.1:0", access=access("read")) as address, client(address, "read") as before:
        assert before.server_info()
        access("read", "write")
        assert may(address, "write") <= parse_rights("write")
        access("write")
        with pytest.raises(Unauthenticated, match="wrong, revoked or another daemon"):
            before.server_info()


def test_a_stream_ends_at_the_next_message_when_its_token_is_revoked(access) -> None:
    asked = s.SymbolizeStreamRequest(request=s.SymbolizeRequest(module=f"modules/{DIGEST}"))
    go_on = threading.Event()

    def questions():
        yield asked
        go_on.wait(20)
        yield asked

    with served("127.0.0.1:0", access=access("read", "write")) as address, grpc.insecure_channel(address) as channel:
        metadata = (("authorization", "Bearer read"),)
        answers = SymbolServiceStub(channel).SymbolizeStream(questions(), metadata=metadata, timeout=20)
        assert next(answers)
        access("write")
        go_on.set()
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_health_that_is_watched_ends_when_its_token_is_revoked(access) -> None:
    config = Config(store=Path("/nonexistent"), listen=ListenConfig(access=access("read", "write")))
    daemon = build_daemon(FakeEngine(), config)
    with (
        listening(daemon.server, "127.0.0.1:0", daemon.authenticator) as address,
        grpc.insecure_channel(address) as channel,
    ):
        daemon.server.start()
        metadata = (("authorization", "Bearer read"),)
        told = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), metadata=metadata, timeout=20)
        assert next(told).status == health_pb2.HealthCheckResponse.SERVING
        access("write")
        daemon.server.wait_for(_said(daemon.health, health_pb2.HealthCheckResponse.NOT_SERVING, None))
        with pytest.raises(grpc.RpcError) as caught:
            next(told)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        daemon.stop(0.2)


def test_a_token_that_has_expired_is_said_to_have(access) -> None:
    path = access()
    expired = token_line("ci", parse_rights("read"), "read", datetime(2001, 1, 1, tzinfo=UTC))
    path.write_text(f"{expired}\n")
    with (
        served("127.0.0.1:0", access=path) as address,
        client(address, "read") as it,
        pytest.raises(Unauthenticated, match="this token of ci expired at 2001-01-01T00:00:00Z") as caught,
    ):
        it.server_info()
    assert "ask the operator for another one" in caught.value.hint


def test_a_file_that_became_worse_changes_nothing(access, caplog: pytest.LogCaptureFixture) -> None:
    with served("127.0.0.1:0", access=access("read")) as address:
        path = access("read")
        for spoil in (
            lambda: path.write_text("nonsense\n"),
            lambda: path.chmod(0o644),
            path.unlink,
        ):
            spoil()
            assert may(address, "read") == parse_rights("read")
        assert "what was read before stays in force" in caplog.text
        access("write")
        with client(address, "read") as it, pytest.raises(Unauthenticated):
            it.server_info()


def test_a_bad_access_file_is_refused_at_the_start(access) -> None:
    path = access("read")
    path.chmod(0o644)
    with (
        pytest.raises(FailedPrecondition, match="other users may read or write it"),
        served("127.0.0.1:0", access=path),
    ):
        pass


def test_no_log_has_a_token(access, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = new_token()
    with served("127.0.0.1:0", access=access("read,write")) as address:
        with client(address, token) as it, pytest.raises(Unauthenticated) as caught:
            it.server_info()
        assert token not in str(caught.value)
        assert may(address, "read,write") == parse_rights("read,write")
    assert token not in caplog.text
    assert "Bearer" not in caplog.text


# TLS


def test_tls_alone_lets_strangers_read(tls, authority: Authority) -> None:
    with served("127.0.0.1:0", **tls) as address:
        assert address.startswith("tls:127.0.0.1:")
        assert may(address, ca=authority.certificate) == parse_rights("read")


def test_a_token_goes_over_tls_from_anywhere(tls, authority: Authority, access) -> None:
    with served("0.0.0.0:0", **tls, access=access("read,write")) as address:
        here = f"tls:127.0.0.1:{address.rpartition(':')[2]}"
        assert may(here, "read,write", ca=authority.certificate) == parse_rights("read,write")
        with client(here, ca=authority.certificate) as it, pytest.raises(Unauthenticated):
            it.server_info()


def refused(address: str, **credentials: object) -> ServerUnavailable:
    with client(address, **credentials) as it, pytest.raises(ServerUnavailable) as caught:
        it.server_info()
    return caught.value


def awaiting_refused(address: str, **credentials: object) -> ServerUnavailable:
    async def asked() -> None:
        async with AsyncClient(
            address, credentials=Credentials(**{name: str(value) for name, value in credentials.items()})
        ) as it:
            await it.server_info()

    with pytest.raises(ServerUnavailable) as caught:
        asyncio.run(asked())
    return caught.value


def test_a_plain_client_is_told_to_speak_tls(tls) -> None:
    with served("127.0.0.1:0", **tls) as address:
        plain = address.removeprefix("tls:")
        assert f"write {address} if it speaks TLS" in refused(plain).message
        assert str(refused(plain)).count("(") == 1


def test_a_client_that_speaks_tls_is_told_that_the_daemon_does_not(authority: Authority) -> None:
    with served("127.0.0.1:0", insecure=True) as address:
        assert "the daemon does not speak TLS there" in str(refused(f"tls:{address}", ca=authority.certificate))


def test_a_daemon_that_another_authority_signed_is_not_trusted(tls, tmp_path: Path) -> None:
    with served("127.0.0.1:0", **tls) as address:
        error = refused(address, ca=Authority(tmp_path, "other").certificate)
        assert "the daemon's certificate is not trusted" in str(error)
        assert "SYMD_TLS_CA" in error.hint


def test_a_daemon_whose_certificate_is_for_another_name_is_told_so(tls, authority: Authority) -> None:
    with served("0.0.0.0:0", **tls) as address:
        error = refused(f"tls:127.0.0.2:{address.rpartition(':')[2]}", ca=authority.certificate)
        assert error.message == "the daemon's certificate is for another name than 127.0.0.2"


def test_a_list_of_daemons_is_recognized_by_the_first_host(tls, authority: Authority) -> None:
    with served("0.0.0.0:0", **tls) as one, served("0.0.0.0:0", **tls) as other:
        ports = [address.rpartition(":")[2] for address in (one, other)]
        trusted = {"ca": authority.certificate}
        with client(f"tls:ipv4:127.0.0.1:{ports[0]},127.0.0.2:{ports[1]}", **trusted) as it:
            assert it.server_info().version
        error = refused(f"tls:ipv4:127.0.0.2:{ports[0]},127.0.0.1:{ports[1]}", **trusted)
        assert error.message == "the daemon's certificate is for another name than 127.0.0.2"


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("form", ["ipv4:127.0.0.1:{0},127.0.0.1:{1}", "dns:///127.0.0.1:{0}"])
def test_a_certificate_that_no_daemon_of_several_has_right_is_told(
    tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, awaited: bool
) -> None:
    be_impatient(monkeypatch)
    other = Authority(tmp_path, "other").certificate
    with served("0.0.0.0:0", **tls) as one, served("0.0.0.0:0", **tls) as two:
        several = "tls:" + form.format(*(address.rpartition(":")[2] for address in (one, two)))
        error = awaiting_refused(several, ca=other) if awaited else refused(several, ca=other)
    assert error.message.startswith("the daemon's certificate is not trusted: ")


def test_a_command_says_in_one_line_that_a_daemon_is_not_trusted(tls, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").certificate
    with served("127.0.0.1:0", **tls) as address:
        command = [
            sys.executable,
            "-c",
            "from symd.cli.command_line import main; main()",
            "health",
            "--server",
            address,
        ]
        environment = {**os.environ, "SYMD_TLS_CA": str(other)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"symd: [^\n]*: the daemon's certificate is not trusted: [^\n]*\n", done.stderr)


def test_a_file_of_credentials_that_is_not_there_is_told_with_its_variable(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SYMD_TLS_CA", "nope")
    with pytest.raises(InvalidInput, match=r"nope: it cannot be read: .*\$SYMD_TLS_CA"):
        Client("tls:127.0.0.1:9")
    monkeypatch.setenv("SYMD_TOKEN_FILE", "nope")
    with pytest.raises(InvalidInput, match=r"nope: it cannot be read: .*\$SYMD_TOKEN_FILE"):
        Client("tls:127.0.0.1:9")


def test_what_is_no_authority_is_told_before_anybody_is_asked(tls) -> None:
    with pytest.raises(InvalidInput, match=r"this is a private key and no certificate .*\$SYMD_TLS_CA"):
        Client("tls:localhost:1", credentials=Credentials(ca=str(tls["tls_key"])))
    with pytest.raises(InvalidInput, match=r"the file has no certificate in PEM .*\$SYMD_TLS_CA"):
        Client("tls:localhost:1", credentials=Credentials(ca=__file__))


def test_a_certificate_and_a_key_of_others_are_told_before_anybody_is_asked(tls, authority: Authority) -> None:
    other = authority.issue("other")[1]
    for certificate, key, said in (
        (tls["tls_certificate"], other, "not a certificate and its key"),
        (tls["tls_key"], tls["tls_key"], r"this is a private key and no certificate .*\$SYMD_TLS_CERT"),
        (tls["tls_certificate"], tls["tls_certificate"], r"this is a certificate and no private key .*\$SYMD_TLS_KEY"),
    ):
        with pytest.raises(InvalidInput, match=said):
            Client("tls:localhost:1", credentials=Credentials(certificate=str(certificate), key=str(key)))


def test_a_certificate_that_goes_while_it_is_read_is_told(tls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssl.SSLContext.load_cert_chain", missing)
    with pytest.raises(InvalidInput, match=r"not a certificate and its key: no such file"):
        Client(
            "tls:localhost:1", credentials=Credentials(certificate=str(tls["tls_certificate"]), key=str(tls["tls_key"]))
        )
    with pytest.raises(Unavailable, match=r"cannot be handed to OpenSSL: no such file"):
        build_authenticator(ListenConfig(**tls))


def missing(*_: object, **__: object) -> None:
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


@pytest.mark.parametrize("text", ["-----BEGIN\nCERTIFICATE", "sÿmd"])
def test_what_cannot_be_a_token_is_told_before_anybody_is_asked(text: str) -> None:
    for address in ("tls:localhost:1", "127.0.0.1:1"):
        with pytest.raises(InvalidInput, match=f"^{address}: this is not a token"):
            Client(address, credentials=Credentials(token=text))


def test_a_token_that_is_none_or_wrong_is_told_with_the_daemon_and_where_it_was_read(
    access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    with served("127.0.0.1:0", access=access("read")) as address:
        for variable, text, origin in (("FILE", str(file), str(file)), ("", "wrong", "$SYMD_TOKEN")):
            file.write_text("wrong")
            monkeypatch.setenv(f"SYMD_TOKEN_{variable}".rstrip("_"), text)
            with Client(address, timeout=20) as it, pytest.raises(Unauthenticated) as caught:
                it.server_info()
            assert str(caught.value).startswith(f"{address}, the token of {origin}: this token is wrong")
        monkeypatch.setenv("SYMD_TOKEN", "read")
        with Client(address, timeout=20) as it, pytest.raises(PermissionDenied) as missed:
            it.remove("0" * 64)
        assert str(missed.value).startswith(f"{address}, the token of $SYMD_TOKEN: read may not do that: it needs")
        assert missed.value.metadata["method"] == "symd.v1.ModuleService.DeleteModule"
        monkeypatch.delenv("SYMD_TOKEN")
        file.write_text("two\nlines")
        with pytest.raises(InvalidInput, match="this is not a token") as refused:
            Client(address)
        assert refused.value.where == f"{address}, the token of {file}"
        with client(address, "wrong") as it, pytest.raises(Unauthenticated) as caught:
            it.server_info()
        assert caught.value.where == address


def test_an_expired_daemon_is_not_trusted(authority: Authority) -> None:
    certificate, key = authority.issue("expired", days=-1)
    with served("127.0.0.1:0", tls_certificate=certificate, tls_key=key) as address:
        assert "certificate has expired" in str(refused(address, ca=authority.certificate))


def test_a_certificate_says_who_comes(tls, authority: Authority, access) -> None:
    mutual = {**tls, "tls_client_ca": authority.certificate}
    certificate, key = authority.issue("ci")
    mine = {"ca": authority.certificate, "certificate": certificate, "key": key}
    with served("127.0.0.1:0", **mutual) as address:
        assert may(address, **mine) == parse_rights("read")
    with served("127.0.0.1:0", **mutual, certificate_rights=parse_rights("read,write")) as address:
        assert may(address, **mine) == parse_rights("read,write")
    path = access("read")
    with served("127.0.0.1:0", **mutual, access=path) as address:
        with client(address, **mine) as it, pytest.raises(PermissionDenied, match="ci may not") as caught:
            it.server_info()
        assert "ci has no right" in caught.value.hint
        path.write_text("ci read,admin certificate\n")
        assert may(address, **mine) == parse_rights("read,admin")


def test_who_shows_no_certificate_an_expired_one_or_one_of_others_hears_what_it_may_be(
    tls, authority: Authority, tmp_path: Path
) -> None:
    old, old_key = authority.issue("old", days=-1)
    theirs, their_key = Authority(tmp_path, "other").issue("ci")
    with served("127.0.0.1:0", **tls, tls_client_ca=authority.certificate) as address:
        for shown in ({}, {"certificate": old, "key": old_key}, {"certificate": theirs, "key": their_key}):
            error = refused(address, ca=authority.certificate, **shown)
            assert error.message == "the daemon took no TLS connection from you"
            for named in ("$SYMD_TLS_CERT", "--tls-client-ca", "expired", "connections"):
                assert named in error.hint


def test_a_certificate_is_renewed_without_a_restart(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "crt", tmp_path / "key"

    def put(days: int) -> None:
        for source, target in zip(
            authority.issue("daemon", days=days, file="renewed"), (certificate, key), strict=True
        ):
            fresh = target.with_name("fresh")
            fresh.write_bytes(source.read_bytes())
            fresh.chmod(0o600)
            fresh.replace(target)

    put(-1)
    with served("127.0.0.1:0", tls_certificate=certificate, tls_key=key) as address:
        assert "certificate has expired" in str(refused(address, ca=authority.certificate))
        put(2)
        assert may(address, ca=authority.certificate) == parse_rights("read")
        key.write_bytes(authority.issue("another")[1].read_bytes())
        assert may(address, ca=authority.certificate) == parse_rights("read")
        assert "not a certificate and its key" in caplog.text
        assert "stays in force" in caplog.text


def test_a_key_that_is_not_the_certificates_is_refused_at_the_start(tls, authority: Authority) -> None:
    other = authority.issue("other")[1]
    for key, said in (
        (other, "not a certificate and its key"),
        (tls["tls_certificate"], "--tls-key: this is a certificate and no private key"),
    ):
        key.chmod(0o600)
        with (
            pytest.raises(FailedPrecondition, match=said),
            served("127.0.0.1:0", tls_certificate=tls["tls_certificate"], tls_key=key),
        ):
            pass


def test_a_certificate_and_a_key_in_each_others_place_are_told_so(tls) -> None:
    tls["tls_certificate"].chmod(0o644)
    with (
        pytest.raises(FailedPrecondition, match="this is a private key and no certificate"),
        served("127.0.0.1:0", tls_certificate=tls["tls_key"], tls_key=tls["tls_certificate"]),
    ):
        pass


def test_a_key_that_others_may_read_is_refused(tls) -> None:
    tls["tls_key"].chmod(0o644)
    with pytest.raises(FailedPrecondition, match="other users may read or write it"), served("127.0.0.1:0", **tls):
        pass


# Health and reflection


def health(address: str, *metadata: tuple[str, str]) -> int:
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(health_pb2.HealthCheckRequest(), metadata=metadata, timeout=20).status


def test_health_stands_behind_the_same_doors_unless_it_is_opened(access) -> None:
    with served("127.0.0.1:0", access=access("read", "write")) as address:
        assert health(address, ("authorization", "bearer read")) == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health(address)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as caught:
            health(address, ("authorization", "Bearer write"))
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    with served("127.0.0.1:0", access=access("read"), open_health=True) as address:
        assert health(address) == health_pb2.HealthCheckResponse.SERVING
        with client(address) as it, pytest.raises(Unauthenticated):
            it.server_info()


def test_health_is_asked_from_a_shell_with_a_token_over_tls(
    tls, authority: Authority, access, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served("127.0.0.1:0", **tls, access=access("read", "write")) as address:
        monkeypatch.setenv("SYMD_TLS_CA", str(authority.certificate))
        ask = ["health", "--server", address.replace("127.0.0.1", "localhost")]
        outcomes = {}
        for token in ("read", "write", "wrong", ""):
            monkeypatch.setenv("SYMD_TOKEN", token)
            outcomes[token] = command_line.invoke(ask), *capsys.readouterr()
    assert outcomes["read"] == (0, "SERVING\n", "")
    assert [code for code, _, _ in outcomes.values()] == [0, 1, 1, 1]
    assert "it needs the right 'read'" in outcomes["write"][2]
    assert "wrong, revoked or another daemon" in outcomes["wrong"][2]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_stands_behind_the_same_doors(access, version: str) -> None:
    with served("127.0.0.1:0", access=access("read")) as address, grpc.insecure_channel(address) as channel:
        ask = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
        with pytest.raises(grpc.RpcError) as caught:
            list(ask(iter([b"\x3a\x00"]), timeout=20))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert b"symd.v1.SymbolService" in next(
            iter(ask(iter([b"\x3a\x00"]), metadata=(("authorization", "Bearer read"),), timeout=20))
        )


# What is told


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "symd.audit"]


def test_each_write_is_told_with_who_what_which_and_what_came_of_it(access, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "symd.audit")
    data = b"FAKE more"
    digest = hashlib.sha256(data).hexdigest()
    with served("127.0.0.1:0", access=access("read,write,grab", "read")) as address:
        with client(address, "read,write,grab") as it:
            it.add(data)
            it.relabel(digest, "\n who=root")
            it.grab(GrabRequest("opencl", "source", b"good"))
            with pytest.raises(PermissionDenied):
                it.remove(digest)
            with pytest.raises(UnknownFormat):
                it.add(b"nothing that is read")
            it.server_info()
        with client(address, "read") as it, pytest.raises(PermissionDenied):
            it.relabel(digest, "label")
    heads = [
        line.partition(" seconds=")[0].split(" from=")[0] + " " + line.partition(" what=")[2] for line in lines(caplog)
    ]
    expected = [
        f'who=read-write-grab UploadModule which="modules/{digest}" outcome=OK',
        f'who=read-write-grab UpdateModule which="modules/{digest}" outcome=OK',
        f'who=read-write-grab GrabModule which="modules/{DIGEST}" outcome=OK',
        'who=read-write-grab DeleteModule which="" outcome=PERMISSION_DENIED',
        f'who=read-write-grab UploadModule which="modules/{hashlib.sha256(b"nothing that is read").hexdigest()}" outcome=UNKNOWN_FORMAT',
        'who=read UpdateModule which="" outcome=PERMISSION_DENIED',
    ]
    assert [head.partition(" seconds=")[0] for head in heads] == expected
    assert all(' from="ipv4:127.0.0.1:' in line for line in lines(caplog))


def test_what_a_client_writes_stays_in_its_line(sock: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "symd.audit")
    with served(sock) as address, grpc.insecure_channel(address) as channel:
        stub = ModuleServiceStub(channel)
        for name in ("modules/\n who=root", "x" * 100_000, "\u2028\x1b[2J"):
            with pytest.raises(grpc.RpcError):
                stub.DeleteModule(DeleteModuleRequest(module=name), timeout=20)
    told = lines(caplog)
    assert len(told) == 3
    assert all(line.isascii() and line.isprintable() and len(line) < 500 for line in told)
    assert all(line.startswith("who=owner from=") and " outcome=BAD_QUERY" in line for line in told)
    assert dict(parsed_line(told[0]))["which"] == "modules/\n who=root"


def deleted(address: str, *metadata: tuple[str, str]) -> None:
    request = DeleteModuleRequest(module=f"modules/{DIGEST}")
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
        ModuleServiceStub(channel).DeleteModule(request, metadata=metadata, timeout=20)


def test_a_refused_write_is_told_whoever_made_it(access, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "symd.audit")
    with served("127.0.0.1:0", access=access("read")) as address:
        deleted(address)
        deleted(address, ("authorization", "Bearer nobody's"))
        deleted(address, ("authorization", "Bearer read"))
        assert eventually_many(caplog, 3)
    told = [dict(parsed_line(line)) for line in lines(caplog)]
    assert [(each["who"], each["what"], each["outcome"]) for each in told] == [
        ("", "DeleteModule", "UNAUTHENTICATED"),
        ("", "DeleteModule", "UNAUTHENTICATED"),
        ("read", "DeleteModule", "PERMISSION_DENIED"),
    ]
    assert all(each["from"].startswith("ipv4:127.0.0.1:") and each["which"] == "" for each in told)


def eventually_many(caplog: pytest.LogCaptureFixture, count: int) -> bool:
    until = time.monotonic() + 20
    while len(lines(caplog)) < count and time.monotonic() < until:
        time.sleep(0.01)
    return len(lines(caplog)) == count


FIELD = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[\w.-]+)(?: |$)', re.ASCII)
"""A field of a line of the audit log, as docs/operations.md says it."""


def parsed_line(line: str) -> list[tuple[str, str]]:
    fields = FIELD.findall(line)
    assert FIELD.sub("", line) == ""
    return [(name, json.loads(value) if value.startswith('"') else value) for name, value in fields]


def test_drivers_that_cannot_be_confined_are_the_owners_unless_it_is_said(
    sock: str, access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "available", lambda: False)
    request = GrabRequest("opencl", "source", b"good")
    with served("127.0.0.1:0", access=access("read,grab")) as address, client(address, "read,grab") as it:
        with pytest.raises(FailedPrecondition, match="cannot confine drivers") as caught:
            it.grab(request)
        assert "grab-unconfined" in caught.value.hint
    with served("127.0.0.1:0", access=access("read,grab"), grab_unconfined=True) as address:
        assert may(address, "read,grab") == parse_rights("read,grab")
    with served(sock) as address:
        assert may(address) == ALL_RIGHTS


def test_sighup_reads_the_files_again_and_does_not_end_the_daemon(access, tmp_path: Path) -> None:
    path = access("read")
    command = [
        sys.executable,
        "-m",
        "symd",
        "serve",
        "--address",
        "127.0.0.1:0",
        "--store",
        str(tmp_path / "store"),
        "-v",
    ]
    with subprocess.Popen(
        [*command, "--access", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        address = process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGHUP)
        for line in process.stderr:
            if f"read {path} again" in line:
                break
        with client(address, "read") as it:
            assert it.server_info()
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it has no line"),
        ("# nobody yet\n", "it has no line"),
        ("ci read certificate expires=2001-01-01\n", "every line of it has expired"),
        ("ci read certificate\n", ""),
    ],
)
def test_an_access_file_by_which_nobody_comes_in_is_told(
    tmp_path: Path, text: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "access"
    path.write_text(text)
    path.chmod(0o600)
    build_authenticator(ListenConfig(access=path))
    assert [each.getMessage() for each in caplog.records] == (
        [f"by the access file {path} no client gets in: {told}; symd token NAME --access {path} adds one"]
        if told
        else []
    )
