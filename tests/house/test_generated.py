"""What is committed in symd/v1 is what `make protos` makes of protos/ today, and the clients without an event loop are what `make clients`
makes of those with one."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_generated_package_is_fresh(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/protos.py", tmp_path], check=True)
    committed, made = contents(ROOT / "symd/v1"), contents(tmp_path / "symd/v1")
    assert sorted(committed) == sorted(made), "run `make protos`"
    stale = [name for name, text in made.items() if committed[name] != text]
    assert not stale, "run `make protos`"


def test_the_clients_without_an_event_loop_are_fresh(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/sync_clients.py", tmp_path], check=True)
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert made
    stale = [path for path in made if (ROOT / path.relative_to(tmp_path)).read_text() != path.read_text()]
    assert not stale, "run `make clients`"


def test_every_element_of_the_protos_is_commented():
    """The protos are the manual: whatever begins with a name or a type has a comment above it. Profiles' are other projects'."""
    for path in set((ROOT / "protos").rglob("*.proto")) - set((ROOT / "protos/profiles").iterdir()):
        lines = [line.strip() for line in path.read_text().splitlines()]
        for number, (above, line) in enumerate(pairwise(lines), 2):
            element = line.endswith(("{", ";")) and not line.startswith(
                ("//", "syntax", "package", "import", "option", "}")
            )
            assert not element or above.startswith("//"), f"{path.name}:{number}: {line}"


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
