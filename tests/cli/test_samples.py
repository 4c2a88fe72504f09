"""``symd samples``: copies of small folders in the place of what is shipped."""

import errno
from pathlib import Path

import pytest

from symd.cli import setup
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shipped"
    for file in ("samples/kernels/vadd.cl", "samples/__pycache__/left.pyc", "protos/symd.proto"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file)
    monkeypatch.setattr(setup, "shipped", folder.joinpath)
    return folder


def test_every_tutorial_may_begin_with_the_same_copy(run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        outcome = run("samples", tmp_path)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out == f"{tmp_path}/samples\n{tmp_path}/protos\n"
        assert not (tmp_path / "samples" / "__pycache__").exists()
        (tmp_path / "samples" / "mine").write_text("what somebody put beside them")


def test_what_is_missing_of_a_copy_is_copied(run: Run, tmp_path: Path) -> None:
    assert run("samples", tmp_path).code == 0
    (tmp_path / "protos" / "symd.proto").unlink()
    (tmp_path / "protos").rmdir()
    assert run("samples", tmp_path).code == 0
    assert (tmp_path / "protos" / "symd.proto").exists()


@pytest.mark.parametrize("name", ["samples", "protos"])
def test_something_else_of_the_name_stays(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    outcome = run("samples", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    file = {"samples": "kernels/vadd.cl", "protos": "symd.proto"}[name]
    assert outcome.err == (
        f"symd: {tmp_path}/{name}: something else is there already: {file} is not there, or not as symd has it "
        "(name another folder, or remove this one)\n"
    )
    assert not [*(tmp_path / name).iterdir()]


def test_a_changed_sample_is_something_else(run: Run, tmp_path: Path) -> None:
    assert run("samples", tmp_path).code == 0
    (tmp_path / "samples" / "kernels" / "vadd.cl").write_text("changed by somebody")
    assert run("samples", tmp_path).code == 2


def test_a_copy_that_is_interrupted_leaves_nothing_in_the_way_of_the_next(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("shutil.copy2", interrupt)
        assert run("samples", tmp_path / "place").code == 130
    assert not [*(tmp_path / "place").iterdir()]
    assert run("samples", tmp_path / "place").code == 0


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_disk_that_refuses_says_so_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr("shutil.copy2", refuse)
    outcome = run("samples", tmp_path / "place")
    said = f"symd: {tmp_path}/place/samples: cannot copy: no space left on device (name another folder)\n"
    assert (outcome.code, outcome.err) == (3, said)
    assert not [*(tmp_path / "place").iterdir()]
