"""The wheel and the source distribution carry what they need, and symd works from the wheel alone, away from the repository."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from symd import __version__

ROOT = Path(__file__).parents[2]
NOT_DISTRIBUTED = (".ci/", ".gitignore")


def tracked() -> list[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("is no repository")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file() and not name.startswith(NOT_DISTRIBUTED)]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built of the tracked files: the wheel from the source distribution, as an installer builds it."""
    folder = tmp_path_factory.mktemp("distributions")
    source = folder / "source"
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")):
        subprocess.run(["git", *words], cwd=source, check=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source]
    quickly = {**os.environ, "CFLAGS": "-O0"}  # what is in them is asked here, and not how fast it is
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, env=quickly)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(distributions: Path) -> Path:
    """What the wheel puts into site-packages."""
    (wheel,) = distributions.glob("*.whl")
    assert wheel.name.endswith(f"-cp311-abi3-linux_{platform.machine()}.whl")
    folder = distributions / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # noqa: S202 - it was made a moment ago
    return folder


def test_the_source_distribution_has_every_tracked_file(distributions: Path) -> None:
    (archive,) = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    assert not set(tracked()) - held


def test_the_wheel_has_the_package_and_what_it_ships(installed: Path) -> None:
    names = tracked()
    package = [name for name in names if name.startswith("symd/")]
    assert {"symd/py.typed", "symd/capture/native/opencl_layer.c"} <= set(package)
    assert not [name for name in package if not (installed / name).exists()]
    shipped = [name for name in names if name.startswith(("docs/", "packaging/", "protos/", "samples/"))]
    left = [name for name in shipped if not (installed / "symd" / "shipped" / name).exists()]
    assert all(name.startswith("docs/images/") or "/." in name for name in left), left
    assert {path.name for path in installed.iterdir()} == {
        "symd",
        *(path.name for path in installed.glob("*.dist-info")),
    }


def test_the_core_is_compiled_and_its_c_stays_behind(installed: Path) -> None:
    assert [path.name for path in (installed / "symd" / "core").glob("*.so")] == ["compiled.abi3.so"]
    assert not list((installed / "symd" / "core").glob("*.c"))


def test_symd_works_away_from_the_repository(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "SYMD_STORE": str(tmp_path / "store")}

    def symd(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "symd", *words]
        return subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)

    here = subprocess.run(
        [sys.executable, "-P", "-c", "import symd; print(symd.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert Path(here.strip()) == installed / "symd" / "__init__.py"
    commit = ["git", "rev-parse", "--short=12", "HEAD"]
    built = subprocess.run(commit, cwd=installed.parent / "source", capture_output=True, text=True, check=True).stdout
    assert symd("--version").stdout == f"symd {__version__} (commit {built.strip()})\n"
    copied = symd("samples", ".")
    assert (copied.returncode, copied.stdout, copied.stderr) == (0, "samples\nprotos\n", "")
    answer = symd("symbolize", "samples/amdgpu/bin/v4-gfx900.co", "shade+0x80")
    assert "blend at /src/shade.cl:13:30" in answer.stdout, answer.stderr
    again = symd("samples", ".")  # as each tutorial begins
    assert (again.returncode, again.stdout, again.stderr) == (0, "samples\nprotos\n", "")
    (tmp_path / "samples" / "kernels" / "vadd.cl").write_text("another\n")
    again = symd("samples", ".")
    assert (again.returncode, again.stdout) == (2, "")
    assert "something else is there already" in again.stderr
