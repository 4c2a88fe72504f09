"""Calls as people write them who know other tools: what is said ends with what to type, the whole call where it is nearly right."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from symd.cli.command_line import GROUP
from tests.cli.conftest import ROOT, SYMD, Run

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
ZEBIN = ROOT / "samples" / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
SOURCE = ROOT / "samples" / "kernels" / "vadd.cl"
STALLS = ROOT / "samples" / "profiles" / "stalls.csv"
PPROF = ROOT / "samples" / "profiles" / "kernels.pb.gz"
RAYCAST = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.debug.cubin"
LINES_ONLY = RAYCAST.with_name("raycast.sm_90.lines.cubin")
SPIRV = ROOT / "samples" / "kernels" / "bin" / "vadd" / "opt.spv"
DUMP = ROOT / "samples" / "cores" / "bin" / "illegal_address.nvcudmp"
FORMATS = "'firefox', 'folded', 'perfetto', 'pprof', 'speedscope'"
IN_THE_BACKGROUND = "symd daemon start starts a daemon in the background, symd symbolize --server default FILE ADDRESS asks it, symd daemon status shows how it is doing, symd daemon stop ends it"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call writes, and names no folder for, is written into one that is nobody's."""
    monkeypatch.chdir(tmp_path)


OPTIONS = {
    "two sums of a profile": (
        ("top", "--lines", "--stalls", STALLS),
        f"write symd top -m FILE --by=line {STALLS} (see",
    ),
    "a browser to begin with": (("-http=:8080", ZEBIN, STALLS), f"symd view {ZEBIN} --profile {STALLS} (see"),
    "a profile and an option of another verb": (
        ("symbolize", "--lines", PPROF),
        f"; it is a profile: symd profile -m FOLDER {PPROF} OUT writes it with source lines, symd hot -m FOLDER {PPROF} prints its hottest lines (see",
    ),
    "folders that addr2line leaves out": (
        ("symbolize", "-s", SHADE, "0x1978"),
        "go with --style llvm, gnu or json; symd addr2line takes addr2line's options (see",
    ),
    "objdump's disassembly of everything": (
        ("listing", "-D", "-S", SHADE),
        f"'-D'; without it: symd listing -S {SHADE} (see",
    ),
    "several letters": (("listing", "-Dr", SHADE), f"'-Dr'; without it: symd listing {SHADE} (see"),
    "objdump's range around a place": (
        ("listing", "--start-address=0x1978", "--around", "0x1978", SHADE),
        "--start-address and --stop-address cannot be used with --function or --around (see",
    ),
    "kernels of a profile": (
        ("hot", "--kernels", "-m", SHADE, PPROF),
        f"write symd hot --by=kernel -m {SHADE} {PPROF} (see",
    ),
    "nothing to describe": (
        ("info",),
        "; symd doctor shows what is installed here, and symd info FILE shows what is in a file (see",
    ),
    "a pattern alone": (
        ("functions", "sha*"),
        "there is no file 'sha*'; FILE comes first: symd names FILE 'sha*' (see",
    ),
    "a name alone": (("functions", "shade"), "there is no file 'shade'; FILE comes first: symd names FILE shade (see"),
    "a profile to symbolize": (
        ("symbolize", PPROF, "-o", "out.pb.gz"),
        f"; it is a profile: symd profile -m FOLDER {PPROF} out.pb.gz writes it with source lines, symd hot -m FOLDER {PPROF} prints its hottest lines (see",
    ),
    "a profile to symbolize with its module": (
        ("symbolize", SHADE, PPROF, "-o", "out.pb.gz"),
        f"; it is a profile: symd profile -m {SHADE} {PPROF} out.pb.gz writes it with source lines, symd hot -m {SHADE} {PPROF} prints its hottest lines (see",
    ),
    "a profile to symbolize with the name of its module": (
        ("symbolize", PPROF, "--module", f"shade.co={SHADE}", "-o", "out.pb.gz"),
        f"; it is a profile: symd profile -m shade.co={SHADE} {PPROF} out.pb.gz writes it",
    ),
    "the same with joined options": (
        ("symbolize", PPROF, f"-m=shade.co={SHADE}", "--output=out.pb.gz"),
        f"; it is a profile: symd profile -m shade.co={SHADE} {PPROF} out.pb.gz writes it",
    ),
    "a conversion without modules": (
        ("convert", PPROF, "--format", "folded", "-o", "X"),
        f"did you mean profile? Write symd profile {PPROF} --to folded -o X (see",
    ),
    "a daemon's socket to begin with": (
        ("serve", "--socket", "/tmp/s"),
        "; write symd serve --address unix:/tmp/s (see",
    ),
    "perf's sorting": (
        ("hot", "--sort=line", "-m", ZEBIN, STALLS),
        f"write symd hot --by line -m {ZEBIN} {STALLS} (see",
    ),
    "pprof's value": (("hot", "--sample_index=gpu", PPROF), f"; write symd hot -m FOLDER --value gpu {PPROF} (see"),
    "pprof's list": (
        ("hot", "-list=shade", "-m", SHADE, PPROF),
        f"write symd listing --function shade --profile {PPROF} {SHADE} (see",
    ),
    "pprof's list in two words": (
        ("hot", "-list", "shade", PPROF),
        f"write symd listing --function shade --profile {PPROF} FILE (see",
    ),
    "pprof's nodes": (("hot", "-nodecount=3", PPROF), f"; write symd hot -m FOLDER -n 3 {PPROF} (see"),
    "a program in place of a module": (
        ("annotate", "-e", SHADE, "crash.log"),
        f"No such option '-e'; write symd annotate -m {SHADE} crash.log (see",
    ),
    "a program to sample": (
        ("record", "-o", "mods", "--", "./app", "a b"),
        "symd run --out mods -- ./app 'a b' collects its modules",
    ),
    "a daemon's socket": (
        ("status", "--socket=/tmp/s"),
        "No such option '--socket'; write symd status --server unix:/tmp/s (see",
    ),
    "a socket behind its option": (
        ("daemon", "status", "--socket", "/tmp/s"),
        "write symd daemon status --server unix:/tmp/s (see",
    ),
    "pprof's callees": (("hot", "--cum", PPROF), f"'--cum'; without it: symd hot -m FOLDER {PPROF} (see"),
    "pprof's focus": (
        ("hot", "--focus", "x", PPROF),
        f"'--focus'; write symd hot -m FOLDER --kernel x {PPROF} (see",
    ),
    "a kernel by one dash": (
        ("hot", "-kernel", "smooth", "-m", ZEBIN, STALLS),
        f"No such option '-kernel'; write symd hot --kernel smooth -m {ZEBIN} {STALLS} (see",
    ),
    "a kernel by one dash in one word": (
        ("hot", "-kernel=smooth", "-m", ZEBIN, STALLS),
        f"No such option '-kernel'; write symd hot --kernel=smooth -m {ZEBIN} {STALLS} (see",
    ),
    "kernels by one dash": (
        ("hot", "-kernels", "-m", ZEBIN, STALLS),
        f"No such option '-kernels'; write symd hot --by=kernel -m {ZEBIN} {STALLS} (see",
    ),
    "kernels by the dash of one, at the end": (
        ("hot", "-m", ZEBIN, STALLS, "-kernel"),
        f"No such option '-kernel'; write symd hot -m {ZEBIN} {STALLS} --by=kernel (see",
    ),
    "a kernel's name": (
        ("hot", "--kernel-name", "smooth", "-m", ZEBIN, STALLS),
        f"'--kernel-name'; write symd hot --kernel smooth -m {ZEBIN} {STALLS} (see",
    ),
    "a function of a profile": (
        ("hot", "--func=smooth", "-m", ZEBIN, STALLS),
        f"'--func'; write symd hot --kernel=smooth -m {ZEBIN} {STALLS} (see",
    ),
    "no kernel's name": (("hot", "-k", "", STALLS), ": the name of a kernel is empty (see"),
    "pprof's page": (("hot", "--http", ":80", PPROF), f"'--http'; write symd view FILE --profile {PPROF} (see"),
    "a table": (("hot", "--csv", PPROF), f"No such option '--csv'; write symd hot -m FOLDER --json {PPROF} (see"),
    "an option that is like none": (("hot", "--gpu", PPROF), f"'--gpu'; without it: symd hot -m FOLDER {PPROF} (see"),
    "an option that may prevent something": (("rm", "--dry", "abc"), "No such option '--dry' (see"),
    "a form of the answer": (
        ("symbolize", SHADE, "0x1978", "--format", "json"),
        f"; write symd symbolize {SHADE} 0x1978 --json (see",
    ),
    "the same in one word": (("core", "--output=JSON", DUMP), f"; write symd core --json {DUMP} (see"),
    "a target that is chosen": (("extract", "--only", "gfx900", SHADE), f"; without it: symd extract {SHADE} DIR (see"),
    "a pattern by an option": (("names", SHADE, "-r", "sha.*"), f"; write symd names {SHADE} 'sha.*' (see"),
    "a line by options": (
        ("locate", SHADE, "--file", "shade.cl", "--line=13"),
        f"; write symd locate {SHADE} shade.cl 13 (see",
    ),
    "a function's lines": (("lines", SHADE, "--function", "shade"), f"; write symd lines {SHADE} --kernel shade (see"),
    "an option and its value": (
        ("nvdisasm", "-lrm", "count", SHADE),
        f"'-lrm'; without it: symd nvdisasm {SHADE} (see",
    ),
    "a file in an option": (("info", "--type=o", f"--in={SHADE}"), f"'--type'; without it: symd info {SHADE} (see"),
    "what a tool says of a file": (("ocloc", "query", ZEBIN), f"did you mean grab? Write symd info {ZEBIN} or"),
    "a profiler that is to run": (("rocprofv3", "--", "./app"), "did you mean run? Write symd run -- ./app (see"),
    "a token that is made": (("token", "create", "ci"), "; it takes only NAME: symd token ci (see"),
    "an option that is misspelled": (
        ("hot", "--modul", SHADE, PPROF),
        f"'--modul'. Did you mean '--module'? Write symd hot --module {SHADE} {PPROF} (see",
    ),
    "one that is misspelled before its value": (
        ("lines", "--kernal=shade", SHADE),
        f"'--kernal'. Did you mean '--kernel'? Write symd lines --kernel=shade {SHADE} (see",
    ),
    "perf's report": (
        ("report", "-i", PPROF),
        f"; did you mean hot --by function? Write symd hot -m FOLDER --by function {PPROF} (see",
    ),
    "a daemon of a file": (
        ("serve", SHADE),
        f"; a daemon takes no file; for a page in the browser write symd view {SHADE} (see",
    ),
    "samples to annotate no module with": (
        ("annotate", "--profile", PPROF),
        f"'--profile'; for samples write symd listing --profile {PPROF} FILE (see",
    ),
    "stall reasons": (
        ("hot", "--by", "reason", STALLS),
        f"; --by stall sums by stall reason: write symd hot --by stall {STALLS} (see",
    ),
    "two errors": (
        ("hot", "--sort=line", "--limit", "5", "--csv", STALLS),
        f"No such option '--sort'; write symd hot -m FILE --by line -n 5 --json {STALLS} (see",
    ),
    "two options of others": (
        ("hot", "--sort=line", "-n", "10", "--csv", STALLS),
        f"; write symd hot -m FILE --by line -n 10 --json {STALLS} (see",
    ),
    "an option without the file": (("hot", "--sort=line"), "; write symd hot -m FILE --by line PROFILE (see"),
    "a file for a daemon that is not named": (("add",), "; write, for example: symd daemon add kernels.zebin (see"),
    "a word for a verb below daemon": (("daemon", "load"), "; write, for example: symd daemon add kernels.zebin (see"),
    "a question of nobody's": (("query", SHADE, "0x1978"), f"or symd symbolize {SHADE} 0x1978 (see"),
    "a file at an address": (("load", SHADE, "--base", "0xffff0000"), "symd daemon record takes what is loaded where"),
    "a number of instructions": (
        ("disas", "-n", "5", SHADE, "shade+0x80"),
        "No such option '-n'; --before N --after N say how many instructions are shown around a place",
    ),
    "a daemon's modules": (("list",), "no verb 'list'; did you mean daemon modules? Write symd daemon modules (see"),
    "samples of the tool": (
        ("examples",),
        "no verb 'examples'; symd setup samples . writes them into this folder (see",
    ),
    "an address that is listed": (
        ("listing", SHADE, "--address", "0x1978"),
        f"write symd listing {SHADE} --around 0x1978 (see",
    ),
    "a daemon that begins": (
        ("daemon", "serve"),
        f"no verb 'daemon serve'; {IN_THE_BACKGROUND} (see",
    ),
    "pprof's addresses": (("hot", "-addresses", STALLS), f"write symd hot -m FILE --by=instruction {STALLS} (see"),
    "a verb that is like two": (
        ("symbolise", SHADE, "0x1978"),
        f"? Write symd symbolize {SHADE} 0x1978 or symd llvm-symbolizer {SHADE} 0x1978 (see",
    ),
    "a verb below another": (
        ("daemon", "modls", "a b"),
        "did you mean daemon modules? Write symd daemon modules 'a b' (see",
    ),
    "pprof's count": (
        ("hot", "--limit", "5", STALLS),
        f"; -n N shows N places: write symd hot -m FILE -n 5 {STALLS} (see",
    ),
    "all places": (("hot", "-n", "-1", STALLS), f"; -n 0 shows all: write symd hot -m FILE -n 0 {STALLS} (see"),
    "a file of the hottest lines": (("hot", "-o", "out", STALLS), "add > OUT to write it to a file (see"),
    "a flame graph": (("profile", STALLS, "--to", "svg", "-o", "x"), f"{FORMATS}; --to folded for flamegraph.pl"),
    "Chrome's traces": (("profile", STALLS, "--to", "chrome", "-o", "x"), "; --to perfetto opens in ui.perfetto.dev"),
    "a host": (("symbolize", "--host", "gpu", SHADE, "1"), "No such option '--host'; write --server HOST:PORT or"),
    "a daemon's port": (("status", "--port", "8080"), "; write --server HOST:PORT or --server unix:PATH (see"),
    "a page's port": (("view", "--port", "8080", SHADE), "; write --address 127.0.0.1:PORT (see symd view"),
    "a profile for the page": (("view", SHADE, "-p", STALLS), f"write symd view {SHADE} --profile {STALLS} (see"),
    "a daemon in the background": (
        ("serve", "-d"),
        "; symd daemon start runs it in the background; docs/operations.md has",
    ),
    "the end of a daemon": (("serve", "--stop"), "'--stop'; write symd daemon stop, or symd daemon status (see"),
    "a debugger's process": (("attach", "-p", "4711"), "'-p'; without it: symd attach 4711 (see"),
    "a product to build for": (("grab", "--device", "dg2", SOURCE), "; --simulate PRODUCT builds for a device that is"),
    "a kernel beside an offset": (
        ("symbolize", "--kernel", "shade", SHADE, "0x80"),
        "'--kernel'; write shade+0x80 (see",
    ),
    "a section beside an offset": (("variables", "--section=.text", SHADE, "0x80"), "; write '(.text)+0x80' (see"),
    "a kernel alone": (("symbolize", "--kernel", "shade", SHADE), "; write FUNCTION+OFFSET (see"),
    "pprof's functions": (
        ("hot", "--functions", "-m", SHADE, PPROF),
        f"; write symd hot --by=function -m {SHADE} {PPROF} (see",
    ),
    "pprof's files": (("hot", "--files", "-m", SHADE, PPROF), f"; write symd hot --by=file -m {SHADE} {PPROF} (see"),
    "perf's symbols": (("hot", "--sort=symbol", STALLS), f"; write symd hot -m FILE --by function {STALLS} (see"),
    "perf's places": (("hot", "--by", "srcline", STALLS), f"; write symd hot -m FILE --by line {STALLS} (see"),
    "kernels by the option of one": (
        ("hot", "--kernel", STALLS, "-m", ZEBIN),
        f"--kernel takes the name of a kernel; write symd hot --by=kernel {STALLS} -m {ZEBIN} (see",
    ),
    "functions by the option of a kernel": (
        ("top", "--function", "-m", ZEBIN, STALLS),
        f"--function takes the name of a kernel; write symd top --by=function -m {ZEBIN} {STALLS} (see",
    ),
    "a share that perf leaves out": (
        ("hot", "--percent-limit", "1", STALLS, "-m", ZEBIN),
        f"; without it: symd hot {STALLS} -m {ZEBIN} (see",
    ),
    "stalls": (("hot", "--stalls", STALLS), f"; write symd hot --by=stall {STALLS} (see"),
    "a conversion by the format that is read": (
        ("convert", STALLS, "--format", "speedscope", "-o", "x"),
        f"? Write symd profile -m FILE {STALLS} --to speedscope -o x (see",
    ),
    "the format that is written": (
        ("profile", PPROF, "--format=speedscope", "x"),
        f"--format is the format of IN, and --to that of OUT; write symd profile {PPROF} --to=speedscope x (see",
    ),
    "a format that is read and written": (
        ("profile", "-m", SHADE, PPROF, "--format", "perfetto"),
        f"; write symd profile -m {SHADE} {PPROF} --to perfetto -o kernels.pftrace (see",
    ),
    "a tool before its verb": (
        ("perf", "report", "-i", PPROF),
        f"no verb 'perf'; write symd hot -m FOLDER --by function {PPROF} (see",
    ),
    "another tool before its verb": (
        ("ocloc", "disasm", "-file", ZEBIN),
        f"no verb 'ocloc'; write symd listing {ZEBIN} (see",
    ),
    "a daemon's verb": (("serve", "status"), "; write symd daemon status (see"),
    "a daemon in the background by another word": (
        ("start", "-d"),
        "No such option '-d'; symd daemon start runs it in the background; docs/operations.md has",
    ),
    "a port to start at": (("daemon", "start", "8080"), "; write --http 127.0.0.1:8080 for browsers, or --address 127"),
    "an address to start at": (("start", "--server", "unix:/s"), "; write symd start --address unix:/s (see"),
    "what a store has": (("store", "ls"), "No such command 'ls'; write symd daemon modules (see"),
    "what gc would do": (("store", "gc", "--dry-run"), "; symd store check looks, and changes nothing (see"),
    "a product by its option": (
        ("compile", SOURCE, "-device", "dg2", "-g"),
        f"did you mean grab? Write symd grab {SOURCE} --simulate dg2 (see",
    ),
    "debug data of its own": (
        ("objcopy", "--only-keep-debug", SHADE, "x.debug"),
        f"Write symd slim {SHADE} OUT --debug-out x.debug (see",
    ),
    "all of a file": (("info", "--sections", SHADE), f"'--sections'; without it: symd info {SHADE} (see"),
    "a kernel of a file": (("info", "--kernel", "shade", SHADE), f"; write symd names {SHADE} shade (see"),
    "a section of objdump": (("objdump", "-d", "-j", ".text", SHADE), f"; without it: symd objdump -d {SHADE} (see"),
    "a token's name": (("token", "--name", "ci"), "; without it: symd token ci (see"),
    "samples in a table": (
        ("symbolize", "s.parquet", "-o", "f.parquet"),
        "; samples in a Parquet file: symd batch -m FILE s.parquet f.parquet (see",
    ),
    "an option before its verb": (
        ("--server", "default", "modules"),
        "after the verb: symd modules --server default (see",
    ),
    "a verbose call": (("verify", "-v", SHADE), f"No such option '-v'; without it: symd verify {SHADE} (see"),
    "an environment of rules": (("spirv-val", "--target-env", "opencl2.0", SPIRV), f"Write symd check {SPIRV} (see"),
    "a shell": (("setup", "zsh"), "Write symd setup completion zsh (see"),
    "an import of nothing": (("import",), "did you mean collect? Write symd collect FOLDER (see"),
    "a program to record": (("record", "./app"), "; symd does not sample a program: symd run -- ./app (see"),
    "a profile alone": ((PPROF,), f"a verb comes before the file, as in symd hot -m FOLDER {PPROF} (see"),
    "a dump alone": ((DUMP,), f"a verb comes before the file, as in symd core {DUMP} (see"),
    "a text alone": ((SOURCE,), f"a verb comes before the file, as in symd annotate -m FILE {SOURCE} (see"),
    "llvm-symbolizer without its name": (
        (f"--obj={SHADE}", "--output-style=JSON"),
        f"symd: no address is given, and none comes on standard input: symd symbolize --obj={SHADE} --output-style=JSON ADDRESS (see",
    ),
    "addr2line's options without an address": (
        ("-e", SHADE, "-f", "-i"),
        f"no address is given, and none comes on standard input: symd symbolize -e {SHADE} -f -i ADDRESS (see",
    ),
    "an option that no tool has": (("--zz", PPROF), f"after the verb: symd hot -m FOLDER {PPROF} (see"),
    "an option alone": (("--zz",), "a verb's options come after the verb (see"),
    "grep's context of a place": (
        ("disasm", SHADE, "shade+0x78", "-C", "5"),
        f"symd listing {SHADE} --around shade+0x78 --before 5 --after 5 (see",
    ),
    "an export": (
        ("export", "--format", "speedscope", "-o", "x", PPROF),
        f"Write symd profile --to speedscope -o x {PPROF} (see",
    ),
    "an export without a name for its file": (
        ("export", "--format=speedscope", STALLS, ZEBIN),
        f"Write symd profile --to=speedscope {STALLS} {ZEBIN} -o stalls.speedscope.json (see",
    ),
    "an export of stacks": (
        ("export", "--format=folded", STALLS, ZEBIN),
        f"Write symd profile --to=folded {STALLS} {ZEBIN} -o stalls.folded (see",
    ),
    "a flame graph in a page": (
        ("flamegraph", PPROF, "-o", "x.html"),
        f"; www.speedscope.app draws a flame graph in the browser from the file that this writes: symd profile --to speedscope {PPROF} -o x.speedscope.json (see",
    ),
    "a profile that is named as a page": (
        ("profile", "-m", f"7={ZEBIN}", "--to", "speedscope", STALLS, "x.html"),
        f"in a browser; write symd profile -m 7={ZEBIN} --to speedscope {STALLS} x.speedscope.json (see",
    ),
    "a profile that is named as a page of no format": (
        ("profile", "-m", f"7={ZEBIN}", STALLS, "x.html"),
        f"x.html is named as a page, which symd view writes; write symd view {ZEBIN} --profile {STALLS} -o x.html (see",
    ),
    "an option of symd's for addr2line": (
        ("addr2line", "--json", "-fipCe", SHADE, "1978", "shade+0x80"),
        f"addr2line has no option --json; write symd symbolize --json -C {SHADE} 0x1978 shade+0x80 (see",
    ),
    "one with a value": (
        ("addr2line", "-j", ".text", "-e", SHADE, "--object", "x", "178"),
        f"has no option --object; write symd symbolize --object x {SHADE} '(.text)+0x178' (see",
    ),
    "an option of symd's for addr2line without a module": (
        ("addr2line", "--json", "0x10"),
        "write symd symbolize --json FILE 0x10 (see",
    ),
    "an option of symd's for llvm-symbolizer": (
        ("llvm-symbolizer", "--as-written", "--no-demangle", f"--obj={SHADE}", "0x1978"),
        f"llvm-symbolizer has no option --as-written; write symd symbolize --as-written {SHADE} 0x1978 (see",
    ),
    "a kind in a question of LLVM's tool": (
        ("llvm-symbolizer", "--json", "-e", SHADE, "CODE 0x1978"),
        f"write symd symbolize --json -C {SHADE} 0x1978 (see",
    ),
    "a kind and a module in a question of LLVM's tool": (
        ("llvm-symbolizer", "--json", f"DATA {SHADE} 0x1978"),
        f"write symd symbolize --json -C {SHADE} 0x1978 (see",
    ),
    "a kind in a question of LLVM's other tool": (
        ("addr2line", "--json", "-e", SHADE, "CODE 0x1978"),
        f"write symd symbolize --json {SHADE} 0x1978 (see",
    ),
    "folded stacks": (
        ("folded", "--lines", PPROF),
        f"did you mean profile --to folded? Write symd profile --to folded {PPROF} (see",
    ),
    "perf's source": (
        ("hot", "-S", "-m", SHADE, PPROF),
        f"; for samples beside the source, write symd listing --profile {PPROF} {SHADE} (see",
    ),
    "a letter of one option": (("lines", "-k", "shade", SHADE), f"'-k'; write symd lines --kernel shade {SHADE} (see"),
    "a letter of several options": (("lines", "-s", SHADE), f"'-s'; without it: symd lines {SHADE} (see"),
    "a folder for a program's modules": (
        ("record", "-o", "mods", "./app", "a b"),
        "No such option '-o'; write symd run --out mods -- ./app 'a b' (see",
    ),
    "all code objects without a verb": (
        ("-xelf", "all", SHADE),
        f"option -xelf; a verb's options come after the verb: symd extract {SHADE} DIR (see",
    ),
    "no file for an option of many letters": (
        ("-res-usage",),
        "option -res-usage; a verb's options come after the verb: symd info FILE (see",
    ),
    "strip's option alone": (
        ("--strip-debug", SHADE, "-o", "small.co"),
        f"option --strip-debug; a verb's options come after the verb: symd slim {SHADE} small.co (see",
    ),
    "nvdisasm's function": (
        ("-fun", "shade", SHADE),
        f"option -fun; a verb's options come after the verb: symd listing --function shade {SHADE} (see",
    ),
    "a sum of perf's": (("report", "--sort=kernel", STALLS), f"Write symd hot -m FILE --by kernel {STALLS} (see"),
    "two sums of perf's": (("report", "--sort=line,stall", STALLS), f"Write symd hot -m FILE --by line {STALLS} (see"),
    "a value to sort by": (("hot", "--sort=cycles", "-m", ZEBIN, STALLS), f"write symd hot -m {ZEBIN} {STALLS} (see"),
    "a sum beside stall reasons": (
        ("hot", "--stall", "--sort=line", "-m", ZEBIN, STALLS),
        f"write symd hot --by line -m {ZEBIN} {STALLS} (see",
    ),
    "a report as a page": (
        ("report", "--html", "-m", SHADE, PPROF, "-o", "R.html"),
        f"write symd view {SHADE} --profile {PPROF} -o R.html (see",
    ),
    "a page of a listing": (
        ("listing", ZEBIN, STALLS, "-o", "X.html"),
        f"No such option '-o'; write symd view {ZEBIN} --profile {STALLS} -o X.html (see",
    ),
    "a page of an annotated kernel": (
        ("annotate", "-k", "smooth", ZEBIN, STALLS, "--html"),
        f"; write symd view {ZEBIN} --profile {STALLS} --kernel smooth -o PAGE.html (see",
    ),
    "a page of hot lines": (
        ("hot", ZEBIN, STALLS, "--map=/a=b", "-o", "X.html"),
        f"; write symd view {ZEBIN} --profile {STALLS} --map /a=b -o X.html (see",
    ),
    "a page of stalls": (
        ("stalls", ZEBIN, STALLS, "-o", "X.html"),
        f"did you mean view? Write symd view {ZEBIN} --profile {STALLS} -o X.html (see",
    ),
    "a page of a function": (
        ("listing", "--html", ZEBIN, "smooth", STALLS, "--server", "x:1"),
        f"; write symd view {ZEBIN} --profile {STALLS} --server x:1 --kernel smooth -o PAGE.html (see",
    ),
    "a page of the code around a place": (
        ("listing", ZEBIN, STALLS, "--around", "smooth+0x10", "-o", "X.html"),
        "'-o'; the answer goes to standard output; add > OUT",
    ),
    "a page of a page": (
        ("view", ZEBIN, STALLS, "--frob", "-o", "X.html"),
        f"'--frob'; without it: symd view {ZEBIN} {STALLS} -o X.html (see",
    ),
    "a page by an option": (("view", SHADE, "--html", "R.html"), f"write symd view {SHADE} -o R.html (see"),
    "a page of hot functions": (
        ("top", "--html", SHADE, PPROF),
        f"write symd view {SHADE} --profile {PPROF} -o PAGE.html (see",
    ),
    "eu-strip's debug file": (
        ("eu-strip", "-f", "x.debug", "-o", "x.co", SHADE),
        f"write symd slim {SHADE} x.co --debug-out x.debug (see",
    ),
    "one code object of a profile's module": (
        ("hot", "--object", "sm_90", "-m", RAYCAST, PPROF),
        "'--object'; symd extract FILE DIR writes each code object to a file of its own; give the one that ran (see",
    ),
    "two files to compare": (("diff", RAYCAST, LINES_ONLY), f"; symd info {RAYCAST} {LINES_ONLY} shows both (see"),
    "two builds by another word": (
        ("compare", RAYCAST, LINES_ONLY),
        f"no verb 'compare'; symd info {RAYCAST} {LINES_ONLY} shows both (see",
    ),
    "two profiles to compare": (
        ("delta", PPROF, STALLS),
        "go tool pprof -diff_base two profiles that symd profile wrote (see",
    ),
    "two files by an option": (
        ("listing", "--diff", RAYCAST, LINES_ONLY),
        f"'--diff'; write symd info {RAYCAST} {LINES_ONLY} (see",
    ),
    "two profiles by an option": (
        ("hot", "-diff_base", PPROF, PPROF),
        "'-diff_base'; go tool pprof -diff_base compares two",
    ),
    "two files to list": (
        ("listing", RAYCAST, LINES_ONLY),
        f"; one file is shown at a time; for both write symd info {RAYCAST} {LINES_ONLY} (see",
    ),
    "an unknown option and two files": (
        ("lines", "--zip", RAYCAST, LINES_ONLY),
        f"'--zip'; without it: symd info {RAYCAST} {LINES_ONLY} (see",
    ),
    "two files without a verb": ((RAYCAST, LINES_ONLY), f"as in symd info {RAYCAST} {LINES_ONLY} (see"),
    "a file in the place of a place": (("srcline", RAYCAST, LINES_ONLY), f"symd info {RAYCAST} {LINES_ONLY} (see"),
    "a count that a listing does not take": (
        ("listing", "--profile", PPROF, "-C", "--top", "5", SHADE),
        f"'--top'; without it: symd listing --profile {PPROF} -C {SHADE} (see",
    ),
    "a count beside a place": (
        ("symbolize", SHADE, "--top", "5", "0x1978"),
        f"'--top'; without it: symd symbolize {SHADE} 0x1978 (see",
    ),
    "an address behind an unknown option": (
        ("symbolize", SHADE, "--zz", "6520"),
        f"'--zz'; without it: symd symbolize {SHADE} 6520 (see",
    ),
    "callers of no place": (
        ("callers", SHADE),
        f"symd symbolize {SHADE} PLACE shows the callers that PLACE is inlined into, and symd hot -m {SHADE} PROFILE --by instruction those",
    ),
    "callers of a function": (("inlined", SHADE, "blend"), f"symd symbolize {SHADE} PLACE shows the callers"),
    "Nsight Compute": (
        ("ncu", RAYCAST),
        f"as folded stacks, one line KERNEL+0xOFFSET COUNT for each instruction: symd hot -m {RAYCAST} PROFILE prints",
    ),
    "a report of Nsight Compute": (
        ("ncu", "--page", "source", "--csv", "-i", "r.ncu-rep"),
        "no verb 'ncu'; samples of Nsight Compute are read as folded stacks, one line KERNEL+0xOFFSET COUNT",
    ),
    "Nsight Compute on a program": (("ncu", "--", "./app"), "did you mean run? Write symd run -- ./app (see"),
    "PTX": (("ptx", RAYCAST), f"symd lines --level ptx {RAYCAST} the lines of the PTX"),
    "a profile that is named as a picture": (
        ("profile", "-m", SHADE, PPROF, "out.svg"),
        f"in a browser; write symd profile -m {SHADE} {PPROF} out.speedscope.json (see",
    ),
    "folded stacks that are named as a picture": (
        ("profile", "-m", SHADE, PPROF, "--to", "folded", "-o", "out.svg"),
        f"write symd profile -m {SHADE} {PPROF} --to folded -o out.folded (see",
    ),
    "versions": (("-v",), "symd itself has no option -v; write symd --version (see"),
}
ORDERS = {
    "a listing's name before FILE": (("listing", "shade", SHADE, "x"), "Got unexpected extra argument (x)"),
    "perf's annotate": (("annotate", SHADE, "shade"), f"write symd listing --profile PROFILE --function shade {SHADE} (see"),
    "a line to list": (("listing", SHADE, "shade.cl:13"), f"; for the ADDRESS that --around takes, write symd locate {SHADE} shade.cl:13 (see"),
    "an address to look up": (("lines", SHADE, "0x1978"), f"; write symd symbolize {SHADE} 0x1978 (see"),
    "a line to look up": (("lines", SHADE, "shade.cl:13"), f"; write symd locate --all {SHADE} shade.cl:13 (see"),
    "a kernel's lines": (("lines", SHADE, "shade"), f"; write symd lines --kernel shade {SHADE} (see"),
    "a kernel for the page": (("view", SHADE, "shade"), f"write one alone: symd view {SHADE} -o PAGE --kernel shade (see"),
    "an offset of its own": (("variables", SHADE, "shade", "0x98"), f"is one word: symd variables {SHADE} shade+0x98 (see"),
    "a daemon's address": (("status", "gpu:50051"), "goes after --server: symd status --server gpu:50051 (see"),
    "a port to serve": (("serve", "8080"), "; write --http 127.0.0.1:8080 for browsers, or --address 127.0.0.1:8080"),
    "a port for browsers": (("serve", "--http", "8080"), "8080: not an address to listen at (give HOST:PORT, such as 127.0.0.1:8080)"),
    "a query that lacks": (("variables", SHADE), f"; write, for example: symd variables {SHADE} vadd+0x1b0 (see"),
    "no verb, but an address": (("0x1978",), "a verb and a file come before the address: symd symbolize FILE 0x1978 (see"),
    "no verb, but a file": ((SHADE, "0x1978"), f"or symd symbolize {SHADE} 0x1978 (see"),
    "a query without FILE": (("symbolize", "--server", "default", "shade+0x80"), "(FILE comes first: symd symbolize FILE shade+0x80)"),
    "a debugger's step": (("step",), "no verb 'step'; a debugger runs the program, and symd answers it: docs/tutorials/debugger.md (see"),
    "a debugger's code": (("disas",), "Missing argument 'FILE'; write, for example: symd listing program.bin"),
    "a debugger's stack": (("bt",), "did you mean symbolize? Write symd symbolize FILE ADDRESS (see"),
    "a debugger": (("setup", "gdb"), "did you mean setup gdb-script? Write symd setup gdb-script (see"),
    "an editor": (("vscode",), "; symd setup samples DIR copies the extension (vscode) and the debug adapter"),
    "another start": (("daemon", "restart"), "symd daemon stop ends the daemon, and symd daemon start starts it (see"),
}  # fmt: skip
PLACES = {
    "0x1978-0x1998": f"(a query is one place, not a range: symd listing {SHADE} --around 0x1978 shows the code around it)",
    "<shade+0x80>": "(write shade+0x80)",
    "*0x1978": "(write 0x1978)",
    "0x1978:": "(write 0x1978)",
    "1978h": "(write 0x1978)",
    "shade:16": f"(an offset follows a plus sign: shade+16; a source line: symd locate {SHADE} SOURCE:16)",
    "shade:0x10": "(an offset follows a plus sign: shade+0x10)",
    "shade-0x10": "(offsets count up from where a function begins, and are not negative)",
    "0xzz": "(only hexadecimal digits, 0 to 9 and a to f, can follow 0x)",
}
LINES = {
    "shade.cl:13-20": "'shade.cl:13-20' is not a source line (write shade.cl:13)",
    "shade.cl,13": "'shade.cl,13' is not a source line (write shade.cl:13)",
    "shade.cl(13)": "'shade.cl(13)' is not a source line (write shade.cl:13)",
    "/src/": "'/src/' is not a source line (write FILE:LINE, such as vadd.cl:8)",
    "*0x1978": "'*0x1978' is not a place (write 0x1978)",
}
PATHS = {
    "gpu7:/data/k.co": "(symd reads files of this machine: scp gpu7:/data/k.co . copies it here)",
    "https://example.org/k.co": "(symd reads files: download it first)",
    r"C:\kernels\k.co": "(this is a path of Windows; in WSL that drive is below /mnt)",
    "kernel*.co": "(no file of this folder fits the pattern, so the shell left it as it is)",
    "kernel.cc": "(did you mean kernel.co or 'my kernel.co'? Write symd info kernel.co or symd info 'my kernel.co')",
    "my": "(did you mean 'my kernel.co'? Write symd info 'my kernel.co')",
    "none/kernel.co": "(there is no folder none)",
}
FILES = {
    "kernel.ll": (
        b'source_filename = "k.cl"\ndefine void @k() {\n  ret void\n}\n',
        "LLVM IR (it has no machine code yet:",
    ),
    "kernel.pdb": (
        b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0",
        "a program database (PDB) (it is about a Windows program;",
    ),
}


