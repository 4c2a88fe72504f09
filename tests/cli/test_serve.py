"""symd serve, and the verbs that ask it: same words, same output."""

import hashlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from symd.cli.serve import GROUPS, command
from symd.config import default_socket
from tests.cli.conftest import SYMD, Run
from tests.daemon.processes import serving
from tests.server.authority import Authority


@pytest.mark.parametrize("form", [["--json"], []], ids=["json", "text"])
def test_every_verb_prints_the_same_with_a_server(
    symd: Run, server: str, sample: Path, tmp_path: Path, form: list[str]
):
    for verb, *more in (
        ["info"],
        ["lines"],
        ["symbolize", "vadd+0", "0x10", "nobody+1"],
        ["extract", tmp_path / "out"],
    ):
        here = symd(verb, *form, sample, *more)
        there = symd(verb, *form, "--server", server, sample, *more)
        out = re.sub(r"├── daemon  at .*\n", "", there.out)  # symd info says what the daemon calls the file
        err = re.sub(r"symd: .*: the daemon at .* has it as modules/[0-9a-f]+\n", "", there.err)
        assert (there.code, out, err) == (here.code, here.out, here.err)
        assert here.out


def test_a_module_that_the_daemon_has_may_be_named(symd: Run, server: str, sample: Path):
    assert symd("info", "--server", server, sample).code == 0
    name = f"modules/{hashlib.sha256(sample.read_bytes()).hexdigest()}"
    outcome = symd("symbolize", "--json", "--server", server, name, "vadd+0")
    assert (outcome.code, outcome.json[0]["kernel"]) == (0, "vadd")


def test_a_module_that_the_daemon_has_not_is_a_no(symd: Run, server: str):
    outcome = symd("info", "--server", server, f"modules/{'0' * 64}")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1


