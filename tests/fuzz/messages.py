"""Requests for every RPC that no client of ours would send: messages filled from what interests a daemon, then, half of
the time, their bytes changed."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.fuzz.mutations import MUTATORS

_INTEGERS = (
    0,
    1,
    2,
    7,
    255,
    4096,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
_BITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
_DEPTH = 5


class Words:
    """Strings that mean something to the daemon (``names`` of things it has) among others that do not."""

    def __init__(self, names: tuple[str, ...]) -> None:
        strange = ("", "a", "modules/", "modules/../../etc/passwd", f"modules/{'0' * 64}", f"modules/{'F' * 64}", "\0")
        other = (
            "*",
            "[",
            "[!]",
            "é\u0301\U0001f600",
            "x" * 5000,
            "%s%n",
            "contexts/",
            "-1",
            "1:2",
            "/",
            "..",
            "\r\n",
            "\ufffe",
        )
        self._known, self._other = names, (*strange, *other)

    def pick(self, dice: random.Random) -> str:
        return dice.choice(self._known if dice.random() < 0.7 else self._other)


def request(dice: random.Random, kind: type[Message], words: Words) -> bytes:
    """The bytes of a request; about half of them are a message of that kind."""
    message = kind()
    fill(dice, message, words)
    data = bytearray(message.SerializeToString())
    if dice.random() < 0.4:
        for _ in range(dice.choice((1, 1, 4))):
            dice.choice(MUTATORS)(dice, data)
    return bytes(data)


def fill(dice: random.Random, message: Any, words: Words, depth: int = 0) -> None:
    """Give most fields a value."""
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.25:
            continue
        if field.is_repeated:
            for _ in range(dice.choice((0, 1, 2, 5))):
                _append(dice, message, field, words, depth)
        elif field.message_type:
            getattr(message, field.name).SetInParent()
            if depth < _DEPTH:
                fill(dice, getattr(message, field.name), words, depth + 1)
        else:
            setattr(message, field.name, _scalar(dice, field, words))


def _append(dice: random.Random, message: Any, field: FieldDescriptor, words: Words, depth: int) -> None:
    items = getattr(message, field.name)
    if field.message_type and field.message_type.GetOptions().map_entry:
        return
    if not field.message_type:
        items.append(_scalar(dice, field, words))
    elif depth < _DEPTH:
        fill(dice, items.add(), words, depth + 1)


def _scalar(dice: random.Random, field: FieldDescriptor, words: Words) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return (
            words.pick(dice)
            if field.type == FieldDescriptor.TYPE_STRING
            else dice.randbytes(dice.choice((0, 3, 8, 99)))
        )
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return dice.random() < 0.5
    if field.enum_type:
        return dice.choice((*field.enum_type.values_by_number, 99, -1))
    if kind in _BITS:
        low, high = _BITS[kind]
        return max(low, min(high, dice.choice(_INTEGERS) * dice.choice((1, 1, 1, -1))))
    return dice.choice((0.0, -1.0, 1e300, float("inf"), float("nan"), 0.5))
