"""Pages of lists: sizes within bounds, and opaque tokens that say where the next page begins."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from symd.errors import BadQuery
from symd.rpc.wire.fields import bad_field

Item = TypeVar("Item")
Entry = TypeVar("Entry", bound=Message | bytes)

DEFAULT_PAGE_SIZE = 1000
MAX_PAGE_SIZE = 10_000
PAGE_BYTES = 3 << 20
"""The most bytes of the entries of a page: many gRPC libraries take messages of at most 4 MiB unless told otherwise."""


def page_size(asked: int) -> int:
    """Entries of a page. Raises ``BadQuery`` for a negative number."""
    if asked < 0:
        raise bad_field("page_size", f"page_size is {asked}", "ask for 0 (as many as usual) or more")
    return min(asked or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def to_token(of: str, position: Any) -> str:
    """A token for the list ``of``, to go on at ``position`` (anything JSON has)."""
    return base64.urlsafe_b64encode(json.dumps([of, position]).encode()).decode()


def from_token(token: str, of: str, kind: type[Item], first: Item) -> Item:
    """The position in a token, ``first`` when it is empty. Raises ``BadQuery`` when it was made for another list."""
    if not token:
        return first
    try:
        made_for, position = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise bad_token() from None
    if made_for != of or not isinstance(position, kind):
        raise bad_token()
    return position


class Page(NamedTuple, Generic[Item, Entry]):
    """The entries of one page, and the last item on it where there are more (else None)."""

    entries: list[Entry]
    last: Item | None


def filled(items: Iterable[Item], asked: int, make: Callable[[Item], Entry]) -> Page[Item, Entry]:
    """The first page of a list. It ends early where it would be larger than ``PAGE_BYTES``, and has one entry at least:
    what is in a module may have long names. Raises ``BadQuery``."""
    most, room = page_size(asked), PAGE_BYTES
    page: Page[Item, Entry] = Page([], None)
    for item in items:
        if len(page.entries) == most:
            return page
        entry = make(item)
        room -= len(entry) if isinstance(entry, bytes) else entry.ByteSize()
        if page.entries and room < 0:
            return page
        page.entries.append(entry)
        page = page._replace(last=item)
    return page._replace(last=None)


def slice_page(
    items: Sequence[Item], of: str, asked: int, token: str, make: Callable[[Item], Entry]
) -> tuple[list[Entry], str]:
    """One page of a list that never changes, and the token of the next ("" after the last)."""
    start = max(from_token(token, of, int, 0), 0)
    entries = filled((items[at] for at in range(start, len(items))), asked, make).entries
    end = start + len(entries)
    return entries, to_token(of, end) if end < len(items) else ""


def bad_token() -> BadQuery:
    return bad_field("page_token", "page_token is not one of this list", "pass next_page_token on as it came")


def written_page(
    items: Sequence[Item], of: str, asked: int, token: str, respond: Callable[[Sequence[Item], str], Message]
) -> bytes:
    """One page of a list that never changes, as the bytes of its response. ``respond`` makes a response of some items
    and the token of the next page. Each entry is bytes before the next is made: as a message, one with many small
    values takes up to a hundred times as much. Of one type, bytes of several messages after another are those of one
    that has the entries of all."""
    parts, following = slice_page(items, of, asked, token, lambda item: respond((item,), "").SerializeToString())
    if following:
        parts.append(respond((), following).SerializeToString())
    return b"".join(parts)
