"""The page in a real browser: what it shows, how its panes follow each other, and what it must never do."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.server.http.browser import PHONE, chromium, opened
from tests.server.http.sites import LARGE_COUNT, large, raycast


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Raycast with a profile."""
    with raycast(tmp_path_factory.mktemp("profile")) as view:
        yield view.url


@pytest.fixture(scope="module")
def plain_url():
    with raycast() as view:
        yield view.url


@pytest.fixture
def shown(browser, url):
    with opened(browser) as page:
        page.go(url)
        yield page


def rows(page, pane, kind=""):
    return page.locator(f"#{pane} .row{kind}:not([hidden])")


def source_lines(page, kind):
    """Numbers of the source lines in sight of that kind."""
    return [int(each) for each in rows(page, "source", kind).locator("b").all_inner_texts()]


def offsets(page, kind):
    return [int(each, 16) for each in rows(page, "code", kind).locator("b").all_inner_texts()]


def instruction(page, offset):
    return rows(page, "code", ".code").filter(has=page.locator(f"b:text-is('{offset:05x}')"))


def test_it_loads_with_kernels_source_and_instructions(shown):
    page = shown.page
    assert page.locator("#side .thing.on span").inner_text() == "raycast"
    assert page.title() == "raycast — symd"
    assert page.locator("#source select").input_value() == "/tmp/symd-opencl/raycast.cl"
    assert rows(page, "code", ".code").count() > 10
    assert page.locator("#source .row .kw").first.inner_text()


def test_it_asks_no_other_host_and_leaves_nothing_behind(shown, url):
    page = shown.page
    page.locator("#find").fill("raycast")
    page.locator("#found .hit").first.wait_for()
    page.locator("#help").click()
    assert shown.hosts == {urlsplit(url).netloc}
    assert page.context.cookies() == []


def test_an_instruction_lights_its_line_and_its_frames(shown, url):
    page = shown.go(f"{url}#kernel=raycast&at=0x440")
    page.locator("#side .thing.on").wait_for()
    instruction(page, 0x440).click()
    shown.settle()
    assert page.locator(".frames .frame b").all_inner_texts() == ["length_squared", "raycast"]
    assert [text.split(":")[:2] for text in page.locator(".frames .frame span").all_inner_texts()] == [
        ["raycast.cl", "6"],
        ["raycast.cl", "24"],
    ]
    assert source_lines(page, ".lit") == [6]
    assert source_lines(page, ".caller") == [24]
    assert offsets(page, ".chosen") == [0x440]
    assert {0x438, 0x440, 0x450} <= set(offsets(page, ".lit"))
    page.locator(".variables tbody tr").first.wait_for()
    shown = page.locator(".variables tbody th").all_inner_texts()
    assert shown.index("#0 length_squared (inlined)") < shown.index("#1 raycast") < shown.index("spheres")


def test_a_source_line_lights_its_instructions(shown):
    page = shown.page
    page.locator("#source .row:not([hidden])").filter(has=page.locator("b:text-is('6')")).click()
    shown.settle()
    assert source_lines(page, ".chosen") == [6]
    assert offsets(page, ".lit") == [0x438, 0x440, 0x450]
    assert "raycast+0x438" in page.locator(".place-button").all_inner_texts()


def test_the_pointer_shows_what_belongs_together(shown, url):
    page = shown.go(f"{url}#kernel=raycast&file=raycast.cl&line=21")
    page.locator("#source .row:not([hidden])").filter(has=page.locator("b:text-is('21')")).hover()
    shown.settle()
    assert source_lines(page, ".near") == [21]
    page.locator("#code .row.near").first.wait_for()


def test_a_link_leads_back_to_the_place(shown, browser, url):
    page = shown.page
    instruction(page, 0x478).click()
    shown.settle()
    address = page.evaluate("location.href")
    assert "at=0x478" in address
    with opened(browser) as other:
        again = other.go(address)
        assert again.locator(".place-name span").first.inner_text() == "raycast+0x478"
        assert offsets(again, ".chosen") == [0x478]
    page.goto(f"{url}#kernel=raycast&file=raycast.cl&line=14")
    page.wait_for_selector("text=raycast.cl:14")
    shown.settle()
    assert source_lines(page, ".chosen") == [14]
    page.go_back()
    page.locator(".place-name span:text-is('raycast+0x478')").wait_for()


