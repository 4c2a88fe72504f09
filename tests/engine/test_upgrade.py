"""Another format of indexes: those of the older one are made anew beside other work, and serve nobody meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.engine.engine import Engine
from symd.index import VERSION
from symd.store import Store

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
MODULES = [(BIN / name / "dg2-opt.dbg").read_bytes() for name in ("raycast", "vadd")]


@pytest.fixture
def older(tmp_path: Path) -> tuple[Path, list[str]]:
    """A store as an older symd left it: every index is of the format before."""
    with Engine(Store(tmp_path / "store")) as engine:
        digests = [engine.add(data).sha256 for data in MODULES]
        for digest in digests:
            engine.store.put_index(digest, VERSION - 1, b"of the format before")
            engine.store.drop_index(digest, VERSION)
    return tmp_path / "store", digests


def formats(root: Path) -> list[int]:
    return sorted(int(path.parts[-3]) for path in root.glob("index/*/??/*.idx"))


def test_indexes_of_an_older_format_are_made_anew_and_go(older: tuple[Path, list[str]]) -> None:
    root, digests = older
    with Engine(Store(root)) as engine:
        assert engine.store.outdated(VERSION) == digests
        engine.resume()
        assert engine.store.outdated(VERSION) == []
        assert formats(root) == [VERSION, VERSION]
        assert [engine.module(digest).sha256 for digest in digests] == digests


def test_a_question_does_not_wait_for_its_turn(older: tuple[Path, list[str]]) -> None:
    root, digests = older
    with Engine(Store(root)) as engine:
        assert engine.module(digests[1]).sha256 == digests[1]
        assert engine.store.outdated(VERSION) == digests[:1]
        engine.resume()
        assert engine.store.outdated(VERSION) == []


def test_what_stops_keeps_the_rest_for_the_next_start(older: tuple[Path, list[str]]) -> None:
    root, digests = older
    with Engine(Store(root)) as engine:
        engine.stop_resuming()
        engine.resume()
        assert engine.store.outdated(VERSION) == digests
        assert formats(root) == [VERSION - 1, VERSION - 1]


def test_an_index_of_a_newer_symd_is_left_alone(older: tuple[Path, list[str]]) -> None:
    root, digests = older
    with Engine(Store(root)) as engine:
        engine.store.put_index(digests[0], VERSION + 1, b"of a newer symd")
        engine.resume()
        assert formats(root) == [VERSION - 1, VERSION, VERSION + 1]
