"""The process that starts programs for a ``fork_server.ForkServer``, each confined from its first instruction. It is
run by its path and keeps one thread, so that it may run Python between fork and exec, where it gives up what the
program is not to have: files, sockets, further processes and threads (``confinement``), and resources.

Arguments: symd's folder. Standard input is a Unix socket of messages. A request is one message, JSON with the
descriptors of the program's standard input, output and error. First the process that is to become the program says its
number, ``begun``, itself: whoever asked knows of it even where this one is killed now. The answer is one message, JSON
with the process number, or the number and the text of an error, or all of these: then the process could not become the
program, and has ended. The process is a child of whoever started this one (clone(2), CLONE_PARENT), who waits for it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

MESSAGE_BYTES: Final = 1 << 17
_CLONE_PARENT: Final = 0x00008000
_ERROR: Final = 3
"""The descriptor on which the child says why the program cannot be started; it is closed when the program starts."""
_ALL_DESCRIPTORS: Final = 1 << 20


def name_packages(package: str) -> None:
    """Have symd's modules found in its folder, without its packages' own initialization."""
    packages = (
        ("symd", package),
        ("symd.system", f"{package}/system"),
        ("symd.system.process", f"{package}/system/process"),
    )
    for name, folder in packages:
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = [folder]


def main(confinement: Any, launcher: Any, seccomp: Any) -> None:
    """Start what is asked for until the other end closes."""
    columns = {"x86_64": 0, "aarch64": 1}
    clone = seccomp.CHECKED["clone"][columns[os.uname().machine]]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group; the other end decides
    with socket.socket(fileno=0) as requests:
        while True:
            message, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 3)
            if not message:
                return
            try:
                answer = _start(requests, json.loads(message), descriptors, clone, confinement, launcher)
            except OSError as error:
                answer = {"errno": error.errno or 0, "text": error.strerror or str(error)}
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            requests.send(json.dumps(answer).encode())


def _start(
    requests: socket.socket,
    request: Mapping[str, Any],
    descriptors: Sequence[int],
    clone: int,
    confinement: Any,
    launcher: Any,
) -> dict[str, int | str]:
    """The answer: the number of the process, which has ended where there is an error too. Raises OSError where there is
    no process."""
    reading, writing = os.pipe()
    arguments = (ctypes.c_long(clone), ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD), *[ctypes.c_ulong(0)] * 4)
    pid = int(ctypes.CDLL(None, use_errno=True).syscall(*arguments))
    if pid == 0:
        _become(requests, request, descriptors, writing, confinement, launcher)
    os.close(writing)
    with os.fdopen(reading, "rb") as errors:
        if pid < 0:
            raise OSError(ctypes.get_errno(), "the process cannot be made")
        said = errors.read()
    if said:
        number, _, text = said.decode("utf-8", "replace").partition(" ")
        return {"pid": pid, "errno": int(number), "text": text}
    return {"pid": pid}


def _become(
    requests: socket.socket,
    request: Mapping[str, Any],
    descriptors: Sequence[int],
    errors: int,
    confinement: Any,
    launcher: Any,
) -> None:
    """Be the program. Never returns."""
    try:
        requests.send(json.dumps({"begun": os.getpid()}).encode())
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(errors, max(_ERROR, *descriptors) + 1, inheritable=False)
        for own, descriptor in enumerate(descriptors):
            os.dup2(descriptor, own)
        os.dup2(max(_ERROR, *descriptors) + 1, _ERROR, inheritable=False)
        os.closerange(_ERROR + 1, _ALL_DESCRIPTORS)
        os.chdir(request["folder"])
        launcher.hold(request["limits"])
        confinement.confine([(path, access) for path, access in request["allowed"]], program=True)
        launcher.become(request["command"], request["environment"])
    except Exception as error:  # noqa: BLE001 - setrlimit's ValueError, or any: who asked waits for nothing else
        os.write(_ERROR, launcher.refusal(error))
    finally:
        os._exit(127)


if __name__ == "__main__":
    name_packages(sys.argv[1])
    from symd.system.process import confinement, launcher, seccomp

    main(confinement, launcher, seccomp)
