"""Debian's own debuginfod over a folder, and its client."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.http.daemon import PATIENCE, SAMPLES
from tests.tools import output, require

TRIES = 10
"""Ports that are tried: debuginfod takes none that the system chooses, and another program may take the one that was free just now."""


def linked(folder: Path) -> tuple[Path, str]:
    """A code object of AMD's with a build ID, linked here, and that ID as readelf reads it."""
    built = folder / "shade.co"
    subprocess.run(
        [require("ld.lld"), "-shared", "--build-id=sha1", SAMPLES / "amdgpu" / "bin" / "v4-gfx900.o", "-o", built],
        check=True,
        timeout=PATIENCE,
    )
    return built, build_id(built)


def build_id(file: Path) -> str:
    """As readelf reads it."""
    return re.findall(r"Build ID: ([0-9a-f]+)", output(require("readelf"), "-n", file))[0]


def found(folder: Path, url: str, *words: str, **variables: str) -> bytes | None:
    """What debuginfod-find brings; None where it finds nothing, and prints why."""
    done = subprocess.run(
        [require("debuginfod-find"), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": str(folder / "cache"), **variables},
    )
    if done.returncode:
        print(f"debuginfod-find {url}: {done.stderr}")
        return None
    return Path(done.stdout.strip()).read_bytes()


@contextmanager
def served_by_debuginfod(folder: Path, waits_for: str) -> Iterator[str]:
    """The URL of a debuginfod that serves what lies in ``folder``, once it has the build ID ``waits_for``."""
    server = require("debuginfod")
    for attempt in range(TRIES):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [server, "-p", str(port), "-d", ":memory:", "-F", str(folder)]
        variables = {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"}
        with (
            (folder.parent / f"debuginfod-{attempt}.log").open("w") as log,
            subprocess.Popen(command, stdout=log, stderr=log, env=variables) as process,
        ):
            try:
                url = f"http://127.0.0.1:{port}"
                if _has(url, waits_for, process):
                    yield url
                    return
            finally:
                process.terminate()
                process.wait(PATIENCE)
    raise AssertionError("debuginfod does not serve")


def _has(url: str, name: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether the server has it before it ends by itself."""
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/buildid/{name}/executable", timeout=PATIENCE):  # noqa: S310 - http
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False
