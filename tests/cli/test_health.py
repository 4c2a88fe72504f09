"""symd health: words for people, JSON, and the exit codes that probes know."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.cli.status import health as command
from symd.errors import ServerUnavailable
from tests.cli.conftest import Run


def test_a_daemon_that_serves_is_0(symd: Run, server: str) -> None:
    for options in ([], ["--service", "ModuleService"], ["--service", "symd.v1.ModuleService"]):
        outcome = symd("health", "--server", server, *options)
        assert (outcome.code, outcome.out, outcome.err) == (0, "SERVING\n", "")
    outcome = symd("health", "--json", "--server", server, "--service", "SymbolService")
    assert (outcome.code, outcome.json) == (0, [{"service": "symd.v1.SymbolService", "status": "SERVING"}])


def test_no_daemon_is_1_never_2(symd: Run, tmp_path: Path) -> None:
    outcome = symd("health", "--server", f"unix:{tmp_path}/nobody")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "no daemon is running" in outcome.err
    (answer,) = symd("health", "--json", "--server", f"unix:{tmp_path}/nobody").json
    assert (answer["status"], answer["reason"]) == (None, "SERVER_UNAVAILABLE")


def test_a_service_that_is_not_there_is_1(symd: Run, server: str) -> None:
    outcome = symd("health", "--server", server, "--service", "Nothing")
    assert (outcome.code, outcome.out) == (1, "")
    assert "no service 'symd.v1.Nothing' is served here" in outcome.err


def test_a_daemon_that_ends_is_1_and_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.client.Client.health", lambda _self, _service="": "NOT_SERVING")
    for options in ([], ["--service", "SymbolService"]):
        outcome = run("health", "--server", "unix:/nowhere", *options)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "NOT_SERVING\n", 1)
        assert "the daemon at unix:/nowhere is ending" in outcome.err
    (answer,) = run("health", "--json", "--server", "unix:/nowhere").json
    assert answer["message"].startswith("the daemon at unix:/nowhere is ending")


def test_a_service_that_cannot_write_is_1_and_named(
    run: Run, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = {"symd.v1.ModuleService": "NOT_SERVING"}
    monkeypatch.setattr("symd.client.Client.health", lambda _self, service="": statuses.get(service, "SERVING"))
    outcome = run("health", "--server", server, "--service", "ModuleService")
    assert (outcome.code, outcome.out) == (1, "NOT_SERVING\n")
    place = f"the store {tmp_path}/store of the daemon at {server} cannot be written"
    assert outcome.err.startswith(f"symd: ModuleService does not serve: {place}")
    assert place in run("status", "--server", server).out
    assert run("status", "--json", "--server", server).json[0]["writable"] is False


def test_where_the_store_is_may_not_be_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.client.Client.health", lambda _self, service="": "NOT_SERVING" if service else "SERVING")
    outcome = run("health", "--server", "unix:/nowhere", "--service", "AliasService")
    assert "AliasService does not serve: the store of the daemon at unix:/nowhere cannot be written" in outcome.err
    assert "whoever runs it finds which in its log" in outcome.err


@pytest.mark.parametrize(("options", "asked", "code", "err"), [(["--wait", "20"], 3, 0, 0), ([], 1, 1, 1)])
def test_a_daemon_that_is_not_there_yet_is_waited_for(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: list[str], asked: int, code: int, err: int
) -> None:
    answers = [ServerUnavailable("no daemon answers"), "NOT_SERVING", "SERVING"]
    left = iter(answers)

    def health(*_: object) -> str:
        answer = next(left)
        if isinstance(answer, ServerUnavailable):
            raise answer
        return answer

    monkeypatch.setattr("symd.client.Client.health", health)
    outcome = run("health", "--server", "unix:/nowhere", *options)
    assert (outcome.code, outcome.err.count("\n")) == (code, err)
    assert list(left) == answers[asked:]


def test_no_daemon_within_the_time_is_1(run: Run, tmp_path: Path) -> None:
    outcome = run("health", "--server", f"unix:{tmp_path}/nobody", "--wait", "0.3")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)


def test_the_help_names_the_exit_codes() -> None:
    assert "Exit code 0: it is serving; 1: it is not" in str(command.help)