def test_heat_is_the_profile_s(shown):
    """Sums of the made-up rows: 300 in all, of them line 27 has 200, line 6 has 60, line 22 has 40."""
    page = shown.page
    assert page.locator("#metric option").all_inner_texts() == [
        "All: 300 Events",
        "Active: 170 Events",
        "SendStall: 65 Events",
        "SbidStall: 65 Events",
    ]
    assert [" ".join(text.split()[:2]) for text in page.locator("#side li .hot").all_inner_texts()] == [
        "66.7% 27",
        "20.0% 6",
        "13.3% 22",
    ]
    instruction(page, 0x480).locator("u:text-is('66.7')").wait_for()
    page.locator("#metric").select_option("1")
    assert page.locator("#side li .hot em").all_inner_texts() == ["92.3%", "7.7%"]
    assert "metric=1" in page.evaluate("location.hash")


def test_the_flame_graph_has_what_was_inlined(shown):
    page = shown.page
    bars = page.locator("#flame button")
    labels = [bar.get_attribute("aria-label") for bar in bars.all()]
    assert labels == ["raycast, 100% of the kernel's events", "length_squared, 20.0% of the kernel's events"]
    widths = [bar.bounding_box()["width"] for bar in bars.all()]
    assert widths[1] / widths[0] == pytest.approx(0.2, abs=0.01)
    bars.nth(1).click()
    shown.settle()
    assert offsets(page, ".chosen") == [0x440]


def test_the_level_between_is_a_column_of_its_own(browser, plain_url):
    """Line 6 of raycast.cl in SPIR-V, by the line table of the SPIR-V: its lines are lit with the machine's instructions."""
    with opened(browser) as it:
        page = it.go(f"{plain_url}#kernel=raycast&at=0x438")
        assert page.locator("#level").is_hidden()
        page.get_by_role("button", name="SPIR-V").first.click()
        page.locator("#level .row.lit:not([hidden])").first.wait_for()
        texts = page.locator("#level .row.lit:not([hidden]) code").all_inner_texts()
        assert any("OpFMul" in text or "OpCompositeExtract" in text or "OpExtInst" in text for text in texts)
        page.keyboard.press("b")
        assert page.locator("#level").is_hidden()


def test_without_a_profile_the_flame_graph_counts_bytes(browser, plain_url):
    with opened(browser) as it:
        page = it.go(plain_url)
        labels = [bar.get_attribute("aria-label") for bar in page.locator("#flame button").all()]
        assert all(label.endswith("of the kernel's bytes") for label in labels)
        assert any(label.startswith("distance_to,") for label in labels)
        assert page.locator("#heat").is_hidden()
        assert page.locator("#code .row u").count() == 0


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("raycast+0x458", "raycast+0x458"),
        ("0x480", "raycast+0x480"),
        ("raycast.cl:14", "raycast.cl:14"),
        ("fmin(nearest", "raycast.cl:14"),
        ("length_squared", "raycast+0x438"),
    ],
)
def test_search_finds_places_names_and_text(shown, typed, place):
    page = shown.page
    page.keyboard.press("/")
    page.keyboard.type(typed)
    hits = page.locator("#found .hit:not(.none)")
    hits.first.wait_for()
    if typed == "length_squared":
        hits.filter(has_text="inlined").first.click()
    else:
        page.keyboard.press("Enter")
    page.locator(f".place-name span:text-is('{place}')").wait_for()
    assert page.locator("#found").is_hidden()


