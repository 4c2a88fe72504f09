"""S3 slow, failing, cut off, gone, or another's: bounded waits, named errors, and everything as before once it is back."""

from __future__ import annotations

import http.server
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import InvalidInput, StoreUnavailable
from symd.store.shared.object_storage import open_storage
from symd.store.shared.s3_storage import S3Storage
from tests.object_server import BUCKET, KEY, WHOLE, Asked, ExitStatus, Proxy, environment, s3_server
from tests.tools import require

SECONDS = 3.0
"""``storage_seconds`` of these tests."""
SLACK = 5.0
"""What a busy machine may add."""
Call = Callable[[S3Storage, Path], object]
CALLS: dict[str, Call] = {
    "put": lambda storage, path: storage.put("name", path),
    "fetch": lambda storage, path: storage.fetch("there", path, WHOLE),
    "size": lambda storage, path: storage.size("there"),
    "remove": lambda storage, path: storage.remove("name"),
    "names": lambda storage, path: list(storage.names("")),
}


@pytest.fixture(name="path")
def _path(tmp_path: Path, s3: S3Storage) -> Path:
    """A small file, which has the name ``there``."""
    path = tmp_path / "file"
    path.write_bytes(b"what is in it")
    s3.put("there", path)
    return path


@contextmanager
def within(seconds: float) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds


def every(number: int, ending: ExitStatus) -> Callable[[Asked], ExitStatus]:
    return lambda asked: ending if asked.number % number == 0 else ExitStatus.PASS


def first(count: int, ending: ExitStatus) -> Callable[[Asked], ExitStatus]:
    """The next ``count`` requests end so."""
    left = [count]

    def plan(asked: Asked) -> ExitStatus:
        left[0] -= 1
        return ending if left[0] >= 0 else ExitStatus.PASS

    return plan


@pytest.mark.parametrize("name", CALLS)
def test_a_server_that_is_gone_is_told_in_time_and_serves_again_when_it_is_back(
    proxy: Proxy, s3: S3Storage, impatient: S3Storage, path: Path, name: str
):
    with proxy.gone(), within(SECONDS + SLACK), pytest.raises(StoreUnavailable, match="cannot be reached") as raised:
        CALLS[name](impatient, path)
    assert "AWS_ENDPOINT_URL" in raised.value.hint
    assert raised.value.metadata["storage"].startswith("s3://bucket/")
    CALLS[name](s3, path)


@pytest.mark.parametrize("name", CALLS)
def test_a_server_that_says_nothing_is_told_in_time(
    proxy: Proxy, s3: S3Storage, impatient: S3Storage, path: Path, name: str
):
    proxy.plan = lambda asked: ExitStatus.STALL
    with within(SECONDS + SLACK), pytest.raises(StoreUnavailable, match="said nothing for"):
        CALLS[name](impatient, path)
    proxy.plan = lambda asked: ExitStatus.PASS
    CALLS[name](s3, path)


@pytest.mark.parametrize("ending", [ExitStatus.REFUSE, ExitStatus.CUT])
@pytest.mark.parametrize("name", CALLS)
def test_two_failures_in_a_row_are_not_noticed(proxy: Proxy, s3: S3Storage, path: Path, name: str, ending: ExitStatus):
    proxy.plan = first(2, ending)
    CALLS[name](s3, path)


@pytest.mark.parametrize("name", CALLS)
def test_one_silence_is_not_noticed(proxy: Proxy, s3: S3Storage, path: Path, name: str):
    """A connection may die without a word: the request goes over another one."""
    proxy.plan = first(1, ExitStatus.STALL)
    with within(9.0):
        CALLS[name](s3, path)


def test_one_file_that_stands_still_is_begun_anew(proxy: Proxy, s3: S3Storage, sample: Path, tmp_path: Path):
    s3.put("large", sample)
    proxy.plan = first(1, ExitStatus.STALL_BODY)
    assert s3.fetch("large", tmp_path / "large", WHOLE)
    assert (tmp_path / "large").read_bytes() == sample.read_bytes()


