"""Holds protos/ to the rules of buf.yaml: `buf lint`, and `buf breaking` against the last release.

    python tools/buf.py             both, as `make check` does
    python tools/buf.py lint
    python tools/buf.py breaking    against the newest tag v* that this commit stands on; without one there is nothing to break
    python tools/buf.py breaking REF

buf comes from PyPI (`buf-bin`), the foreign .proto files that ours import (google/rpc/*.proto) from the installed
googleapis-common-protos. Nothing is fetched.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from importlib import resources
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOREIGN = ("google/rpc/status.proto",)
"""What protos/ imports besides the types that buf itself knows (google/protobuf/*.proto)."""


def main(arguments: list[str]) -> int:
    match arguments:
        case []:
            return lint() or breaking(last_release())
        case ["lint"]:
            return lint()
        case ["breaking"]:
            return breaking(last_release())
        case ["breaking", reference]:
            return breaking(reference)
    print(__doc__, file=sys.stderr)
    return 2


def lint() -> int:
    """The exit code of `buf lint` over this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        return buf("lint", workspace(Path(folder), ROOT))


def breaking(reference: str | None) -> int:
    """The exit code of `buf breaking`: this checkout against the protos of a commit or tag."""
    if reference is None:
        print("buf breaking: nothing has been released yet, so nothing can break")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before, now = Path(folder) / "before", Path(folder) / "now"
        checked_out = Path(folder) / "checkout"
        archive = subprocess.run(["git", "archive", reference, "protos"], cwd=ROOT, check=True, capture_output=True)
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
            tar.extraction_filter = getattr(
                tarfile, "data_filter", lambda member, _: member
            )  # Python 3.11.2 has no filters
            tar.extractall(checked_out)  # noqa: S202 - git's own archive of our own files
        workspace(before, checked_out)
        return buf("breaking", workspace(now, ROOT), "--against", str(before))


def last_release() -> str | None:
    """The newest tag v* among the ancestors of this commit; None when there is none."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def workspace(folder: Path, checkout: Path) -> Path:
    """A folder that buf takes: the checkout's protos, the foreign ones, and this checkout's buf.yaml."""
    shutil.copytree(checkout / "protos", folder / "protos")
    for name in FOREIGN:
        place = folder / "build/googleapis" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(resources.files("google.rpc").joinpath(Path(name).name).read_bytes())
    shutil.copy(ROOT / "buf.yaml", folder)
    return folder


def buf(command: str, folder: Path, *options: str) -> int:
    program = Path(sysconfig.get_path("scripts")) / "buf"
    if not program.exists():
        print(f"{program} is missing: `make venv` installs it", file=sys.stderr)
        return 1
    return subprocess.run([program, command, *options], cwd=folder, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
