"""``symd serve``: its options and their help under headings, and the check for options that have no effect."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from symd.cli.options import example, limit_contradictions, limit_option, rules_option
from symd.cli.store import is_url
from symd.cli.token import listen_options
from symd.config import Limits, default_cache, default_drivers, default_socket, default_store, parse_driver
from symd.model.sources import PathRule
from symd.server.config import Config, ListenConfig
from symd.system.process.resources import tune_malloc_for_daemon

_TCP = "give --address HOST:PORT or --http HOST:PORT too"


def check_listen_options(addresses: Sequence[str], http: str, metrics: str, listen: ListenConfig) -> None:
    """Raises click.UsageError for an option that promises what no address of this daemon gives: somebody who is let in,
    TLS, other machines."""
    if listen.socket_group is not None and not any(map(is_unix, addresses)):
        raise click.UsageError("--socket-group is only for Unix sockets: also give --address unix:PATH")
    if listen.tls_certificate is not None and not _has_tcp(addresses, http):
        raise click.UsageError(f"--tls-cert and --tls-key are only for TCP, but all addresses are Unix sockets: {_TCP}")
    if listen.open_metrics and not metrics:
        raise click.UsageError("--open-metrics needs --metrics HOST:PORT")


def without_effect(
    addresses: Sequence[str], http: str, listen: ListenConfig, *, is_certificate_rights_given: bool
) -> Iterator[str]:
    """A sentence for each further option that does nothing here. Files of options that several daemons share may have
    it all the same."""
    if not _has_tcp(addresses, http) and listen.socket_group is None:
        given = {
            "--access": listen.access is not None,
            "--anonymous": listen.anonymous is not None,
            "--insecure": listen.insecure,
            "--open-health": listen.open_health,
        }
        for option, is_given in given.items():
            if is_given:
                yield f"{option} does nothing: it is about TCP, and all addresses are Unix sockets; {_TCP}, or leave it out"
    if is_certificate_rights_given and listen.tls_client_ca is None:
        yield "--certificate-rights does nothing: no client shows a certificate; give --tls-client-ca PEM too, or leave it out"
    elif is_certificate_rights_given and listen.access is not None:
        yield "--certificate-rights does nothing: the lines of --access say what clients with a certificate may do; leave it out"


def _has_tcp(addresses: Sequence[str], http: str) -> bool:
    return bool(http) or not all(map(is_unix, addresses))


def is_unix(address: str) -> bool:
    """Whether this is the address of a Unix socket."""
    return address.startswith("unix:")


class GroupedCommand(click.Command):
    """A command whose help shows its options under headings. ``groups`` are the options by heading, each by its
    first name; what is in none comes last, under "Other"."""

    def __init__(self, *arguments: Any, groups: Mapping[str, Sequence[str]], **values: Any) -> None:
        super().__init__(*arguments, **values)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Called by click when it writes the help."""
        shown = {
            parameter.opts[-1 if parameter.opts[0].startswith("-") and len(parameter.opts[0]) == 2 else 0]: record
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx)) is not None
        }
        grouped = {name for names in self.groups.values() for name in names}
        groups = {**self.groups, "Other": [name for name in shown if name not in grouped]}
        for heading, names in groups.items():
            with formatter.section(heading):
                formatter.write_dl([shown[name] for name in names])


_DEFAULTS = Config(store=Path(), cache=Path(), address="", drivers={})


