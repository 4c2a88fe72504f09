"""Every file, folder and socket that symd makes is made by ``private_files``, but for outputs that a user named; nothing is opened to
others elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "symd"
HELPER = ROOT / "system/private_files.py"

NAMED = "an output that the user named: the umask is that user's word"
ALONE = "it runs in another program's Python, which has no symd, and makes the file 0600 itself"
NONE = "it opens what is there, and makes no file"
NOT_A_PATH = "the socket has no name in the file system"
ALLOWED = {
    ("system/atomic_output.py", "os.O_CREAT"): NAMED,
    ("system/atomic_output.py", "OPENING"): NAMED,
    ("system/atomic_output.py", "folder.mkdir"): NAMED,
    ("system/atomic_output.py", "temporary.chmod"): f"the mode of the file that is replaced; {NAMED}",
    ("cli/setup.py", "shutil.copytree"): NAMED,
    ("cli/setup.py", "shutil.copy2"): NAMED,
    ("cli/setup.py", "os.fchmod"): f"a program for PATH; {NAMED}",
    ("cli/command_line.py", "open"): "the null device",
    ("cli/command_line.py", "formatter.write_text"): "text of click's help",
    ("query/disasm/iga_child.py", "open"): NONE,
    ("engine/reading/questions.py", "open"): NONE,
    ("server/certificates.py", "open"): NONE,
    ("server/access_file.py", "os.fchmod"): f"the mode of the access file that is replaced; {NAMED}",
    ("server/listening.py", "given.chmod"): "0660, for --socket-group",
    ("rpc/addresses.py", "listener.bind"): NOT_A_PATH,
    ("store/catalogue.py", "sqlite3.connect"): NONE,
    ("store/recovery.py", "sqlite3.connect"): "in memory",
    ("store/folder.py", "folder.chmod"): "it takes rights away",
    ("capture/run_folder.py", "path.chmod"): "root's program may become any user, who has to get in (let_in)",
    ("capture/ways.py", "partial.chmod"): "FILE_MODE, of what a compiler made",
    ("capture/injected/symd_capture.py", "os.O_CREAT"): ALONE,
    ("capture/injected/symd_capture.py", "os.fchmod"): ALONE,
    ("capture/injected/symd_capture.py", "open"): f"of a descriptor; {NONE}",
    ("cli/debuggers/symd_gdb.py", "tempfile.NamedTemporaryFile"): ALONE,
}
"""What stands elsewhere, each with why it may."""

METHODS = {
    "mkdir",
    "makedirs",
    "touch",
    "write_text",
    "write_bytes",
    "bind",
    "mkfifo",
    "mknod",
    "chmod",
    "fchmod",
    "umask",
}
LINKS = {"symlink", "symlink_to", "hardlink_to", "link"}
COPIES = {f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move")}
FLAGS = {"O_CREAT", "O_TMPFILE", "OPENING"}
SQL = ("VACUUM INTO", "ATTACH ")


def found(path: Path) -> Iterator[str]:
    """What in a module may make something in the file system, or change who may open it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield from called(node)
        elif isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in FLAGS or ast.unparse(node) in COPIES:
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (word.strip() for word in SQL if node.value.startswith(word))


def called(call: ast.Call) -> Iterator[str]:
    function = ast.unparse(call.func)
    of, _, name = function.rpartition(".")
    if (
        (of == "tempfile" and name != "gettempdir")
        or function == "sqlite3.connect"
        or (of and name in METHODS | LINKS and not is_other(call, of, name))
    ):
        yield function
    elif name == "open" and of != "os":
        modes = [*call.args[(0 if of else 1) :][:1], *(each.value for each in call.keywords if each.arg == "mode")]
        if any(map(is_for_writing, modes)):
            yield function


def is_for_writing(mode: ast.expr) -> bool:
    """A mode that cannot be read here may be one."""
    if not isinstance(mode, ast.Constant):
        return "mode" in ast.unparse(mode)
    return set(str(mode.value)) <= set("rwaxbt+") and not set(str(mode.value)).isdisjoint("wax+")


def is_other(call: ast.Call, of: str, name: str) -> bool:
    """A function of symd's own of that name, which is not called as those of ``Path`` are."""
    return (name == "write_bytes" and len(call.args) == 2) or (of, name) == ("rows", "touch")


def test_nothing_is_made_elsewhere() -> None:
    made = {
        (str(path.relative_to(ROOT)), what) for path in ROOT.rglob("*.py") if path != HELPER for what in found(path)
    }
    assert sorted(made - ALLOWED.keys()) == [], (
        "make it with symd/system/private_files.py, or say here which output it is"
    )
    assert sorted(ALLOWED.keys() - made) == [], "this is gone: take it out"


@pytest.mark.parametrize(
    "line",
    [
        "open(path, 'w')",
        "path.open('xb')",
        "path.open(mode)",
        "open(path, mode='r+b')",
        "os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)",
        "path.mkdir()",
        "os.makedirs(path)",
        "path.write_text('text')",
        "path.write_bytes(data)",
        "path.touch()",
        "tempfile.mkdtemp()",
        "tempfile.TemporaryDirectory()",
        "shutil.copyfile(one, other)",
        "shutil.copytree(one, other, copy_function=shutil.copy2)",
        "sqlite3.connect(path)",
        "connection.execute('VACUUM INTO ?', (path,))",
        "listener.bind(path)",
        "os.umask(0)",
        "path.chmod(0o644)",
        "path.symlink_to(other)",
    ],
)
def test_every_way_to_make_one_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(line)
    assert [*found(tmp_path / "module.py")]


@pytest.mark.parametrize("line", ["open(path)", "path.open('rb')", "os.open(path, os.O_RDONLY)", "path.read_bytes()"])
def test_what_only_reads_is_not(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(line)
    assert not [*found(tmp_path / "module.py")]
