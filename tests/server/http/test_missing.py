"""What the page says where something is missing, and how it tells apart what has one name: each message says what to type,
and what it says works."""

from __future__ import annotations

import shlex
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe

from symd.model.sources import parse_rule
from tests.server.http.browser import PHONE, chromium, opened
from tests.server.http.sites import BODIES, CUBIN, ROOT, SOURCES, page_of

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
SHADE_SOURCE = ROOT / "samples" / "amdgpu" / "src" / "shade.cl"
FATBIN = ROOT / "samples" / "cuda" / "bin" / "tonemap.none.fatbin"
LINKED = ROOT / "samples" / "cuda" / "bin" / "program.rdc"


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def bare_url():
    with page_of(BODIES) as view:
        yield view.url


def test_a_source_that_is_not_found_says_once_what_to_type(browser, bare_url):
    """The command names the folder of the compiler; with the sources' folder in it the text is shown."""
    with opened(browser) as it:
        page = it.go(bare_url)
        said = page.locator("#source").inner_text()
        assert said.count("--map") == said.count("bodies.cl:") == 1
        command = page.locator("#source .missing pre").inner_text()
        assert page.locator("#source .row b").count() > 10
    words = shlex.split(command)
    assert words[:3] == ["symd", "view", "FILE"]
    rule = parse_rule(words[words.index("--map") + 1].replace("FOLDER", str(SOURCES)))
    with page_of(BODIES, None, rule) as view, opened(browser) as it:
        page = it.go(view.url)
        assert page.locator("#source .missing").is_hidden()
        assert "kernel void step_bodies" in page.locator("#source .rows").inner_text()


@pytest.mark.parametrize(("changed", "note"), [(False, "matches the build (MD5)"), (True, "no match (MD5)")])
def test_the_page_says_whether_a_source_is_the_one_that_was_built(browser, tmp_path, changed, note):
    shutil.copy(SHADE_SOURCE, tmp_path)
    if changed:
        with (tmp_path / "shade.cl").open("a") as file:
            file.write("// changed\n")
    with page_of(SHADE, None, parse_rule(f"/src={tmp_path}")) as view, opened(browser) as it:
        page = it.go(view.url)
        assert page.locator("#source .head small").inner_text() == note
        missing = page.locator("#source .missing")
        assert missing.is_visible() == changed
        if changed:
            assert f"{tmp_path}/shade.cl" in missing.inner_text()
            assert "--map /src=FOLDER" in missing.inner_text()


def test_a_source_without_an_md5_promises_nothing(browser):
    with page_of(BODIES, None, parse_rule(f"/tmp/symd-opencl={SOURCES}")) as view, opened(browser) as it:
        assert "no MD5" in it.go(view.url).locator("#source .head small").inner_text()


def test_a_missing_disassembler_is_named_once(browser, monkeypatch, tmp_path):
    """Without it the page has the addresses at which lines begin."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with page_of(CUBIN) as view:
        monkeypatch.undo()
        with opened(browser) as it:
            page = it.go(view.url)
            assert page.locator("#code").inner_text().count("nvdisasm, which disassembles NVIDIA code") == 1
            assert page.locator("#say").is_hidden()
            assert page.locator("#code .row.code:not([hidden])").count() > 10


def test_a_search_that_finds_nothing_says_no_match(browser, bare_url):
    with opened(browser) as it:
        page = it.go(bare_url)
        page.keyboard.press("/")
        page.keyboard.type("zzzzzz")
        page.locator("#found .none", has_text="No match").wait_for()


@pytest.mark.parametrize(
    ("file", "name", "apart"),
    [
        (FATBIN, "tonemap", [["sm_80"], ["sm_90a"]]),
        (LINKED, "decay", [["sm_80", ".nv_fatbin/sm_80"], ["sm_80", "__nv_relfatbin/sm_80#3"]]),
    ],
)
def test_kernels_of_one_name_are_told_apart(browser, file, name, apart):
    """By target, and by code object where that is the same; also where a search finds them."""
    with page_of(file) as view, opened(browser) as it:
        page = it.go(view.url)
        items = page.locator("#side .thing", has_text=name).all()
        facts = [item.locator("small").inner_text().split(" · ") for item in items]
        assert [each[: len(wanted)] for each, wanted in zip(facts, apart, strict=True)] == apart
        page.keyboard.press("/")
        page.keyboard.type(name)
        notes = page.locator("#found .hit:has(small:text-is('kernel')) .note")
        notes.first.wait_for()
        assert sorted(notes.all_inner_texts()) == sorted(" · ".join(each) for each in apart)
        items[1].click()
        page.locator("#side .thing.on", has_text=apart[1][-1]).wait_for()
        assert page.locator("#crumbs small").inner_text() == apart[1][0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [None, PHONE])
def test_axe_finds_no_violation_where_things_are_missing(browser, bare_url, scheme, size):
    with opened(browser, color_scheme=scheme, **({"viewport": size} if size else {})) as it:
        page = it.go(bare_url)
        if size:
            page.locator("#tabs [data-pane=source]").click()
        page.locator("#source .missing pre").wait_for()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
