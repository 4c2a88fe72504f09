"""Every RPC that is served takes a right, and nothing else has one."""

from __future__ import annotations

import ast
from pathlib import Path

from symd.server import authentication
from symd.server.authentication import HEALTH_METHODS, RIGHTS
from symd.server.config import Right
from symd.server.server import Router
from symd.server.standard_services import Health, Reflection


def test_every_rpc_takes_a_right() -> None:
    router = Router(None, Health((), None, None), Reflection((), None), None)  # type: ignore[arg-type] # asked for its table only
    assert set(RIGHTS) == router.methods
    assert {name for name in router.methods if name.startswith("grpc.health.")} == HEALTH_METHODS


def test_no_rpc_stands_in_the_table_twice() -> None:
    """Else the right that comes last would count, whichever that is."""
    tree = ast.parse(Path(authentication.__file__).read_text())
    tables = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    for table in tables:
        keys = [ast.unparse(key) for key in table.keys if key is not None]
        assert len(set(keys)) == len(keys)
        inside = [node for value in table.values if not isinstance(value, ast.Dict) for node in ast.walk(value)]
        methods = [node.value for node in inside if isinstance(node, ast.Constant)]
        assert len(set(methods)) == len(methods)
    assert sum(len(table.keys) for table in tables) > len({name.rpartition(".")[0] for name in RIGHTS})


def test_what_changes_something_is_not_for_readers() -> None:
    """By the verbs with which the names of such methods begin (AIP-130 and those of symd's own)."""
    verbs = ("Create", "Update", "Delete", "Upload", "Record", "Grab", "Initiate", "Mark")
    for name, right in RIGHTS.items():
        assert name.rpartition(".")[2].startswith(verbs) == (right is not Right.READ), name
