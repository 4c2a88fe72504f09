"""Pages of other origins: a running daemon answers as each row of the table in docs/security.md says."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.server.http.daemon import ROOT, Web, web_daemon

JOB = {"memoryMap": [], "stacks": [[]]}
ROW = re.compile(r"\| ([^|]+) \| `([A-Z]+) (/\S*)` \|([^|]*)\| ([0-9]{3}) \| (yes|no) \|")
TABLE = (ROOT / "docs" / "security.md").read_text().partition("## Pages of other origins\n")[2].partition("\n## ")[0]
ROWS = [hit.groups() for hit in map(ROW.fullmatch, TABLE.splitlines()) if hit]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web_daemon(tmp_path_factory.mktemp("web")) as started:
        yield started


def answered(daemon: Web, method: str, path: str, told: str) -> tuple[int, str | None]:
    """The status, and the origin whose pages may read the answer."""
    here = urlsplit(daemon.url).netloc
    headers = dict(each.replace("HERE", here).split(": ", 1) for each in re.findall(r"`([^`]+)`", told))
    status, answer, _ = daemon.ask(path, JOB if method == "POST" else None, headers, method)
    return status, answer["access-control-allow-origin"]


@pytest.mark.parametrize(("what", "method", "path", "told", "status", "readable"), ROWS)
def test_each_row_is_what_happens(
    daemon: Web, what: str, method: str, path: str, told: str, status: str, readable: str
) -> None:
    origin = re.search(r"`Origin: ([^`]+)`", told)
    allowed = origin[1] if origin and readable == "yes" else None
    assert answered(daemon, method, path, told) == (int(status), allowed), what


def test_every_row_is_read_and_every_kind_is_there() -> None:
    assert len(ROWS) == sum(line.startswith("| ") for line in TABLE.splitlines()) - 1
    assert {row[1] for row in ROWS} == {"GET", "HEAD", "POST", "OPTIONS"}
    assert {row[4] for row in ROWS} == {"200", "204", "403", "405"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[1]} {row[4]}")
def test_without_the_secret_part_nothing_is_told(daemon: Web, row: tuple[str, ...]) -> None:
    stranger = Web(re.sub(r"/[^/]+/$", f"/{'x' * 32}/", daemon.url), daemon.address)
    _, method, path, told, *_ = row
    if method == "OPTIONS":
        assert answered(stranger, method, path, told) == (404, None)
    else:
        assert answered(stranger, method, path, told) == (401, None)


def test_a_password_that_the_browser_keeps_is_not_lent_to_a_page(tmp_path: Path) -> None:
    """With an access file the address has no secret part: the page's origin alone tells such a request from the user's own."""
    access = tmp_path / "access"
    command = [sys.executable, "-m", "symd", "token", "me", "--rights", "read", "--access", str(access)]
    token = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    kept = {"authorization": "Basic " + base64.b64encode(f"me:{token}".encode()).decode()}
    with web_daemon(tmp_path, "--access", str(access)) as daemon:
        assert daemon.ask("api/modules", headers=kept)[0] == 200
        for told in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}):
            assert daemon.ask("api/modules", headers={**kept, **told})[0] == 403
            assert daemon.ask("symbolicate/v5", JOB, {**kept, **told})[0] == 403
