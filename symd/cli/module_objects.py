"""The code objects of a daemon's module, fetched from it, for verbs that work on files."""

from __future__ import annotations

from collections.abc import Iterator

from symd.cli.options import server_option_that
from symd.config import Limits
from symd.engine.files.input import module_beginning, module_digest
from symd.engine.files.module import open_module
from symd.errors import ObjectNotFound
from symd.formats import containers
from symd.model.code import CodeObject

fetching_server_option = server_option_that(
    "Take modules/SHA256, or the beginning of it, from the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT."
    ' Everything else is read here. "default" is the daemon that runs here, "none" means no daemon.'
)


def is_of_daemon(file: str, server: str | None) -> bool:
    """Whether ``file`` is a name of a module that the daemon at ``server`` has, not of a file."""
    return server is not None and bool(module_digest(file) or module_beginning(file))


def daemon_object(file: str, server: str | None, limits: Limits) -> bytes:
    """The bytes of a module that is one code object. Raises ``ObjectNotFound`` where it holds several,
    ``ModuleNotFound``."""
    with open_module(file, server, limits) as module:
        try:
            return module.symbolizer.object_data(module.digest, "")
        except ObjectNotFound:
            hint = f"symd extract {file} DIR writes them as files of their own"
            raise ObjectNotFound(
                "the module is not itself a code object: it contains some", where=file, hint=hint
            ) from None


def daemon_objects(file: str, server: str | None, limits: Limits) -> Iterator[CodeObject]:
    """Every code object of a module, each at its nesting path, read here. Raises ``ModuleNotFound``."""
    with open_module(file, server, limits) as module:
        for each in module.summary().objects:
            data = module.symbolizer.object_data(module.digest, each.path)
            (code,) = containers.ContainerUnpacker(data, limits, "")
            yield code._replace(path=each.path)