@pytest.mark.parametrize("name", CALLS)
def test_a_server_that_refuses_all_is_told_in_time(
    proxy: Proxy, s3: S3Storage, impatient: S3Storage, path: Path, name: str
):
    proxy.plan = lambda asked: ExitStatus.REFUSE
    with within(SECONDS + SLACK), pytest.raises(StoreUnavailable, match="503 Service Unavailable") as raised:
        CALLS[name](impatient, path)
    assert raised.value.retry_seconds


@pytest.mark.parametrize("ending", [ExitStatus.REFUSE, ExitStatus.CUT, ExitStatus.CUT_BODY])
def test_one_failure_in_ten_calls_is_not_noticed(
    proxy: Proxy, s3: S3Storage, path: Path, sample: Path, tmp_path: Path, ending: ExitStatus
):
    """Ten times the one per cent that a bad day has."""
    proxy.plan = every(10, ending)
    for number in range(20):
        s3.put(f"some/{number:02}", path)
        assert s3.size(f"some/{number:02}") == path.stat().st_size
    for number in range(2):
        s3.put(f"large/{number}", sample)
        assert s3.fetch(f"large/{number}", tmp_path / "large", WHOLE)
        assert (tmp_path / "large").read_bytes() == sample.read_bytes()
    for number in range(20):
        assert s3.fetch(f"some/{number:02}", tmp_path / "small", WHOLE)
        assert (tmp_path / "small").read_bytes() == path.read_bytes()
        assert not s3.fetch(f"none/{number:02}", tmp_path / "none", WHOLE)
    assert [name for name, _ in s3.names("some/")] == [f"some/{number:02}" for number in range(20)]
    troubled = [asked for asked in proxy.asked if proxy.plan(asked) is ending]
    assert len(troubled) >= 8


def test_a_file_that_is_cut_off_each_time_is_told(
    proxy: Proxy, s3: S3Storage, impatient: S3Storage, sample: Path, tmp_path: Path
):
    s3.put("large", sample)
    proxy.plan = lambda asked: ExitStatus.CUT_BODY
    with within(SECONDS + 12 + SLACK), pytest.raises(StoreUnavailable):
        impatient.fetch("large", tmp_path / "large", WHOLE)


def test_a_file_that_stands_still_is_told(
    proxy: Proxy, s3: S3Storage, impatient: S3Storage, sample: Path, tmp_path: Path
):
    s3.put("large", sample)
    proxy.plan = lambda asked: ExitStatus.STALL_BODY
    with within(SECONDS + 12 + SLACK), pytest.raises(StoreUnavailable):
        impatient.fetch("large", tmp_path / "large", WHOLE)


def test_a_file_that_drips_is_given_up_when_its_time_is_over(proxy: Proxy, tmp_path: Path):
    """Three bytes each 20 ms: it never stands still for a second, and would take 20 s."""
    s3 = S3Storage(BUCKET, "dripping", Limits(storage_seconds=6.0))
    path = tmp_path / "dripping"
    path.write_bytes(bytes(3000))
    s3.put("dripping", path)
    proxy.plan = lambda asked: ExitStatus.DRIP
    with within(6 + SLACK), pytest.raises(StoreUnavailable, match="did not send 3000 bytes within 6") as raised:
        s3.fetch("dripping", path, WHOLE)
    assert "storage_seconds" in raised.value.hint


def test_a_slow_server_is_waited_for(proxy: Proxy, s3: S3Storage, path: Path):
    proxy.delay = 0.5
    for name, call in CALLS.items():
        with within(9.0):
            call(s3, path)
        assert proxy.methods(), name


def test_a_missing_bucket_is_named(proxy: Proxy, path: Path, tmp_path: Path):
    storage = S3Storage("no-such-bucket", "", Limits(storage_seconds=SECONDS))
    for call in CALLS.values():
        with within(SLACK), pytest.raises(StoreUnavailable, match="NoSuchBucket") as raised:
            call(storage, path)
        assert raised.value.metadata["code"] == "NoSuchBucket"
        assert "make the bucket" in raised.value.hint
    with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
        open_storage("s3://no-such-bucket/prefix", Limits(), make=True)


