"""nginx before a daemon, with the file of samples/proxy: ports and paths are those of the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tools import require

SITE = Path(__file__).parents[2] / "samples" / "proxy" / "symd.conf"
CONNECTIONS = 768
"""As Debian's nginx.conf has it."""
PARTS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
USER = "www-data"
"""As whom its workers run where root starts it."""
STARTED_WITHIN = 30.0


@contextmanager
def proxied(folder: Path, upstream: str, certificate: Path, key: Path) -> Iterator[str]:
    """The address of nginx before the daemon at ``upstream``, ``unix:PATH`` or ``HOST:PORT``."""
    nginx = shutil.which("/usr/sbin/nginx") or require("nginx")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site = SITE.read_text()
    for written, here in (
        ("    server unix:/run/symd/symd.sock;", f"    server {upstream};"),
        ("listen 50051 ", f"listen 127.0.0.1:{port} "),
        ("/etc/symd/host.pem", str(certificate)),
        ("/etc/symd/host.key", str(key)),
    ):
        assert site.count(written) == 1, written
        site = site.replace(written, here)
    (folder / "symd.conf").write_text(site)
    temporary = "".join(f"{part}_temp_path {folder}/{part};\n" for part in PARTS)
    main = f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n"
    main += f"user {USER};\n" if os.geteuid() == 0 else ""
    main += f"events {{ worker_connections {CONNECTIONS}; }}\n"
    main += f"http {{ access_log off;\n{temporary}include {folder}/symd.conf; }}\n"
    (folder / "nginx.conf").write_text(main)
    command = [nginx, "-e", str(folder / "nginx.log"), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command) as process:
        try:
            until = time.monotonic() + STARTED_WITHIN
            while not _listens(port):
                has_failed = process.poll() is not None or time.monotonic() > until
                assert not has_failed, (folder / "nginx.log").read_text()
                time.sleep(0.05)
            yield f"tls:localhost:{port}"
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
