"""symd as a debuginfod server: asked by the real client, and beside the real server."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.server.http.daemon import SAMPLES, Web, web_daemon
from tests.server.http.real_debuginfod import build_id, found, linked, served_by_debuginfod

HOST = SAMPLES / "amdgpu" / "bin" / "host"
STRIPPED = SAMPLES / "amdgpu" / "bin" / "v4-gfx900-nodebug.co"
BUNDLE = SAMPLES / "amdgpu" / "bin" / "v2-zstd.ccob"
ZEBIN = SAMPLES / "kernels" / "bin" / "vadd" / "igc2-dg2-opt.zebin"


@pytest.fixture(scope="module")
def shade(tmp_path_factory):
    return linked(tmp_path_factory.mktemp("linked"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, shade):
    folder = tmp_path_factory.mktemp("daemon")
    with web_daemon(folder, "--map", f"/src={folder}/src") as web:
        shutil.copy(SAMPLES / "amdgpu" / "src" / "shade.cl", folder / "src" / "shade.cl")
        (folder / "src" / "secret.txt").write_text("no code names it")
        web.add(shade[0], HOST, STRIPPED, BUNDLE, ZEBIN)
        yield web


def test_the_real_client_gets_modules_by_build_id(daemon: Web, shade, tmp_path: Path) -> None:
    file, name = shade
    assert found(tmp_path, daemon.url, "executable", name) == file.read_bytes()
    assert found(tmp_path, daemon.url, "debuginfo", name) == file.read_bytes()
    assert found(tmp_path, daemon.url, "executable", build_id(HOST)) == HOST.read_bytes()
    assert found(tmp_path, daemon.url, "executable", "00" * 20) is None


def test_a_digest_stands_for_a_build_id_where_code_has_none(daemon: Web, tmp_path: Path) -> None:
    [digest] = daemon.add(ZEBIN)
    for name in (digest, digest[:40], digest[:16]):
        assert found(tmp_path, daemon.url, "executable", name) == ZEBIN.read_bytes()
    assert found(tmp_path, daemon.url, "executable", digest[:14]) is None


def test_a_code_object_inside_a_module_is_found_by_its_digest(daemon: Web, tmp_path: Path) -> None:
    from symd import Client  # noqa: PLC0415

    [digest] = daemon.add(BUNDLE)
    with Client(daemon.address) as client:
        inside = client.module(digest).objects
        for item in inside:
            assert found(tmp_path, daemon.url, "executable", item.sha256) == client.object_data(digest, item.path)


def test_sections_are_those_of_the_real_server(daemon: Web, shade, tmp_path: Path) -> None:
    file, name = shade
    (tmp_path / "served").mkdir()
    shutil.copy(file, tmp_path / "served")
    with served_by_debuginfod(tmp_path / "served", name) as real:
        for section in (".text", ".debug_line", ".debug_info", ".rodata", ".note", ".no_such"):
            path = f"buildid/{name}/section/{section}"
            try:
                with urllib.request.urlopen(f"{real}/{path}") as answer:  # noqa: S310 - of this test
                    expected = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                expected = error.code, b""
            status, _, body = daemon.ask(path)
            assert (status, body if status == 200 else b"") == expected, section


def test_what_has_no_debug_data_has_none(daemon: Web, tmp_path: Path) -> None:
    [digest] = daemon.add(STRIPPED)
    assert found(tmp_path, daemon.url, "debuginfo", digest) is None
    assert found(tmp_path, daemon.url, "executable", digest) == STRIPPED.read_bytes()


def test_sources_that_the_code_names_and_no_others(daemon: Web, shade, tmp_path: Path) -> None:
    _, name = shade
    source = (SAMPLES / "amdgpu" / "src" / "shade.cl").read_bytes()
    assert found(tmp_path, daemon.url, "source", name, "/src/shade.cl") == source
    for path in (
        "src/secret.txt",
        "src/../src/secret.txt",
        "etc/passwd",
        "..%2f..%2fetc/passwd",
        "%2e%2e/secret.txt",
        "",
    ):
        status, _, body = daemon.ask(f"buildid/{name}/source/{path}")
        assert status == 404, path
        assert b"no code names it" not in body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("buildid/xyz/executable", 400),
        ("buildid/abc/executable", 400),
        (f"buildid/{'ab' * 65}/executable", 400),
        ("buildid/../api/modules/executable", 404),
        (f"buildid/{'00' * 20}/nothing", 404),
        (f"buildid/{'00' * 20}/section/.text", 404),
    ],
)
def test_what_is_none_is_refused(daemon: Web, path: str, status: int) -> None:
    assert daemon.ask(path)[0] == status


def test_the_size_is_told_before_the_bytes(daemon: Web, shade) -> None:
    file, name = shade
    status, headers, body = daemon.ask(f"buildid/{name}/executable")
    assert (status, int(headers["x-debuginfod-size"])) == (200, len(body))
    assert len(body) == file.stat().st_size


def test_nobody_gets_in_without_the_secret_part(daemon: Web, shade, tmp_path: Path) -> None:
    base = daemon.url.rstrip("/").rpartition("/")[0]
    assert found(tmp_path, base, "executable", shade[1]) is None


def test_the_real_client_shows_a_token_by_its_file_of_headers(tmp_path: Path, shade) -> None:
    from symd.server.access_file import new_token, token_line  # noqa: PLC0415
    from symd.server.config import parse_rights  # noqa: PLC0415

    token = new_token()
    access = tmp_path / "access"
    access.write_text(token_line("reader", parse_rights("read"), token) + "\n")
    access.chmod(0o600)
    headers = tmp_path / "headers"
    headers.write_text(f"authorization: Bearer {token}\n")
    with web_daemon(tmp_path, "--access", str(access)) as web:
        web.add(shade[0])
        assert web.ask(f"buildid/{shade[1]}/executable")[0] == 401
        got = found(tmp_path, web.url, "executable", shade[1], DEBUGINFOD_HEADERS_FILE=str(headers))
        assert got == shade[0].read_bytes()