@pytest.mark.parametrize(
    ("key", "secret", "code"), [(KEY, "wrong", "SignatureDoesNotMatch"), ("wrong", "wrong", "InvalidAccessKeyId")]
)
def test_wrong_credentials_are_named_and_never_repeated(
    proxy: Proxy, path: Path, monkeypatch: pytest.MonkeyPatch, key: str, secret: str, code: str
):
    for name, value in environment(proxy.url, key, secret).items():
        monkeypatch.setenv(name, value)
    storage = S3Storage(BUCKET, "prefix", Limits(storage_seconds=SECONDS))
    for name, call in CALLS.items():
        with within(SLACK), pytest.raises(StoreUnavailable) as raised:
            call(storage, path)
        assert code in str(raised.value) or name == "size", "HEAD has no words"
        assert raised.value.metadata["http_status"] == "403"
        assert "AWS_SECRET_ACCESS_KEY" in raised.value.hint
        assert "wrong" not in str(raised.value)


def test_missing_credentials_are_named(proxy: Proxy, path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")  # where a machine of Amazon's would be asked
    storage = S3Storage(BUCKET, "prefix", Limits(storage_seconds=SECONDS))
    with within(SECONDS + SLACK), pytest.raises(StoreUnavailable, match="no credentials") as raised:
        storage.size("there")
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint


def test_what_another_server_says_is_not_taken_for_s3(
    proxy: Proxy, s3_url: str, path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A web server's 404 does not mean that a module is not there."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    storage = S3Storage(BUCKET, "prefix", Limits(storage_seconds=SECONDS))
    for call in CALLS.values():
        with within(SECONDS + SLACK), pytest.raises(StoreUnavailable):
            call(storage, path)
    server.shutdown()
    server.server_close()


def test_a_server_with_a_certificate_of_its_own_is_believed_where_the_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = [require("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    made += [
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run(made, check=True, capture_output=True)
    (tmp_path / "file").write_bytes(b"secret")
    with s3_server(tmp_path / "data", "--cert", str(certificate), "--key", str(key)) as url:
        assert url.startswith("https://")
        for name, value in environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
        with pytest.raises(StoreUnavailable, match="certificate is not trusted"):
            S3Storage(BUCKET, "", Limits(storage_seconds=SECONDS)).put("name", tmp_path / "file")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        storage = S3Storage(BUCKET, "", Limits(storage_seconds=SECONDS))
        storage.put("name", tmp_path / "file")
        assert storage.fetch("name", tmp_path / "fetched", WHOLE)
    assert (tmp_path / "fetched").read_bytes() == b"secret"


def test_calls_are_as_few_as_they_can_be(proxy: Proxy, s3: S3Storage, path: Path, sample: Path):
    """docs/scaling.md counts money by these."""
    proxy.methods()
    s3.put("small", path)
    assert proxy.methods() == ["PUT"]
    s3.fetch("small", path, WHOLE)
    assert proxy.methods() == ["GET"]
    s3.fetch("none", path, WHOLE)
    assert proxy.methods() == ["GET"]
    s3.size("small")
    assert proxy.methods() == ["HEAD"]
    s3.remove("small")
    assert proxy.methods() == ["DELETE"]
    s3.put("large", sample)
    assert sorted(proxy.methods()) == ["POST", "POST", "PUT", "PUT", "PUT"], "begun, three parts, ended"
    s3.fetch("large", path, WHOLE)
    assert proxy.methods() == ["GET"]
    list(s3.names(""))
    assert proxy.methods() == ["GET"]


def test_a_file_of_authorities_that_is_not_there_is_told_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", f"{tmp_path}/none")
    with pytest.raises(InvalidInput, match=r"none: it cannot be read: no such file or directory \(\$AWS_CA_BUNDLE"):
        S3Storage(BUCKET, "", Limits(storage_seconds=SECONDS))
