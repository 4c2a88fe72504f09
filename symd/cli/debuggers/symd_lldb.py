"""Commands for LLDB: the modules that it lists, told to a context of a symd daemon with the addresses that they are
loaded at, and source lines of GPU code at addresses. Load it with ``command script import``; ``symd lldb-script``
prints its path.

    symd context [MODULE...]      tell the daemon what is loaded where, as image list shows it; prints the context's id
    symd frames EXPRESSION...     frames at device addresses that the expressions give
    symd settings [NAME VALUE]    program (how symd is run), server (the daemon), context

``symd context`` tells the modules whose architecture is not that of the program (an LLDB that debugs GPUs lists theirs
so), and those that were named, by path or by file name. Each call tells what is new and what went; a daemon answers by
time.

Runs in LLDB's own Python (3.7 and newer)."""

import json
import os
import shlex
import socket
import sys
import time

import lldb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from symd_child import Refused, ask, frame_lines, installed_symd, printable  # noqa: E402 - beside this file

SETTINGS = {"program": installed_symd(), "server": "", "context": ""}
TOLD = {}
"""What was told of each process: a load's key to what the load says, without its time."""
NAMED = set()
"""Modules that a command named: they are told from then on."""
HINTS = {"OUTSIDE_TEXT": " (no module of the context has code there: symd context tells what is loaded now)"}


def __lldb_init_module(debugger, _internal):
    debugger.HandleCommand("command container add --overwrite symd -h 'Source lines of GPU code, by a symd daemon.'")
    for name in ("context", "frames", "settings"):
        debugger.HandleCommand(
            "command script add --overwrite -f %s.%s_command -h '%s' symd %s"
            % (__name__, name, globals()[name + "_command"].__doc__.splitlines()[0], name)
        )


def context_command(debugger, command, context, result, _internal):
    """Tell the daemon which modules are loaded where: symd context [MODULE...]"""
    target = context.GetTarget()
    process = context.GetProcess()
    if not process or not process.IsValid() or not process.GetProcessID():
        result.SetError("start the process first: modules have addresses only in a process")
        return
    NAMED.update(shlex.split(command))
    gone = process.GetState() in (lldb.eStateExited, lldb.eStateDetached)
    loads = {} if gone else dict(loads_of(target))
    known = TOLD.get(process.GetUniqueID(), {})
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    events = [{"context": context_of(process, target)}]
    events += [{"unload": {"key": key, "time": now}} for key in known if known[key] != loads.get(key)]
    events += [{"load": dict(loads[key], key=key, time=now)} for key in loads if known.get(key) != loads[key]]
    try:
        answers = told("record", "\n".join(map(json.dumps, events)) + "\n")
    except Refused as refused:
        result.SetError(str(refused))
        return
    TOLD[process.GetUniqueID()] = loads
    for answer in answers:
        if "context" in answer:
            SETTINGS["context"] = answer["context"]
            result.AppendMessage(
                "context %s: %d module%s" % (answer["context"], len(loads), "" if len(loads) == 1 else "s")
            )
        elif "error" in answer:
            result.AppendWarning(printable("%s: %s" % (answer["key"], answer["error"])))
        elif "module" in answer:
            result.AppendMessage(printable("%s  %s" % (answer["module"][:12], answer["key"])))
    for line in () if gone else missing(target, loads):
        result.AppendWarning(printable(line))


def missing(target, loads):
    """What to type for each module that was named and is not told, or where nothing is told."""
    listed = set()
    for module in target.module_iter():
        listed |= {path_of(module), module.file.GetFilename()}
    for name in sorted(NAMED - set(loads) - {os.path.basename(path) for path in loads}):
        placed = "target modules load --file %s SECTION ADDRESS" % shlex.quote(os.path.basename(name))
        if name in listed:
            yield "no section of %s is loaded; to say where one is: %s" % (name, placed)
        else:
            added = "target modules add %s" % shlex.quote(name)
            yield "LLDB lists no module %s; to add it: %s, then %s" % (name, added, placed)
    if not loads and not NAMED:
        yield "image list shows no loaded module of a GPU; to tell another one: symd context MODULE"


