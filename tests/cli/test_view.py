"""``symd view``: it serves one visitor, and ends with Ctrl-C or when nobody looks any more."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from symd.cli import command_line
from symd.server.http.site import Site
from symd.server.http.viewing import Presence, viewed
from tests.server.http.sites import RAYCAST, LargeModule, raycast, sources
from tests.tools import require

LONG = 120
CUBIN = RAYCAST.parents[3] / "cuda" / "bin" / "raycast.sm_90.lines.cubin"


@contextmanager
def view(*options):
    command = [sys.executable, "-m", "symd", "view", str(RAYCAST), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, (line, process.stderr.read() if process.poll() is not None else "")
        yield process, urlsplit(found[0])
    finally:
        process.kill()
        process.communicate()


def connected(url):
    return http.client.HTTPConnection(url.hostname, url.port, timeout=LONG)


def status(url, path):
    connection = connected(url)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        connection.close()


def test_it_ends_with_ctrl_c():
    with view("--no-browser") as (process, url):
        assert status(url, url.path)[0] == 200
        assert status(url, "/")[0] == 401
        process.send_signal(signal.SIGINT)
        assert process.wait(LONG) == 0
        assert process.stderr.read() == ""


def test_it_ends_when_the_page_is_gone():
    with view("--no-browser") as (process, url):
        connection = connected(url)
        connection.request("GET", f"{url.path}api/presence")
        assert connection.getresponse().read(1)
        connection.close()
        assert process.wait(LONG) == 0


STRANGER = """
import os, socket, sys
host, port, path = sys.argv[1:]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
theirs = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
theirs.connect((host, int(port)))
theirs.sendall(f"GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n".encode())
theirs.shutdown(socket.SHUT_WR)
print(theirs.recv(100).split()[1].decode())
"""
"""Becomes another user, and asks for an address."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1", "::1"])
def test_another_user_who_sees_how_the_browser_is_started_does_not_take_its_place(host):
    listen = "[::1]:0" if host == "::1" else "127.0.0.1:0"
    with viewed(lambda _: Site(LargeModule(), sources), listen) as shown:
        url, invited = urlsplit(shown.url), urlsplit(shown.invitation)
        command = [sys.executable, "-c", STRANGER, host, str(url.port), invited.path]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "401\n"
        found, headers = status(url, invited.path)
        assert (found, headers["location"]) == (303, url.path)


def test_a_browser_is_started_with_an_address_that_works_once(tmp_path):
    """Other users of the machine see how programs are started."""
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(f'#!/bin/sh\necho "$@" > {told}.new\nmv {told}.new {told}\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "symd", "view", str(RAYCAST)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "BROWSER": str(browser)})
    try:
        shown = urlsplit(re.search(r"http://\S+", process.stdout.readline())[0])
        end = time.monotonic() + LONG
        while not told.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        invited = urlsplit(told.read_text().strip())
        assert invited.path != shown.path
        found, headers = status(shown, invited.path)
        assert (found, headers["location"]) == (303, shown.path)
        assert status(shown, invited.path)[0] == 401
    finally:
        process.kill()
        process.communicate()


def test_a_page_that_is_loaded_again_is_not_gone():
    with raycast() as shown:
        url = urlsplit(shown.url)
        first = connected(url)
        first.request("GET", f"{url.path}api/presence")
        assert first.getresponse().read(1)
        second = connected(url)
        second.request("GET", f"{url.path}api/presence")
        assert second.getresponse().read(1)
        first.close()
        assert not shown.presence.gone.wait(0.2)
        second.close()
        assert shown.presence.gone.wait(LONG)


def test_names_are_as_in_the_source_where_that_is_asked_for(tmp_path):
    """c++filt reads the same names."""
    plain, readable = (page_answers(tmp_path / name, *options) for name, options in (("p", ()), ("r", ("-C",))))
    [mangled] = [each for each in plain["listing"]["strings"] if each.startswith("_Z7raycast")]
    filtered = {
        name: subprocess.run([require("c++filt"), name], capture_output=True, text=True, check=True).stdout.strip()
        for name in (mangled, "_Z7squaredfff")
    }
    assert {*filtered} <= {*plain["listing"]["strings"]}
    assert {*filtered.values()} <= {*readable["listing"]["strings"]}
    assert not {*filtered} & {readable["listing"]["strings"][at] for at in readable["listing"]["locations"]["function"]}
    assert (plain["module"]["readable"], readable["module"]["readable"][mangled]) == ({}, filtered[mangled])
    assert [each["function"] for each in readable["place"]["frames"]] == [filtered[mangled]]
    kernels = [kernel["name"] for each in readable["module"]["summary"]["objects"] for kernel in each["kernels"]]
    assert kernels == [mangled], "what places are asked by stays as it is"


def page_answers(page, *options):
    """What a page with one kernel of a cubin, whose names are mangled, was answered: of each kind the first answer."""
    words = ["view", str(CUBIN), "-o", str(page), "--kernel", "raycast", "--variables", "1", *options]
    assert command_line.invoke(words) == 0
    answers = json.loads(re.search(r'id="answers">(.*?)</script>', page.read_text(), re.DOTALL)[1])
    kinds = ("listing", "place")
    found = {kind: next(each for key, each in answers.items() if f"/{kind}\n" in key) for kind in kinds}
    return found | {"module": next(each for key, each in answers.items() if re.fullmatch(r"api/modules/\w{64}", key))}


def test_nobody_is_gone_who_was_never_there():
    assert not Presence(0.01).gone.wait(0.1)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["view", "absent.zebin"], 2),
        (["view", str(RAYCAST), "--address", "0.0.0.0:0"], 3),
        (["view", str(RAYCAST), "--profile", "absent.csv"], 2),
        (["view", str(RAYCAST), "--profile", str(RAYCAST)], 2),
        (["view", str(RAYCAST), "--kernel", "raycast"], 2),
    ],
)
def test_what_cannot_be_shown_is_told(words, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command_line.invoke([*words, *(["--no-browser"] if words[0] == "view" else [])]) == code
    assert capsys.readouterr().err.startswith("symd: ")