def test_names_that_come_after_something_was_chosen_open_no_list(shown):
    page = shown.page
    held = []
    page.route("**/names*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks the handler
    page.keyboard.press("/")
    page.keyboard.type("raycast+0x458")
    page.locator("#found .hit:not(.none)").first.wait_for()
    page.keyboard.press("Enter")
    page.locator(".place-name span:text-is('raycast+0x458')").wait_for()
    while held:
        with page.expect_response("**/names*") as response:
            held.pop().continue_()
        response.value.finished()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert page.locator("#found").is_hidden()


def test_an_address_that_is_nowhere_is_told(shown):
    page = shown.page
    page.keyboard.press("/")
    page.keyboard.type("raycast+0x999999")
    page.locator("#found .hit").first.wait_for()
    page.keyboard.press("Enter")
    page.locator("#say", has_text="OUTSIDE_TEXT").wait_for()


def test_everything_can_be_done_by_keys(shown):
    page = shown.page
    page.locator(".place-name span:text-is('raycast+0x480')").wait_for()
    page.keyboard.press("h")
    page.locator(".place-name span:text-is('raycast+0x440')").wait_for()
    page.keyboard.press("H")
    page.locator(".place-name span:text-is('raycast+0x480')").wait_for()
    page.keyboard.press("j")
    page.locator(".place-name span:text-is('raycast+0x488')").wait_for()
    page.keyboard.press("k")
    page.keyboard.press("ArrowUp")
    page.locator(".place-name span:text-is('raycast+0x478')").wait_for()
    page.keyboard.press("Enter")
    page.locator(".place-name span:text-is('raycast.cl:27')").wait_for()
    page.keyboard.press("j")
    page.locator(".place-name span:text-is('raycast.cl:28')").wait_for()
    page.keyboard.press("Enter")
    page.locator(".place-name span", has_text=re.compile(r"raycast\+0x")).wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".place-name").count() == 0
    page.keyboard.press("?")
    page.locator("dialog[open] dt").first.wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")


def test_keys_work_where_a_list_has_the_focus(shown):
    page = shown.page
    page.locator("select:visible").first.focus()
    page.keyboard.press("?")
    page.locator("dialog[open] dt").first.wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")
    page.locator("select:visible").first.focus()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_inlined_calls_can_be_folded(shown, url):
    page = shown.go(f"{url}#kernel=raycast&at=0x438")
    page.locator("#code .row.call:not([hidden])").first.wait_for()
    before = page.locator("#code .space").bounding_box()["height"]
    page.keyboard.press("f")
    page.locator("#code .row.call.folded .sum").first.wait_for()
    folded = page.locator("#code .space").bounding_box()["height"]
    assert folded < before
    page.locator("#code .row.call.folded:not([hidden])").first.click()
    shown.settle()
    assert folded < page.locator("#code .space").bounding_box()["height"] <= before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [None, PHONE])
def test_axe_finds_no_violation(browser, url, scheme, size):
    with opened(browser, color_scheme=scheme, **({"viewport": size} if size else {})) as it:
        page = it.go(f"{url}#kernel=raycast&at=0x438")
        page.locator(".variables tbody tr").first.wait_for()
        it.settle()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_a_phone_shows_one_pane_at_a_time(browser, url):
    with opened(browser, viewport=PHONE, has_touch=True) as it:
        page = it.go(f"{url}#kernel=raycast&at=0x438")
        assert page.locator("#code").is_visible()
        assert not page.locator("#source").is_visible()
        page.locator("#tabs button", has_text="Source").click()
        assert page.locator("#source .row.lit").is_visible()
        page.locator("#menu").click()
        assert page.locator("#side .thing.on").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_what_a_phone_finds_lies_on_its_screen(browser, url):
    with opened(browser, viewport=PHONE, has_touch=True) as it:
        page = it.go(url)
        page.locator("#find").click()
        page.keyboard.type("raycast")
        page.locator("#found .hit").first.wait_for()
        box = page.locator("#found").bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= PHONE["width"]
        field = page.locator("#find").bounding_box()
        assert box["y"] >= field["y"] + field["height"] - 1


def test_fifty_thousand_instructions_are_few_elements(browser):
    with large() as view, opened(browser) as it:
        page = it.go(view.url)
        space = page.locator("#code .space").bounding_box()["height"]
        assert space >= LARGE_COUNT * 20
        most = 0
        for share in (0, 0.1, 0.5, 0.9, 1, 0.3):
            page.evaluate(
                "(share) => { const box = document.querySelector('#code .rows'); box.scrollTop = share * box.scrollHeight; }",
                share,
            )
            it.settle()
            most = max(most, page.locator("#code .row").count())
            assert rows(page, "code", ".code").count() > 10
        assert most < 150
        page.goto(f"{view.url}#kernel=large&at={8 * (LARGE_COUNT - 1):#x}")
        page.locator(".place-name span", has_text=f"large+{8 * (LARGE_COUNT - 1):#x}").wait_for()
        it.settle()
        assert offsets(page, ".chosen") == [8 * (LARGE_COUNT - 1)]
