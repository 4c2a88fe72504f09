"""The documentation builds as a site without a warning, asks no other host, and says of the API what the protos say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONG = 120


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


class Wanted(HTMLParser):
    """What a page makes a browser ask for, and paragraphs in which a list or a table was lost."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()
        self.lost: list[str] = []
        self._paragraph: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "p":
            self._paragraph = []
        if tag in ("script", "img", "iframe"):
            self.asked.add(named.get("src") or "")
        if tag == "link" and named.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.asked.add(named.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" and self._paragraph is not None:
            text = "".join(self._paragraph)
            if re.search(r"^ *([*-] |\d+\. |\|)", text, re.MULTILINE):
                self.lost.append(text)
            self._paragraph = None

    def handle_data(self, data: str) -> None:
        if self._paragraph is not None:
            self._paragraph.append(data)


def test_every_page_is_whole_and_asks_no_other_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        wanted = Wanted()
        wanted.feed(page.read_text())
        assert not [name for name in wanted.asked if re.match(r"(https?:)?//", name)], page
        assert not wanted.lost, page


def test_the_pages_of_the_api_are_those_of_the_protos(tmp_path: Path) -> None:
    command = [sys.executable, "tools/api_pages.py", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, timeout=LONG)
    made = {page.name: page.read_text() for page in tmp_path.iterdir()}
    there = {page.name: page.read_text() for page in (ROOT / "docs" / "api").iterdir() if page.name != "parity.md"}
    assert made == there, "the protos have changed: make docs"


def test_every_call_of_the_api_has_its_place(site: Path) -> None:
    protos = "".join(path.read_text() for path in sorted((ROOT / "protos" / "symd" / "v1").glob("*.proto")))
    calls = re.findall(r"^  rpc (\w+)", protos, re.MULTILINE)
    assert len(calls) > 20
    index = (site / "api" / "index.html").read_text()
    assert not [call for call in calls if f">{call}</a>" not in index]
