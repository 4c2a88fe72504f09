"""The page as one file: it works without a server, holds what strangers wrote as text, and loads nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import symd
from symd.cli import command_line
from symd.cli.view import shown_module
from symd.config import Limits
from symd.errors import Unsupported
from symd.model.identities import ObjectPath
from symd.model.line_tables import WHOLE_MODULE
from symd.model.sources import SourceText, TextOrigin
from symd.model.summaries import KernelSummary, ModuleSummary, ObjectSummary
from symd.server.http.page import assets, samples_json
from symd.server.http.report import answers_of, joined_script, kernels_of, report
from symd.server.http.site import Site
from symd.server.http.viewing import viewed
from tests.formats.containers.amd import objects
from tests.server.http.browser import chromium, opened
from tests.server.http.sites import CUBIN, LARGE_DIGEST, RAYCAST, SOURCES, LargeModule, raycast_profile

NOTHING = np.zeros(0, np.uint32)
EVIL = "</script><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script><!-- & \u2028 ]]>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


class Hostile(LargeModule):
    """Every name and text is an attempt to be more than text."""

    def __init__(self) -> None:
        super().__init__(30)
        self.texts = [f"{EVIL} {number}" for number in range(30)]

    def record(self, digest):
        return super().record(digest)._replace(label=EVIL)

    def module(self, digest):
        kernel = KernelSummary(EVIL, EVIL, 1, 0, 240, {"note": EVIL})
        code = ObjectSummary(ObjectPath(""), EVIL, EVIL, 240, LARGE_DIGEST, "dwarf-5", (kernel,))
        return ModuleSummary(LARGE_DIGEST, 240, EVIL, (code,))

    def listing(self, digest, part, *_):
        (plain,) = super().listing(digest, part)
        locations = replace(plain.answers.locations, strings=["", EVIL, f"{EVIL}2", EVIL])
        yield replace(plain, answers=replace(plain.answers, locations=locations), target=EVIL, disassembler=EVIL)


def hostile_sources(_digest, files, _path):
    return [SourceText(file, f"{EVIL}\n" * 40, TextOrigin.MODULE) for file in files]


HOSTILE = Site(Hostile(), hostile_sources, only=(LARGE_DIGEST,))


def written(tmp_path, *options):
    target = tmp_path / "page.html"
    profile = raycast_profile(tmp_path)
    words = [
        str(RAYCAST),
        "--profile",
        str(profile),
        "--map",
        f"/tmp/symd-opencl={SOURCES}",
        "-o",
        str(target),
        *options,
    ]
    assert command_line.invoke(["view", *words]) == 0
    return target


def test_a_report_works_as_a_file(tmp_path, browser):
    target = written(tmp_path, "--variables", "3")
    with opened(browser) as it:
        it.go(target.as_uri()).locator(".place-name span:text-is('raycast+0x480')").wait_for()
    with opened(browser) as it:
        page = it.go(f"{target.as_uri()}#kernel=raycast&at=0x440")
        assert it.hosts == {""}
        assert page.locator(".frames .frame b").all_inner_texts() == ["length_squared", "raycast"]
        page.locator(".variables tbody tr").first.wait_for()
        assert page.locator("#source .row.lit code").inner_text().strip().startswith("return v.x * v.x")
        page.keyboard.press("b")
        page.locator("#level .row.lit:not([hidden])").first.wait_for()
        page.keyboard.press("h")
        page.locator(".place-name span:text-is('raycast+0x480')").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("raycast+0x458")
        page.locator("#found .hit").first.wait_for()
        page.keyboard.press("Enter")
        page.locator(".place-name span:text-is('raycast+0x458')").wait_for()
        page.locator(".variables .hint", has_text="symd view").wait_for()


def test_what_strangers_wrote_stays_text(tmp_path, browser):
    chosen, left = kernels_of(HOSTILE, LARGE_DIGEST)
    assert left == 0
    data = report(answers_of(HOSTILE, LARGE_DIGEST, chosen)[0], EVIL)
    assert data.count(b"</script>") == 2
    target = tmp_path / "page.html"
    target.write_bytes(data)
    with opened(browser) as it:
        page = it.go(target.as_uri())
        assert page.locator("#side .thing.on span").text_content() == EVIL
        page.locator("#code .row.code:not([hidden])").first.click()
        it.settle()
        page.keyboard.press("/")
        page.keyboard.type("img")
        page.locator("#found .hit").first.wait_for()
        assert page.title() != "taken"
        assert page.locator("img").count() == 0
        assert it.hosts == {""}


def test_the_same_served(browser):
    with viewed(lambda _: HOSTILE) as view, opened(browser) as it:
        page = it.go(view.url)
        page.locator("#code .row.code:not([hidden])").first.click()
        it.settle()
        assert page.title() != "taken"
        assert page.locator("img").count() == 0


def test_the_policy_names_what_is_inside(tmp_path):
    text = written(tmp_path).read_text()
    (policy,) = re.findall(r'http-equiv="content-security-policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.findall(r'(?:src|href)="(?!data:,)[^"]*"', text.partition('id="answers">')[0])


def test_a_report_of_a_kernel_that_is_not_there_is_refused(tmp_path, capsys):
    assert command_line.invoke(["view", str(RAYCAST), "--kernel", "absent", "-o", str(tmp_path / "page.html")]) == 1
    assert "absent" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_kernel_of_a_report_may_be_misspelt_or_readable(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert command_line.invoke(["view", str(RAYCAST), "--kernel", "raycst", "-o", str(page)]) == 1
    assert "did you mean raycast?" in capsys.readouterr().err
    cubin = str(RAYCAST.parents[3] / "cuda" / "bin" / "raycast.sm_90.lines.cubin")
    assert command_line.invoke(["view", cubin, "--kernel", "raycast", "--variables", "0", "-o", str(page)]) == 0
    assert "_Z7raycastPfi6float3" in page.read_text()


def test_a_profile_that_cannot_be_read_is_named(tmp_path, capsys):
    (tmp_path / "odd.bin").write_bytes(b"\0\1\2\3")
    assert command_line.invoke(["view", str(RAYCAST), "--profile", str(tmp_path / "odd.bin"), "-o", "-"]) == 2
    assert f"{tmp_path}/odd.bin: no reader knows this profile format" in capsys.readouterr().err


class OfTwoDevices(LargeModule):
    """A second code object is of a device that the installed disassembler does not know."""

    def module(self, digest):
        whole = super().module(digest)
        (first,) = whole.objects
        (kernel,) = first.kernels
        old = first._replace(path=ObjectPath("old"), target="sm_60", kernels=(kernel._replace(name="old"),))
        return whole._replace(objects=(first, old))

    def listing(self, digest, part, *_):
        if part.path == "old":
            raise Unsupported("no disassembler knows sm_60")
        yield from super().listing(digest, part)

    def symbolize_column(self, *_asked, **_words):
        (listing,) = super().listing(LARGE_DIGEST, WHOLE_MODULE)
        return replace(listing.answers, location=NOTHING, text_section=NOTHING, offset=NOTHING.astype(np.uint64))


def test_a_kernel_that_cannot_be_listed_does_not_keep_the_others_out(tmp_path, browser):
    site = Site(OfTwoDevices(30), hostile_sources, only=(LARGE_DIGEST,))
    chosen, _ = kernels_of(site, LARGE_DIGEST)
    answers, problems = answers_of(site, LARGE_DIGEST, chosen)
    assert problems == {"no disassembler knows sm_60": 1}
    target = tmp_path / "page.html"
    target.write_bytes(report(answers, "two"))
    with opened(browser) as it:
        page = it.go(target.as_uri())
        page.locator("#code .row.code:not([hidden])").first.wait_for()
        page.locator("#side .thing", has_text="old").click()
        page.locator("#crumbs strong", has_text="old").wait_for()
        assert "no disassembler knows sm_60" in page.locator("#code").inner_text()
        assert page.locator("#code .row.code:not([hidden])").count() == 0
    with pytest.raises(Unsupported, match="sm_60"):
        answers_of(site, LARGE_DIGEST, [each for each in chosen if each[0] == "old"])


def test_a_module_of_which_only_lines_are_known_is_written_and_that_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    page = tmp_path / "page.html"
    assert command_line.invoke(["view", str(CUBIN), "-o", str(page)]) == 0
    said = capsys.readouterr().err
    assert "symd: 1 of 1 kernel has no instructions in the page" in said
    assert "nvdisasm" in said
    assert "tonemap.cu" in page.read_text()


def test_a_profile_of_something_else_is_said(tmp_path, capsys):
    (tmp_path / "other.folded").write_text("main;[elsewhere+0x10] 5\n")
    (tmp_path / "none.folded").write_text("main 5\n")
    for name, said in (("other", "UNKNOWN_KERNEL (--id says what the profile calls it)"), ("none", "UNKNOWN_MODULE")):
        profile = str(tmp_path / f"{name}.folded")
        assert (
            command_line.invoke(
                ["view", str(RAYCAST), "--variables", "0", "--profile", profile, "-o", str(tmp_path / "page.html")]
            )
            == 0
        )
        assert said in capsys.readouterr().err
    assert (
        command_line.invoke(
            ["view", str(RAYCAST), "--profile", str(raycast_profile(tmp_path)), "-o", str(tmp_path / "page.html")]
        )
        == 0
    )
    assert "none of the samples" not in capsys.readouterr().err


def test_samples_in_no_kernel_are_said_and_shown(tmp_path, capsys):
    """Of 1,000 samples 55 are in the kernel; shares on the page are of all."""
    profile, page = tmp_path / "most.folded", tmp_path / "page.html"
    profile.write_text("main;raycast+0x438 55\nmain;elsewhere+0x10 905\nmain 40\n")
    assert (
        command_line.invoke(["view", str(RAYCAST), "--variables", "0", "--profile", str(profile), "-o", str(page)]) == 0
    )
    said = capsys.readouterr().err
    assert f"symd: 945 of 1,000 samples (94.5 %) of {profile} have no place in a kernel of {RAYCAST}: " in said
    assert "905 UNKNOWN_KERNEL" in said
    assert "40 UNKNOWN_MODULE" in said
    shown = samples_json(*shown_samples(profile))
    assert shown["metrics"] == [{"name": "samples", "unit": "count", "total": 1000}]
    inside = sum(sum(each["values"][0]) for each in shown["objects"])
    assert (inside, shown["left"]) == (55, {"UNKNOWN_KERNEL": [905], "UNKNOWN_MODULE": [40]})


def shown_samples(profile):
    """The samples of a profile on raycast, and the module's digest."""
    with shown_module(str(RAYCAST), None, Limits(), None, str(profile), None, (), ()) as shown:
        return shown.profile, shown.digest


