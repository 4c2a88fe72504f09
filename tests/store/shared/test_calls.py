"""How many calls a question costs outside of the daemon: docs/scaling.md counts bytes, time and money by these."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from symd.engine.engine import Engine
from symd.model.addresses import ByAddress, ObjectAddress
from symd.store.shared import postgresql
from tests.object_server import Proxy

ROOT = Path(__file__).parents[3]
SAMPLE = min((ROOT / "samples" / "amdgpu" / "bin").glob("*.co"))
PAGE = ROOT / "docs" / "scaling.md"
_ROW = re.compile(r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
"""What is done, and how often S3 is told something and asked something, and the catalogue is asked."""


class Statements:
    """Those that this thread sends to the catalogue; housekeeping has a thread of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        thread = threading.get_ident()
        for name in ("execute", "executemany"):
            plain = getattr(postgresql.PostgresConnection, name)

            def counted(connection: Any, *arguments: Any, plain: Callable[..., Any] = plain) -> Any:
                self.count += threading.get_ident() == thread
                return plain(connection, *arguments)

            monkeypatch.setattr(postgresql.PostgresConnection, name, counted)


def test_questions_cost_what_the_page_says(
    engine_of: Callable[[str], Engine], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
):
    statements = Statements(monkeypatch)
    found: dict[str, tuple[int, int, int]] = {}

    def counted(what: str, do: Callable[[], object]) -> None:
        proxy.methods()
        statements.count = 0
        do()
        asked = Counter(proxy.methods())
        writes, reads = asked["PUT"] + asked["POST"], asked["GET"] + asked["HEAD"]
        found[what] = writes, reads, statements.count

    first = engine_of("first")
    digest = first.add(SAMPLE.read_bytes(), "a sample").sha256
    question = [ByAddress(ObjectAddress(0x1978))]

    def ask(engine: Engine) -> Callable[[], object]:
        return lambda: engine.symbolize(digest, question)

    counted("a question about an open index", ask(first))
    second = engine_of("second")
    counted("the first question on a machine that has never seen the module", ask(second))
    counted("the second", ask(second))
    counted("the first question after the daemon's restart", ask(engine_of("second")))
    counted("a module that is sent again", lambda: second.add(SAMPLE.read_bytes(), "a sample"))
    counted("a module that is new, of at most 5 MiB", lambda: second.add(SAMPLE.read_bytes() + b"\0", "new"))
    assert found == {what: (int(a), int(b), int(c)) for what, a, b, c in _ROW.findall(PAGE.read_text())}
