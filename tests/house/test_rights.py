"""Every RPC that is served takes a right, and nothing else has one."""

from __future__ import annotations

import ast
from pathlib import Path

from symd.model.rights import Right
from symd.service import rights
from symd.service.health import Health
from symd.service.reflection import Reflection
from symd.service.rights import HEALTH_METHODS, RIGHTS
from symd.service.table import Router


def test_every_rpc_takes_a_right() -> None:
    router = Router(None, Health((), None, None), Reflection((), None), None)  # type: ignore[arg-type] # asked for its table only
    assert set(RIGHTS) == router.methods
    assert {name for name in router.methods if name.startswith("grpc.health.")} == HEALTH_METHODS


def test_no_rpc_stands_in_the_table_twice() -> None:
    """Else the right that comes last would count, whichever that is."""
    tree = ast.parse(Path(rights.__file__).read_text())
    names = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    methods = {name.rpartition(".")[2] for name in RIGHTS}
    assert sorted(name for name in names if name in methods) == sorted(methods)


def test_what_changes_something_is_not_for_readers() -> None:
    """By the verbs with which the names of such methods begin (AIP-130 and those of symd's own)."""
    verbs = ("Create", "Update", "Delete", "Upload", "Record", "Grab", "Initiate", "Mark")
    for name, right in RIGHTS.items():
        assert name.rpartition(".")[2].startswith(verbs) == (right is not Right.READ), name
