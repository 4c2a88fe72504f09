"""Sites to look at: a sample with a profile that was made up for it, and a kernel of many instructions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from symd.cli.view import shown_module
from symd.config import Limits
from symd.errors import NotFound
from symd.model.answers import Answer, Answers, Locations, Reason, TextSection
from symd.model.identities import Digest, ObjectPath
from symd.model.line_tables import Listing
from symd.model.sources import PathRule, SourceText, TextOrigin
from symd.model.summaries import KernelSummary, ModuleRecord, ModuleSummary, ObjectSummary
from symd.server.http.site import Site
from symd.server.http.viewing import View, viewed

ROOT = Path(__file__).parents[3]
RAYCAST = ROOT / "samples" / "kernels" / "bin" / "raycast" / "igc2-dg2-opt.zebin"
CUBIN = ROOT / "samples" / "cuda" / "bin" / "tonemap.sm_80.lines.cubin"
SOURCES = ROOT / "samples" / "kernels"
OPENCL = PathRule("/tmp/symd-opencl", str(SOURCES))
"""Where the sources of the kernels in ``samples/kernels`` are here."""
COUNTERS = ("Active", "SendStall", "SbidStall")
LARGE_COUNT = 50_000
LARGE_DIGEST = Digest("ab" * 32)


def raycast_profile(folder: Path) -> Path:
    """A unitrace report with made-up counters for places of raycast: 0x438 and 0x440 lie in the inlined length_squared (line 6 of
    raycast.cl, called at line 24), 0x480 at line 27."""
    rows = {0x438: (10, 0, 2), 0x440: (40, 0, 8), 0x480: (100, 60, 40), 0x140: (20, 5, 15)}
    lines = ["Kernel, IP[Address], " + ", ".join(f"{name}[Events]" for name in COUNTERS)]
    lines += [f'"raycast", {offset:x}, ' + ", ".join(map(str, values)) for offset, values in rows.items()]
    path = folder / "stalls.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@contextmanager
def raycast(folder: Path | None = None) -> Iterator[View]:
    """The page of raycast, with a profile where there is a folder to put it into."""
    with page_of(RAYCAST, raycast_profile(folder) if folder is not None else None, OPENCL) as view:
        yield view


class LargeModule:
    """A symbolizer of one module with one kernel of very many instructions; each eighth run of them is inlined."""

    def __init__(self, count: int = LARGE_COUNT) -> None:
        self.count = count
        self.texts = [f"v_fma_f32 v{number % 250}, v{number % 97}, s{number % 90}, v3" for number in range(count)]

    def modules(self) -> Iterator[ModuleRecord]:
        yield self.record(LARGE_DIGEST)

    def record(self, _digest: str) -> ModuleRecord:
        return ModuleRecord(LARGE_DIGEST, 8 * self.count, "amdgpu", "large.co", 0.0)

    def module(self, _digest: str) -> ModuleSummary:
        kernel = KernelSummary("large", ".text", 1, 0, 8 * self.count)
        code = ObjectSummary(ObjectPath(""), "amdgpu", "gfx90a", 8 * self.count, LARGE_DIGEST, "dwarf-5", (kernel,))
        return ModuleSummary(LARGE_DIGEST, 8 * self.count, "amdgpu", (code,))

    def listing(self, _digest: str, _part: object, *_: object) -> Iterator[Listing]:
        lines = 400
        rows = 1 + 2 * lines
        line = np.zeros(rows, np.uint32)
        line[1 : lines + 1] = np.arange(1, lines + 1)
        line[lines + 1 :] = np.arange(lines + 1, 2 * lines + 1)
        inlined = np.zeros(rows, np.uint8)
        inlined[lines + 1 :] = 1
        parent = np.zeros(rows, np.uint32)
        parent[lines + 1 :] = np.arange(1, lines + 1)
        function = np.where(inlined, 2, 1).astype(np.uint32)
        function[0] = 0
        zero = np.zeros(rows, np.uint32)
        names = ["", "large", "helper", "/src/large.hip"]
        locations = Locations(
            np.full(rows, Reason.EXACT, np.uint8), function.clip(0, 1), function, zero, np.where(line, 3, 0).astype(np.uint32),
            line, zero, inlined, parent, names,
        )  # fmt: skip
        number = np.arange(self.count)
        location = 1 + (number // 10) % lines + np.where((number // 40) % 8 == 0, lines, 0)
        answers = Answers(
            location.astype(np.uint32),
            np.ones(self.count, np.uint32),
            (number * 8).astype(np.uint64),
            locations,
            [TextSection(ObjectPath(""), ".text", 1, 0x1000)],
        )
        yield Listing(ObjectPath(""), "gfx90a", "a test", answers, np.full(self.count, 8, np.uint32), self.texts)

    def lines(self, *_asked: object) -> Iterator[None]:
        return iter(())

    def names(self, *_asked: object) -> list[object]:
        return []

    def symbolize_one(self, *_asked: object) -> Answer:
        return Answer(Reason.EXACT)

    def variables(self, *_asked: object) -> None:
        raise NotFound("this module has no variables")


def sources(_digest: str, files: object, _path: object) -> list[SourceText]:
    text = "\n".join(f"    x[{line}] = fma(a, b, {line}); // line {line}" for line in range(1, 1001))
    return [SourceText(file, text, TextOrigin.MODULE) for file in files]


@contextmanager
def large() -> Iterator[View]:
    module = LargeModule()
    with viewed(lambda _: Site(module, sources, only=(LARGE_DIGEST,))) as view:
        yield view


BODIES = ROOT / "samples" / "kernels" / "bin" / "bodies" / "igc2-dg2-opt.zebin"
BODIES_SAMPLES = {
    "energy": {0x0: (30, 0)},
    "step_bodies": {0x1B8: (50, 200), 0x1C8: (20, 0)},
    "tiled": {0x0: (10, 0), 0x70: (200, 0), 0x2048: (40, 50), 0x2088: (400, 0)},
}
"""Made-up counters, Active and SendStall, by kernel and offset: the hottest place of 1,000 events is the 700th of the 769
instructions of ``tiled``, that of SendStall in another kernel."""


@contextmanager
def page_of(file: Path, profile: Path | None = None, *rules: PathRule, roots: tuple[Path, ...] = ()) -> Iterator[View]:
    """The page of a file as ``symd view FILE`` serves it."""
    given = str(profile) if profile is not None else None
    with (
        shown_module(str(file), None, Limits(), None, given, None, roots, rules) as shown,
        viewed(lambda presence: shown.site(presence=presence)) as view,
    ):
        yield view


def bodies_profile(folder: Path) -> Path:
    """``BODIES_SAMPLES`` as a unitrace report."""
    path = folder / "bodies.csv"
    rows = [
        f'"{kernel}", {offset:x}, {active}, {stalled}'
        for kernel, places in BODIES_SAMPLES.items()
        for offset, (active, stalled) in places.items()
    ]
    path.write_text("\n".join(["Kernel, IP[Address], Active[Events], SendStall[Events]", *rows]) + "\n")
    return path
