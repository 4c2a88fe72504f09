"""Python programs: what runs inside them is not noticed, and Triton's modules arrive; with a Triton made for the test, and the real one."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.capture.folder_sink import events_of
from symd.capture.run_folder import written_at
from symd.model.captures import ModuleFound, ModuleLoaded
from tests.capture.stand_in import COMMAND, DATA, DEVICE, FOUND, KERNEL, SOURCE, Run, run_stand_in
from tests.daemon.processes import serving

ROOT = Path(__file__).parents[2]
INJECTED = ROOT / "symd" / "capture" / "injected"
PROGRAM = Path(__file__).parent / "programs" / "triton_add.py"

KNOBS = """
class HookChain:
    def __init__(self):
        self.calls = []
    def add(self, call):
        self.calls.append(call)
    def remove(self, call):
        self.calls.remove(call)
    def __call__(self, *arguments):
        for call in self.calls:
            call(*arguments)

class compilation:
    listener = None

class runtime:
    kernel_load_end_hook = HookChain()
    kernel_unload_hook = HookChain()
"""
TRITON = """
from triton import knobs

def compile(path, name="k", hit=False):
    group = {f"{name}.json": path + ".json", f"{name}.cubin": path}
    if knobs.compilation.listener:
        metadata = {"name": name, "target": {"backend": "cuda", "arch": 90}}
        knobs.compilation.listener(src=None, metadata=metadata, metadata_group=group, times=None, cache_hit=hit)
    return group

def load(group, name="k"):
    knobs.runtime.kernel_load_end_hook(4096, 8192, name, group, "hash")

def unload(group, name="k"):
    knobs.runtime.kernel_unload_hook(4096, 8192, name, group, "hash")
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with run_stand_in(tmp_path) as stand_in:
        yield stand_in


@pytest.fixture
def triton(tmp_path: Path) -> Path:
    """The folder of a package with Triton's listener and hooks, and nothing else of it."""
    package = tmp_path / "path" / "triton"
    package.mkdir(parents=True)
    (package / "knobs.py").write_text(KNOBS)
    (package / "__init__.py").write_text(TRITON)
    return package.parent


