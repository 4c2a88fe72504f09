"""The question for one address as most clients ask it: the bytes of a ``SymbolizeRequest`` that has a module's name and one query for an
object address, and nothing else. It is asked so often, and otherwise costs so little, that the objects which Protocol Buffers make of it
would take a good part of the time.

Source of the layout: protos/symd/v1 and protobuf.dev/programming-guides/encoding."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from symd.errors import BadQuery
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.identities import Digest, named_digest
from symd.wire.resource_names import NAME_TAG, RECENT, module_name

_NAME: Final = len(module_name("0" * 64))
_NAMED: Final = bytes((NAME_TAG, _NAME))
"""How the request begins: field 1, and the length of its text."""
_QUERY: Final = 0x1A
"""Tag of field 3 of the request, a query."""
_ADDRESS: Final = 0x08
"""Tag of field 1 of a query, an object address."""
_QUERY_AT: Final = len(_NAMED) + _NAME
_NUMBER_AT: Final = _QUERY_AT + 3
"""Where the address stands, behind tag and length of the query and its own tag."""
_LONGEST: Final = _NUMBER_AT + 10
"""Bytes of the longest such request: 64 bits take ten, of seven bits each."""
_CONTINUES: Final = 0x80
"""The continuation bit of a varint: another byte of the same number follows."""


def to_request(name: str, address: int) -> bytes:
    """The request about the module called ``name``. Raises ``BadQuery`` for a number outside 64 bits."""
    if not 0 <= address < 1 << 64:
        raise BadQuery(f"{address} does not fit", hint="an address has 64 bits, and no sign")
    number = bytearray()
    while address >= _CONTINUES:
        number.append(address & 0x7F | _CONTINUES)
        address >>= 7
    number.append(address)
    return b"%b%c%c%c%b" % (_named(name), _QUERY, len(number) + 1, _ADDRESS, bytes(number))


def from_request(data: bytes) -> tuple[Digest, ByAddress] | None:
    """(the module, the query) of such a request; None for every other, also where it is none at all."""
    size = len(data)
    if not _NUMBER_AT < size <= _LONGEST:
        return None
    if data[_QUERY_AT] != _QUERY or data[_QUERY_AT + 1] != size - _QUERY_AT - 2 or data[_QUERY_AT + 2] != _ADDRESS:
        return None
    number = data[_NUMBER_AT:]
    address = number[-1]
    if address >= _CONTINUES:
        return None
    for byte in number[-2::-1]:
        if byte < _CONTINUES:
            return None
        address = address << 7 | byte & 0x7F
    digest = _digest(data[:_QUERY_AT])
    return None if digest is None or address >> 64 else (digest, ByAddress(ObjectAddress(address)))


@lru_cache(RECENT)
def _named(name: str) -> bytes:
    """The name as the request begins with it."""
    return _NAMED + name.encode()


@lru_cache(RECENT)
def _digest(named: bytes) -> Digest | None:
    """The module of such a beginning; None where it is another, or no module's name."""
    return named_digest(named.removeprefix(_NAMED).decode(errors="replace")) if named.startswith(_NAMED) else None