TAKEN = {
    "addr2line's options": ("symbolize", "-fiCpae", SHADE, "0x1978"),
    "addr2line's long options": ("symbolize", "--functions", "--inlines", "--exe", SHADE, "0x1978"),
    "llvm-symbolizer's options": ("symbolize", "--inlining", f"--obj={SHADE}", "0x1978"),
    "a module's variables": ("variables", "-fie", SHADE, "0x1978"),
    "a module's lines": ("lines", "--exe", SHADE),
    "a module's places": ("locate", "shade.cl:13", "-e", SHADE),
    "objdump's disassembly": ("listing", "-d", "-S", SHADE),
    "objdump's disassembly in one word": ("objdump", "-dSlC", SHADE),
    "llvm-objdump's disassembly": ("disasm", "--disassemble", "--source", "--line-numbers", "--inlines", SHADE, "-C"),
    "readelf's everything": ("readelf", "-aW", SHADE),
    "cuobjdump's list": ("cuobjdump", "-lelf", SHADE),
    "cuobjdump's code": ("cuobjdump", "-sass", SHADE),
    "readelf's lines": ("readelf", "--debug-dump=decodedline", SHADE),
    "objdump's symbols": ("objdump", "-t", SHADE),
    "LLVM's objdump": ("llvm-objdump-14", "-dS", SHADE),
    "LLVM's dwarfdump": ("llvm-dwarfdump", "--debug-line", SHADE),
    "nvdisasm's lines": ("nvdisasm", "-c", "-g", "--print-line-info", SHADE),
    "a function of a module": ("listing", "-e", SHADE, "shade"),
    "pprof's report": ("hot", "-top", "-lines", "-m", f"shade.co={SHADE}", PPROF),
    "pprof's report as text": ("hot", "-text", "--lines", "-m", f"shade.co={SHADE}", PPROF),
}
AS_SYMD_HAS_THEM = {
    "symbolize": ("symbolize", SHADE, "0x1978"),
    "variables": ("variables", SHADE, "0x1978"),
    "lines": ("lines", SHADE),
    "info": ("info", SHADE),
    "names": ("names", SHADE),
    "locate": ("locate", SHADE, "shade.cl:13"),
    "listing": ("listing", SHADE),
    "hot": ("hot", "-m", f"shade.co={SHADE}", PPROF),
    "a function of a module": ("listing", SHADE, "shade"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_an_option_for_what_is_shown_anyway_is_taken(run: Run, name: str) -> None:
    call = TAKEN[name]
    verb = {
        ("objdump", "-t"): "names",
        ("readelf", "--debug-dump=decodedline"): "lines",
        ("cuobjdump", "-sass"): "listing",
        ("objdump", "-dSlC"): "listing",
        ("llvm-objdump-14", "-dS"): "listing",
        ("llvm-dwarfdump", "--debug-line"): "lines",
        ("disasm", "--disassemble"): "listing",
        ("nvdisasm", "-c"): "listing",
        ("readelf", "-aW"): "info",
        ("cuobjdump", "-lelf"): "info",
    }.get(tuple(map(str, call[:2])), str(call[0]))
    assert run(*call) == run(*AS_SYMD_HAS_THEM.get(name, AS_SYMD_HAS_THEM[verb]))


@pytest.mark.parametrize(
    "words", [(SHADE, "-o", "out"), ("-o", "out", SHADE), ("--outdir=out", SHADE), ("-C", "out", "-e", SHADE)]
)
def test_a_folder_for_extracts_may_come_as_an_option(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("extract", *words).out == f"out/{SHADE.name}.elf\n"
    assert (tmp_path / "out" / f"{SHADE.name}.elf").read_bytes() == SHADE.read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ("strip", "-g", "-o", "x.co", SHADE),
        ("strip", "--strip-debug", SHADE, "-o", "x.co"),
        ("slim", "--output=x.co", SHADE),
    ],
)
def test_a_file_is_stripped_as_by_strip(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*words).code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.co", "x.co.debug"]
    assert run("symbolize", "x.co", "0x1978").out == run("symbolize", SHADE, "0x1978").out


@pytest.mark.parametrize("verb", ["html", "page", "web", "report"])
def test_a_page_is_written_by_words_for_it(run: Run, tmp_path: Path, verb: str) -> None:
    page = tmp_path / "page.html"
    assert run(verb, SHADE, "-o", page).code == 0
    assert page.read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize("option", ["-e", "--exe"])
def test_an_option_without_its_value_is_no_module(run: Run, option: str) -> None:
    assert "Missing argument 'FILE'; write, for example: symd variables" in run("variables", option).err


@pytest.mark.parametrize("verb", ["symbolize", "variables"])
def test_a_log_in_the_place_of_a_query_is_annotated(run: Run, tmp_path: Path, verb: str) -> None:
    log = tmp_path / "crash.log"
    log.write_text("fault at shade+0x80\n")
    said = run(verb, SHADE, log)
    assert (said.code, f"(it is a file; if it is a log, symd annotate -m {SHADE} {log} adds" in said.err) == (2, True)
    assert "blend at /src/shade.cl:13" in run("annotate", "-m", SHADE, log).out
    assert f"({PPROF} is a profile: symd hot -m {SHADE} {PPROF} prints" in run(verb, SHADE, PPROF).err


def test_a_log_on_standard_input_is_annotated(symd: Run, tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_text("fault at 0x1978\nend\n")
    said = symd("symbolize", SHADE, stdin=log.read_bytes()).err
    assert f"symd: is this a log? symd annotate -m {SHADE} LOG adds the lines to it\n" in said
    (tmp_path / "v4.co").write_bytes(SHADE.read_bytes())
    with log.open("rb") as stdin:
        done = subprocess.run(
            [*SYMD, "symbolize", "v4.co"],
            stdin=stdin,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "symd: is this a log? symd annotate -m v4.co crash.log adds the lines to it\n" in done.stderr


MISSPELLED = {
    "a function to list": ("listing", SHADE, "shde"),
    "a function of a pattern": ("names", SHADE, "shde"),
    "the kernel of lines": ("lines", "--kernel=shde", SHADE),
    "a place": ("symbolize", "-C", SHADE, "shde+0x80", "march"),
    "a place of variables": ("variables", SHADE, "shde+0x80"),
    "a function for a breakpoint": ("locate", SHADE, "march", "shde"),
}


@pytest.mark.parametrize("call", MISSPELLED.values(), ids=MISSPELLED)
def test_a_misspelled_name_is_answered_with_the_whole_call(run: Run, call: tuple[object, ...]) -> None:
    said = run(*call)
    assert said.code == 1
    assert f"rite symd {' '.join(map(str, call)).replace('shde', 'shade')}" in said.err


@pytest.mark.parametrize("call", [("listing",), ("listing", "--function")])
def test_a_plus_of_an_operator_is_no_offset(run: Run, call: tuple[str, ...]) -> None:
    verb, *option = call
    said = run(verb, SHADE, *option, "operator+")
    assert (said.code, "there is no function 'operator+'" in said.err) == (1, True), said.err


def test_an_operator_before_its_file_is_a_function(run: Run) -> None:
    said = run("lines", SHADE, "operator+").err
    assert f"write symd lines --kernel operator+ {SHADE} (see" in said


def test_a_misspelled_file_is_answered_with_the_whole_call(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k 1.co").touch()
    said = run("symbolize", tmp_path / "k 2.co", "0x10")
    assert f"? Write symd symbolize '{tmp_path}/k 1.co' 0x10)" in said.err


def test_a_misspelled_name_on_standard_input_is_no_call(symd: Run) -> None:
    assert symd("symbolize", SHADE, stdin=b"shde+0x80\n").err == ""


@pytest.mark.parametrize(("call", "says"), [*OPTIONS.values(), *ORDERS.values()], ids=[*OPTIONS, *ORDERS])
def test_the_call_that_was_meant_is_written_out(run: Run, call: tuple[object, ...], says: str) -> None:
    done = run(*map(str, call))
    assert (done.code, says in done.err) == (2, True), done.err
    assert done.err.count("\n") == 1


CALL = re.compile(
    r"(?:write|Write|-m:|after -o:|after --server:|for example:|profile:|first:|word:|alone:|locate| or) (symd (?:'[^']*'|[^ ();,?])+(?: (?:'[^']*'|[^ ();,?])+)*)"
)


def _parses(words: list[str]) -> None:
    """Raise what click has against a call, and do nothing of it."""
    context, rest = click.Context(GROUP, obj=tuple(words)), words
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        is_group = isinstance(command, click.Group)
        context = click.Context(command, context, name) if is_group else command.make_context(name, rest, context)


AT_ONCE = {
    "a dump's stack": (("bt", DUMP), ("core", DUMP)),
    "an address's stack": (("bt", SHADE, "0x1978"), ("symbolize", SHADE, "0x1978")),
    "a log's stack": (("bt", SHADE, SOURCE), ("annotate", "-m", SHADE, SOURCE)),
    "a file that is listed": (("ls", SHADE), ("info", SHADE)),
    "SPIR-V's rules": (("validate", SPIRV), ("check", SPIRV)),
    "other code's rules": (("validate", SHADE), ("verify", SHADE)),
    "FILE behind an address": (("symbolize", "0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "FILE behind a name": (("symbolize", "shade", "-C", SHADE), ("symbolize", SHADE, "shade", "-C")),
    "FILE behind a place": (("vars", "0x1978", SHADE), ("variables", SHADE, "0x1978")),
    "FILE behind a pattern": (("grep", "sha*", SHADE), ("names", SHADE, "sha*")),
    "a source and a number": (("locate", SHADE, "shade.cl", "13"), ("locate", SHADE, "shade.cl:13")),
    "a number and a source": (("locate", SHADE, "13", "shade.cl"), ("locate", SHADE, "shade.cl:13")),
    "a number in front of a source": (("locate", "13:shade.cl", SHADE), ("locate", SHADE, "shade.cl:13")),
    "a source that is a file": (("locate", SOURCE, "13", SHADE), ("locate", SHADE, f"{SOURCE}:13")),
    "FILE behind a line": (("break", "shade.cl:13", SHADE), ("locate", SHADE, "shade.cl:13")),
    "a lookup": (("llvm-dwarfdump", "--lookup=0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "gdb's scope": (("info", "scope", "*0x1978", SHADE), ("variables", SHADE, "0x1978")),
    "gdb's locals": (("info", "locals", SHADE, "shade+0x80"), ("variables", SHADE, "shade+0x80")),
    "gdb's functions": (
        ("info", "functions", "sha*", SHADE),
        ("names", "--kind", "kernel", "--kind", "function", SHADE, "sha*"),
    ),
    "addr2line's options alone": (("-fie", SHADE, "0x1978"), ("symbolize", SHADE, "0x1978")),
    "llvm-symbolizer's options alone": (("--obj", SHADE, "--inlining", "0x1978"), ("symbolize", SHADE, "0x1978")),
    "addr2line's FILE alone": (("-e", SHADE, "0x1978"), ("symbolize", SHADE, "0x1978")),
    "addr2line's FILE in the middle": (("-i", "-f", "-e", SHADE, "0x1978"), ("symbolize", SHADE, "0x1978")),
    "readelf's option alone": (("--debug-dump=decodedline", SHADE), ("lines", SHADE)),
    "dwarfdump's option alone": (("--debug-line", SHADE), ("lines", SHADE)),
    "objdump's source alone": (("-S", SHADE), ("listing", SHADE)),
    "samples to annotate with perf's option": (
        ("annotate", "-i", PPROF, SHADE),
        ("listing", "--profile", PPROF, SHADE),
    ),
    "objdump's options alone": (("-d", SHADE), ("listing", SHADE)),
    "objdump's function alone": (("-S", "--disassemble=shade", SHADE), ("listing", SHADE, "shade")),
    "objdump's function": (("objdump", "--disassemble=clear", SHADE), ("listing", SHADE, "clear")),
    "cuobjdump's option alone": (("-res-usage", SHADE), ("info", SHADE)),
    "nvdisasm's option alone": (("--print-line-info", SHADE), ("listing", SHADE)),
    "gdb's batch": (("-batch", "-ex", "info line *0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "files to annotate behind two dashes": (
        ("annotate", "--", ZEBIN, STALLS),
        ("listing", ZEBIN, "--profile", STALLS),
    ),
    "perf annotate": (("annotate", "-i", STALLS, ZEBIN, "smooth"), ("listing", ZEBIN, "smooth", "--profile", STALLS)),
    "gdb's kernels": (("info", "kernels", SHADE), ("names", "--kind", "kernel", "--kind", "function", SHADE)),
    "file of a profile": (("file", STALLS), ("info", STALLS)),
    "gdb's sources": (("info", "sources", SHADE), ("names", "--kind", "file", SHADE)),
    "gdb's registers": (("info", "registers", SHADE), ("info", SHADE)),
    "gdb's line": (("info", "line", "*0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "gdb's line of a file": (("info", "line", "shade.cl:13", SHADE), ("locate", SHADE, "shade.cl:13")),
    "gdb's break": (("b", SHADE, "shade.cl:13"), ("locate", SHADE, "shade.cl:13")),
    "gdb's memory": (
        ("x/10i", SHADE, "0x1978"),
        ("listing", SHADE, "--around", "0x1978", "--before", "0", "--after", "9"),
    ),
    "a variable to print": (("print", SHADE, "0x1978", "a"), ("variables", SHADE, "0x1978")),
    "gdb's print": (("print", "x", SHADE, "0x1978"), ("variables", SHADE, "0x1978")),
    "gdb's list": (("list", SHADE, "shade"), ("listing", SHADE, "shade")),
    "stalls": (("reasons", ZEBIN, STALLS), ("hot", "--by", "stall", ZEBIN, STALLS)),
    "stalls of a kernel": (
        ("stalls", "-k", "smooth", ZEBIN, STALLS),
        ("hot", "--by", "stall", "--kernel", "smooth", ZEBIN, STALLS),
    ),
    "functions of a kernel": (
        ("top", "--function", "smooth", ZEBIN, STALLS),
        ("hot", "--by", "function", "--kernel", "smooth", ZEBIN, STALLS),
    ),
    "samples to annotate a module with": (("annotate", ZEBIN, STALLS), ("listing", ZEBIN, "--profile", STALLS)),
    "samples on a kernel": (
        ("annotate", "-k", "smooth", ZEBIN, STALLS),
        ("listing", ZEBIN, "smooth", "--profile", STALLS),
    ),
    "samples on a kernel by long options": (
        ("annotate", ZEBIN, "--kernel=smooth", f"--profile={STALLS}", "-C"),
        ("listing", ZEBIN, "smooth", "--profile", STALLS, "-C"),
    ),
    "samples on a kernel by its name alone": (
        ("annotate", "-m", ZEBIN, "smooth", "--profile", STALLS),
        ("listing", ZEBIN, "smooth", "--profile", STALLS),
    ),
    "cuda-gdb's threads": (("info", "cuda", "threads", DUMP), ("core", DUMP)),
    "cuda-gdb's batch": (("cuda-gdb", "-batch", "-ex", "info cuda warps", DUMP), ("core", DUMP)),
    "perf's annotation of a function": (
        ("perf", "annotate", "-s", "smooth", ZEBIN, STALLS),
        ("listing", ZEBIN, "smooth", "--profile", STALLS),
    ),
    "cuda-gdb's kernels": (("info", "cuda", "kernels", DUMP), ("core", DUMP)),
    "perf's report": (("perf", "report", ZEBIN, STALLS), ("hot", "--by", "function", ZEBIN, STALLS)),
    "perf's stacks": (("perf", "script", ZEBIN, STALLS), ("profile", ZEBIN, STALLS, "--to", "folded", "-")),
    "pprof's report": (("pprof", "-top", ZEBIN, STALLS), ("top", ZEBIN, STALLS)),
    "pprof's functions": (("top", ZEBIN, STALLS, "--functions"), ("hot", "--by", "function", ZEBIN, STALLS)),
    "pprof's addresses": (("top", "-addresses", ZEBIN, STALLS), ("hot", "--by", "instruction", ZEBIN, STALLS)),
    "pprof's lines": (("top", "--lines", ZEBIN, STALLS), ("hot", "--by", "line", ZEBIN, STALLS)),
    "pprof's files": (("pprof", "-top", "-files", ZEBIN, STALLS), ("hot", "--by", "file", ZEBIN, STALLS)),
    "pprof's lines alone": (("-top", "-lines", ZEBIN, STALLS), ("hot", "--by", "line", ZEBIN, STALLS)),
    "folded stacks": (("collapse", "-m", ZEBIN, STALLS), ("profile", "-m", ZEBIN, STALLS, "--to", "folded", "-")),
    "registers that spill": (("spills", RAYCAST), ("info", RAYCAST)),
    "binutils' size": (("size", RAYCAST), ("info", RAYCAST)),
    "occupancy": (("occupancy", RAYCAST), ("info", RAYCAST)),
    "callers of a place": (("callers", SHADE, "0x1978"), ("symbolize", SHADE, "0x1978")),
    "what a place is inlined into": (("inlined", SHADE, "shade+0x80"), ("symbolize", SHADE, "shade+0x80")),
    "one file to compare": (("compare", SHADE), ("verify", SHADE)),
    "cuobjdump's resources": (("cuobjdump", "-res-usage", RAYCAST), ("info", RAYCAST)),
}


@pytest.mark.parametrize(("typed", "meant"), AT_ONCE.values(), ids=AT_ONCE)
def test_a_word_that_means_one_verb_does_what_it_means(
    run: Run, typed: tuple[object, ...], meant: tuple[object, ...]
) -> None:
    assert run(*typed) == run(*meant)


@pytest.mark.parametrize(
    ("call", "out"),
    [
        (("convert", "-m", ZEBIN, STALLS, "--to", "firefox"), "stalls.firefox.json"),
        (("flamegraph", "-m", ZEBIN, STALLS), "stalls.speedscope.json"),
        (("profile", "--to", "pprof", "-m", ZEBIN, STALLS), "stalls.pprof"),
    ],
)
def test_a_conversion_without_out_writes_a_new_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[object, ...], out: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*call)
    assert (done.code, f"symd: written to {out}\n" in done.err) == (0, True), done.err
    written = Path(out).read_bytes()
    again = run(*call)  # which would replace it
    assert (again.code, "-o OUT" in again.err, Path(out).read_bytes() == written) == (2, True, True)


def test_a_page_is_not_opened_unasked(run: Run) -> None:
    said = run("report", SHADE)
    assert (said.code, f"did you mean view? Write symd view {SHADE} (see" in said.err) == (2, True)


@pytest.mark.parametrize("call", [call for call, _ in (*OPTIONS.values(), *ORDERS.values())], ids=[*OPTIONS, *ORDERS])
def test_the_call_that_is_written_out_is_not_refused(run: Run, call: tuple[object, ...]) -> None:
    said = run(*call).err
    for words in CALL.findall(said):
        typed = re.sub(
            r" (?:or symd|writes|adds|runs|opens|starts|ends|shows|prints|collects|has|takes|to|in|and) .*", "", words
        )
        if "--version" not in typed:
            _parses(shlex.split(typed)[1:])


MOVED = {
    "hot, the module first": ("hot", "-n", "10", SHADE, PPROF),
    "hot, the module last": ("top", "--lines", PPROF, "-n", "10", SHADE),
    "listing": ("listing", PPROF, SHADE, "shade"),
    "listing of another order": ("objdump", "-d", SHADE, PPROF, "shade"),
    "core": ("core", DUMP, RAYCAST),
    "core, the module first": ("core", RAYCAST, DUMP),
    "annotate": ("annotate", SHADE, SOURCE),
    "annotate, the log first": ("annotate", SOURCE, SHADE),
}
AS_OPTIONS = {
    "hot": ("hot", "-n", "10", "-m", SHADE, PPROF),
    "listing": ("listing", SHADE, "shade", "--profile", PPROF),
    "core": ("core", DUMP, "-m", RAYCAST),
    "annotate": ("annotate", "-m", SHADE, SOURCE),
}


@pytest.mark.parametrize("name", MOVED)
def test_modules_and_profiles_come_in_any_order(run: Run, name: str) -> None:
    assert run(*MOVED[name]) == run(*AS_OPTIONS[re.split(r"\W", name)[0]])


@pytest.mark.parametrize(
    "words", [(SHADE, PPROF, "OUT"), (PPROF, SHADE, "OUT"), (SHADE, PPROF, "-o", "OUT"), (PPROF, "-o", "OUT", SHADE)]
)
def test_a_module_without_its_option_is_one_of_the_profile(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("profile", "-m", SHADE, PPROF, "expected").code == 0
    assert run("profile", *words).code == 0
    assert (tmp_path / "OUT").read_bytes() == (tmp_path / "expected").read_bytes()


def test_a_module_is_never_replaced_by_a_profile(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "k.co"
    module.write_bytes(SHADE.read_bytes())
    said = run("profile", PPROF, module)
    assert (said.code, f"write, for example: symd profile {PPROF} {module} -o OUT (see" in said.err) == (2, True)
    assert module.read_bytes() == SHADE.read_bytes()


def test_a_page_that_is_there_is_no_module(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    page.write_text("<!doctype html>")
    said = run("hot", "--html", page, ZEBIN, STALLS).err
    assert f"write symd view {ZEBIN} --profile {STALLS} -o {page} (see" in said


def test_a_page_takes_its_profile_without_an_option(run: Run, tmp_path: Path) -> None:
    assert run("web", SHADE, PPROF, "-o", tmp_path / "x.html").code == 0
    assert PPROF.name in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(("place", "says"), PLACES.items(), ids=PLACES)
@pytest.mark.parametrize("verb", ["symbolize", "variables"])
def test_a_place_as_other_tools_write_it_is_written_anew(run: Run, verb: str, place: str, says: str) -> None:
    done = run(verb, SHADE, place)
    assert (done.code, done.out, done.err) == (2, "", f"symd: cannot parse {place!r} as an address {says}\n")


@pytest.mark.parametrize(("place", "says"), LINES.items(), ids=LINES)
def test_a_line_as_other_tools_write_it_is_written_anew(run: Run, place: str, says: str) -> None:
    done = run("locate", SHADE, place)
    assert (done.code, done.err) == (2, f"symd: {says}\n")


@pytest.mark.parametrize(("path", "says"), PATHS.items(), ids=PATHS)
def test_a_path_to_no_file_is_explained(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("kernel.co", "my kernel.co", "other.bin"):
        Path(name).touch()
    done = run("info", path)
    assert (done.code, done.err) == (2, f"symd: {path}: cannot read the file: no such file or directory {says}\n")


@pytest.mark.parametrize(("name", "data", "says"), [(name, *each) for name, each in FILES.items()], ids=FILES)
def test_a_file_of_another_kind_is_named(run: Run, tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    done = run("info", tmp_path / name)
    assert (done.code, f"{name}: this is {says}" in done.err) == (2, True), done.err


def test_source_is_told_to_be_compiled_before_it_is_checked(run: Run) -> None:
    done = run("check", SOURCE)
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == f"symd: {SOURCE}: this is a text file, not SPIR-V (clang --target=spirv64 -c, ocloc compile and llvm-spirv write SPIR-V)\n"
    )


@pytest.mark.parametrize("option", ["-i", "-p", "--profile"])
def test_a_profile_that_is_missing_is_named(run: Run, option: str) -> None:
    done = run("annotate", option, "nope.csv", ZEBIN)
    assert (done.code, done.err.startswith("symd: nope.csv: cannot read the file: no such file")) == (2, True)


def test_names_are_found_by_patterns_of_shells(run: Run) -> None:
    done = run("names", SHADE, "/sha.*/")
    assert (done.code, f"not a regular expression: symd names {SHADE} 'sha*')" in done.err) == (1, True), done.err
    assert "shade" in run("names", SHADE, "sha*").out


def test_a_variable_in_the_place_of_a_query_is_told(run: Run) -> None:
    done = run("variables", SHADE, "half_way")
    assert done.code == 1
    assert "QUERY is a place in the code, not a variable; " in done.err
    assert f"symd variables {SHADE} PLACE shows all variables at one, and symd names {SHADE} '*'" in done.err


def test_a_function_that_nothing_is_like_is_looked_for_among_the_names(run: Run) -> None:
    assert run("locate", SHADE, "zzzz").err == f"symd: symd names {SHADE} '*' shows all names\n"


def test_a_command_line_in_one_word_is_taken_apart(symd: Run) -> None:
    done = symd("run", "--", "./app --fast")
    assert (done.code, "(each argument is a word of its own: symd run -- ./app --fast)" in done.err) == (127, True)


def test_a_function_that_is_only_inlined_may_be_meant(run: Run) -> None:
    done = run("locate", SHADE, "blnd")
    assert (done.code, done.err) == (1, f"symd: did you mean blend? Write symd locate {SHADE} blend\n")


def test_the_beginning_of_a_name_is_a_pattern(run: Run) -> None:
    outcome = run("names", SHADE, "^sha")
    assert (outcome.code, f"not a regular expression: symd names {SHADE} 'sha*')" in outcome.err) == (1, True)
    assert run("names", SHADE, "sha*").code == 0


@pytest.mark.parametrize(("profile", "kind"), [(PPROF, "pprof"), (STALLS, "unitrace")])
@pytest.mark.parametrize(("module", "file"), [((), "FILE"), (("-m", SHADE), SHADE)])
def test_a_profile_is_no_log(run: Run, profile: Path, kind: str, module: tuple[object, ...], file: object) -> None:
    outcome = run("annotate", *module, profile)
    assert (outcome.code, outcome.out) == (2, "")
    assert (
        outcome.err
        == f"symd: {profile}: this is a profile ({kind}), not a log (symd listing --profile {profile} {file} shows its samples beside the source, symd hot -m {file} {profile} prints its hottest lines)\n"
    )


def test_a_log_in_json_is_no_profile(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text('{"message": "fault at pc 0x1978"}\n')
    assert "blend at /src/shade.cl:13" in run("annotate", "-m", SHADE, log).out


def test_a_log_of_which_nothing_is_known_is_told_so(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_text("nothing happened\n")
    done = run("annotate", log)
    assert (done.code, done.out) == (0, "nothing happened\n")
    assert done.err.startswith(
        f"symd: {log}: 0 lines annotated: none names a place in a module that is known; write symd annotate -m FILE"
    )


def test_a_bare_program_counter_is_annotated(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    for text in ("fault pc 0x1978", "pc: 0x1978", "$pc = 0x1978", "at PC 0x1978"):
        log.write_text(f"{text}\n")
        lines = run("annotate", "-m", SHADE, log).out.splitlines()
        assert lines[1] == "    symd: 0x1978: blend at /src/shade.cl:13:25", text


def test_a_number_that_nothing_stands_before_is_told_how_it_is_asked(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_text("queue 0xff: bad address 0x1978\n")
    done = run("annotate", "-m", SHADE, log)
    assert (done.code, "; an address follows pc, PC, or a function and +" in done.err) == (0, True)
    assert f": symd symbolize {SHADE} 0x1978 asks for 0x1978\n" in done.err
    assert run("symbolize", SHADE, "0x1978").out.startswith("0x1978: blend at /src/shade.cl:13")
    log.write_text("queue 0xff\n")
    assert "symd symbolize" not in run("annotate", "-m", SHADE, log).err


def test_a_page_without_a_source_is_told_the_whole_call(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("html", SHADE, "-o", "x.html").err
    assert f"no allowed folder holds it; write symd html --map /src=FOLDER {SHADE} -o x.html\n" in said
    Path("shade.cl").write_text("another file\n")
    assert "add --map /src=.)" in run("listing", SHADE, "shade").out
    assert run("html", SHADE, "-o", "x.html", "--map", "/src=.").err.endswith("compiled: its MD5 differs\n")
    Path("shade.cl").write_bytes((ROOT / "samples" / "amdgpu" / "src" / "shade.cl").read_bytes())
    said = run("html", SHADE, "-o", "x.html").err
    called = re.search(r"write symd (html .*)", said)
    assert called
    assert "--map" in called[1]
    assert "not in the page" not in run(*shlex.split(called[1])).err


def test_an_address_of_a_module_without_its_0x_is_written_anew(run: Run) -> None:
    done = run("annotate", "-m", f"{SHADE}@0", SOURCE)
    assert (done.code, done.out) == (2, "")
    assert f"'0' is not an address, which begins with 0x (write {SHADE}@0x0)" in done.err


@pytest.mark.parametrize("joint", [":", ",", "@"])
def test_a_place_that_is_joined_to_its_file_is_parted(run: Run, joint: str) -> None:
    said = run("symbolize", f"{SHADE}{joint}0x1978")
    assert (said.code, f"no such file or directory (write symd symbolize {SHADE} 0x1978)" in said.err) == (2, True)


def test_a_part_of_a_name_is_answered_with_its_pattern(run: Run) -> None:
    said = run("names", RAYCAST, "ycas")
    assert (said.code, f"(it is a part of names: symd names {RAYCAST} '*ycas*')" in said.err) == (1, True), said.err
    assert "raycast" in run("names", RAYCAST, "*ycas*").out


def test_a_log_on_standard_input_without_a_module_is_annotated(symd: Run, tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_text("fault at PC 0x1978\n")
    with log.open("rb") as stdin:
        done = subprocess.run(
            [*SYMD, "symbolize"], stdin=stdin, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, "; if it is a log, write symd annotate -m FILE crash.log (see" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "warp 3 stopped\nfault at PC 0x1978\n",
            "symd: standard input is a log: symd annotate -m v4.co asked.txt (see",
        ),
        ("fault at shade+0x80\n", "symd: standard input is a log: symd annotate -m v4.co asked.txt (see"),
        ("PC=0x1978", "symd: standard input is a log: symd annotate -m v4.co asked.txt (see"),
    ],
)
def test_a_log_for_the_options_of_addr2line_is_annotated(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "v4.co").write_bytes(SHADE.read_bytes())
    (tmp_path / "asked.txt").write_text(text)
    with (tmp_path / "asked.txt").open("rb") as stdin:
        done = subprocess.run(
            [*SYMD, "-e", "v4.co"], stdin=stdin, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr.startswith(says)) == (2, True)


@pytest.mark.parametrize(
    "options", [("-e", "{}"), ("-e", "{}", "-f", "-i"), ("-fie", "{}"), ("--obj={}", "--inlining")]
)
@pytest.mark.parametrize("is_piped", [True, False])
def test_places_on_standard_input_are_answered_for_the_options_of_addr2line(
    symd: Run, tmp_path: Path, options: tuple[str, ...], is_piped: bool
) -> None:
    text = "0x1940\n0x1978\nshade(float const*, unsigned int)+0x80\nspace::pc+0x10\n(.text.pc)+0x10\n"
    (tmp_path / "asked.txt").write_text(text)
    words = [each.format(SHADE) for each in options]
    with (tmp_path / "asked.txt").open("rb") as file:
        how = {"input": text} if is_piped else {"stdin": file}
        done = subprocess.run([*SYMD, *words], capture_output=True, text=True, timeout=60, check=False, **how)
    meant = symd("symbolize", SHADE, stdin=text.encode())
    assert (done.returncode, done.stdout, done.stderr) == (meant.code, meant.out, meant.err)
    assert "blend at /src/shade.cl:13" in done.stdout


def test_a_log_is_named_before_what_else_is_said_of_queries(symd: Run) -> None:
    nodebug = SHADE.with_name("v4-gfx900-nodebug.co")
    said = symd("symbolize", nodebug, stdin=b"fault at PC 0x1978\nshde+0x10\n").err
    assert said.startswith(f"symd: is this a log? symd annotate -m {nodebug} LOG adds the lines to it\n")


@pytest.mark.parametrize(
    "words",
    [
        ("html", SHADE, "-o", "x.html", "--source", "{}"),
        ("html", SHADE, "-o", "x.html", "--source-root={}"),
        ("listing", SHADE, "shade", "--source", "{}"),
    ],
)
def test_a_source_file_in_the_place_of_its_folder_is_found(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/shade.cl").write_bytes((ROOT / "samples" / "amdgpu" / "src" / "shade.cl").read_bytes())
    Path("other.cl").touch()
    for name, is_named in (("src/shade.cl", True), ("other.cl", False)):
        said = run(*(str(word).format(name) for word in words))
        assert (said.code, "--map /src=src" in said.err) == (2, is_named), said.err
        called = re.search(r"symd ((?:html|listing) .*) \(see", said.err)
        if called:
            done = run(*shlex.split(called[1]))
            assert (done.code, "not in the page" in done.err, "no allowed" in done.out) == (0, False, False)


def test_a_section_in_the_place_of_a_function_is_not_address_0(run: Run) -> None:
    cubin = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.lines.cubin"
    done = run("addr2line", "-e", cubin, ".text._Z7raycastPfi6float3+0x100")
    assert (done.code, done.out) == (0, "??:0\n")
    assert "is no function; for a section write -j .text._Z7raycastPfi6float3 0x100" in done.err
    assert ":0" not in run("addr2line", "-e", cubin, "-j", ".text._Z7raycastPfi6float3", "0x100").out


def test_a_name_with_the_words_of_a_hint_in_it_is_no_traceback(run: Run, tmp_path: Path) -> None:
    shutil.copy(SHADE, tmp_path / "a or b.co")
    done = run("symbolize", tmp_path / "a or b.c", "0x0")
    assert done.code == 2
    assert "did you mean" in done.err
