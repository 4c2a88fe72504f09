"""The sample extension in VS Code itself, driven by a browser without a window: ``make editor``, which also makes docs/images/editor.png anew."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests import tools
from tests.sample_clients.code_server import install, serving
from tests.sample_clients.extension import ROOT, SAMPLE, SOURCE, address, line_at, packaged, rows
from tests.sample_clients.test_clients import server as server  # noqa: PLC0414 - a fixture, shared
from tests.server.http.browser import SLOW, chromium
from tests.server.http.screenshots import smaller

PICTURE = ROOT / "docs" / "images" / "editor.png"
PLACE = "shade+0x98"
PROFILE = {"shade+0x98": 14, "shade+0xac": 5, "shade+0x14": 9, "shade+0x48": 4, "clear+0x8": 1}
LAUNCH = {
    "type": "symd",
    "request": "attach",
    "name": "shade",
    "module": "${workspaceFolder}/kernel.co",
    "place": PLACE,
}
ATTEMPTS = 20
BEHIND = """(line) => {
    const lines = [...document.querySelectorAll(".view-line")].sort((one, other) => one.offsetTop - other.offsetTop);
    return [...lines[line - 1].querySelectorAll("span")].map((each) => getComputedStyle(each, "::after").content);
}"""
"""What is drawn behind a line, of which the editor makes styles."""


class Workbench:
    """The editor with the folder ``folder``."""

    def __init__(self, page: Page, url: str, folder: Path) -> None:
        self.page, self.folder = page, folder
        self._host = url.partition("//")[2]
        page.set_default_timeout(SLOW)
        expect.set_options(timeout=SLOW)
        page.goto(f"{url}/?folder={folder}")
        page.locator(".explorer-folders-view .monaco-list-row").first.wait_for()

    def command(self, title: str) -> None:
        """Run what the palette has by this title; those of extensions come to it after a while."""
        row = self.page.locator(".quick-input-list .monaco-list-row", has_text=title).first
        for _ in range(ATTEMPTS):
            self.page.keyboard.press("F1")
            self.page.keyboard.type(title)
            try:
                row.wait_for(timeout=SLOW / ATTEMPTS)
            except PlaywrightTimeout:
                self.page.keyboard.press("Escape")
            else:
                break
        row.click()

    def choose(self, name: str) -> None:
        """A file of the folder, in the dialog that is open or comes."""
        widget = self.page.locator(".quick-input-widget")
        widget.get_by_text("OK", exact=True).wait_for()
        widget.locator(".monaco-list-row", has_text=name).first.wait_for()
        widget.locator("input[type=text]").first.fill(str(self.folder / name))
        widget.locator(".monaco-list-row", has_text=name).first.wait_for()
        widget.get_by_text("OK", exact=True).click()
        expect(widget).to_be_hidden()

    def open(self, name: str) -> None:
        self.page.locator(".explorer-folders-view .monaco-list-row", has_text=name).first.dblclick()
        expect(self.page.locator(".tab.active")).to_contain_text(name)

    def behind(self, line: int) -> list[str]:
        """The texts behind a line of the open file, whose first line is in view."""
        return [each.strip('"') for each in self.page.evaluate(BEHIND, line) if each != "none"]

    def cursor(self) -> str:
        return self.page.locator("#status\\.editor\\.selection").inner_text()


@pytest.fixture(scope="module")
def workbench(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """With the sample's lines shown beside its source."""
    install()
    package = packaged(tmp_path_factory.mktemp("vscode"))
    folder = tmp_path_factory.mktemp("editor") / "gpu"
    (folder / ".vscode").mkdir(parents=True)
    (folder / ".vscode" / "launch.json").write_text(json.dumps({"configurations": [LAUNCH]}))
    shutil.copy(SAMPLE, folder / "kernel.co")
    shutil.copy(SOURCE, folder / "shade.cl")
    (folder / "stacks.folded").write_text("".join(f"{place} {count}\n" for place, count in PROFILE.items()))
    (folder / "fault.log").write_text(f"wave 3 of main+0x10 faulted at {PLACE}\n")
    settings = {"symd.server": server, "symd.python": sys.executable, "symd.pathRules": {"/src": str(folder)}}
    with serving(folder.parent, package, settings) as url, chromium() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 740})
        try:
            opened = Workbench(page, url, folder)
            opened.open("shade.cl")
            opened.command("Show the Lines of a GPU Module")
            opened.choose("kernel.co")
            eventually(lambda: opened.behind(13))
            opened.command("Show the Hot Lines of a Profile")
            opened.choose("stacks.folded")
            eventually(lambda: len(opened.behind(13)) == 2)
            yield opened
        except BaseException:
            page.screenshot(path=str(folder.parent / "failed.png"))
            print(f"see {folder.parent}/failed.png")
            raise


@pytest.fixture
def source(workbench: Workbench) -> Workbench:
    workbench.page.keyboard.press("Escape")
    workbench.open("shade.cl")
    workbench.page.keyboard.press("Control+Home")
    return workbench


