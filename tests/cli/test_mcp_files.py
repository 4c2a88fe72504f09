"""Which files an assistant of symd mcp has opened: those that the user named, whoever names others."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.files.companion_files import with_debug_file, with_dwo_files, with_kernel_packs
from symd.engine.files.input import AllowedFiles, read_input
from symd.errors import InvalidInput, PermissionDenied
from tests.builders.kpack import host, kernel_pack
from tests.cli.conftest import ROOT, Run
from tests.cli.test_mcp import SHADE, asked
from tests.formats.containers.amd import objects
from tests.tools import require

TEXT = "HUNTER2"
REFUSED = "PERMISSION_DENIED"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder "src" that is allowed, and around it what is not."""
    for name in ("src/deep", "src-secret"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("src/shade.co", "outside.co", "src-secret/shade.co"):
        shutil.copy(SHADE, tmp_path / name)
    (tmp_path / "secret").write_text(f"{TEXT}\n" * 40)
    links = {
        "src/file": "../secret",
        "src/absolute": tmp_path / "outside.co",
        "src/folder": "..",
        "src/deep/inside": "../shade.co",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


def names_outside(place: Path) -> list[str]:
    """Ways to name files that are not allowed; the last two name nothing that is there."""
    secret = place / "secret"
    return [
        "/etc/passwd", "file:///etc/passwd", "file:///etc/passwd#offset=0&size=8", "file:///etc/passwd?offset=8&size=8",
        "file:///%65tc/passwd", "file:///proc/self/root/etc/passwd", "/proc/self/root/etc/passwd", "/proc/self/environ",
        str(secret), "../secret", f"file://{secret}#offset=0&size=8", "file:///proc/self/cwd/../secret",
        f"{place}/src/../secret", f"{place}/src/file", f"file://{place}/src/file#offset=0&size=7", f"{place}/src/absolute",
        f"{place}/src/folder/secret", f"{place}/src/folder/src-secret/shade.co", f"{place}/src-secret/shade.co",
        f"{place}/outside.co", "/dev/zero", "/etc", f"{place}/secret.none", "/nowhere",
    ]  # fmt: skip


def test_what_lies_below_no_root_is_not_opened(place: Path) -> None:
    names = names_outside(place)
    src = place / "src"
    calls = [
        *(("info", {"file": name}) for name in names),
        *(("hot_lines", {"profile": name, "modules": [str(src / "shade.co")]}) for name in names),
        *(("hot_lines", {"profile": str(src / "shade.co"), "modules": [f"1={name}"]}) for name in names),
    ]
    for (_, arguments), told in zip(calls, asked(calls, "--source-root", str(src), cwd=src), strict=True):
        assert REFUSED in told, (arguments, told)
        assert "symd mcp FILE" in told
        assert "symd mcp --source-root FOLDER" in told


def test_by_default_nothing_is_opened(place: Path) -> None:
    src = place / "src"
    names = ["shade.co", str(src / "shade.co"), f"file://{src}/shade.co", ".", *names_outside(place)]
    calls = [("info", {"file": name}) for name in names]
    told = asked(calls, "--limit", "module_size=1G", cwd=src)
    assert all(REFUSED in each for each in told), told


def test_what_was_given_or_lies_below_a_root_is_opened(place: Path) -> None:
    src, size = place / "src", SHADE.stat().st_size
    (place / "link.co").symlink_to("outside.co")
    names = [
        "shade.co", "./deep/../shade.co", str(src / "shade.co"), f"file://{src}/shade.co", f"file://{src}/shade.co#offset=0&size={size}",
        f"file:///proc/self/root{src}/shade.co", "deep/inside", str(place / "outside.co"), "../outside.co", str(place / "link.co"),
    ]  # fmt: skip
    calls = [("info", {"file": name}) for name in names]
    for name, told in zip(names, asked(calls, "--source-root", ".", str(place / "link.co"), cwd=src), strict=True):
        assert told["format"] == "amdgpu", (name, told)


def test_a_module_that_is_not_there_is_told_at_the_start(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    done = run("mcp", tmp_path / "nothing.co")
    assert done.code == 2
    assert f"{tmp_path}/nothing.co: cannot read the file: no such file or directory" in done.err


@pytest.mark.parametrize(
    ("folder", "name"),
    [(b".", b".env"), (b".", b"../.env"), (b".", b"src/.env"), (b"/etc", b"passwd"), (b"/srv", b"x/.env")],
)
@pytest.mark.parametrize("rooted", [True, False])
def test_names_inside_a_module_open_nothing_else(place: Path, folder: bytes, name: bytes, rooted: bool) -> None:
    """Beside the module, above the root, and by an absolute path. By default the working directory is no root. The module has the sum of what it
    names, as a hostile one has none, so that this is not in the way."""
    require("llvm-objdump")
    src = place / "src"
    for path in (src / ".env", place / ".env", src / "src", src / "x"):
        if path.name == ".env":
            path.write_text(f"{TEXT}\n" * 40)
        else:
            path.mkdir()
            (path / ".env").write_text(f"{TEXT}\n" * 40)
    data = SHADE.read_bytes()
    data = data.replace(b"/src\0", folder.ljust(4, b"\0") + b"\0").replace(b"shade.cl\0", name.ljust(8, b"\0") + b"\0")
    compiled = (ROOT / "samples" / "amdgpu" / "src" / "shade.cl").read_bytes()
    wanted = Path("/etc/passwd").read_bytes() if name == b"passwd" else f"{TEXT}\n".encode() * 40
    assert _sum(compiled) in data
    (src / "shade.co").write_bytes(data.replace(_sum(compiled), _sum(wanted)))
    options = ["--source-root", ".", "--map", f"/srv={src}"] if rooted else ["shade.co"]
    [told] = asked([("listing", {"file": "shade.co", "kernel": "shade"})], *options, cwd=src)
    [listed] = told["objects"]
    assert any(
        each.get("line", "").endswith(name.decode().rpartition("/")[2] + ":13") for each in listed["instructions"]
    )
    assert listed["source"] == {}


def _sum(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def test_sources_below_the_root_are_still_read(place: Path) -> None:
    require("llvm-objdump")
    shutil.copytree(ROOT / "samples" / "amdgpu" / "src", place / "src" / "kernels")
    options = ["--source-root", str(place / "src"), "--map", "/src=kernels"]
    [told] = asked([("listing", {"file": f"{place}/src/shade.co", "kernel": "shade", "count": 1000})], *options)
    text = (place / "src" / "kernels" / "shade.cl").read_text().splitlines()
    assert told["objects"][0]["source"]["/src/shade.cl:13"] == text[12]


def allowed(*roots: Path, files: tuple[Path, ...] = ()) -> AllowedFiles:
    return AllowedFiles(roots, [str(file) for file in files], "hint")


@pytest.mark.parametrize("outward", [False, True])
def test_the_debug_file_beside_a_module_is_opened_below_a_root_alone(run: Run, tmp_path: Path, outward: bool) -> None:
    src = tmp_path / "src"
    src.mkdir()
    assert run("slim", SHADE, src / "slim.co").code == 0
    debug = src / "slim.co.debug"
    if outward:
        debug.rename(tmp_path / "kept")
        debug.symlink_to("../kept")
    file = src / "slim.co"
    data = file.read_bytes()
    assert with_debug_file(data, str(file), Limits()) != data
    assert (with_debug_file(data, str(file), Limits(), allowed(src)) == data) is outward
    assert with_debug_file(data, str(file), Limits(), allowed(files=(file,))) == data


@pytest.mark.parametrize("suffix", [".dwo", ".co.dwp"])
def test_split_files_are_opened_below_a_root_alone(tmp_path: Path, suffix: str) -> None:
    src, name = tmp_path / "src", "split-19-dwarf5"
    src.mkdir()
    file, data = src / f"{name}.co", objects.sample(f"{name}.co")
    file.write_bytes(data)
    beside = src / f"{name}{suffix}"
    beside.write_bytes(objects.sample(beside.name))
    assert with_dwo_files(data, str(file), Limits(), allowed=allowed(src)) != data
    assert with_dwo_files(data, str(file), Limits(), allowed=allowed(files=(file,))) == data
    beside.rename(tmp_path / "kept")
    beside.symlink_to("../kept")
    assert with_dwo_files(data, str(file), Limits()) != data
    assert with_dwo_files(data, str(file), Limits(), allowed=allowed(src)) == data


@pytest.mark.parametrize("named", ["../.kpack/r_@GFXARCH@.kpack", "absolute", "../@GFXARCH@/../.kpack/r_gfx900.kpack"])
def test_kernel_packs_are_opened_below_a_root_alone(tmp_path: Path, named: str) -> None:
    for folder in ("lib", ".kpack", "gfx"):
        (tmp_path / folder).mkdir()
    named = f"{tmp_path}/.kpack/r_gfx900.kpack" if named == "absolute" else named
    program, data = tmp_path / "lib" / "x.so", host("lib/x.so", named)
    program.write_bytes(data)
    pack = tmp_path / ".kpack" / "r_gfx900.kpack"
    pack.write_bytes(kernel_pack(("lib/x.so#0", "gfx900", b"code")))
    assert with_kernel_packs(data, str(program), Limits(), {}, allowed=allowed(tmp_path)) != data
    for environment in ({}, {"ROCM_KPACK_PATH": str(pack)}, {"ROCM_KPACK_PATH_PREFIX": str(pack)}):
        with pytest.raises(InvalidInput, match="none that is there has"):
            with_kernel_packs(data, str(program), Limits(), environment, allowed=allowed(tmp_path / "lib"))


def test_a_link_that_is_put_there_after_the_check_leads_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the way to a file being resolved and its being opened the folder on it, or the file itself, is replaced."""
    real = os.path.realpath

    def swapped(path: str, **more: bool) -> str:
        found = real(path, **more)
        (place / "src" / "deep").rename(place / "was")
        (place / "src" / "deep").symlink_to(place)
        return found

    (place / "src" / "deep" / "secret").write_text("ours")
    below, given = allowed(place / "src"), allowed(files=(place / "src" / "deep" / "secret",))
    file = str(place / "src" / "deep" / "secret")
    for each in (below, given):
        assert read_input(file, Limits(), allowed=each) == b"ours"
        monkeypatch.setattr(os.path, "realpath", swapped)
        with pytest.raises(InvalidInput, match="cannot read the file"):
            read_input(file, Limits(), allowed=each)
        monkeypatch.undo()
        with pytest.raises(PermissionDenied):
            read_input(file, Limits(), allowed=each)
        (place / "src" / "deep").unlink()
        (place / "was").rename(place / "src" / "deep")