def frames_command(debugger, command, context, result, _internal):
    """Frames at device addresses of GPU code, innermost first: symd frames EXPRESSION..."""
    if not SETTINGS["context"]:
        result.SetError("no context: symd context makes one, symd settings context ID names one")
        return
    if not command.strip():
        result.SetError("name an address: symd frames EXPRESSION...")
        return
    try:
        addresses = [hex(integer(context, text)) for text in shlex.split(command)]
        answers = told("symbolize", None, "--context", SETTINGS["context"], *addresses)
    except Refused as refused:
        result.SetError(str(refused))
        return
    for answer in answers:
        for line in frame_lines(answer, HINTS):
            result.AppendMessage(line)


def settings_command(debugger, command, context, result, _internal):
    """Show or change how the daemon is asked: symd settings [program|server|context VALUE]"""
    words = shlex.split(command)
    if len(words) == 2 and words[0] in SETTINGS:
        SETTINGS[words[0]] = words[1]
    elif words:
        result.SetError("symd settings [program|server|context VALUE]")
    else:
        for name, value in sorted(SETTINGS.items()):
            result.AppendMessage("%s %s" % (name, value or "(none)"))


def told(verb, text, *words):
    """What symd answers. Raises Refused."""
    server = ("--server", SETTINGS["server"]) if SETTINGS["server"] else ()
    json_lines = () if verb == "record" else ("--json",)
    arguments = (verb,) + json_lines + server + words
    return ask(shlex.split(SETTINGS["program"]), arguments, "symd settings program PATH", text)


def integer(context, expression):
    """The value of an expression in the selected frame. Raises Refused."""
    frame = context.GetFrame()
    value = (
        frame.EvaluateExpression(expression)
        if frame and frame.IsValid()
        else context.GetTarget().EvaluateExpression(expression)
    )
    if value.GetError().Fail():
        raise Refused("%s: %s" % (expression, value.GetError().GetCString()))
    return value.GetValueAsUnsigned()


def loads_of(target):
    """(key, load) of each module of another architecture, or that was named, with the addresses of its sections; those
    that are loaded nowhere are left out."""
    own = target.GetTriple().split("-")[0]
    for module in target.module_iter():
        path = path_of(module)
        other = (module.GetTriple() or "").split("-")[0] != own
        if not other and not NAMED & {path, module.file.GetFilename()}:
            continue
        sections = dict(loaded_sections(target, module))
        if sections:
            yield path, {"file": path, "sections": sections}


def path_of(module):
    return os.path.join(module.file.GetDirectory() or "", module.file.GetFilename() or "")


def loaded_sections(target, module):
    """(name, address) of each section with code that has an address in the process."""
    waiting = list(module.section_iter())
    while waiting:
        section = waiting.pop(0)
        parts = [section.GetSubSectionAtIndex(number) for number in range(section.GetNumSubSections())]
        waiting += parts  # a segment's parts are its sections
        address = section.GetLoadAddress(target)
        executable = section.GetPermissions() & lldb.ePermissionsExecutable
        if executable and not parts and address != lldb.LLDB_INVALID_ADDRESS:
            yield section.GetName(), address


def context_of(process, target):
    """The context that the addresses mean something in: the process, and the device where LLDB is one's debugger."""
    attributes = {"debugger": lldb.SBDebugger.GetVersionString().splitlines()[0]}
    try:
        with open("/proc/%d/stat" % process.GetProcessID()) as file:  # of another machine's process there is none
            attributes["start_time"] = file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    return {
        "host": socket.gethostname(),
        "process": process.GetProcessID(),
        "device": target.GetTriple(),
        "clock": "CLOCK_BOOTTIME",
        "attributes": attributes,
    }
