"""A real daemon with its HTTP side, as a user starts it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from symd import Client

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "samples"
PATIENCE = 120


@dataclass
class Web:
    """``url`` ends with a slash, and has the secret part; ``address`` is gRPC's."""

    url: str
    address: str

    def add(self, *files: Path) -> list[str]:
        """The digests of modules that the daemon has then."""
        with Client(self.address, timeout=PATIENCE) as client:
            return [client.add(file.read_bytes(), file.name).sha256 for file in files]

    def ask(
        self, path: str, body: object = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> tuple[int, Any, bytes]:
        """(status, headers, body) of a request below the URL; an object is sent as JSON."""
        parts = urlsplit(self.url)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            connection.request(
                method or ("GET" if data is None else "POST"), parts.path + path.lstrip("/"), data, headers or {}
            )
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, path: str, body: object) -> Any:
        """The JSON that a request is answered with 200."""
        status, _, answer = self.ask(path, body)
        assert status == 200, (status, answer[:2000])
        return json.loads(answer)


@contextmanager
def web_daemon(folder: Path, *options: str) -> Iterator[Web]:
    """A daemon of its own store; its sources may be read below ``folder``/src."""
    (folder / "src").mkdir(exist_ok=True)
    address = f"unix:{folder}/s.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--http", "127.0.0.1:0"]
    command += ["--store", str(folder / "store"), "--source-root", str(folder / "src"), "--grace", "1", *options]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT) as process,
    ):
        try:
            assert process.stdout
            said = process.stdout.readline() + process.stdout.readline()
            found = re.search(r"http://\S+", said)
            assert found, said + (folder / "log").read_text()
            yield Web(found[0], address)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
