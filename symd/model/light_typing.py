"""The names of ``typing`` that modules need, without importing it, which takes a twentieth of the time of a process
that answers one address. Type checkers see ``typing``'s own names. At run time names for annotations alone stand for
nothing, and ``NamedTuple`` makes the same classes without checking the types of fields.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # as ``typing`` has it
if TYPE_CHECKING:
    from typing import Any, Final, NamedTuple, NewType, NoReturn, Protocol, Self, TypeGuard, TypeVar, overload
else:
    Any = Final = NoReturn = Protocol = Self = TypeGuard = object

    def NewType(_name: str, of: type) -> type:  # noqa: N802 - as typing has it
        return of

    def TypeVar(_name: str) -> type:  # noqa: N802 - as typing has it
        return object

    def overload(_signature: object) -> None:
        """A signature that the implementation, which has the same name and comes last, replaces."""

    class _Maker(type):
        def __new__(cls, name: str, _bases: object, body: dict[str, object]) -> type:
            """A tuple with the fields that the body of a class annotates, and everything else that is there."""
            fields = body["__annotations__"]
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024 - it is what that makes
            for attribute, value in body.items():
                setattr(made, attribute, value)
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})

__all__ = ("Any", "Final", "NamedTuple", "NewType", "NoReturn", "Protocol", "Self", "TypeGuard", "TypeVar", "overload")
