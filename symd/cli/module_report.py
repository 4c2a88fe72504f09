"""What the verbs that take modules from elsewhere say of each, and where they put them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from symd.capture.daemon_sink import DaemonSink
from symd.capture.folder_sink import FolderSink
from symd.capture.sink import Sink
from symd.cli.options import server_option_that
from symd.cli.output import write_json, write_line
from symd.client import Client
from symd.errors import InvalidInput, LimitExceeded, SymdError, Unsupported, described
from symd.formats import containers
from symd.model.captures import CaptureEvent, ModuleFound, ModuleLoaded
from symd.system.notices import complain

if TYPE_CHECKING:
    from symd.client import Client

Verb = TypeVar("Verb", bound=Callable[..., Any])
_SHOWN_KERNELS = 5


def destination_options(verb: Verb) -> Verb:
    """--server and --out."""
    to_server = server_option_that(
        "Add them to the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT; the default is yours."
    )
    to_folder = click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write them into this folder instead, as symd run does: modules/SHA256, and captures.jsonl.",
    )
    return to_server(to_folder(verb))


def open_destination(server: str | None, out: Path | None, stack: ExitStack) -> Sink:
    """Where the modules go. Raises click.UsageError where both are given."""
    if server and out:
        raise click.UsageError("--server and --out exclude each other")
    if out is not None:
        return stack.enter_context(FolderSink(out))

    return _StrictDaemonSink(stack.enter_context(Client(server)))


class _StrictDaemonSink:
    """Says at once what a daemon refuses, because somebody waits for it. Several threads may tell it of modules that were found."""

    def __init__(self, client: Client) -> None:
        self._client, self._of_loads = client, DaemonSink(client)

    def take(self, event: CaptureEvent) -> None:
        sink = DaemonSink(self._client) if isinstance(event, ModuleFound) else self._of_loads
        sink.take(event)
        for error in sink.refused.values():
            sink.refused.clear()
            raise error


def source(event: ModuleFound | ModuleLoaded) -> str:
    """Where a module was found, in words."""
    return event.source if isinstance(event, ModuleFound) else f"loaded at {event.load_base or event.handle:#x}"


class ModuleReport:
    """Says each module, and what was left out, as they come; ``modules`` counts them."""

    def __init__(self, *, as_json: bool) -> None:
        self.modules = 0
        self._as_json = as_json

    def keep(self, sink: Sink, event: ModuleFound | ModuleLoaded) -> None:
        """Put a module where it belongs and say so; one that is refused there is left out."""
        data, kernels, place = event.data, event.kernels, source(event)
        try:
            sink.take(event)
        except (InvalidInput, LimitExceeded, Unsupported) as error:
            self.left_out(place, error)
            return
        self.modules += 1
        name, digest = containers.format_name(data), hashlib.sha256(data).hexdigest()
        if self._as_json:
            write_json(
                {
                    "source": place,
                    "module": f"modules/{digest}",
                    "format": name,
                    "bytes": len(data),
                    "kernels": list(kernels),
                }
            )
        else:
            write_line(f"modules/{digest}  {name}, {len(data):,} bytes{_listed(kernels)}  {place}")
        sys.stdout.flush()

    def left_out(self, source: str, error: SymdError) -> None:
        """Say what was not taken, and why."""
        if self._as_json:
            write_json({"source": source, "left_out": described(error)})
        else:
            write_line(f"left out: {source}: {error}")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """A line beside the modules, for a person."""
        complain(text)


def _listed(kernels: Sequence[str]) -> str:
    if not kernels:
        return ""
    return f", kernels {', '.join(kernels[:_SHOWN_KERNELS])}{', ...' if len(kernels) > _SHOWN_KERNELS else ''}"