def test_the_page_shows_what_lies_in_no_kernel(tmp_path, browser):
    profile, target = tmp_path / "most.folded", tmp_path / "page.html"
    profile.write_text("main;raycast+0x438 55\nmain;elsewhere+0x10 905\nmain 40\n")
    words = ["view", str(RAYCAST), "--variables", "0", "--profile", str(profile), "-o", str(target)]
    assert command_line.invoke(words) == 0
    with opened(browser) as it:
        page = it.go(f"{target.as_uri()}#kernel=raycast")
        page.locator("#side .elsewhere").first.wait_for()
        shares = page.locator("#side ul").first.locator("em").all_inner_texts()
    assert shares == ["5.5%", "90.5%", "4.0%"]


def test_samples_behind_a_kernel_without_instructions_are_not_its(tmp_path, browser, capsys):
    """The kernel ``empty`` has a symbol of size 0; 20 of 100 samples lie behind the 32 bytes of ``full``, in no kernel."""
    text = "kernel void empty(global int *p) { __builtin_unreachable(); }\n" + "".join(
        f"kernel void {name}(global int *p) {{ *p = 1; }}\n" for name in ("full", "last")
    )
    module = objects.compiled(tmp_path, "three.cl", text, "-O1")
    sizes = {each.name: each.size for each in symd.open(module).summary.objects[0].kernels}
    assert sizes["empty"] == 0 < sizes["full"] < 0xF0
    profile, target = tmp_path / "few.folded", tmp_path / "page.html"
    profile.write_text("main;full+0x4 80\nmain;full+0xf0 20\n")
    assert (
        command_line.invoke(["view", str(module), "--variables", "0", "--profile", str(profile), "-o", str(target)])
        == 0
    )
    assert "20 of 100 samples" in capsys.readouterr().err
    with opened(browser) as it:
        page = it.go(f"{target.as_uri()}#kernel=full")
        page.locator("#side .elsewhere").first.wait_for()
        shares = page.locator("#side ul").first.locator("em").all_inner_texts()
    assert shares == ["80.0%", "20.0%"]


def test_every_module_of_the_page_is_in_the_joined_script():
    joined = joined_script()
    modules = [name.removesuffix(".js") for name in assets() if name.endswith(".js")]
    assert all(f"const ${name} = " in joined for name in modules)
    assert not re.search(r"^\s*(import|export)\b", joined, re.MULTILINE)
    assert all(mark not in joined + assets()["page.css"].decode() for mark in ("</script", "</style", "<!--"))


def test_the_page_makes_no_html_of_texts():
    """What would read a text as HTML, or as a program."""
    for name, data in assets().items():
        if name.endswith(".js"):
            assert not re.findall(
                rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc", data
            ), name
