"""The audit of dependencies: what it reads of the lock, and what it makes of an advisory service's answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tools import audit

ADVISORY = {"id": "PYSEC-1", "link": "https://osv.dev/PYSEC-1", "fixed_in": ["2.0"], "withdrawn": None}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[dict[str, object]]]]:
    """Advisories by "name/version" that a service on this machine has; everything else has none."""
    known: dict[str, list[dict[str, object]]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = "/".join(self.path.split("/")[2:4])
            self.send_response(404 if name == "missing/1" else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"vulnerabilities": known.get(name, [])}).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("SYMD_ADVISORIES", f"http://127.0.0.1:{server.server_port}")
    yield known
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_lock_pins_everything_by_digest() -> None:
    pinned = audit.read_lock(audit.LOCK.read_text())
    assert len(pinned) > 20
    assert "grpcio" in {each.name for each in pinned}


@pytest.mark.parametrize(
    "text", ["numpy>=2\n", "numpy==2.0\n", "numpy==2.0 --hash=md5:00\n", "numpy @ https://a/b.whl\n"]
)
def test_a_lock_that_does_not_is_refused(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text(text)
    monkeypatch.setattr(audit, "LOCK", tmp_path / "requirements.lock")
    with pytest.raises(ValueError, match="not pinned"):
        audit.read_lock(text)
    assert audit.main([]) == 1


def test_no_advisory_is_no_news(
    service: dict[str, list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(["--strict"]) == 0
    assert "no advisory is known for any" in capsys.readouterr().out


def test_an_advisory_fails_with_its_name(
    service: dict[str, list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    pinned = audit.read_lock(audit.LOCK.read_text())
    numpy = next(each for each in pinned if each.name == "numpy")
    service[f"numpy/{numpy.version}"] = [ADVISORY, {**ADVISORY, "id": "PYSEC-2", "withdrawn": "2026-01-01"}]
    assert audit.main([]) == 1
    said = capsys.readouterr().err
    assert f"numpy {numpy.version}: PYSEC-1 (https://osv.dev/PYSEC-1), mended in 2.0" in said
    assert "PYSEC-2" not in said


def test_a_service_that_does_not_answer_is_said(
    service: dict[str, list[dict[str, object]]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "read_lock", lambda _: [audit.Pinned("missing", "1", 1)])
    assert audit.main([]) == 0
    assert "advisories were not asked for" in capsys.readouterr().out
    assert audit.main(["--strict"]) == 1


def test_another_version_than_the_locks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert audit.unlike(audit.read_lock(audit.LOCK.read_text())) == []
    assert audit.unlike([audit.Pinned("numpy", "0.1", 1)])[0].endswith("the lock has 0.1: make venv")
    assert audit.unlike([audit.Pinned("nobody-has-this", "1", 1)]) == []
