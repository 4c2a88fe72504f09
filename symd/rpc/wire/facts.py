"""JSON-ready facts, and Fact messages or JSON text. Order is kept, and so are integers; one that 64 bits cannot hold becomes text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from symd.errors import Malformed
from symd.rpc.wire.text import utf8
from symd.v1 import fact_pb2

SIGNED_END = 1 << 63
UNSIGNED_END = 1 << 64


def to_facts(facts: Mapping[str, Any]) -> list[fact_pb2.Fact]:
    return [fact_pb2.Fact(name=utf8(name), value=to_value(value)) for name, value in facts.items()]


def from_facts(facts: Iterable[fact_pb2.Fact]) -> dict[str, Any]:
    return {fact.name: from_value(fact.value) for fact in facts}


def facts_text(facts: Mapping[str, Any]) -> str:
    """The facts as a JSON object; "" where there are none, and where JSON cannot write them."""
    plain = _plain(facts)
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        text.encode()
    except (ValueError, RecursionError):  # not a number, or half a surrogate pair
        return ""
    return text if plain else ""


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return dict(facts.items())  # read once: facts may be unpacked whenever somebody looks


def from_facts_text(text: str) -> dict[str, Any]:
    """Raises ``Malformed``."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise Malformed("the daemon's facts of a kernel are no JSON object", hint="use versions that belong together")
    return facts


def to_value(value: Any) -> fact_pb2.FactValue:  # noqa: PLR0911 - one line a kind of value
    """One value; raises ``TypeError`` for what JSON does not have, which is a defect of the reader that made it."""
    match value:
        case None:
            return fact_pb2.FactValue()
        case bool():
            return fact_pb2.FactValue(boolean=value)
        case int() if -SIGNED_END <= value < SIGNED_END:
            return fact_pb2.FactValue(integer=value)
        case int() if SIGNED_END <= value < UNSIGNED_END:
            return fact_pb2.FactValue(large=value)
        case int():
            return fact_pb2.FactValue(text=str(value))
        case float():
            return fact_pb2.FactValue(number=value)
        case str():
            return fact_pb2.FactValue(text=utf8(value))
        case Mapping():
            return fact_pb2.FactValue(map=fact_pb2.FactMap(facts=to_facts(value)))
        case list() | tuple():
            return fact_pb2.FactValue(list=fact_pb2.FactList(values=map(to_value, value)))
    raise TypeError(f"a fact cannot be a {type(value).__name__}")


def from_value(message: fact_pb2.FactValue) -> Any:
    """The value; lists come back as lists, also where they were tuples."""
    match message.WhichOneof("kind"):
        case None:
            return None
        case "list":
            return [from_value(value) for value in message.list.values]
        case "map":
            return from_facts(message.map.facts)
        case kind:
            return getattr(message, kind)
