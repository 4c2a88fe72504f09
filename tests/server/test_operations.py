"""What an operator sees of a daemon: a line for each request, and what Prometheus is told."""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from symd import Client
from symd.engine.engine import Engine
from symd.errors import FailedPrecondition, InvalidInput, ModuleNotFound, StoreUnavailable
from symd.model.addresses import ByAddress
from symd.server.call import Call
from symd.server.config import Config, Right
from symd.server.http_server import metrics_served
from symd.server.listening import listening
from symd.server.logs import JsonLogFormatter, TextLogFormatter, line
from symd.server.metrics import Metrics
from symd.server.server import build_daemon
from symd.store import Store
from symd.v1 import symbol_service_pb2 as s
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.daemon.processes import serving
from tests.server.fakes import DIGEST, GOOD, FakeEngine
from tests.server.test_authentication import parsed_line
from tests.server.test_budgets import eventually
from tests.server.test_calls import refusal

SAMPLE = (Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg").read_bytes()


PARTS = (("evicted", "_total"), ("store_module", ""), ("store_index", ""))


def told(page):
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(page.decode())
    return {(each.name, *sorted(each.labels.items())): each.value for family in families for each in family.samples}


@pytest.fixture
def counted(tmp_path):
    """(client, metrics) of a daemon over the fake engine."""
    config = Config(store=tmp_path, address=f"unix:{tmp_path}/s", grace=1.0)
    engine, metrics = FakeEngine(), Metrics()
    engine.add(GOOD)
    daemon = build_daemon(engine, config, metrics)
    with listening(daemon.server, config.address, daemon.authenticator) as address, Client(address) as client:
        daemon.server.start()
        yield client, metrics
        daemon.stop(0.2)


def test_calls_are_counted_by_method_and_outcome(counted):
    client, metrics = counted
    for _ in range(3):
        client.symbolize_one(DIGEST, ByAddress(0x150))
    with pytest.raises(ModuleNotFound):
        client.record("0" * 64)
    with grpc.insecure_channel(client.address) as channel:
        batch = s.SymbolizeRequest(module=f"modules/{DIGEST}", queries=[{}] * 600_000)
        refusal(lambda: SymbolServiceStub(channel).Symbolize(batch))
    method = ("method", "symd.v1.SymbolService.Symbolize")
    assert eventually(lambda: told(metrics.page())["symd_call_seconds_count", method] == 4)
    samples = told(metrics.page())
    assert samples["symd_calls_total", method, ("outcome", "OK")] == 3
    assert samples["symd_single_questions_total", ("open", "yes")] == 3
    assert samples["symd_refusals_total", ("limit", ""), ("reason", "UNKNOWN_MODULE")] == 1
    assert samples["symd_refusals_total", ("limit", "request_fields"), ("reason", "LIMIT_EXCEEDED")] == 1
    assert eventually(lambda: told(metrics.page())["symd_bytes_in_flight",] == 0)
    assert samples["symd_own_memory_bytes",] > 1 << 20
    assert ("symd_work_queue_running", ("work", "question")) in samples


def test_calls_are_counted_by_outcome():
    metrics = Metrics()
    for number in range(1000):
        metrics.ended(
            Call("symd.v1.SymbolService.Symbolize", Right.READ, "unix:", None), "OK" if number % 4 else "BAD_QUERY"
        )
    samples = told(metrics.page())
    method = ("method", "symd.v1.SymbolService.Symbolize")
    assert samples["symd_calls_total", method, ("outcome", "OK")] == 750
    assert samples["symd_calls_total", method, ("outcome", "BAD_QUERY")] == 250
    assert samples["symd_refusals_total", ("limit", ""), ("reason", "BAD_QUERY")] == 250
    assert samples["symd_call_seconds_count", method] == 1000
    assert told(metrics.page()) == samples


def requests_in(caplog):
    """Other loggers may say something too, that of a store of another test for one."""
    return [each for each in caplog.records if each.name == "symd.requests"]


def test_a_request_is_a_line_of_the_log(counted, caplog):
    client, _ = counted
    with caplog.at_level(logging.INFO, "symd.requests"):
        client.symbolize(DIGEST, [ByAddress(0x150)] * 2)
        with pytest.raises(ModuleNotFound):
            client.record("0" * 64)
        assert eventually(lambda: len(requests_in(caplog)) == 2)
    first, second = requests_in(caplog)
    assert first.facts["method"] == "Symbolize"
    assert (first.facts["module"], first.facts["count"]) == (f"modules/{DIGEST}", 2)
    assert (first.facts["client"], first.facts["outcome"]) == ("owner", "OK")
    assert first.facts["received"] > 0 < first.facts["sent"]
    assert second.facts["outcome"] == "UNKNOWN_MODULE"
    assert second.facts["id"] > first.facts["id"]
    assert "outcome=UNKNOWN_MODULE" in second.getMessage()


def test_a_client_cannot_write_lines_of_its_own():
    assert line({"module": 'a"b\nid=7', "outcome": "OK", "client": ""}) == 'module="a\\"b\\nid=7" outcome=OK'


def test_json_lines_hold_facts_messages_and_tracebacks():
    record = logging.LogRecord("symd.x", logging.INFO, "", 0, "said %s", ("é\n",), None)
    plain = json.loads(JsonLogFormatter().format(record))
    assert (plain["message"], plain["log"], plain["level"]) == ("said é\n", "symd.x", "INFO")
    record.facts = {"count": 3}
    assert json.loads(JsonLogFormatter().format(record))["count"] == 3
    try:
        json.loads("why")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "JSONDecodeError" in json.loads(JsonLogFormatter().format(record))["traceback"]


LONG = 60.0
"""Seconds that no machine is too slow for."""


def test_metrics_are_told_on_a_port_of_their_own():
    with metrics_served("127.0.0.1:0", lambda: b"x 1\n") as address:
        assert urllib.request.urlopen(f"http://{address}/metrics", timeout=LONG).read() == b"x 1\n"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://{address}/", timeout=LONG)
        caught.value.close()
        assert caught.value.code == 404
        with pytest.raises(FailedPrecondition), metrics_served(address, bytes):
            pass


def test_who_asks_for_metrics_slowly_holds_up_neither_others_nor_the_end():
    with ExitStack() as stack:
        with metrics_served("127.0.0.1:0", lambda: b"x 1\n") as address:
            host, port = address.split(":")
            slow = [stack.enter_context(socket.create_connection((host, int(port)), LONG)) for _ in range(100)]
            for each in slow:
                with suppress(OSError):
                    each.sendall(b"GET /met")
            assert urllib.request.urlopen(f"http://{address}/metrics", timeout=LONG).read() == b"x 1\n"
            begun = time.monotonic()
        assert time.monotonic() - begun < LONG


def test_metrics_leave_the_machine_only_where_that_is_said():
    with (
        pytest.raises(FailedPrecondition, match="other machines could read") as caught,
        metrics_served("0.0.0.0:0", bytes),
    ):
        pass
    assert "--open-metrics" in caught.value.hint
    with metrics_served("0.0.0.0:0", lambda: b"x 1\n", open_to_all=True) as address:
        port = address.rpartition(":")[2]
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LONG).read() == b"x 1\n"


