"""Scrolling through a kernel of 50,000 instructions in a real browser: python -m tests.server.http.scrolling. Prints how long it took until the page was ready, the
longest task that kept it from answering while it scrolled (PerformanceObserver, "longtask": from 50 ms on, by the clock), and the processor time of the page's
thread for each frame, which other programs of the machine do not change much."""

from __future__ import annotations

import os
import sys
import time

from playwright.sync_api import CDPSession

from tests.server.http.browser import chromium, opened
from tests.server.http.sites import LARGE_COUNT, large

STEPS = 200
WATCH = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration))).observe({ type: "longtask" });
}"""
SCROLL = """async (steps) => {
  const box = document.querySelector("#code .rows");
  for (let step = 0; step <= steps; step += 1) {
    box.scrollTop = (box.scrollHeight * ((step * 37) % (steps + 1))) / steps;
    await new Promise(requestAnimationFrame);
  }
  for (let step = 0; step < steps; step += 1) {
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "j" }));
    await new Promise(requestAnimationFrame);
  }
}"""


def thread_seconds(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "ThreadTime")


def main() -> int:
    with large() as view, chromium() as browser, opened(browser) as it:
        it.page.add_init_script(f"({WATCH})()")
        begun = time.monotonic()
        page = it.go(view.url)
        ready = time.monotonic() - begun
        opening = page.evaluate("window.tasks.splice(0)")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        before = thread_seconds(session)
        page.evaluate(SCROLL, STEPS)
        each = (thread_seconds(session) - before) / (2 * STEPS)
        scrolling = page.evaluate("window.tasks")
        print(f"{LARGE_COUNT:,} instructions, ready after {ready:.2f} s; load average {os.getloadavg()[0]:.1f}")
        print(f"longest task while opening: {max(opening, default=0):.0f} ms of {len(opening)} longer than 50 ms")
        print(
            f"longest task in {STEPS} jumps and {STEPS} steps by key: {max(scrolling, default=0):.0f} ms of {len(scrolling)} longer than 50 ms"
        )
        print(f"processor time of the page's thread: {1000 * each:.1f} ms a frame")
    return 0


if __name__ == "__main__":
    sys.exit(main())
