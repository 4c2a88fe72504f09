"""A real browser without a window: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.tools import find

LAPTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 800}
SLOW = 60_000
"""Milliseconds that a step may take on a busy machine."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser while it lasts; without one the test is skipped."""
    program = find("chromium")
    if program is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    flags = ["--disable-dev-shm-usage", "--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags, timeout=SLOW)
        try:
            yield browser
        finally:
            browser.close()


class Opened:
    """A page that is open, what it complained of, and which hosts it asked."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.set_default_timeout(SLOW)
        page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def go(self, url: str) -> Page:
        self.page.goto(url)
        self.page.wait_for_selector("body.ready")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until the page has drawn what it was told."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@contextmanager
def opened(browser: Browser, **how: Any) -> Iterator[Opened]:
    """A page of its own; it must not complain."""
    context = browser.new_context(**{"viewport": LAPTOP, **how})
    try:
        page = Opened(context.new_page())
        yield page
        assert not page.complaints, page.complaints
    finally:
        context.close()