def test_a_bad_file_is_the_same_error_with_a_server(symd: Run, server: str, tmp_path: Path):
    path = tmp_path / "noise"
    path.write_bytes(b"\x01\x02\x03\x04" * 9)
    here, there = symd("info", path), symd("info", "--server", server, path)
    assert (there.code, there.err) == (here.code, here.err)
    assert here.code == 2


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--debuginfod", "https://debuginfod.example"), 2, "--debuginfod needs --http"),
        (("--http-name", "symd.example"), 2, "--http-name needs --http HOST:PORT"),
        (("--store", "s3://bucket/prefix"), 2, "--catalogue is not given: a shared store needs both"),
        (
            ("--store", "/folder", "--catalogue", "postgresql://h/d"),
            2,
            "--store is a folder: a shared store needs both",
        ),
        (("--store", "file:///{}/objects", "--catalogue", "mysql://user:secret@h/d"), 2, "not the URL of a catalogue"),
        (("--store", "http://h/x", "--catalogue", "postgresql://h/d"), 2, "names no object storage"),
        (
            ("--store", "file:///{}/objects", "--catalogue", "postgresql:///d?host={}"),
            3,
            "look whether the server runs",
        ),
    ],
)
def test_a_shared_store_that_cannot_be_had_is_one_line(
    symd: Run, tmp_path: Path, options: tuple[str, ...], code: int, said: str
):
    cache = ("--cache", tmp_path / "cache")
    outcome = symd("serve", "--address", f"unix:{tmp_path}/s", *cache, *(each.format(tmp_path) for each in options))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1), outcome.err
    assert said in outcome.err
    assert "secret" not in outcome.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--address", "127.0.0.1:0", "--insecure", "--socket-group", "root"), "also give --address unix:PATH"),
        (("--address", "unix:{}/s", "--open-metrics"), "--open-metrics needs --metrics HOST:PORT"),
        (("--address", "unix:{}/s", "--tls-cert", "{}/file", "--tls-key", "{}/file"), "give --address HOST:PORT or"),
    ],
)
def test_an_option_that_promises_what_no_address_gives_is_refused(
    symd: Run, tmp_path: Path, options: tuple[str, ...], said: str
):
    (tmp_path / "file").touch()  # no store can be made below it
    outcome = symd("serve", "--store", tmp_path / "file" / "store", *(each.format(tmp_path) for each in options))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome.err
    assert said in outcome.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--access", "{}/access"), ["--access does nothing: it is about TCP"]),
        (("--http", "127.0.0.1:0", "--access", "{}/access"), []),
        (("--address", "127.0.0.1:0", "--insecure"), []),
        (("--insecure", "--anonymous", "read"), ["--anonymous does nothing", "--insecure does nothing"]),
        (("--open-health",), ["--open-health does nothing"]),
        (("--open-health", "--socket-group", "root"), []),
        (("--certificate-rights", "write"), ["--certificate-rights does nothing: no client shows a certificate"]),
    ],
)
def test_an_option_about_who_may_come_in_where_nobody_can_is_told_in_the_log(
    tmp_path: Path,
    options: tuple[str, ...],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    (tmp_path / "access").touch(mode=0o600)
    monkeypatch.setattr("symd.cli.serving.serve", lambda *_, **__: 0)
    command.main(
        ["--address", f"unix:{tmp_path}/s", "--store", str(tmp_path), *(each.format(tmp_path) for each in options)],
        standalone_mode=False,
    )
    told = [each.getMessage() for each in caplog.records if "does nothing" in each.getMessage()]
    assert len(told) == len(said)
    assert all(told[number].startswith(each) for number, each in enumerate(said))


def test_a_shared_store_may_be_named_by_the_environment(symd: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SYMD_STORE", f"file://{tmp_path}/objects")
    monkeypatch.setenv("SYMD_CATALOGUE", f"postgresql:///d?host={tmp_path}")
    outcome = symd("serve", "--address", f"unix:{tmp_path}/s", "--cache", tmp_path / "cache")
    assert (outcome.code, "look whether the server runs" in outcome.err) == (3, True), outcome.err


@pytest.mark.parametrize(
    ("value", "said"),
    [("newer", "write NAME=FOLDER"), ("=/tmp", "write NAME=FOLDER"), ("newer=/nowhere/at/all", "no folder")],
)
def test_a_driver_of_the_daemon_is_a_name_and_a_folder_that_is_there(symd: Run, value: str, said: str):
    outcome = symd("serve", "--driver", value)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


def test_a_driver_that_the_daemon_does_not_know_is_refused_by_name(symd: Run, server: str, tmp_path: Path):
    source = tmp_path / "k.cl"
    source.write_text("kernel void k(global int* a) {}")
    outcome = symd("grab", source, "--driver", "newer", "--server", server)
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no driver 'newer' (none is configured" in outcome.err


@pytest.mark.parametrize(
    ("told", "options", "heard"),
    [
        (None, (), "-event_engine_listener"),
        (None, ("--socket-group", "root"), None),
        (None, ("--address", "127.0.0.1:0", "--insecure"), None),
        ("tcp_frame_size_tuning", (), "tcp_frame_size_tuning"),
    ],
)
def test_grpc_listens_the_older_way_where_its_user_alone_gets_in(
    told: str | None, options: tuple[str, ...], heard: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GRPC_EXPERIMENTS", told or "")
    if told is None:
        monkeypatch.delenv("GRPC_EXPERIMENTS")
    seen: list[str | None] = []
    monkeypatch.setattr("symd.cli.serving.serve", lambda *_, **__: seen.append(os.environ.get("GRPC_EXPERIMENTS")) or 0)
    command.main(["--address", f"unix:{tmp_path}/s", "--store", str(tmp_path), *options], standalone_mode=False)
    assert seen == [heard]


def test_limits_that_contradict_each_other_or_the_system_are_told_at_the_start(tmp_path: Path):
    options = ["--limit", "bytes_in_flight=90M", "--limit", "connections=2M"]
    with serving(tmp_path, *options) as daemon:
        daemon.process.terminate()
        _, log = daemon.process.communicate(timeout=30)
    assert "client_bytes_in_flight (96 MiB) is more than bytes_in_flight (90 MiB)" in log
    assert "connections is 2000000, and the system lets this process open " in log


def test_every_option_of_the_help_stands_under_one_heading(run: Run):
    names = [name for group in GROUPS.values() for name in group]
    known = {name for parameter in command.params for name in parameter.opts}
    assert len(names) == len(set(names))
    assert set(names) <= known
    assert all(set(parameter.opts) & set(names) for parameter in command.params)
    shown = run("serve", "--help").out
    headings = [line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [*GROUPS, "Other"]
    options = [re.split(r"\s{2,}", line.strip())[0] for line in shown.splitlines() if re.match(r"  (-\w, )?--", line)]
    first = [each.replace(",", " ").split() for each in options]
    assert all(sum(name in words for words in first) == 1 for name in names)


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 2, "'--tls-client-ca': "),
        ("junk", 3, "--tls-client-ca: the file has no certificate in PEM"),
    ],
)
def test_a_bad_authority_of_clients_is_named_by_its_option(
    symd: Run, tmp_path: Path, content: str | None, code: int, said: str
):
    certificate, key = Authority(tmp_path / "authority").issue("localhost")
    if content:
        (tmp_path / "ca").write_text(content)
    options = ["--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", tmp_path / "ca"]
    outcome = symd("serve", "--address", "127.0.0.1:0", "--store", tmp_path / "store", *options)
    assert (outcome.code, outcome.err.count("\n")) == (code, 1)
    assert said in outcome.err


@pytest.mark.parametrize("url", ["foo", "localhost:4317", "http://", "http://host:99999", "ftp://host:1"])
def test_a_collector_that_is_no_url_is_refused(symd: Run, tmp_path: Path, url: str):
    outcome = symd("serve", "--store", tmp_path / "store", "--address", f"unix:{tmp_path}/s.sock", "--otlp", url)
    assert outcome.code == 2
    assert f"--otlp {url}: not the URL of a collector" in outcome.err


def test_each_address_is_told_once(tmp_path: Path):
    options = ["--address", f"unix:{tmp_path}/s.sock", "--store", tmp_path / "store", "--http", "127.0.0.1:0"]
    command = [*SYMD, "serve", "-v", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as daemon:
        assert daemon.stdout
        said = [daemon.stdout.readline()]
        while "http://" not in said[-1]:
            said.append(daemon.stdout.readline())
            assert said[-1]
        daemon.send_signal(signal.SIGTERM)
        said += daemon.stdout.read().splitlines()
    assert "".join(said).count(f"unix:{tmp_path}/s.sock") == 1
    assert "".join(said).count("127.0.0.1:") == 1


@pytest.mark.parametrize("given", [("--address", "unix:{}/x.sock"), ("--address=unix:{}/x.sock",)])
def test_a_socket_in_a_folder_of_all_users_is_refused_with_the_whole_call(
    run: Run, tmp_path: Path, given: tuple[str, ...]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    said = run("serve", *(each.format(shared) for each in given))
    own = default_socket().parent
    assert (said.code, "chmod" in said.err) == (3, False), said.err
    assert f"symd serve --address unix:{own}/x.sock" in said.err