def parse_drivers(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> Mapping[str, str]:
    """``NAME=FOLDER`` texts to folders by name, over those of $SYMD_DRIVERS."""
    drivers = {**default_drivers(), **dict(parse_driver(value, "--driver") for value in values)}
    for name, folder in drivers.items():
        if not Path(folder).is_dir():
            raise click.BadParameter(f"driver {name!r}: there is no folder {folder}")
    return MappingProxyType(drivers)


GROUPS = {
    "Where it listens": ["--address", "--http", "--http-name", "--debuginfod"],
    "The store (docs/operations.md)": ["--store", "--catalogue", "--cache"],
    "Who gets in (docs/security.md)": [
        "--socket-group",
        "--access",
        "--tls-cert",
        "--tls-key",
        "--tls-client-ca",
        "--certificate-rights",
        "--anonymous",
        "--insecure",
        "--open-health",
        "--open-metrics",
    ],
    "Source files and drivers": ["--source-root", "--map", "--driver", "--grab-unconfined"],
    "Limits (docs/reliability.md)": ["--workers", "--readers", "--builders", "--streams", "--limit"],
    "Operations (docs/operations.md)": ["--grace", "--metrics", "--otlp", "--verbose", "--log-format"],
}


@click.command(
    "serve",
    cls=GroupedCommand,
    groups=GROUPS,
    epilog=example(
        "symd serve\nsymd serve --http 127.0.0.1:8080\nsymd serve --address unix:/run/symd/symd.sock --socket-group symd --anonymous read,write --store /var/lib/symd\n"
        "symd serve --store s3://symd/modules --catalogue postgresql://symd@db/symd --address 0.0.0.0:50051 --insecure\n"
        "symd serve --address 0.0.0.0:50051 --tls-cert host.pem --tls-key host.key --access /etc/symd/access"
    ),
)
@click.option(
    "--address",
    "addresses",
    default=lambda: (f"unix:{default_socket()}",),
    multiple=True,
    show_default="symd/symd.sock in $XDG_RUNTIME_DIR or the user's cache",
    metavar="ADDRESS",
    help="Listen at unix:PATH or HOST:PORT; can be given several times. A Unix socket is for your own user; TCP needs --access, TLS or --insecure.",
)
@click.option(
    "--http",
    default=_DEFAULTS.http,
    metavar="HOST:PORT",
    help="Also serve the page (docs/page.md) at this address, such as 127.0.0.1:8080. Without --access, TLS or --insecure it must be on loopback, and the printed address contains a secret.",
)
@click.option(
    "--debuginfod",
    multiple=True,
    metavar="URL",
    help="Ask this debuginfod server for modules requested over HTTP by an unknown build ID, and keep them; can be given several times.",
)
@click.option(
    "--http-name",
    "http_names",
    multiple=True,
    metavar="NAME",
    help="A host name by which browsers reach --http, if it is not this machine's own; can be given several times.",
)
@click.option(
    "--store",
    default=lambda: os.environ.get("SYMD_STORE") or str(default_store()),  # a path would lose a slash of a URL
    show_default="$SYMD_STORE or the user's cache",
    metavar="FOLDER|URL",
    help="The folder that keeps modules and indexes; or, with --catalogue, the object storage that several daemons share: s3://BUCKET/PREFIX or "
    "file:///FOLDER. Needs the extra symd-gpu[shared].",
)
@click.option(
    "--catalogue",
    envvar="SYMD_CATALOGUE",
    default="",
    metavar="URL",
    help="The database of a shared store, postgresql://USER@HOST:PORT/DATABASE; $SYMD_CATALOGUE may name it. Needs the extra symd-gpu[shared].",
)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    show_default="$SYMD_CACHE or the user's cache",
    help="The folder on this machine for files of a shared store; the limit cache_size bounds its size.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=_DEFAULTS.workers,
    show_default=True,
    help="Threads that answer questions.",
)
@click.option(
    "--readers",
    type=click.IntRange(1, 64),
    default=_DEFAULTS.readers,
    show_default=True,
    help="Processes that index small modules and answer questions about modules' bytes.",
)
@click.option(
    "--builders",
    type=click.IntRange(1, 64),
    default=_DEFAULTS.builders,
    show_default=True,
    help="Processes that index large modules.",
)
@click.option(
    "--streams",
    type=click.IntRange(1, 1024),
    default=_DEFAULTS.streams,
    show_default=True,
    help="Streams that can be open at the same time.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=_DEFAULTS.grace,
    show_default=True,
    metavar="SECONDS",
    help="How long running requests may take after SIGTERM.",
)
@click.option(
    "--source-root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Let clients read the source files below this folder that their modules name. Without this option, none are read.",
)
@rules_option
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="NAME=FOLDER",
    callback=parse_drivers,
    help="Let clients run symd grab with the driver generation in FOLDER, by the name NAME; $SYMD_DRIVERS can add others.",
)
@listen_options
@click.option(
    "--metrics",
    default=_DEFAULTS.metrics,
    metavar="ADDRESS",
    help="Serve Prometheus metrics at HOST:PORT or unix:PATH (path /metrics, no password).",
)
@click.option(
    "--otlp",
    default=_DEFAULTS.otlp,
    metavar="URL",
    help="Send a span for each request to this OpenTelemetry collector, such as http://localhost:4317; $OTEL_EXPORTER_OTLP_ENDPOINT may "
    "name one too. Needs the extra symd-gpu[otel].",
)
@click.option("-v", "--verbose", is_flag=True, help="Log each request and each step on stderr.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log a line of text for each record, or a JSON object.",
)
@limit_option
def command(
    addresses: tuple[str, ...],
    http: str,
    debuginfod: tuple[str, ...],
    http_names: tuple[str, ...],
    store: str,
    catalogue: str,
    cache: Path | None,
    workers: int,
    readers: int,
    builders: int,
    streams: int,
    grace: float,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    drivers: Mapping[str, str],
    listen: ListenConfig,
    metrics: str,
    otlp: str,
    verbose: bool,
    log_format: str,
    limits: Limits,
) -> int:
    """Run the daemon until SIGTERM or Ctrl-C: gRPC on a Unix socket that only you may use, or on TCP if you ask for it.

    TCP needs --access, TLS or --insecure, even on loopback. When the daemon is ready, it prints its addresses, one
    per line. The daemon logs every change to its contents, on standard error or, if that is a terminal, to
    symd/audit.log in $XDG_STATE_HOME (~/.local/state).
    """
    # gRPC writes to the log, as they are, bytes that a peer says goodbye with; and its own words about an address that
    # it cannot listen at, which symd says itself
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if listen.socket_group is None and all(map(is_unix, addresses)):
        # gRPC's older listener answers one address an eighth sooner (`make bench`), but its own user last where
        # strangers connect without end, whom this socket keeps out. A gRPC that has only the newer one ignores the
        # name.
        os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")
    tune_malloc_for_daemon()
    is_shared = is_url(store)
    if is_shared != bool(catalogue):
        missing = "--catalogue is not given" if is_shared else "--store is a folder"
        raise click.UsageError(
            f"{missing}: a shared store needs both --store s3://BUCKET/PREFIX and --catalogue postgresql://HOST/DATABASE"
        )
    if not http and (debuginfod or http_names):
        option = "--debuginfod" if debuginfod else "--http-name"
        raise click.UsageError(f"{option} needs --http HOST:PORT")
    check_listen_options(addresses, http, metrics, listen)
    config = Config(
        limits=limits,
        store=Path(store),
        objects=store if is_shared else "",
        catalogue=catalogue,
        cache=cache or (default_cache() if is_shared else Path(store)),  # that of a folder needs none
        address=addresses[0],
        addresses=addresses,
        http=http,
        debuginfod=debuginfod,
        http_names=http_names,
        workers=workers,
        readers=readers,
        builders=builders,
        streams=streams,
        grace=grace,
        drivers=drivers,
        listen=listen,
        metrics=metrics,
        otlp=otlp,
    )
    source = click.get_current_context().get_parameter_source("certificate_rights")
    is_given = source is not click.core.ParameterSource.DEFAULT
    warnings = [
        *(f"--limit: {sentence}" for sentence in limit_contradictions(limits)),
        *without_effect(addresses, http, listen, is_certificate_rights_given=is_given),
    ]
    from symd.cli.serving import serve_until_stopped  # noqa: PLC0415 - 275 ms: the help need not wait for gRPC and NumPy

    return serve_until_stopped(config, roots, rules, warnings, verbose=verbose, as_json=log_format == "json")
