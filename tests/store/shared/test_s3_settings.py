"""Settings with which no S3 server can be asked: each is named before one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import InvalidInput
from symd.store.shared.object_storage import open_storage
from tests.object_server import BUCKET, Proxy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("AWS_ENDPOINT_URL", value)
            for value in ("localhost:9000", "127.0.0.1:9000", "http://", "https://a b", "ftp://a")
        ),
        *(("AWS_ENDPOINT_URL", value) for value in ("http://[::1", "http://127.0.0.1:99999", "http://a:b")),
        ("AWS_ENDPOINT_URL_S3", "localhost"),
        ("AWS_ENDPOINT", "localhost"),
        ("AWS_REGION", "eu west"),
        ("AWS_ACCESS_KEY_ID", "secret\n"),
        ("AWS_SECRET_ACCESS_KEY", "sec ret"),
        ("AWS_SESSION_TOKEN", "secret\r"),
    ],
)
def test_a_variable_that_cannot_be_right_is_named(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput) as caught:
        open_storage(f"s3://{BUCKET}/settings", Limits(), make=False)
    assert caught.value.where == name
    assert caught.value.hint
    assert "secret" not in str(caught.value)
    assert proxy.methods() == []


@pytest.mark.parametrize("url", ["s3://a bucket/prefix", f"s3://{BUCKET}/a//b", f"s3://{BUCKET}/../b"])
def test_a_bucket_or_a_prefix_that_cannot_be_is_named(proxy: Proxy, url: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not the name of a bucket|is not a prefix"):
        open_storage(url, Limits(), make=False)
    assert proxy.methods() == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_of_authorities_that_is_none_is_named(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "authorities.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    with pytest.raises(InvalidInput) as caught:
        open_storage(f"s3://{BUCKET}/settings", Limits(), make=False)
    assert caught.value.where == str(path)
    assert "AWS_CA_BUNDLE" in caught.value.hint


def test_what_obstore_refuses_is_said_with_its_words(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "perhaps")
    with pytest.raises(InvalidInput, match=r'obstore refuses the settings: .*"perhaps"') as caught:
        open_storage(f"s3://{BUCKET}/settings", Limits(), make=False)
    assert "AWS_*" in caught.value.hint


def test_settings_as_they_are_meant_are_taken(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{proxy.url}/")
    for prefix in ("", "/", "/settings", "/settings/of-a.test/", "/with%20blank"):
        open_storage(f"s3://{BUCKET}{prefix}", Limits(), make=False)
