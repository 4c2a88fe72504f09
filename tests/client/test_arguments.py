"""What the verbs say to whoever hands over something else than they take: engine and client say the same."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from symd import AsyncClient, Client
from symd.config import Limits, default_socket
from symd.engine.engine import Engine
from symd.errors import BadQuery, InvalidInput, ServerUnavailable, SymdError
from symd.model.addresses import ByAddress, ByDevice, ByKernel, DeviceAddress, KernelOffset, ObjectAddress
from symd.model.contexts import Context
from symd.model.line_tables import Around, LineLevel, ListingPart
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store
from tests.impatient import be_impatient

VADD = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.zebin"


@pytest.fixture(scope="module")
def symbolizers(tmp_path_factory):
    """An engine and a client of a daemon over it."""
    folder = tmp_path_factory.mktemp("daemon")
    config = Config(limits=Limits(), store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        engine.add(VADD.read_bytes())
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield {"engine": engine, "client": client}
            daemon.stop(1)


@pytest.fixture
def symbolizer(request, symbolizers):
    return symbolizers[request.param]


both = pytest.mark.parametrize("symbolizer", ["engine", "client"], indirect=True)
SHA = "0" * 64
WRONG = {
    "text that is no query": (
        lambda s, sha: s.symbolize(sha, ["vadd+x"]),
        BadQuery,
        "cannot parse 'vadd+x' as an address",
    ),
    "no query among queries": (
        lambda s, sha: s.symbolize(sha, ["vadd+1", None]),
        BadQuery,
        "a NoneType is not a query",
    ),
    "a flag as query": (lambda s, sha: s.symbolize_one(sha, True), BadQuery, "a bool is not a query"),
    "a fraction as query": (lambda s, sha: s.symbolize_one(sha, 0.5), BadQuery, "a float is not a query"),
    "a negative address": (lambda s, sha: s.symbolize(sha, [-1]), BadQuery, "-1 is not an address"),
    "nothing as queries": (lambda s, sha: s.symbolize(sha, None), BadQuery, "a NoneType is not a sequence"),
    "a list in a list for variables": (
        lambda s, sha: s.variables(sha, [["vadd+1"]]),
        BadQuery,
        "a list is not a query",
    ),
    "nothing for variables": (lambda s, sha: s.variables(sha, None), BadQuery, "a NoneType is not a query"),
    "text as queries": (lambda s, sha: s.symbolize(sha, "vadd+1"), BadQuery, "is not a sequence of queries"),
    "query as queries": (lambda s, sha: s.symbolize(sha, ByAddress(0)), BadQuery, "a ByAddress is not a sequence"),
    "code object as name": (
        lambda s, sha: s.symbolize(s.module(sha).objects[0], [ByAddress(0)]),
        InvalidInput,
        "not by an ObjectSummary (pass module.sha256)",
    ),
    "short name": (lambda s, sha: s.symbolize(sha[:12], [ByAddress(0)]), BadQuery, "is not the SHA-256 of a module"),
    "path as module": (lambda s, sha: s.add("file"), InvalidInput, "a module is its bytes, not the text 'file'"),
    "a surrogate in a label": (
        lambda s, sha: s.add(b"new", "a\ud800"),
        BadQuery,
        "'\\ud800' in a label is not a character",
    ),
    "a surrogate in a new label": (lambda s, sha: s.relabel(sha, "\udcff"), BadQuery, "in a label is not a character"),
    "a number as label": (lambda s, sha: s.add(b"new", 5), BadQuery, "a label is text, not int"),
    "negative offsets": (lambda s, sha: s.symbolize_column(sha, [-1, 8]), BadQuery, "a sequence of 64-bit integers"),
    "fractions": (lambda s, sha: s.symbolize_column(sha, np.array([0.5])), BadQuery, "a sequence of 64-bit integers"),
    "text as column": (lambda s, sha: s.symbolize_column(sha, "8"), BadQuery, "a sequence of 64-bit integers"),
    "ragged column": (lambda s, sha: s.symbolize_column(sha, [[1], [2, 3]]), BadQuery, "a sequence of 64-bit integers"),
    "text that is not a line": (lambda s, sha: s.locate(sha, "a.cl"), BadQuery, "'a.cl' is not a source line"),
    "a number as line": (
        lambda s, sha: s.locate(sha, 12),
        BadQuery,
        'an int is not a place for a breakpoint (write "vadd.cl:8"',
    ),
    "a kernel as part": (
        lambda s, sha: list(s.listing(sha, "vadd")),
        BadQuery,
        "the text 'vadd' is not a ListingPart (one function is ListingPart(within=\"vadd\"), of symd.model.line_tables)",
    ),
    "instructions around a place as part": (
        lambda s, sha: list(s.listing("", Around("vadd+8"))),
        BadQuery,
        "is not a ListingPart (pass ListingPart(within=Around(...)), of symd.model.line_tables)",
    ),
    "a device address as query": (
        lambda s, sha: s.symbolize("", [ByDevice("0" * 32, DeviceAddress(8))]),
        BadQuery,
        "(device addresses are asked of a daemon: client.contexts.symbolize(context, addresses))",
    ),
    "a device address in what is no context": (
        lambda s, sha: s.variables("", [ByDevice(5, DeviceAddress(8))]),
        BadQuery,
        "a context is named by its id, not by an int",
    ),
    "no level of lines": (lambda s, sha: list(s.lines(sha, None, "sass")), BadQuery, "'sass' is not a level of lines"),
    "text as rules": (lambda s, sha: s.locate(sha, "a.cl:1", rules=["/a=/b"]), BadQuery, "PathRule("),
    "a line as breakpoints": (lambda s, sha: s.watch("a.cl:1"), BadQuery, "is not a sequence of breakpoints"),
    "a line as breakpoint": (lambda s, sha: s.watch(["a.cl:1"]), BadQuery, "'a.cl:1' is not a Breakpoint"),
    "a file as files": (lambda s, sha: s.sources(sha, "a.cl"), BadQuery, "'a.cl' is not a sequence of names of files"),
    "a frame as file": (lambda s, sha: s.sources(sha, [3]), BadQuery, "an int is not the name of a file"),
    "a name as names": (lambda s, sha: s.missing(sha), BadQuery, "is not a sequence of modules (put it in a list)"),
    "a number as name": (lambda s, sha: s.missing([5]), InvalidInput, "named by its SHA-256, not by an int"),
    "text as what to grab": (lambda s, sha: s.grab("a.cl"), BadQuery, 'pass GrabRequest("opencl", "source", data)'),
    "text as context": (lambda s, sha: s.contexts.add("x"), BadQuery, "'x' is not a Context"),
    "text as event": (
        lambda s, sha: s.contexts.record(s.contexts.add(Context(process=1)), ["x"]),
        BadQuery,
        "'x' is not a Load (pass a list of Load and Unload",
    ),
    "text as form": (lambda s, sha: s.contexts.symbolize("0" * 32, 1, 1, "x"), BadQuery, "is not an AddressForm"),
    "text as alias": (lambda s, sha: s.aliases.add(["x"]), BadQuery, "'x' is not an Alias"),
    "text as last alias": (lambda s, sha: list(s.aliases.of(sha, "x")), BadQuery, "'x' is not an Alias"),
    "a list as path": (
        lambda s, sha: s.symbolize(sha, ["8"], [""]),
        BadQuery,
        "a list is not the path of a code object",
    ),
    "a number as path": (lambda s, sha: s.symbolize(sha, ["8", "16"], 5), BadQuery, "an int is not the path"),
    "bytes as path of one": (lambda s, sha: s.symbolize_one(sha, 8, b"vadd"), BadQuery, "a bytes is not the path"),
    "a list as path of a column": (
        lambda s, sha: s.symbolize_column(sha, np.arange(2), path=[""]),
        BadQuery,
        "a list is not the path of a code object (pass a text such as module.objects[0].path",
    ),
    "a number as path of an array": (
        lambda s, sha: s.symbolize(sha, np.arange(2), 5),
        BadQuery,
        "an int is not the path",
    ),
    "a list as path of lines": (lambda s, sha: list(s.lines(sha, [""])), BadQuery, "a list is not the path"),
    "a list as path of a line": (lambda s, sha: s.locate(sha, "a.cl:1", [""]), BadQuery, "a list is not the path"),
    "a list as path of names": (lambda s, sha: s.names(sha, "*", [""]), BadQuery, "a list is not the path"),
    "a list as path of variables": (lambda s, sha: s.variables(sha, 8, [""]), BadQuery, "a list is not the path"),
    "a list as path of sources": (lambda s, sha: s.sources(sha, ["a"], [""]), BadQuery, "a list is not the path"),
    "a list as path of a listing": (
        lambda s, sha: list(s.listing(sha, ListingPart([""]))),
        BadQuery,
        "a list is not the path",
    ),
    "nothing as path of data": (lambda s, sha: s.object_data(sha, None), BadQuery, "a NoneType is not the path"),
    "a number as kernel": (
        lambda s, sha: s.symbolize_column(sha, [8], kernel=5),
        BadQuery,
        "an int is not the name of a kernel (pass a text such as kernel.name; symbolize_origins takes several kernels)",
    ),
    "a list as section": (
        lambda s, sha: s.symbolize_column(sha, [8], section=[1]),
        BadQuery,
        "a list is not a section",
    ),
    "a number as kernel of a listing": (
        lambda s, sha: list(s.listing(sha, ListingPart(None, 5))),
        BadQuery,
        "an int is not an Around",
    ),
    "a number as device": (
        lambda s, sha: list(s.listing(sha, ListingPart(None, None, 5))),
        BadQuery,
        "an int is not the name of a device",
    ),
    "a number as names": (lambda s, sha: s.names(sha, 12), BadQuery, 'write "vadd*"'),
}


@both
@pytest.mark.parametrize(("ask", "kind", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_named_in_a_sentence(symbolizer, ask, kind, says):
    sha = symbolizer.add(VADD.read_bytes()).sha256
    with pytest.raises(kind) as caught:
        ask(symbolizer, sha)
    assert says in str(caught.value)


@both
def test_what_means_one_thing_may_be_written_in_several_ways(symbolizer):
    module = symbolizer.add(VADD.read_bytes())
    sha = module.sha256
    plain = list(symbolizer.symbolize(sha, [ByKernel("vadd", KernelOffset(16)), ByAddress(ObjectAddress(8))]))
    record = next(each for each in symbolizer.modules() if each.sha256 == sha)
    for name in (sha, f"modules/{sha}", module, record):
        assert list(symbolizer.symbolize(name, ("vadd+0x10", "8"))) == plain
        assert list(symbolizer.symbolize(name, iter(["vadd+16", np.uint32(8)]))) == plain
        assert symbolizer.symbolize_one(name, "vadd+16") == plain[0]
        assert symbolizer.symbolize_one(name, 8) == plain[1]
    assert list(symbolizer.symbolize(module, np.array([8, 8]))) == [plain[1]] * 2
    assert symbolizer.variables(module, "vadd+16").at == plain[0]
    line = plain[0].frames[-1]
    assert symbolizer.locate(module, f"{line.file}:{line.line}").locations
    assert {each.name for each in symbolizer.names(module, "va*")} >= {"vadd"}
    assert symbolizer.record(module) == record
    assert symbolizer.module(module) == module
    assert symbolizer.missing([module, record, sha, SHA]) == [SHA]
    assert list(symbolizer.lines(sha, None, "ptx")) == list(symbolizer.lines(sha, None, LineLevel.PTX))


@both
def test_answers_one_after_the_other_are_those_by_number(symbolizer):
    sha = symbolizer.add(VADD.read_bytes()).sha256
    for answers in (
        symbolizer.symbolize_column(sha, np.arange(0, 1000, 8, dtype=np.uint64), kernel="vadd"),
        symbolizer.symbolize(sha, ["nothing+1", *(f"vadd+{at}" for at in range(0, 720, 8)), "0"]),
        symbolizer.symbolize(sha, ["0", "vadd+16"]),
        symbolizer.symbolize(sha, []),
    ):
        each = [answers[number] for number in range(len(answers))]
        assert list(answers) == each
        for part in (slice(None, None, -1), slice(1, 5), slice(-3, None, 2), slice(50, 2, -7), slice(3, 3)):
            assert list(answers[part]) == each[part]


@both
def test_a_column_may_be_any_sequence_of_numbers(symbolizer):
    sha = symbolizer.add(VADD.read_bytes()).sha256
    plain = symbolizer.symbolize_column(sha, [0, 8, 1 << 63], kernel="vadd")
    for values in ((0, 8, 1 << 63), np.array([0, 8, 1 << 63], np.uint64)):
        assert list(symbolizer.symbolize_column(sha, values, kernel="vadd")) == list(plain)
    assert list(symbolizer.symbolize_column(sha, [])) == []


@both
def test_answers_can_be_pickled(symbolizer):
    sha = symbolizer.add(VADD.read_bytes()).sha256
    offsets = np.arange(0, 640, 8, dtype=np.uint64)
    for answers in (
        symbolizer.symbolize(sha, [ByKernel("vadd", KernelOffset(16)), ByAddress(ObjectAddress(1 << 60))]),
        symbolizer.symbolize(sha, [ByKernel("vadd", KernelOffset(at)) for at in range(0, 640, 8)]),
        symbolizer.symbolize_column(sha, offsets, kernel="vadd"),
    ):
        assert list(pickle.loads(pickle.dumps(answers))) == list(answers)  # noqa: S301 - our own bytes


@pytest.mark.parametrize("address", ["bogus", ":1", "host:", "host:port", "tls:host", "unix:", 7])
def test_what_is_no_address_is_refused_before_anybody_is_asked(address):
    with pytest.raises(InvalidInput, match="HOST:PORT"):
        Client(address)


def test_a_bare_path_is_told_how_an_address_is_written():
    with pytest.raises(InvalidInput, match=r"write unix:/run/x\.sock"):
        Client("/run/x.sock")


def reason(address: str) -> str:
    with Client(address, timeout=10) as client, pytest.raises(ServerUnavailable) as caught:
        client.missing([SHA])
    return str(caught.value)


def test_a_socket_that_is_not_there_and_one_that_nobody_listens_at(tmp_path):
    assert "no such socket" in reason(f"unix:{tmp_path}/x.sock")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "y.sock"))
    address = f"unix:{tmp_path}/y.sock"
    assert f"no daemon answers (start one with `symd daemon start --address {address}`)" in reason(address)


def test_a_socket_that_goes_while_the_client_asks_whose_it_is_is_not_another_user_s(tmp_path, monkeypatch):
    def gone(path: Path, mode: int) -> bool:
        path.unlink()
        return access(path, mode)

    access = os.access
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "y.sock"))
    monkeypatch.setattr(os, "access", gone)
    assert "no such socket" in reason(f"unix:{tmp_path}/y.sock")


NO_TIMEOUTS = {
    "text": ("10", "a timeout is a number of seconds, not the text '10'"),
    "a flag": (True, "a timeout is a number of seconds, not a bool"),
    "a list": ([1], "a timeout is a number of seconds, not a list"),
    "before now": (-1, "-1 is not a timeout (pass seconds, such as 10, or None"),
    "no number": (float("nan"), "nan is not a timeout"),
    "no end": (np.float32("inf"), "inf is not a timeout"),
    "more than a float": (10**400, "000 is not a timeout"),
}


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(("timeout", "says"), NO_TIMEOUTS.values(), ids=NO_TIMEOUTS)
def test_what_is_no_timeout_is_told_before_anybody_is_asked(make, timeout, says):
    with pytest.raises(InvalidInput) as caught:
        make("unix:/nowhere", timeout=timeout)
    assert says in str(caught.value)


@pytest.mark.parametrize("timeout", [None, 0, 10, 0.5, np.int8(5), np.float32(0.5), 1e9])
def test_seconds_of_any_kind_are_a_timeout(timeout):
    with Client("unix:/nowhere", timeout=timeout) as client, pytest.raises(InvalidInput, match="a timeout is a number"):
        client.with_timeout(timeout).with_timeout("10")


def test_a_client_that_was_closed_says_so(symbolizers):
    address, data = symbolizers["client"].address, VADD.read_bytes()
    client = Client(address, timeout=60)
    sha, other = client.add(data).sha256, client.with_timeout(50)
    begun = client.modules()
    other.close()
    for ask in (
        client.server_info,
        client.health,
        lambda: client.add(b"another"),
        lambda: client.symbolize_one(sha, 8),
        lambda: list(client.lines(sha)),
        lambda: client.symbolize(sha, np.zeros(70_000, np.uint64)),
        client.watch,
        lambda: list(begun),
        lambda: client.contexts.add(Context(process=1)),
        other.health,
    ):
        with pytest.raises(InvalidInput, match="this client is closed"):
            ask()


def test_a_call_that_runs_while_its_client_is_closed_says_so(tmp_path):
    with socket.socket(socket.AF_UNIX) as silent, ThreadPoolExecutor(1) as threads:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        client = Client(f"unix:{tmp_path}/s")
        asked = threads.submit(client.server_info)
        with silent.accept()[0]:  # the call has begun
            client.close()
            with pytest.raises(InvalidInput, match="this client is closed"):
                asked.result()


def test_a_file_in_the_place_of_a_socket_is_called_none(tmp_path):
    (tmp_path / "kernel.co").write_bytes(b"")
    for path in (tmp_path, tmp_path / "kernel.co"):
        assert "this is not a socket" in reason(f"unix:{path}")


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_who_listens_and_says_nothing_is_not_taken_for_nobody(tmp_path, family):
    with socket.socket(family) as silent:
        silent.bind(str(tmp_path / "z.sock") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        silent.listen()
        where = silent.getsockname()
        said = reason(f"unix:{where}" if family == socket.AF_UNIX else f"127.0.0.1:{where[1]}")
    assert "what listens there does not answer (the daemon is stopped" in said


def test_where_the_daemon_that_needs_no_address_is_missing_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert reason(f"unix:{default_socket()}").endswith("no such socket (start one with `symd daemon start`)")


@pytest.mark.parametrize("scheme", ["", "tls:"])
def test_a_name_that_has_no_address_and_a_port_that_nobody_listens_at(scheme):
    said = reason(f"{scheme}nobody.invalid:5")
    assert "the name nobody.invalid cannot be resolved (check the host name" in said
    assert "serve" not in said
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    said = reason(f"{scheme}127.0.0.1:{port}")
    assert (
        f"no daemon answers (start one with `symd daemon start --address 127.0.0.1:{port}`; TCP takes --access," in said
    )


def test_several_daemons_that_take_no_call_are_told_of_as_several(monkeypatch):
    be_impatient(monkeypatch)
    with ExitStack() as stack:
        others = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ports = [other.getsockname()[1] for other in others]
        for other in others:
            threading.Thread(target=close_each, args=(other,), daemon=True).start()
        address = f"ipv4:{','.join(f'127.0.0.1:{port}' for port in ports)}"
        assert says_of_all("the connection was closed, and none of these daemons took the call", reason(address))
        assert says_of_all("the connection was closed", reason(f"tls:{address}"))
    with ExitStack() as stack:
        gone = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
    away = f"ipv4:{','.join(f'127.0.0.1:{port}' for port in gone)}"
    assert says_of_all("none of these daemons answers", reason(away))
    assert "the name nobody.invalid:5 has no address" in reason("dns:///nobody.invalid:5")


def says_of_all(said: str, reason: str) -> bool:
    """Whether something is said and nothing is guessed of one daemon that would have to be true of all."""
    hint = "`symd health --server HOST:PORT` says of each"
    return said in reason and hint in reason and not any(word in reason for word in ("plain", "connections=", "TLS"))


def close_each(listening: socket.socket) -> None:
    with suppress(OSError):  # it was closed
        while True:
            listening.accept()[0].close()


def test_what_listens_at_the_port_may_be_another_program():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        try:
            said = reason(f"127.0.0.1:{other.server_port}")
        finally:
            other.shutdown()
            serving.join()
    assert "what listens there is not a symd daemon: it does not speak gRPC" in said


def test_another_user_s_socket_is_no_missing_daemon(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs a second user")
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "x.sock"))
        made.listen()
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.setresuid(65534, 65534, 65534)
            try:
                Client(f"unix:{folder}/x.sock", timeout=5).missing([SHA])
            except SymdError as error:
                os.write(write, str(error).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        assert b"the daemon's user has not let you use this socket" in os.read(read, 4096)
