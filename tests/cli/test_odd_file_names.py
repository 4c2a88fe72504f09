"""Names of files are bytes: one that is no UTF-8 is answered as any other, and shown with its bytes escaped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Run, serving
from tests.cli.forked import Parent

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
NAME = os.fsdecode(b"bad\xff\xfe.co")
VERBS = {
    "info": ("info", "{file}"),
    "lines": ("lines", "{file}"),
    "names": ("names", "{file}", "*"),
    "variables": ("variables", "{file}", "shade+0x40"),
    "locate": ("locate", "{file}", "nosuch.hip:1"),
    "extract": ("extract", "{file}", "{folder}/out"),
    "a page": ("view", "{file}", "-o", "{folder}/page.html"),
    "annotate": ("annotate", "-m", "{file}"),
    "symbolize": ("symbolize", "{file}", "shade+0x40"),
    "symbolize with debug data apart": ("symbolize", "{file}", "shade+0x40", "--debug", "{apart}"),
}


@pytest.fixture(params=["a file", "a folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A module in a file with such a name, or in a folder."""
    (tmp_path / "plain").mkdir()
    path = tmp_path / NAME if request.param == "a file" else tmp_path / NAME / "kernels.co"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(SHADE.read_bytes())
    return path


@pytest.mark.parametrize("call", VERBS.values(), ids=VERBS)
def test_each_verb_answers_as_for_another_name(
    run: Run, odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str, ...]
) -> None:
    with open(os.devnull) as nothing:  # noqa: PTH123 - what annotate reads
        monkeypatch.setattr("sys.stdin", nothing)
        plain = run(*(each.format(file=SHADE, folder=tmp_path / "plain", apart=SHADE) for each in call))
        done = run(*(each.format(file=odd, folder=tmp_path, apart=odd) for each in call))
    assert "Traceback" not in done.err
    assert done.code == plain.code < 3


def test_a_daemon_lists_it_with_its_bytes_escaped(symd: Run, server: str, odd: Path) -> None:
    assert symd("info", "--server", server, odd).code == 0
    [record] = symd("modules", "--json", "--server", server).json
    assert record["label"] == str(odd).replace("\udcff", "\\udcff").replace("\udcfe", "\\udcfe")


NO_UTF8 = {
    "a daemon's socket": ("info", SHADE, "--server", "unix:\udcff.sock"),
    "a daemon's host": ("info", SHADE, "--server", "host\udcff:50051"),
    "a socket to listen at": ("serve", "--address", "unix:\udcff.sock"),
    "a host to listen at": ("serve", "--address", "host\udcff:50051", "--insecure"),
}
ASKED_NO_UTF8 = {
    "a code object": ("symbolize", SHADE, "0x1978", "--object", "\udcff"),
    "a kernel": ("listing", SHADE, "--function", "\udcff"),
    "a function": ("symbolize", SHADE, "\udcff+0x10"),
    "a service": ("health", "--service", "\udcff"),
    "build flags": ("grab", ROOT / "samples/kernels/vadd.cl", "-o", "vadd.dbg", "--build-flags=-D\udcff"),
}


@pytest.mark.parametrize("call", NO_UTF8.values(), ids=NO_UTF8)
def test_what_grpc_cannot_say_is_refused_in_a_sentence(
    symd: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str | Path, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = symd(*call)
    assert (done.code, "Traceback" in done.err, "\\udcff" in done.err) == (2, False, True), done.err


@pytest.mark.parametrize("call", ASKED_NO_UTF8.values(), ids=ASKED_NO_UTF8)
def test_a_daemon_is_asked_about_utf8_alone(
    symd: Run, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str | Path, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = symd(*call, "--server", server)
    assert (done.code, "Traceback" in done.err, "not UTF-8" in done.err) == (2, False, True), done.err


def test_a_daemon_says_where_its_store_is_with_its_bytes_escaped(
    symd: Run, parent_of_commands: Parent, tmp_path: Path
) -> None:
    with serving(tmp_path, tmp_path / NAME, parent_of_commands) as address:
        done = symd("status", "--server", address)
    assert (done.code, f"store          {tmp_path}/bad\\udcff\\udcfe.co\n" in done.out) == (0, True), done.err
