"""What the scripts for debuggers share: symd asked in a child process, and its answers in lines as debuggers print
them.

Runs in whatever Python the debugger has (3.6 and newer), without symd's packages."""

import json
import os
import shlex
import subprocess

TIMEOUT = 300
"""Seconds after which a question is given up."""
MOST_BITS = (1 << 64) - 1


class Refused(Exception):
    """symd said no, or could not be asked; the text says why."""


def installed_symd():
    """How symd is run, in a shell's words: the program of the environment that this script lies in, or of the clone's;
    else the first in PATH."""
    folder = os.path.dirname(os.path.abspath(__file__))
    while folder != os.path.dirname(folder):
        for name in ("bin", os.path.join(".venv", "bin")):
            path = os.path.join(folder, name, "symd")
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return shlex.quote(path)
        folder = os.path.dirname(folder)
    return "symd"


def ask(program, arguments, setting, text=None):
    """The JSON objects that symd prints. ``program`` is its words, ``setting`` the command that names another one;
    ``text`` goes to its standard input. Raises Refused."""
    words = list(program) + list(arguments)
    try:
        done = subprocess.run(
            words,
            input=b"" if text is None else text.encode("utf-8"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    except OSError as error:
        said = str(error.strerror).lower()
        raise Refused("%s cannot be run: %s; say where symd is: %s" % (words[0], said, setting)) from error
    except subprocess.TimeoutExpired as error:
        raise Refused("%s did not answer within %d seconds" % (words[0], TIMEOUT)) from error
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("{")]
    if done.returncode not in (0, 1) or (done.returncode and not lines):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Refused(said[-1] if said else "%s ended with exit code %d" % (words[0], done.returncode))
    return [json.loads(line) for line in lines]


def frame_lines(answer, hints):
    """An answer of ``symd symbolize --json`` in lines: the innermost frame first, numbered from 0. ``hints`` are added
    to answers without frames, by their reasons."""
    frames = answer.get("frames") or []
    reason = answer.get("reason") or answer.get("error") or "no answer"
    if not frames:
        yield "%s: %s%s" % (answer["query"], reason, hints.get(reason, ""))
    for number, frame in enumerate(frames):
        name = frame["function"] or frame["linkage_name"] or "(unnamed)"
        place = " at %s:%d" % (frame["file"], frame["line"]) if frame["file"] else ""
        inlined = " (inlined)" if frame["inlined"] else ""
        head = "%s: " % answer["query"] if not number else " " * (len(answer["query"]) + 2)
        mark = " [%s]" % reason if not number and reason != "EXACT" else ""
        yield printable("%s#%d  %s%s%s%s" % (head, number, name, place, inlined, mark))


def printable(text):
    """Names come from modules of strangers: what is not printable is escaped."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def object_address(address, base):
    """``address - base`` modulo 2**64, as text that symd reads."""
    return hex((int(address) - int(base)) & MOST_BITS)
