"""The page of a daemon: every module that it has, behind the address that it prints."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from symd.client import Client
from tests.server.http.browser import chromium, opened
from tests.tools import require

ROOT = Path(__file__).parents[3]
MODULES = ("amdgpu/bin/v5-gfx90a.co", "amdgpu/bin/v4-gfx900.co")
LONG = 120


@pytest.fixture
def daemon(tmp_path):
    """(address of gRPC, of the page)."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-m", "symd", "serve", "--address", f"unix:{folder}/s", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--store", str(tmp_path / "store")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        lines = [process.stdout.readline().split()[-1] for _ in range(2)]
        yield lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_daemon_shows_what_it_has(daemon):
    require("llvm-objdump")
    grpc, url = daemon
    with Client(grpc) as client:
        digests = [client.add((ROOT / "samples" / name).read_bytes(), name).sha256 for name in MODULES]
    with chromium() as browser, opened(browser) as it:
        page = it.go(url)
        things = page.locator("#side ul").first.locator(".thing span")
        assert sorted(things.all_inner_texts()) == sorted(name.rpartition("/")[2] for name in MODULES)
        page.locator("#side .thing", has_text="v4-gfx900.co").click()
        page.locator("#crumbs span", has_text="v4-gfx900.co").wait_for()
        page.wait_for_function("(digest) => location.hash.includes(`module=${digest}`)", arg=digests[1][:12])
        page.locator("#code .row.code:not([hidden])").first.click()
        page.locator(".frames .frame").first.wait_for()
        page.keyboard.press("]")
        page.locator("#details").wait_for(state="hidden")


def test_modules_of_one_file_name_are_told_apart(daemon):
    """By their folders; where the whole names are the same too, by their digests."""
    require("llvm-objdump")
    grpc, url = daemon
    first, second = ((ROOT / "samples" / name).read_bytes() for name in MODULES)
    with Client(grpc) as client:
        for data, label in (
            (first, "/one/k.co"),
            (second, "/two/k.co"),
            (first + bytes(8), "same"),
            (second + bytes(8), "same"),
        ):
            client.add(data, label)
        digests = {each.sha256 for each in client.modules() if each.label == "same"}
    with chromium() as browser, opened(browser) as it:
        things = it.go(url).locator("#side ul").first.locator(".thing")
        shown = {
            (each.locator("span").inner_text(), each.locator("small").inner_text().split(" · ")[-1])
            for each in things.all()
        }
    assert len(digests) == 2
    assert shown == {("k.co", "/one/"), ("k.co", "/two/"), *(("same", digest[:12]) for digest in digests)}


def test_the_bare_port_says_where_the_address_is(daemon):
    bare = "{0.scheme}://{0.netloc}/".format(urlsplit(daemon[1]))
    with chromium() as browser:
        page = browser.new_page()
        assert page.goto(bare).status == 401
        assert "use the address that symd serve printed" in page.locator("p").inner_text()
        page.close()


def test_a_daemon_without_modules_says_so(daemon):
    with chromium() as browser, opened(browser) as it:
        page = it.go(daemon[1])
        assert "symd info --server ADDRESS FILE" in page.locator("#state").inner_text()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        page.keyboard.press("j")
        page.keyboard.press("h")
