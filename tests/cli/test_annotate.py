"""symd annotate --server: a text from somebody else names files of this machine, and none of them goes to a daemon unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from symd import Client

CODE = Path(__file__).parents[2] / "samples" / "amdgpu" / "bin" / "v3-gfx906-xnack-off.co"
ANSWER = "    symd: 0x7f1200001940: shade at /src/shade.cl:23:41"


def annotated(text: str, *arguments: object) -> tuple[list[str], str]:
    """(the lines that were added, what was said beside)."""
    command = [sys.executable, "-m", "symd", "annotate", *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, timeout=120, check=True, text=True)
    assert [line for line in done.stdout.splitlines() if not line.startswith("    symd: ")] == text.splitlines()
    return [line for line in done.stdout.splitlines() if line.startswith("    symd: ")], done.stderr


@pytest.fixture
def text(tmp_path: Path) -> str:
    """It names a file, a part of it, and one through a link."""
    (tmp_path / "link.co").symlink_to(CODE)
    whole, part, linked = (
        f"file://{CODE}",
        f"file://{CODE}#offset=0&size={CODE.stat().st_size}",
        f"file://{tmp_path}/link.co",
    )
    stop = "loaded at: [0x7f1200000000-0x7f1200003000]\nat PC 0x7f1200001940\n"
    return "".join(f"code object: {uri}\n{stop}" for uri in (whole, part, linked))


def test_files_that_a_text_names_stay_here(server: str, text: str) -> None:
    added, said = annotated(text, "--server", server)
    assert added == []
    assert (
        said.splitlines()[0]
        == f"symd: file://{CODE}: it stays here (-m FILE sends it, --files sends all that the text names)"
    )
    assert len(said.splitlines()) == 3
    nothing = (
        "symd: standard input: 0 lines annotated: none names a place in a module that is known;"
        f" write symd annotate -m FILE --server {server} --no-files, where FILE is the module that ran\n"
    )
    assert annotated(text, "--server", server, "--no-files") == ([], nothing)
    with Client(server) as client:
        assert list(client.modules()) == []


@pytest.mark.parametrize(
    "given", [("-m", CODE), ("--files",), ("-m", CODE, "--no-files")], ids=["-m", "--files", "-m --no-files"]
)
def test_files_that_the_user_gives_are_sent(server: str, text: str, given: tuple[object, ...]) -> None:
    assert annotated(text, "--server", server, *given) == ([ANSWER] * 3, "")
    with Client(server) as client:
        assert [module.size for module in client.modules()] == [CODE.stat().st_size]


def test_another_file_than_the_one_given_stays_here(server: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    other = f"code object: file://{tmp_path}/secret\nloaded at: [0x1000-0x2000]\nat PC 0x1010\n"
    added, said = annotated(text + other, "--server", server, "-m", CODE)
    assert (added, said.count("\n")) == ([ANSWER] * 3, 1)
    assert "secret: it stays here" in said


def test_a_module_in_the_place_of_the_log_is_told_so() -> None:
    command = [sys.executable, "-m", "symd", "annotate", str(CODE)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"symd: {CODE}: this is amdgpu, a module, not text (symd annotate -m {CODE} LOG)\n"
