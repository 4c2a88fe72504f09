"""Certificates for tests, made with openssl: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.tools import require

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """Its files lie in ``folder``; ``certificate`` is what those trust who trust it."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.key = folder / f"{name}.key"
        self.certificate = folder / f"{name}.pem"
        subject = ("-subj", f"/CN={name}")
        self._run("req", "-x509", *KEY, "-keyout", self.key, "-out", self.certificate, *subject, "-days", "3")

    def issue(self, name: str, *, days: int = 2, file: str = "") -> tuple[Path, Path]:
        """The files of a certificate for this common name on this machine, and of its key. ``days`` -1: it has expired."""
        certificate, key = (self.folder / f"{file or name}.{end}" for end in ("crt", "key"))
        request, names = self.folder / "request", self.folder / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        subject = () if name == "" else ("-subj", f"/CN={name}")
        self._run("req", *KEY, "-keyout", key, "-out", request, *subject)
        signer = ("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial")
        self._run("x509", "-req", "-in", request, *signer, "-days", str(days), "-extfile", names, "-out", certificate)
        key.chmod(0o600)
        return certificate, key

    @staticmethod
    def _run(*words: object) -> None:
        subprocess.run([require("openssl"), *map(str, words)], check=True, capture_output=True)
