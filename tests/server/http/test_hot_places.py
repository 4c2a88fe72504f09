"""The page of a profile in a real browser: it opens where most samples are, leads to the next hottest places, and its
numbers are the profile's own, by sums that the test makes of what it wrote into the profile and of LLVM's line table."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from symd.model.identities import ObjectPath
from symd.model.sources import PathRule
from symd.profiles.placed import InstructionPlace, PlacedSamples
from symd.profiles.samples import ValueType
from symd.server.http.page import PROFILE, NamedProfile
from symd.server.http.site import Site
from symd.server.http.viewing import viewed
from tests.server.http.browser import PHONE, chromium, opened
from tests.server.http.sites import (
    BODIES,
    BODIES_SAMPLES,
    LARGE_COUNT,
    LARGE_DIGEST,
    OPENCL,
    ROOT,
    LargeModule,
    bodies_profile,
    page_of,
    sources,
)
from tests.tools import output, require

WIDE = {"width": 1400, "height": 900}
SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900-O0.co"
ALL, SEND_STALL = "-1", "1"


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_of(BODIES, bodies_profile(tmp_path_factory.mktemp("profile")), OPENCL) as view:
        yield view.url


def shown_percent(share):
    return f"{100 * share:.1f}"


def ranked(weigh):
    """Places as the page names them, the hottest first."""
    places = [
        (weigh(values), f"{kernel}+{offset:#x}")
        for kernel, rows in BODIES_SAMPLES.items()
        for offset, values in rows.items()
        if weigh(values)
    ]
    return [name for _, name in sorted(places, reverse=True)]


def kernel_shares(weigh):
    """(kernel, % of the profile), the hottest first."""
    sums = {kernel: sum(map(weigh, rows.values())) for kernel, rows in BODIES_SAMPLES.items()}
    total = sum(sums.values())
    order = sorted(sums.items(), key=lambda each: -each[1])
    return [(kernel, f"{shown_percent(value / total)}%" if value else "") for kernel, value in order]


def shown_kernels(page):
    items = page.locator("#side .thing").all()
    return [(item.locator("span").inner_text(), "".join(item.locator("em").all_inner_texts())) for item in items]


def place(page, name):
    page.locator(f".place-name span:text-is('{name}')").wait_for()


def is_in_sight(box, row):
    outer, inner = box.bounding_box(), row.bounding_box()
    return outer["y"] <= inner["y"] and inner["y"] + inner["height"] <= outer["y"] + outer["height"]


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_it_opens_on_the_hottest_place(browser, url, size):
    with opened(browser, viewport=size) as it:
        page = it.go(url)
        place(page, ranked(sum)[0])
        assert page.locator("#crumbs strong").inner_text() == "tiled"
        chosen = page.locator("#code .row.chosen:not([hidden])")
        assert chosen.locator("b").inner_text() == "02088"
        assert is_in_sight(page.locator("#code .rows"), chosen)
        assert page.locator("#code .rows").evaluate("(box) => box.scrollTop") > 10_000
        if size is PHONE:
            page.get_by_role("button", name="Source", exact=True).click()
        line = page.locator("#source .row.lit:not([hidden])")
        assert line.locator("b").inner_text() == "57"
        assert is_in_sight(page.locator("#source .rows"), line)


def test_kernels_stand_in_the_order_of_their_shares(browser, url):
    with opened(browser) as it:
        page = it.go(url)
        assert shown_kernels(page) == kernel_shares(sum)
        page.locator("#metric").select_option(SEND_STALL)
        assert shown_kernels(page) == kernel_shares(lambda values: values[1])
        assert [kernel for kernel, _ in kernel_shares(sum)] != [
            kernel for kernel, _ in kernel_shares(lambda values: values[1])
        ]
        page.keyboard.press("[")
        page.locator("#crumbs strong:text-is('step_bodies')").wait_for()


def test_next_hottest_goes_through_all_places_and_begins_anew(browser, url):
    with opened(browser) as it:
        page = it.go(url)
        names = ranked(sum)
        for number, name in enumerate([*names[1:], names[0]], 1):
            page.get_by_role("button", name="Next hottest").click()
            place(page, name)
            kernel, _, offset = name.partition("+")
            assert page.locator("#crumbs strong").inner_text() == kernel
            assert page.locator("#code .row.chosen b").inner_text() == f"{int(offset, 16):05x}"
            assert page.locator("#rank").inner_text() == f"Place {number % len(names) + 1} of {len(names)}"
            assert f"at={offset}" in page.evaluate("location.hash")
        page.locator("#metric").select_option(SEND_STALL)
        page.get_by_role("button", name="Next hottest").focus()
        for name in ranked(lambda values: values[1]):
            page.keyboard.press("Enter")
            place(page, name)


def test_a_kernel_opens_on_its_own_hottest_place(browser, url):
    with opened(browser) as it:
        page = it.go(url)
        page.locator("#side .thing", has_text="step_bodies").click()
        place(page, "step_bodies+0x1b8")
        facts = page.locator("#details .facts").inner_text()
        assert facts.startswith("250 events (92.6% of kernel, 25.0% of profile)")
        page.goto(f"{url}#kernel=energy")
        place(page, "energy+0x0")


@pytest.fixture(scope="module")
def shade(tmp_path_factory):
    """The page of a kernel with samples on each third instruction, and the sums by line of shade.cl, as LLVM has it."""
    table = require("llvm-symbolizer")
    disassembly = output(require("llvm-objdump"), "-d", "--disassemble-symbols=shade", SHADE)
    addresses = [int(each, 16) for each in re.findall(r"// ([0-9A-F]{12}):", disassembly)]
    symbol, size = (
        int(each, 16) for each in output(require("llvm-nm"), "-S", SHADE).partition(" T shade")[0].split()[-2:]
    )
    inside = [each for each in addresses if symbol <= each < symbol + size]
    samples = {address: 1 + at * 37 % 101 for at, address in enumerate(inside) if not at % 3}
    lines = Counter()
    for address, value in samples.items():
        found = output(table, f"--obj={SHADE}", "--output-style=GNU", "-f=none", f"{address:#x}")
        lines[int(re.search(r"shade\.cl:(\d+)", found)[1])] += value
    folder = tmp_path_factory.mktemp("shade")
    profile = folder / "shade.folded"
    profile.write_text("".join(f"main;shade+{at - symbol:#x} {value}\n" for at, value in samples.items()))
    with page_of(SHADE, profile, PathRule("/src", str(ROOT / "samples" / "amdgpu" / "src"))) as view:
        yield view.url, lines


def test_sums_by_line_are_the_profile_s(browser, shade):
    url, lines = shade
    total = sum(lines.values())
    assert len(lines) > 4
    with opened(browser) as it:
        page = it.go(url)
        shown = [re.findall(r"[\d.]+", text)[:2] for text in page.locator("#side li .hot").all_inner_texts()]
        assert {int(line): share for share, line in shown} == {
            line: shown_percent(value / total) for line, value in lines.most_common(12)
        }
        assert int(shown[0][1]) == lines.most_common(1)[0][0]
        for line, value in lines.items():
            page.goto(f"{url}#kernel=shade&file=shade.cl&line={line}")
            place(page, f"shade.cl:{line}")
            facts = page.locator("#details .facts").inner_text()
            assert facts.startswith(f"{value:,} samples ({shown_percent(value / total)}% of kernel"), line
            row = page.locator("#source .row.chosen:not([hidden])")
            assert row.locator("u").inner_text() == shown_percent(value / total)


def test_a_hot_spot_far_down_a_long_kernel_is_where_it_opens(browser):
    """The lines of ``LargeModule`` follow from the instructions' numbers, by its own words."""
    rng = np.random.default_rng(7)
    numbers = rng.choice(LARGE_COUNT, 4_000, replace=False).tolist()
    samples = {number: int(value) for number, value in zip(numbers, rng.integers(1, 1_000, 4_000), strict=True)}
    samples[49_123] = 5_000
    lines = Counter()
    for number, value in samples.items():
        lines[1 + (number // 10) % 400 + (400 if (number // 40) % 8 == 0 else 0)] += value
    placed = PlacedSamples(
        (ValueType("samples", "count"),),
        is_summable=False,
        values={
            InstructionPlace(LARGE_DIGEST, ObjectPath(""), 1, 8 * number, 0x1000 + 8 * number): [value]
            for number, value in samples.items()
        },
    )
    site = Site(LargeModule(), sources, only=(LARGE_DIGEST,), facts={PROFILE: NamedProfile("large", placed)})
    total = sum(samples.values())
    with viewed(lambda _: site) as view, opened(browser) as it:
        page = it.go(view.url)
        place(page, f"large+{8 * 49_123:#x}")
        assert is_in_sight(page.locator("#code .rows"), page.locator("#code .row.chosen"))
        assert page.locator("#metric option").all_inner_texts() == [f"samples: {total:,}"]
        second = max((value, number) for number, value in samples.items() if number != 49_123)
        page.keyboard.press("h")
        page.locator("#details .facts", has_text=f"{second[0]:,} samples (").wait_for()
        shown = [re.findall(r"[\d.]+", text)[:2] for text in page.locator("#side li .hot").all_inner_texts()]
        hottest = lines.most_common(12)
        assert [share for share, _ in shown] == [shown_percent(value / total) for _, value in hottest]
        assert int(shown[0][1]) == hottest[0][0]


HEADS = {
    "source": ["Line", "% of kernel", "Source"],
    "code": ["Offset", "% of kernel", "Line", "Instruction"],
    "level": ["Line", "SPIR-V"],
}


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_headings_stand_over_their_columns(browser, url, size):
    """Also after scrolling down and sideways: each heading begins or ends where its cells do."""
    with opened(browser, viewport=size) as it:
        page = it.go(url)
        if size is PHONE:
            page.locator("#menu").click()
        assert page.locator("#side h2").first.inner_text().split("\n") == ["KERNELS", "% of profile"]
        assert page.locator("#side .columns").inner_text().split("\n") == ["% of kernel", "Line", "Source"]
        assert page.locator("#flame h2").inner_text().split("\n") == ["INLINED CALLS", "% of kernel"]
        page.keyboard.press("b" if size is WIDE else "Escape")
        for pane, texts in HEADS.items():
            if size is PHONE:
                page.locator(f"#tabs [data-pane={pane}]").click()
            page.locator(f"#{pane} .rows").evaluate("(box) => { box.scrollLeft = 40; box.scrollTop += 60; }")
            it.settle()
            heads = page.locator(f"#{pane} .heads span")
            assert heads.all_inner_texts() == texts
            aligned = page.locator(f"#{pane} .rows").evaluate(ALIGNED)
            assert all(aligned), (pane, aligned)


ALIGNED = """(box) => {
  const rows = [...box.querySelectorAll(".row:not([hidden]):not(.heading):not(.call)")].filter((row) => row.getBoundingClientRect().top > box.getBoundingClientRect().top + 20);
  const heads = [...box.querySelectorAll(".heads span")].map((each) => each.getBoundingClientRect());
  const cells = [...rows[0].children].filter((cell) => !cell.matches(".bar")).map((each) => each.getBoundingClientRect());
  const top = Math.abs(heads[0].top - box.getBoundingClientRect().top) < 1.5;
  return [heads.length === cells.length, top, ...heads.map((head, at) => Math.abs(head.left - cells[at].left) < 1.5)];
}"""


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_operands_can_be_read_to_their_end(browser, url, size):
    """By scrolling sideways, with the offset still in sight; and the chosen instruction stands whole in the pane
    below."""
    with opened(browser, viewport=size) as it:
        page = it.go(url)
        place(page, ranked(sum)[0])
        chosen, box = page.locator("#code .row.chosen"), page.locator("#code .rows")
        text = chosen.get_attribute("title")
        assert "signal barrier" in text
        below = page.locator("#details pre")
        assert below.inner_text().split() == text.split()
        assert below.evaluate("(line) => line.scrollWidth <= line.clientWidth")
        assert not chosen.evaluate(END_IS_IN_SIGHT)
        box.focus()
        page.keyboard.down("ArrowRight")
        page.wait_for_function("(box) => box.scrollLeft > 20", arg=box.element_handle())
        page.keyboard.up("ArrowRight")
        box.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
        it.settle()
        assert chosen.evaluate(END_IS_IN_SIGHT)
        assert chosen.locator("b").bounding_box()["x"] >= box.bounding_box()["x"]
        assert chosen.locator("b").inner_text() == "02088"


END_IS_IN_SIGHT = """(row) => {
  const code = row.querySelector("code");
  const range = document.createRange();
  range.selectNodeContents(code);
  const box = row.closest(".rows").getBoundingClientRect();
  return range.getBoundingClientRect().right <= Math.min(box.right, code.getBoundingClientRect().right);
}"""


def test_the_pane_below_is_there_while_something_is_chosen(browser, url):
    with page_of(BODIES) as plain, opened(browser) as it:
        page = it.go(plain.url)
        assert page.locator("#details").is_hidden()
        assert page.locator("#heat").is_hidden()
        page.locator("#code .row.code:not([hidden])").first.click()
        page.locator("#details").wait_for()
        page.keyboard.press("Escape")
        page.locator("#details").wait_for(state="hidden")
        page.keyboard.press("h")
        page.locator("#say", has_text="symd view FILE --profile PROFILE").wait_for()
    with opened(browser) as it:
        page = it.go(url)
        page.locator("#details").wait_for()
        page.keyboard.press("Escape")
        page.locator("#details").wait_for(state="hidden")