def eventually(holds) -> None:
    for _ in range(SLOW // 200):
        if holds():
            return
        time.sleep(0.2)
    assert holds()


def test_each_line_with_code_has_its_place_and_its_share(source: Workbench) -> None:
    table = rows()
    base, total = table[0][0], sum(PROFILE.values())
    for line in {line for _, line in table if line}:
        texts = sorted(source.behind(line))
        shares = [count for place, count in PROFILE.items() if line_at(address(place)) == line]
        code = int(re.fullmatch(r"code at \(\.text\)\+(0x[0-9a-f]+).*", texts[-1])[1], 16)
        assert (base + code, line) in table
        assert [text.split(",")[0] for text in texts[:-1]] == [f"{100 * sum(shares) / total:.2f}%"] * bool(shares)


def test_the_pointer_over_a_line_shows_its_instructions(source: Workbench) -> None:
    source.page.locator(".view-line", has_text="half_way = (a + b)").hover(position={"x": 60, "y": 5})
    hover = source.page.locator(".monaco-hover", has_text="v_add_f32").first
    expect(hover).to_contain_text("of the profile")
    printed = tools.output(tools.require("llvm-objdump"), "-d", "--mcpu=gfx900", SAMPLE)
    at = f"{address(PLACE):012X}"
    (instruction,) = re.findall(rf"^\t(\w+).*// {at}: ", printed, re.MULTILINE)
    assert instruction in hover.inner_text()
    PICTURE.write_bytes(smaller(source.page.locator(".part.editor").screenshot()))
    source.page.mouse.move(5, 5)


def symbolized(at: int) -> list[tuple[str, str]]:
    """(function, line and column) of each frame at an address, innermost first."""
    printed = tools.output(tools.require("llvm-symbolizer"), "-e", SAMPLE, hex(at)).split()
    return [(name, where.partition(":")[2]) for name, where in zip(printed[::2], printed[1::2], strict=True)]


def test_a_place_that_is_typed_leads_to_the_frame_that_is_chosen(source: Workbench) -> None:
    for depth, (function, at) in enumerate(symbolized(address(PLACE))):
        source.command("Go to a Place in the Module")
        source.page.locator(".quick-input-widget input[placeholder^=kernel]").fill(PLACE)
        source.page.keyboard.press("Enter")
        source.page.locator(".quick-input-list .monaco-list-row", has_text=f"#{depth} {function}").click()
        line, column = at.split(":")
        eventually(lambda line=line, column=column: source.cursor() == f"Ln {line}, Col {column}")


def test_a_place_in_a_log_is_a_link(source: Workbench) -> None:
    source.open("fault.log")
    links = source.page.locator(".view-line .detected-link")
    links.first.wait_for()
    assert "".join(links.all_inner_texts()) == PLACE, "main is a function of the host program"
    links.first.click(modifiers=["Control"])
    source.page.locator(".quick-input-list .monaco-list-row").first.click()
    expect(source.page.locator(".tab.active")).to_contain_text("shade.cl")
    assert source.cursor().split(",")[0] == f"Ln {line_at(address(PLACE))}"


def test_a_place_in_a_terminal_is_a_link(source: Workbench) -> None:
    source.command("Terminal: Create New Terminal")
    source.page.locator(".xterm-rows > div", has_text="$").or_(
        source.page.locator(".xterm-rows > div", has_text="#")
    ).first.wait_for()
    source.page.keyboard.type("clear; echo 'wave 3 at'  shade+0x14\n")
    printed = source.page.locator(".xterm-rows > div", has_text=re.compile("^wave 3 at shade")).first
    printed.wait_for()

    def follows() -> bool:
        """A link is made when the pointer has been over its line for a while."""
        width = printed.locator("span").first.bounding_box()["width"] / len("wave 3 at shade+0x14")
        where = {"x": width * len("wave 3 at sha"), "y": 5}
        printed.hover(position=where, force=True)
        time.sleep(1)
        printed.click(position=where, modifiers=["Control"], force=True)
        return source.cursor().split(",")[0] == f"Ln {line_at(address('shade+0x14'))}"

    eventually(follows)
    source.command("View: Hide Panel")


def test_a_breakpoint_says_where_it_lands(source: Workbench) -> None:
    source.page.locator(".view-line", has_text="half_way = (a + b)").click()
    source.page.keyboard.press("F9")
    eventually(lambda: len(source.behind(13)) == 3)
    (landed,) = [each for each in source.behind(13) if each.startswith("0x")]
    assert (int(landed.split()[0], 16), 13) in rows()
    source.page.keyboard.press("F9")
    eventually(lambda: len(source.behind(13)) == 2)


def test_a_debugger_stops_in_the_inlined_call_and_steps(source: Workbench) -> None:
    source.page.keyboard.press("F5")
    stack = source.page.locator(".debug-call-stack .stack-frame")

    def is_at(place: int) -> bool:
        frames = [f"{name} shade.cl {at}" for name, at in symbolized(place)]
        return [" ".join(each.replace("(inlined)", "").split()) for each in stack.all_inner_texts()] == frames

    eventually(lambda: is_at(address(PLACE)))
    source.page.locator(".debug-top-stack-frame-line").first.wait_for()
    names = source.page.locator(".debug-variables .expression .name")
    eventually(lambda: [each.rstrip(": =") for each in names.all_inner_texts()][:2] == ["a", "b"])
    source.page.keyboard.press("F10")
    following = min(start for start, _ in rows() if start > address(PLACE))
    eventually(lambda: is_at(following))
    source.page.keyboard.press("Shift+F5")
    expect(stack).to_have_count(0)
