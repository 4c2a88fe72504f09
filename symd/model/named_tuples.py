"""``NamedTuple`` as ``typing`` has it, without that: to import ``typing``, and to have it look at each field's type, takes a sixth of the time of one answer."""

from __future__ import annotations

from collections import namedtuple

__all__ = ("NamedTuple",)

TYPE_CHECKING = False  # as ``typing`` has it
if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Maker(type):
        def __new__(cls, name: str, _bases: object, body: dict[str, object]) -> type:
            """A tuple with the fields that the body of a class annotates, and everything else that stands there."""
            fields = body["__annotations__"]
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024 - it is what that makes
            for attribute, value in body.items():
                setattr(made, attribute, value)
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
