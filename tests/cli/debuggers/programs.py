"""A program to debug: it has a GPU module in its memory, and a device address in a variable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import require

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "samples"
BASE = 0x7F0000100000
PATIENCE = 180
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
static unsigned char *module;
static size_t module_size;
static unsigned long loaded_at = BASE, fault, far_from_all = 0x10;
void stopped(void) {}
int main(int count, char **words) {
    FILE *file = fopen(words[1], "rb");
    module = malloc(1 << 20);
    module_size = fread(module, 1, 1 << 20, file);
    fault = loaded_at + strtoul(words[2], 0, 0);
    stopped();
    return module_size + fault + far_from_all + count == 0;
}
"""


def compiled(folder: Path) -> Path:
    """The program, with debug data of its own."""
    source, program = folder / "host.c", folder / "host"
    source.write_text(SOURCE.replace("BASE", hex(BASE)))
    subprocess.run([require("gcc", "cc"), "-g", "-O0", source, "-o", program], check=True, timeout=PATIENCE)
    return program


def symd_script(folder: Path) -> Path:
    """A file that runs this symd, as the debugger's setting names it."""
    script = folder / "symd"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m symd "$@"\n')
    script.chmod(0o755)
    return script


def untraceable(said: str) -> None:
    """Skips a test where the system lets no program be traced, or has no pseudo-terminals, as many containers have it."""
    pytest.skip(f"programs cannot be traced here: {said[-300:]}")
