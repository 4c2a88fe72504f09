"""Ctrl-C while the command still imports its own modules ends it as later: without a traceback."""

from __future__ import annotations

import subprocess
import sys

_INTERRUPTED_IMPORT = """
import sys

import symd.cli.start


class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "symd.cli.command_line":
            raise KeyboardInterrupt


sys.meta_path.insert(0, Interrupting())
sys.argv = ["symd", "doctor"]
symd.cli.start.main()
"""


def test_an_interrupted_import_shows_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED_IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
