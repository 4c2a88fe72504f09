"""A start reads no module and no index, however many there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.store.start import filled

ROOT = Path(__file__).parents[2]
OPENED = """
import os, sys
from pathlib import Path

opened = []

def note(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, os.PathLike)):
        opened.append((event, os.fspath(arguments[0])))

from symd.engine.engine import Engine
from symd.store import Store
sys.addaudithook(note)
root = Path(sys.argv[1])
with Engine(Store(root, adopt_later=True)) as engine:
    engine.resume()
    files = [path for event, path in opened if event == "open" and Path(path).is_relative_to(root)]
    print(len(engine.missing([record.sha256 for record in engine.modules()])))
print(len([path for path in files if "/modules/" in path or "/index/" in path]))
print(len(files) < 20)
"""


def test_a_start_with_two_thousand_modules_opens_none_of_them(tmp_path: Path) -> None:
    filled(tmp_path / "store", 2000, 10)
    command = [sys.executable, "-c", OPENED, str(tmp_path / "store")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.split(), done.stderr) == (["0", "0", "True"], "")