def test_metrics_are_told_on_a_unix_socket_that_only_its_owner_may_use(tmp_path):
    path = tmp_path / "m"
    with metrics_served(f"unix:{path}", lambda: b"x 1\n"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        connection.request("GET", "/metrics")
        assert connection.getresponse().read() == b"x 1\n"
        connection.close()
    assert not path.exists()


def test_the_folder_of_the_metrics_socket_is_made_and_nobody_elses(tmp_path):
    path = tmp_path / "new" / "m"
    with metrics_served(f"unix:{path}", lambda: b"x 1\n"):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.parent.chmod(0o777)
    with (
        pytest.raises(FailedPrecondition, match=r"other users may change the socket's folder .*--metrics unix:/.*/m\)"),
        metrics_served(f"unix:{path}", bytes),
    ):
        pass


@pytest.mark.parametrize(
    "address", ["", "localhost", ":1", "localhost:99999", "unix:", f"x:{'9' * 5000}"], ids=lambda text: text[:20]
)
def test_what_is_no_address_for_metrics_is_refused(address):
    with pytest.raises(InvalidInput), metrics_served(address, bytes):
        pass


def test_a_real_daemon_tells_all_of_it(tmp_path):
    command = [
        *(sys.executable, "-m", "symd", "serve", "-v", "--log-format", "json", "--metrics", f"unix:{tmp_path}/m"),
        *("--address", f"unix:{tmp_path}/s", "--store", str(tmp_path / "store")),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        with Client(f"unix:{tmp_path}/s") as client:
            client.add(SAMPLE)
        page = page_at(f"{tmp_path}/m")
        process.terminate()
        _, log = process.communicate(timeout=20)
    assert process.returncode == 0
    samples = told(page)
    assert samples["symd_module_read_seconds_count", ("outcome", "OK"), ("work", "index")] == 1
    lines = [json.loads(each) for each in log.splitlines()]
    assert {"UploadModule", "FindMissingModules"} <= {each.get("method") for each in lines}


def test_every_line_of_the_log_has_the_same_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        records = [logging.makeLogRecord({"name": name, "created": 0.0, "msg": "x"}) for name in ("symd", "symd.audit")]
        lines = list(map(TextLogFormatter(verbose=True).format, records))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [each.count("1970-01-01T00:00:00.000+00:00") for each in lines] == [1, 1]


@pytest.mark.parametrize("form", [["--log-format", "json"], [], ["-v"]], ids=["json", "text", "verbose"])
def test_a_line_of_the_audit_log_can_be_read_by_a_program(tmp_path, form):
    with serving(tmp_path, *form) as daemon:
        with Client(daemon.address) as client:
            client.add(SAMPLE, "a label")
        daemon.process.terminate()
        _, log = daemon.process.communicate(timeout=30)
    if "json" in form:
        (told,) = [each for each in map(json.loads, log.splitlines()) if each["log"] == "symd.audit"]
    else:
        (text,) = [each for each in log.splitlines() if each.startswith("symd.audit ")]
        told = dict(parsed_line(text.removeprefix("symd.audit ")))
    assert (told["who"], told["what"], told["outcome"]) == ("owner", "UploadModule", "OK")
    assert told["which"] == f"modules/{hashlib.sha256(SAMPLE).hexdigest()}"
    assert datetime.fromisoformat(told["time"]).utcoffset() == timedelta(0)
    assert float(told["seconds"]) >= 0
    assert int(told["id"]) > 0


def test_what_the_store_has_and_what_it_evicts_is_told(tmp_path):
    with Engine(Store(tmp_path / "measured")) as engine:
        first, second = (engine.add(data).sha256 for data in (SAMPLE, SAMPLE + b"\0"))
        needed = sum(engine.store.figures()[1:3])
    options = ["--limit", f"store_size={needed - 1}", "--metrics", f"unix:{tmp_path}/m", "--log-format", "json"]
    with serving(tmp_path, *options) as daemon:
        with Client(daemon.address) as client:
            client.add(SAMPLE)
            client.add(SAMPLE + b"\0")
            with pytest.raises(ModuleNotFound, match=f"{first} was evicted at 20") as caught:
                client.module(first)
            assert caught.value.metadata["evicted"].startswith("20")
        samples = told(page_at(f"{tmp_path}/m"))
        daemon.process.terminate()
        _, log = daemon.process.communicate(timeout=30)
    assert samples["symd_evicted_modules_total",] == 1
    assert samples["symd_evicted_bytes_total",] > len(SAMPLE)
    assert samples["symd_store_modules",] == 1
    assert samples["symd_store_module_bytes",] == len(SAMPLE) + 1
    assert sum(samples[f"symd_{name}_bytes{end}",] for name, end in PARTS) == needed
    assert samples["symd_store_limit_bytes",] == needed - 1
    assert samples["symd_store_free_bytes",] > 0
    assert samples["symd_store_writable",] == 1
    assert samples["symd_store_damaged_files",] == samples["symd_given_up_modules_total",] == 0
    lines = list(map(json.loads, log.splitlines()))
    (audited,) = [each for each in lines if each["log"] == "symd.audit" and each["what"] == "Evict"]
    assert (audited["who"], audited["which"], audited["outcome"]) == ("store", f"modules/{first}", "OK")
    assert audited["bytes"] == samples["symd_evicted_bytes_total",]
    assert any(each.get("message", "").startswith(f"evicted modules/{first}: ") for each in lines)
    assert f"evicted modules/{second}" not in log


def test_a_catalogue_that_cannot_be_read_costs_its_figures_alone(tmp_path, monkeypatch):
    metrics, config = Metrics(), Config()
    with Store(tmp_path / "store") as store:
        metrics.watch_store(store, config.limits)
        assert ("symd_store_modules",) in told(metrics.page())

        def refuse():
            raise StoreUnavailable("the catalogue refused: locked")

        monkeypatch.setattr(store, "figures", refuse)
        found = told(metrics.page())
        assert ("symd_store_modules",) not in found
        assert found["symd_store_limit_bytes",] == config.limits.store_size


def page_at(path):
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(path)
        asking.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: asking.recv(1 << 16), b"")).partition(b"\r\n\r\n")[2]
