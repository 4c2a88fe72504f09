"""``symd symbolize --store`` answers what ``symd symbolize`` does, and the shortest way only where nothing else was asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from symd.cli import command_line
from symd.cli.start import stored_answers as stored
from symd.cli.start.stored_answers import stored_answers
from symd.config import default_store
from symd.engine.engine import Engine
from symd.errors import FailedPrecondition
from symd.model.answers import Reason
from symd.store import Store
from symd.store.folder import check_private

SAMPLES = Path(__file__).parents[3] / "samples"
FILE = SAMPLES / "amdgpu/bin/v4-gfx900.co"
RAYCAST = SAMPLES / "kernels/bin/raycast/dg2-opt.dbg"
SYMD = (sys.executable, "-m", "symd", "symbolize")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that has two modules."""
    folder = tmp_path_factory.mktemp("private") / "store"
    with Engine(Store(folder, durable=False)) as engine:
        for file in (FILE, RAYCAST):
            engine.add(file.read_bytes())
    return str(folder)


def run(*arguments: object, **environment: str) -> str:
    command = [*SYMD, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    ).stdout


@pytest.mark.parametrize(("file", "addresses"), [(FILE, range(0x1900, 0x1A00, 4)), (RAYCAST, range(0, 0x800, 16))])
def test_answers_are_those_of_the_file(
    folder: str, file: Path, addresses: range, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [f"{address:#x}" for address in addresses]
    expected = run(file, *asked)
    assert "(inlined by)" in expected
    written = [stored_answers(["--store", folder, str(file), text], {}) for text in asked]
    assert sum(text is not None for text in written) > 30
    for text, said in zip(asked, written, strict=True):
        if said is None:
            command_line.invoke(["symbolize", str(file), text])
        else:
            sys.stdout.write(said)
    assert capsys.readouterr().out == expected
    assert run("--store", folder, file, *asked) == expected
    assert run(file, "--store", folder, "--json", *asked) == run(file, "--json", *asked)


def test_a_plain_answer_imports_no_numpy(folder: str) -> None:
    program = (
        "import sys; sys.argv = ['symd', 'symbolize', *sys.argv[1:]]\n"
        "import symd.cli.start, atexit\n"
        "atexit.register(lambda: print(*sys.modules))\n"
        "symd.cli.start.main()"
    )
    command = [sys.executable, "-c", program, "--store", folder, str(FILE), "0x1978"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    answer, modules = done.stdout.rsplit("\n", 2)[0], done.stdout.splitlines()[-1].split()
    assert answer.splitlines() == run(FILE, "0x1978").splitlines()
    assert "symd.core.index_lookup" in modules
    assert not {"numpy", "click", "symd.cli.command_line", "symd.config"}.intersection(modules)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--store", "STORE", "FILE"], {}),
        (["--store", "STORE", "FILE", "-"], {}),
        (["--store", "STORE", "--json", "FILE", "0x1978"], {}),
        (["--store", "STORE", "FILE", "shade+8"], {}),
        (["--store", "STORE", "FILE", "0x1_978"], {}),
        (["--store", "STORE", "FILE", "1978x"], {}),
        (["--store", "STORE", "FILE", "\u0661"], {}),
        (["--store", "STORE", "FILE", "0x19780000000000000"], {}),
        (["--store", "STORE", "FILE.gz", "0x1978"], {}),
        (["--store", "STORE", f"file://{FILE}", "0x1978"], {}),
        (["--store", "STORE", "modules/1234", "0x1978"], {}),
        (["--store", "STORE", "nowhere", "0x1978"], {}),
        (["--store", "STORE", "no\0where", "0x1978"], {}),
        (["--store", "STORE", str(SAMPLES), "0x1978"], {}),
        (["--store", "STORE", os.devnull, "0x1978"], {}),
        (["--store", "STORE", str(SAMPLES / "amdgpu/bin/v4-gfx900.o"), "0x1978"], {}),
        (["--store", "STORE", "FILE", "0x7fffffffffffffff"], {}),
        (["--store", "nowhere", "FILE", "0x1978"], {}),
        (["--store", "STORE", "FILE", "0x1978"], {"SYMD_SERVER": "default"}),
        (["FILE", "0x1978", "--store"], {}),
    ],
)
def test_what_is_not_plain_is_left_to_the_command_line(
    folder: str, arguments: list[str], environment: Mapping[str, str]
) -> None:
    written = {"STORE": folder, "FILE": str(FILE), "FILE.gz": f"{FILE}.gz"}
    assert stored_answers(["--store", folder, str(FILE), "0x1978", "6520"], {}) is not None
    assert stored_answers([written.get(each, each) for each in arguments], environment) is None


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "SYMD_STORE", "HOME"])
def test_the_default_store_is_the_daemons(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("XDG_CACHE_HOME", "SYMD_STORE"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    assert Path(stored.default_store(os.environ)) == default_store()


@pytest.mark.parametrize(
    ("mode", "above"), [(0o700, 0o700), (0o755, 0o755), (0o770, 0o700), (0o702, 0o700), (0o700, 0o777), (0o700, 0o1777)]
)
def test_a_store_that_others_may_change_is_not_read(folder: str, tmp_path: Path, mode: int, above: int) -> None:
    outer = tmp_path / "outer"
    shutil.copytree(folder, outer / "store")
    (outer / "store").chmod(mode)
    outer.chmod(above)
    try:
        check_private(outer / "store")
        is_private = True
    except FailedPrecondition:
        is_private = False
    assert stored.is_private(str(outer / "store")) == is_private
    assert (stored_answers(["--store", str(outer / "store"), str(FILE), "0x1978"], {}) is not None) == is_private


def test_a_link_to_a_store_is_looked_at_by_the_command_line(folder: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert stored_answers(["--store", folder, str(FILE), "0x1978"], {}) is not None
    assert stored_answers(["--store", str(tmp_path / "link"), str(FILE), "0x1978"], {}) is None


def test_debug_data_elsewhere_is_looked_for(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setattr(
        stored, "_named_at", lambda *_: (int(Reason.DEBUG_DATA_ELSEWHERE), ((None, None, "a.cl", 1, 1),))
    )
    assert stored_answers(["--store", folder, str(FILE), "0x1978"], {}) is None


def test_a_file_that_the_store_does_not_have_is_read(folder: str) -> None:
    file = SAMPLES / "amdgpu/bin/v5-gfx1100.co"
    other = file if file.exists() else min((SAMPLES / "amdgpu/bin").glob("v5*.co"))
    assert run("--store", folder, other, "0x1978") == run(other, "0x1978") != ""


def test_a_damaged_index_is_not_read(folder: str, tmp_path: Path) -> None:
    copy = tmp_path / "store"
    shutil.copytree(folder, copy)
    for index in copy.glob("index/*/*/*.idx"):
        index.write_bytes(index.read_bytes()[:-1] + b"!")
    assert stored_answers(["--store", str(copy), str(FILE), "0x1978"], {}) is None
    assert run("--store", copy, FILE, "0x1978") == run(FILE, "0x1978") != ""


def test_what_cannot_be_written_is_said(folder: str) -> None:
    command = [*SYMD, "--store", folder, str(FILE), "0x1978"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (3, "symd: standard output: cannot write: no space left on device\n")
