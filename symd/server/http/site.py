"""What routes work with: the engine's verbs and what may be read; what they are asked and answer; and where their work
is done."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from starlette.datastructures import Headers, QueryParams

from symd.api import Host, Symbolizer
from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import InvalidInput
from symd.formats.debug_ids import ModuleNames, NamedObject
from symd.model.identities import is_digest
from symd.model.json import to_json
from symd.model.sources import SourceText
from symd.server.config import Right
from symd.server.http.colouring import Rows, uncoloured
from symd.server.http.principals import HttpPrincipal

Result = TypeVar("Result")

JSON = "application/json"


class CostClass(enum.Enum):
    """How much work a route is; each kind has threads of its own, so that none holds up another."""

    QUESTION = "question"
    """A search in an open index, as a rule."""
    LARGE = "large"
    """A listing, texts, a whole table: few at a time."""
    UPLOAD = "upload"
    """Something that is sent, and kept."""
    FETCH = "fetch"
    """Something that another server sends, as slowly as it likes."""


class Lacking(Exception):
    """Nobody here has that build ID, and other servers may be asked for it; raised to who has the thread for that."""

    def __init__(self, build_id: str) -> None:
        super().__init__(build_id)
        self.build_id = build_id


class HttpWorkQueue(Protocol):
    """Where work is done that the event loop must not wait for."""

    async def run(
        self, visitor: HttpPrincipal, effort: CostClass, work: Callable[[], Result], *, repeatable: bool = False
    ) -> Result:
        """What ``work`` returns or raises, in a thread. Raises Busy where too much waits already. Work that is
        ``repeatable`` may be broken off where it would wait for an index, and begun again."""
        ...

    def hold(self, visitor: HttpPrincipal, size: int) -> Callable[[], None]:
        """Count so many bytes of a message as held, until what is returned is called. Raises Busy where that is too
        much."""
        ...


ReadSources = Callable[[str, Sequence[str], str | None], Sequence[SourceText]]
"""Given a module's digest, names of files as frames have them, and a code object's path or None: their texts, in
order."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the routes of a server work with. ``symbolizer`` answers, ``sources`` gives texts by the rules of whoever
    started the server. ``only`` are the modules that are shown (None: all that the symbolizer has), ``facts`` what a
    route finds by its own key, such as the profile that ``symd view`` was given. ``contents`` gives modules' bytes,
    where it may; ``names`` finds modules by build IDs and debug IDs. ``colour`` says the colours of a text
    (``colouring.coloured``). ``fetch`` brings the module of a build ID from elsewhere, and says whether it could."""

    symbolizer: Symbolizer
    sources: ReadSources
    limits: Limits = DEFAULT_LIMITS
    only: tuple[str, ...] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    contents: Host | None = None
    fetch: Callable[[str], bool] | None = None
    colour: Callable[[str, str], Rows] = uncoloured
    names: ModuleNames = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", ModuleNames(self.symbolizer))

    def of_build_id(self, name: str) -> list[NamedObject]:
        """What a build ID stands for, of what is shown here. Raises BadQuery, and Lacking where it is to be brought
        from elsewhere."""
        found = self.names.of_build_id(name)
        if not found and self.fetch is not None:
            raise Lacking(name)
        return [each for each in found if self.shows(each.digest)]

    def by_itself(self) -> Site:
        """The site without anything that brings modules from elsewhere."""
        alone = replace(self, fetch=None)
        object.__setattr__(alone, "names", self.names)  # with what it knows already
        return alone

    def shows(self, digest: str) -> bool:
        """Whether this module is shown here."""
        return self.only is None or digest in self.only


class HttpRequest(NamedTuple):
    """A request as handlers see it: ``parts`` are the named parts of the path, ``body`` is whole."""

    visitor: HttpPrincipal
    parts: Mapping[str, str]
    query: QueryParams
    headers: Headers
    body: bytes
    check_is_there: Callable[[], None] = lambda: None
    """Raises where nobody waits any more: the check of work with a time limit of its own, such as a disassembler's."""

    def digest(self) -> str:
        """The module that the path names. Raises InvalidInput."""
        name = self.parts["digest"]
        if not is_digest(name):
            raise InvalidInput("a module is named by the 64 hexadecimal digits of its SHA-256", where=name)
        return name

    def required(self, name: str) -> str:
        """A parameter of the query that has to be there. Raises InvalidInput."""
        value = self.query.get(name)
        if value is None:
            raise InvalidInput(f"the parameter {name!r} is missing", hint=f"add ?{name}=...")
        return value


class Reply(NamedTuple):
    """What is answered; an iterator's pieces are made in the work queue, one after another, and sent as they come."""

    body: bytes | Iterator[bytes]
    content_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = {}


def json_reply(value: Any, status: int = 200) -> Reply:
    """``value`` as JSON."""
    return Reply(to_json(value).encode("utf-8", "backslashreplace"), JSON, status)


Handle = Callable[[Site, HttpRequest], Reply]


class WebRoute(NamedTuple):
    """A path (as Starlette writes it: "/buildid/{id}/debuginfo") and what answers it, in a thread. ``body_limit`` are
    the most bytes of a body that are taken. ``origins`` are the origins whose pages may read the answer ("*": all);
    none: only the server's own."""

    path: str
    handle: Handle
    method: str = "GET"
    right: Right = Right.READ
    effort: CostClass = CostClass.QUESTION
    body_limit: int = 0
    origins: tuple[str, ...] = ()
