"""The pictures of docs/images, made anew: python -m tests.server.http.screenshots (make screenshots).

The module is a sample, its profile is made up: a unitrace report whose numbers follow from the instructions' places, with
the hot spot far down."""

from __future__ import annotations

import sys
import tempfile
import zlib
from pathlib import Path

from symd.cli.view import ShownPage, shown_module
from symd.config import Limits
from symd.model.line_tables import ListingPart
from symd.server.http.viewing import viewed
from tests.server.http.browser import PHONE, chromium, opened
from tests.server.http.sites import BODIES, OPENCL, ROOT

SIGNATURE = b"\x89PNG\r\n\x1a\n"
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1400, "height": 900}
COUNTERS = ("Active", "PipeStall", "SendStall", "SbidStall", "SyncStall", "InstrFetchStall")
SLOW_WORDS = {"math": 5, "send": 14, "sync": 6, "mad": 2}
DARK: dict[str, object] = {"color_scheme": "dark"}
TOUCHED: dict[str, object] = {"viewport": PHONE, "has_touch": True}
VIEWS: tuple[tuple[str, bool, str, dict[str, object], str], ...] = (
    ("page.png", True, "", {}, ""),
    ("page-line.png", False, "#kernel=step_bodies&file=bodies.cl&line=22", {}, "b"),
    ("page-dark.png", True, "", DARK, "hhf"),
    ("page-phone.png", True, "", TOUCHED, ""),
    ("page-phone-dark.png", True, "", {**TOUCHED, **DARK}, "s"),
)
"""File, whether with the profile, place, how the browser is, and keys that are pressed."""


def write_profile(path: Path, shown: ShownPage) -> None:
    lines = ["Kernel, IP[Address], " + ", ".join(f"{name}[Events]" for name in COUNTERS)]
    for kernel in (each.name for code in shown.symbolizer.module(shown.digest).objects[:1] for each in code.kernels):
        (listing,) = shown.symbolizer.listing(shown.digest, ListingPart(None, kernel))
        for number, text in enumerate(listing.text):
            answer = listing.answers[number]
            weight = 1 + sum(each for word, each in SLOW_WORDS.items() if word in text) * (1 + len(answer.frames))
            noise = (number * 2654435761 >> 7) % 17
            later = 1 + 8 * number // len(listing.text)
            values = [
                later * weight * (noise + 3),
                *(weight * ((noise * 7 + at * 5) % 11) * (noise % 4 == at % 4) for at in range(5)),
            ]
            lines.append(f'"{kernel}", {answer.section_offset:x}, ' + ", ".join(map(str, values)))
    path.write_text("\n".join(lines) + "\n")


def smaller(data: bytes) -> bytes:
    """The same picture, packed harder (PNG 1.2: a signature, then chunks of length, name, data, sum)."""
    chunks, at = [], len(SIGNATURE)
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += size + 12
    pixels = zlib.compress(zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT")), 9)
    kept = [chunks[0], (b"IDAT", pixels), (b"IEND", b"")]
    return SIGNATURE + b"".join(
        len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big") for name, body in kept
    )


def main() -> int:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        profile = Path(folder, "stalls.csv")
        with shown_module(str(BODIES), None, Limits(), None, None, None, (), (OPENCL,)) as plain:
            write_profile(profile, plain)
        for name, with_profile, place, how, keys in VIEWS:
            given = str(profile) if with_profile else None
            with (
                shown_module(str(BODIES), None, Limits(), None, given, None, (), (OPENCL,)) as shown,
                viewed(lambda _, shown=shown: shown.site()) as view,
                opened(browser, **{"viewport": SIZE, **how}) as it,
            ):
                page = it.go(view.url + place)
                for key in keys:
                    page.keyboard.press(key)
                    page.locator("#details section").first.wait_for()
                if page.locator(".variables").count():
                    page.locator(".variables tbody tr").first.wait_for()
                page.locator("#say").evaluate("(line) => { line.hidden = true; }")
                it.settle()
                (IMAGES / name).write_bytes(smaller(page.screenshot()))
                print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