def python(program: str, *paths: Path, run: Run | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program with the injected folder in front of its path where ``run`` is given."""
    entries = [*([INJECTED] if run else []), *paths]
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, entries)), **environment}
    if run:
        clean["SYMD_CAPTURE"] = str(run.folder)
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, env=clean, check=False)


SHOWN = """
    import json, sys
    print(json.dumps({"path": sys.path, "meta": [type(each).__name__ for each in sys.meta_path], "modules": sorted(sys.modules)}))
"""


def test_a_program_without_triton_notices_next_to_nothing(run: Run, triton: Path) -> None:
    bare = json.loads(python(SHOWN, triton).stdout)
    captured = json.loads(python(SHOWN, triton, run=run).stdout)
    assert captured["path"] == bare["path"]
    assert set(captured["modules"]) - set(bare["modules"]) <= {"sitecustomize", "symd_after_import", "__future__"}
    assert len(captured["meta"]) == len(bare["meta"]) + 1
    assert run.records() == []


def test_the_sitecustomize_of_the_user_has_its_turn(run: Run, triton: Path) -> None:
    (triton / "sitecustomize.py").write_text("print('mine', __file__)")
    for captured in (None, run):
        outcome = python("import sitecustomize; print(sitecustomize.__file__)", triton, run=captured)
        assert outcome.stdout == f"mine {triton}/sitecustomize.py\n{triton}/sitecustomize.py\n"
        assert outcome.stderr == ""


def test_any_python_can_read_what_it_imports_first() -> None:
    """Syntax that Python 2.7 has too: where it has not, it prints that the import failed."""
    tree = ast.parse((INJECTED / "sitecustomize.py").read_text())
    newer = (ast.AnnAssign, ast.JoinedStr, ast.AsyncFunctionDef, ast.NamedExpr, ast.Nonlocal, ast.YieldFrom, ast.Match)
    assert not [node for node in ast.walk(tree) if isinstance(node, newer)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
            assert not [each for each in (*node.args.args, *node.args.kwonlyargs) if each.annotation]
        if isinstance(node, ast.Raise):
            assert node.cause is None


def test_an_error_in_it_is_shown_as_without_symd(run: Run, triton: Path) -> None:
    (triton / "sitecustomize.py").write_text("import a_module_that_nobody_has")
    bare, captured = python("print(1)", triton), python("print(1)", triton, run=run)
    assert (captured.stdout, captured.returncode) == (bare.stdout, bare.returncode)
    assert bare.stderr.splitlines()[-1:] == captured.stderr.splitlines()[-1:]


def test_what_is_compiled_arrives_and_what_is_loaded_others_tell(run: Run, triton: Path, tmp_path: Path) -> None:
    binary = tmp_path / "k.cubin"
    binary.write_bytes(b"\x7fELF" + b"code" * 5000)
    outcome = python(
        f"import triton; group = triton.compile({str(binary)!r}); triton.load(group); triton.unload(group)",
        triton,
        run=run,
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")
    (found,) = run.records()
    assert (found.kind, found.handle) == (FOUND, 0)
    assert (found.api, found.way) == (5, 4)
    assert found.fields[DATA] == binary.read_bytes()
    assert found.fields[KERNEL] == b"k"
    assert found.fields[DEVICE] == b"cuda 90"
    assert found.fields[SOURCE] == os.fsencode(binary)
    assert found.fields[COMMAND].split(b"\0")[:2] == [os.fsencode(sys.executable), b"-c"]


def test_the_programs_own_listener_is_called_as_before(run: Run, triton: Path, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"k")
    outcome = python(
        f"""
        from triton import knobs
        import triton
        before = knobs.compilation.listener
        def mine(**what):
            print(sorted(what), what["cache_hit"])
            before(**what)
        knobs.compilation.listener = mine
        triton.compile({str(tmp_path / "k")!r}, hit=True)
        """,
        triton,
        run=run,
    )
    assert outcome.stdout == "['cache_hit', 'metadata', 'metadata_group', 'src', 'times'] True\n"
    assert [record.kind for record in run.records()] == [FOUND]


def test_where_nobody_listens_a_file_is_left(run: Run, triton: Path, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"k" * 3000)
    run.listener.close()
    outcome = python(f"import triton; triton.compile({str(tmp_path / 'k')!r})", triton, run=run)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    (record,) = run.spooled()
    assert record.fields[DATA] == b"k" * 3000
    (path,) = (run.folder / "spool").glob("*.record")
    assert 0 < written_at(path) <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def test_a_process_that_may_not_read_its_own_memory_file_has_the_same_number() -> None:
    program = f"""
        import builtins, importlib.util
        spec = importlib.util.spec_from_file_location("injected", {str(INJECTED / "symd_capture.py")!r})
        injected = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(injected)
        real, before = open, injected._image()
        def refuse(path, *rest, **more):
            if str(path).startswith("/proc/self/"):
                raise PermissionError(13, "Permission denied", path)
            return real(path, *rest, **more)
        builtins.open = refuse
        print(before != 0 and injected._image() == before)
    """
    outcome = python(program)
    assert (outcome.stdout, outcome.stderr) == ("True\n", "")


def test_what_could_not_be_handed_over_is_counted_in_the_next_record(run: Run, triton: Path, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"k")
    program = f"""
        import os, triton
        here = {str(run.folder)!r}
        os.rename(here, here + "-away")
        triton.compile({str(tmp_path / "k")!r})
        triton.compile({str(tmp_path / "k")!r})
        os.rename(here + "-away", here)
        triton.compile({str(tmp_path / "k")!r})
    """
    outcome = python(program, triton, run=run)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert [record.lost for record in run.records()] == [2]


def test_a_program_that_forks_closes_and_ends_at_once_loses_nothing(run: Run, triton: Path, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"k" * 3000)
    program = f"""
        import os, triton
        triton.compile({str(tmp_path / "k")!r}, "parent")
        child = os.fork()
        os.closerange(3, 100)
        triton.compile({str(tmp_path / "k")!r}, "child" if child == 0 else "after")
        if child:
            os.waitpid(child, 0)
        os._exit(7)
    """
    outcome = python(program, triton, run=run)
    assert (outcome.returncode, outcome.stderr) == (7, "")
    told = {record.fields[KERNEL].decode(): record.process for record in run.records()}
    assert set(told) == {"parent", "child", "after"}
    assert told["parent"] == told["after"] != told["child"]


def test_a_file_that_is_gone_does_not_reach_the_program(run: Run, triton: Path, tmp_path: Path) -> None:
    outcome = python(f"import triton; print(triton.compile({str(tmp_path / 'gone')!r}))", triton, run=run)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert run.records() == []


STARTED = """
    import json, logging, sys
    import symd.capture
    from symd.errors import StoreUnavailable
    logging.basicConfig(stream=sys.stdout, format="%(name)s: %(message)s")
    class Sink:
        def take(self, event):
            print(type(event).__name__, getattr(event, "kernels", ()), len(getattr(event, "data", b"")), event.process.process > 0)
            if getattr(event, "kernels", ()) == ("refused",):
                raise StoreUnavailable("the disk is full")
"""


def test_a_program_may_capture_itself(triton: Path, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"k" * 100)
    path = str(tmp_path / "k")
    outcome = python(
        STARTED
        + f"""
    with symd.capture.start(Sink()):
        import triton
        group = triton.compile({path!r})
        triton.load(group)
        triton.unload(group)
        triton.compile({path!r}, "refused")
    triton.compile({path!r}, "unseen")
    from triton import knobs
    print(knobs.compilation.listener, knobs.runtime.kernel_load_end_hook.calls)
    """,
        triton,
        ROOT,
    )
    assert outcome.stderr == ""
    assert outcome.stdout.splitlines() == [
        "ModuleFound ('k',) 100 True",
        "ModuleLoaded ('k',) 100 True",
        "ModuleUnloaded () 0 True",
        "ModuleFound ('refused',) 100 True",
        "symd.capture: a module of Triton's was not kept: the disk is full",
        "None []",
    ]


def test_a_program_may_capture_itself_into_a_folder(triton: Path, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"k" * 100)
    program = f"""
        import symd.capture, triton
        symd.capture.start({str(tmp_path / "captures")!r})
        triton.load(triton.compile({str(tmp_path / "k")!r}))
    """
    outcome = python(program, triton, ROOT)
    assert (outcome.stderr, outcome.returncode) == ("", 0)
    events = [event for event, _ in events_of(tmp_path / "captures")]
    assert [type(event) for event in events] == [ModuleFound, ModuleLoaded]
    assert {event.data for event in events if isinstance(event, ModuleFound | ModuleLoaded)} == {b"k" * 100}


def test_what_has_stopped_leaves_nothing(triton: Path, tmp_path: Path) -> None:
    program = f"""
        import gc, os, symd.capture
        for _ in range(3):
            symd.capture.start({str(tmp_path / "captures")!r}).stop()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            capture = symd.capture.start({str(tmp_path / "captures")!r})
            capture.stop()
            capture.stop()
        del capture
        gc.collect()
        kept = [each for each in gc.get_objects() if type(each).__name__ in ("_Teller", "FolderSink")]
        print(len(os.listdir("/proc/self/fd")) - before, len(kept), flush=True)
        if os.fork() == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    outcome = python(program, triton, ROOT)
    assert (outcome.stdout, outcome.stderr) == ("0 0\n0\n", "")


def test_a_module_that_is_looked_for_before_it_is_imported_is_heard_of(tmp_path: Path) -> None:
    """Two that listen hear of it once each, and one that has stopped does not."""
    (tmp_path / "plain.py").write_text("")
    program = """
        import importlib.util, sys
        from symd.capture.injected.symd_after_import import AfterImport
        heard = []
        first, second, third = (AfterImport("plain", lambda knobs, name=name: heard.append(name)) for name in "abc")
        for each in (first, second, third):
            each.start()
        early = importlib.util.find_spec("plain")
        third.stop()
        import plain
        print(sorted(heard))
        early.loader.exec_module(importlib.util.module_from_spec(early))
        print(sorted(heard), [each for each in sys.meta_path if isinstance(each, AfterImport)])
    """
    outcome = python(program, tmp_path, ROOT)
    assert (outcome.stdout, outcome.stderr) == ("['a', 'b']\n['a', 'b'] []\n", "")


def test_a_program_may_capture_itself_into_a_daemon(triton: Path, tmp_path: Path) -> None:
    binary = tmp_path / "k"
    binary.write_bytes(min((ROOT / "samples" / "cuda" / "bin").glob("*.cubin")).read_bytes())
    with serving(tmp_path) as daemon:
        program = f"""
            import symd.capture, triton
            from symd import Client
            with Client({daemon.address!r}) as client, symd.capture.start(client):
                triton.load(triton.compile({str(binary)!r}))
        """
        outcome = python(program, triton, ROOT)
        assert (outcome.stderr, outcome.returncode) == ("", 0)
        with daemon.client() as client:
            (module,) = client.modules()
            assert module.sha256 == hashlib.sha256(binary.read_bytes()).hexdigest()
            (context,) = client.contexts.all()
            ((_, load),) = client.contexts.loads(context.id)
            assert load.module == module.sha256


def test_a_start_that_nobody_would_hear_of_is_refused() -> None:
    outcome = python("import symd.capture; symd.capture.start()", ROOT)
    assert (
        "nobody would be told of modules (start the program with symd run, or give start() a folder or a Client)"
        in outcome.stderr
    )


def test_a_program_that_symd_runs_may_start_too_and_is_heard_once(run: Run, triton: Path, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"k")
    program = f"import symd.capture, triton; symd.capture.start(); triton.compile({str(tmp_path / 'k')!r})"
    outcome = python(program, triton, ROOT, run=run)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert len(run.records()) == 1


REAL = os.environ.get("SYMD_TRITON_PYTHON", "")


@pytest.mark.skipif(not REAL, reason="SYMD_TRITON_PYTHON names no Python with Triton")
@pytest.mark.parametrize("cached", [False, True])
def test_the_real_triton_tells_what_it_compiles(run: Run, tmp_path: Path, cached: bool) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    bare = subprocess.run([REAL, PROGRAM], capture_output=True, text=True, env=environment, check=True)
    if not cached:
        environment["TRITON_CACHE_DIR"] = str(tmp_path / "fresh")
    environment |= {"PYTHONPATH": str(INJECTED), "SYMD_CAPTURE": str(run.folder)}
    captured = subprocess.run([REAL, PROGRAM], capture_output=True, text=True, env=environment, check=True)
    assert captured.stdout == bare.stdout
    cubin, hsaco = run.records()
    assert (cubin.kind, cubin.fields[KERNEL], cubin.fields[DEVICE]) == (FOUND, b"add", b"cuda 90")
    assert (hsaco.kind, hsaco.fields[KERNEL], hsaco.fields[DEVICE]) == (FOUND, b"add", b"hip gfx942")
    for record, machine in ((cubin, 190), (hsaco, 224)):
        assert record.fields[DATA] == Path(os.fsdecode(record.fields[SOURCE])).read_bytes()
        assert int.from_bytes(record.fields[DATA][18:20], "little") == machine


@pytest.mark.skipif(not REAL, reason="SYMD_TRITON_PYTHON names no Python with Triton")
def test_what_the_real_triton_compiled_symbolizes(run: Run, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SYMD_CAPTURE": str(run.folder)}
    environment["PYTHONPATH"] = str(INJECTED)
    subprocess.run([REAL, PROGRAM], capture_output=True, env=environment, check=True)
    for record in run.records():
        module = tmp_path / "module"
        module.write_bytes(record.fields[DATA])
        command = [sys.executable, "-m", "symd", "symbolize", "--json", str(module), "add+0x100"]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout)
        assert answer["frames"][-1]["function"] == "add"
        assert Path(answer["frames"][0]["file"]).name == PROGRAM.name
