"""What a driver's process can reach: a loader library that tries everything, and the real compiler with flags that try."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from symd import errors
from symd.capture.drivers import Confinement, grab, runner
from symd.config import Limits
from symd.model.grabs import GrabRequest
from symd.system.process import confinement as process_confinement
from symd.system.process import seccomp
from symd.system.process.seccomp import ALLOWED, CHECKED
from tests.live.conftest import Target, demand

TEXT = "a_secret_of_the_daemons_user is_a_type_of_nobody;"
"""No OpenCL C, so that a compiler that reads it says so and prints it."""
needs_landlock = pytest.mark.skipif(
    not process_confinement.available(),
    reason="this kernel has no Landlock, or this machine's system calls are not known",
)


@pytest.fixture
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that the user of this process alone can read."""
    path = tmp_path_factory.mktemp("home") / "secret.h"
    path.write_text(TEXT)
    path.chmod(0o600)
    return path


@pytest.fixture
def printed(level_zero):
    """What a C function printed before it aborted."""

    def take(body: str, include: Sequence[str] = (), **more: object) -> str:
        headers = (
            *include,
            "errno",
            "fcntl",
            "signal",
            "string",
            "sys/socket",
            "sys/stat",
            "sys/un",
            "sys/wait",
            "spawn",
            "pthread",
        )
        source = "".join(f"#include <{name}.h>\n" for name in headers)
        with pytest.raises(errors.DriverCrashed) as caught:
            level_zero(f"{source}int zeInit(int f) {{\n{body}\nfflush(0); abort(); }}", **more)
        return caught.value.metadata["output"]

    return take


def reading(path: object) -> str:
    return f"""
        char text[4096] = ""; int file = open("{path}", O_RDONLY);
        if (file < 0) printf("errno %d\\n", errno);
        else {{ long size = read(file, text, sizeof text); for (long i = 0; i < size; i++) putchar(text[i] ? text[i] : 10); }}
    """


@needs_landlock
def test_a_file_of_the_daemons_user_is_not_read(printed, secret: Path) -> None:
    assert TEXT in printed(reading(secret), confinement=Confinement.NONE)
    assert printed(reading(secret)) == f"errno {13}\n"


@needs_landlock
@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/hostname", "/proc/1/status", "/root", "/home", "/dev/shm", "/"])
def test_nor_is_one_of_the_system_that_no_driver_needs(printed, path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"no {path} here")
    assert printed(reading(path)) == "errno 13\n"


@needs_landlock
def test_a_link_does_not_help(printed, secret: Path) -> None:
    text = printed(f'printf("%d %d\\n", symlink("{secret}", "link"), link("{secret}", "hard"));' + reading("link"))
    assert text == "-1 -1\nerrno 2\n"


@needs_landlock
def test_nothing_is_written_outside_its_folder(printed, secret: Path) -> None:
    for name in (secret, secret.with_name("new")):
        assert (
            printed(f'printf("%d\\n", open("{name}", O_WRONLY | O_CREAT | O_TRUNC, 0600)); unlink("{name}");') == "-1\n"
        )
    assert secret.read_text() == TEXT
    assert printed('int file = open("mine", O_RDWR | O_CREAT, 0600); printf("%ld\\n", write(file, "x", 1));') == "1\n"


@needs_landlock
def test_the_environment_is_its_own(printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMD_A_PASSWORD", TEXT)
    mine = printed(reading("/proc/self/environ"))
    assert TEXT not in mine
    assert set(re.findall(r"^(\w+)=", mine, re.MULTILINE)) >= {"HOME", "PATH", "TMPDIR"}
    assert re.search(r"^HOME=\S*symd-driver-", mine, re.MULTILINE)


@needs_landlock
def test_nor_is_that_of_the_process_that_started_it_seen(
    level_zero, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a process that began with a secret in its environment, as a daemon would."""
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import os, sys\n"
        "from symd.config import Limits\nfrom symd.capture.drivers import Confinement, grab\nfrom symd.errors import DriverCrashed\n"
        "from symd.model.grabs import GrabRequest\nfrom tests.capture.drivers.conftest import SPIRV\n"
        "request = GrabRequest('level-zero', 'spirv', SPIRV, driver='made')\n"
        "try: grab(request, Limits(), {'made': sys.argv[1]}, Confinement(sys.argv[2]))\n"
        "except DriverCrashed as error: print(error.metadata['output'])\n"
    )
    body = 'char path[99]; sprintf(path, "/proc/%d/environ", getppid());' + reading("PATH").replace('"PATH"', "path")
    with pytest.raises(errors.DriverCrashed):
        level_zero(f"#include <errno.h>\n#include <fcntl.h>\nint zeInit(int f) {{ {body} fflush(0); abort(); }}")
    environment = {
        **os.environ,
        "SYMD_A_PASSWORD": TEXT,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
    }

    def seen(kind: str) -> str:
        command = [sys.executable, str(probe), str(tmp_path), kind]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert TEXT in seen("environment")
    assert seen("full").strip() == "errno 13"


@needs_landlock
@pytest.mark.parametrize(
    "attempt",
    [
        "fork()",
        "vfork()",
        'posix_spawn(&child, "/bin/true", 0, 0, words, words) ? -1 : 0',
        'execve("/bin/true", words, words)',
        "socket(AF_UNIX, SOCK_STREAM, 0)",
        "socket(AF_INET, SOCK_STREAM, 0)",
        "kill(getppid(), 0)",
        "kill(-1, 0)",
        "system(0) ? -1 : 0",
    ],
)
def test_it_starts_nothing_and_reaches_nobody(printed, attempt: str) -> None:
    said = printed(f'char *words[] = {{0}}; int child; printf("result %d\\n", {attempt});')
    if attempt != "system(0) ? -1 : 0":  # asks whether there is a shell, which starts none
        assert said == "result -1\n"


REFUSED = """
    chmod fchmod fchmodat chown lchown fchown fchownat utime utimes utimensat futimesat setxattr lsetxattr fsetxattr
    removexattr lremovexattr fremovexattr getxattr truncate link linkat symlink symlinkat mknod mknodat
    setrlimit setpriority sched_setscheduler sched_setparam sched_setattr ioprio_set ptrace kcmp process_madvise
    process_vm_readv process_vm_writev pidfd_open pidfd_send_signal pidfd_getfd migrate_pages move_pages tkill
    rt_sigqueueinfo rt_tgsigqueueinfo socket socketpair connect bind listen accept sendto sendmsg
    fork vfork execve execveat unshare setns personality prctl
    keyctl add_key request_key shmget shmat shmctl semget semop semctl msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_notify perf_event_open bpf userfaultfd io_uring_setup io_uring_enter io_uring_register
    mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
    memfd_create memfd_secret name_to_handle_at open_by_handle_at fanotify_init inotify_init1
    swapon swapoff reboot kexec_load init_module finit_module delete_module iopl ioperm modify_ldt quotactl acct syslog
    settimeofday adjtimex clock_settime sethostname setdomainname vhangup setuid setgid setsid setpgid setgroups capset
    landlock_create_ruleset seccomp mlock mlockall vmsplice tee splice lookup_dcookie
""".split()  # noqa: SIM905 - so they can be read


@needs_landlock
def test_calls_that_computing_does_not_take_are_refused(printed) -> None:
    """Each with arguments of which the kernel says something else than EPERM, or with which the call would work."""
    calls = "".join(
        f"#ifdef SYS_{name}\n errno = 0; if (syscall(SYS_{name}, -7, -7, -7, -7, -7, -7) != -1 || errno != EPERM)"
        f' printf("{name} %d\\n", errno);\n#endif\n'
        for name in REFUSED
    )
    assert printed('printf("begun\\n");\n' + calls, include=("sys/syscall",)) == "begun\n"


@needs_landlock
@pytest.mark.parametrize(
    ("attempt", "errno"),
    [
        ("syscall(SYS_prlimit64, getppid(), RLIMIT_NOFILE, 0, &limit)", 1),
        ("syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, 0)", 1),
        ("syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit)", 0),
        ("syscall(SYS_sched_setaffinity, getppid(), 8, &bits)", 1),
        ("syscall(SYS_sched_setaffinity, 0, 8, &bits)", 0),
        ("fcntl(1, F_SETOWN, getppid())", 1),
        ("fcntl(1, 10 /* F_SETSIG */, 9)", 1),
        ("fcntl(1, F_GETFL) < 0", 0),
        ("ioctl(0, TIOCSTI, &bits)", 1),
        ("ioctl(0, FIOASYNC, &bits)", 1),
        ("ioctl(0, 0x40086602 /* FS_IOC_SETFLAGS */, &bits)", 1),
        ("ioctl(0, 0xC0406400 /* DRM_IOCTL_VERSION */, &bits)", 25),
        ("prctl(1 /* PR_SET_PDEATHSIG */, 0)", 1),
        ('prctl(15 /* PR_SET_NAME */, "driver")', 0),
        ("syscall(SYS_clone, 0x10000000 /* CLONE_NEWUSER */ | SIGCHLD, 0, 0, 0, 0)", 1),
        ("syscall(435 /* clone3 */, 0, 0)", 38),
        ("syscall(9999)", 38),
    ],
)
def test_of_other_calls_what_is_its_own_alone(printed, attempt: str, errno: int) -> None:
    body = f'struct rlimit limit = {{64, 64}}; long bits = 1; errno = 0; long got = {attempt}; printf("%d", got ? errno : 0);'
    headers = ("sys/syscall", "sys/resource", "sys/ioctl", "sys/prctl")
    assert int(printed(body, include=headers)) == errno


@needs_landlock
def test_files_that_it_may_not_read_keep_their_modes_owners_and_times(printed, secret: Path) -> None:
    change = (
        f'chmod("{secret}", 0666); utimensat(AT_FDCWD, "{secret}", 0, 0); truncate("{secret}", 0);'
        f' setxattr("{secret}", "user.mark", "x", 1, 0); printf("begun");'
    )
    os.utime(secret, (0, 0))
    assert printed(change, include=("sys/xattr",)) == "begun"
    now = secret.stat()
    assert (now.st_mode & 0o777, now.st_mtime, now.st_size, os.listxattr(secret)) == (0o600, 0, len(TEXT), [])
    printed(change, include=("sys/xattr",), confinement=Confinement.NONE)
    assert (secret.stat().st_mode & 0o777, secret.stat().st_size) == (0o666, 0)


def test_the_numbers_of_calls_are_those_of_the_kernels_headers() -> None:
    headers = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h")
    if not all(path.exists() for path in headers):
        pytest.skip("the kernel's headers are not installed")
    mine, generic = (
        {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", path.read_text())}
        for path in headers
    )
    generic["newfstatat"] = generic["fstatat"]
    for name, numbers in {**ALLOWED, **CHECKED}.items():
        assert numbers == (mine.get(name), generic.get(name)), name


@needs_landlock
def test_threads_are_started(printed) -> None:
    source = 'void *run() { printf("ran "); return 0; } pthread_t it; printf("%d", pthread_create(&it, 0, run, 0)); '
    assert sorted(printed(source + "pthread_join(it, 0);").split("ran ")) == ["", "0"]


def test_a_kernel_that_cannot_confine_runs_no_driver(
    level_zero, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child says no by itself, whatever its parent believed."""
    script = runner._START.replace(
        "from symd.capture.drivers.child",
        "import symd.system.process.confinement as l; l.version = lambda: 0\nfrom symd.capture.drivers.child",
    )
    monkeypatch.setattr(runner, "_START", script)
    mark = tmp_path / "mark"
    with pytest.raises(
        errors.FailedPrecondition, match=r"cannot be confined: this kernel has no Landlock.*grab-unconfined"
    ):
        level_zero(f'int zeInit(int f) {{ creat("{mark}", 0600); abort(); }}', confinement=Confinement.FULL)
    assert not mark.exists()


def test_the_strongest_is_what_the_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_confinement, "version", lambda: 0)
    assert runner.strongest() is Confinement.ENVIRONMENT
    monkeypatch.setattr(process_confinement, "version", lambda: 1)
    monkeypatch.setattr(seccomp, "available", lambda: True)
    assert runner.strongest() is Confinement.FULL


@needs_landlock
@pytest.mark.parametrize("version", range(1, process_confinement.version() + 1))
def test_older_interfaces_of_landlock_keep_files_out_as_well(tmp_path: Path, version: int) -> None:
    """A kernel takes the rules of each older version."""
    secret = tmp_path / "secret"
    secret.write_text(TEXT)
    program = (
        f"import os, symd.system.process.confinement as l; l.version = lambda: {version}\n"
        "l.restrict([(os.path.dirname(os.__file__), l.READ)])\n"
        f"open(os.__file__).close()\nopen({str(secret)!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1].startswith("PermissionError")


def test_a_filter_for_another_interface_of_the_processor_ends_the_process(tmp_path: Path) -> None:
    """32-bit system calls have other numbers; the filter must not let them by."""
    compiler = shutil.which("cc")
    if compiler is None or not seccomp.available():
        pytest.skip("no C compiler, or system calls are not known here")
    code = 'int main() { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return 0; }'
    program = (
        "import ctypes, sys, symd.system.process.seccomp as s\n"
        "library = ctypes.CDLL(sys.argv[1]); s.restrict(threads=True); library.main(); print('went on')"
    )
    library = str(tmp_path / "l.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=code, text=True, check=True)
    done = subprocess.run([sys.executable, "-c", program, library], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGSYS
    assert "went on" not in done.stdout


MIB = 1 << 20


@needs_landlock
@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ('int f = creat("f", 0600); for (;;) if (write(f, text, sizeof text) < 0) pause();', "driver_disk"),
        (
            (
                'for (int i = 0;; i++) { char n[9]; sprintf(n, "%d", i); int f = creat(n, 0600); if (i > 100) pause();'
                " for (int j = 0; j < 16; j++) write(f, text, sizeof text); }"
            ),
            "driver_disk",
        ),
        (
            (
                'for (int i = 0;; i++) { int f = creat("f", 0600); unlink("f"); if (i > 100) pause();'
                " for (int j = 0; j < 16; j++) write(f, text, sizeof text); }"
            ),
            "driver_disk",
        ),
        ('int f = creat("f", 0600); posix_fallocate(f, 0, 1L << 40); for (;;) pause();', "driver_disk"),
        ('for (int i = 0; i < 5000; i++) { char n[9]; sprintf(n, "%d", i); mkdir(n, 0); } pause();', "driver_files"),
        ('for (int i = 0; i < 5000; i++) { mkdir("d", 0700); chdir("d"); } pause();', "driver_files"),
        (
            (
                "pthread_t it; pthread_attr_t small; pthread_attr_init(&small); pthread_attr_setstacksize(&small, 65536);"
                " for (int i = 0; i < 1000; i++) pthread_create(&it, &small, (void *)pause, 0); pause();"
            ),
            "driver_threads",
        ),
    ],
)
def test_what_it_writes_and_starts_is_bounded(level_zero, body: str, limit: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name, value in (("DRIVER_DISK", 8 * MIB), ("DRIVER_FILES", 200), ("DRIVER_THREADS", 20)):
        monkeypatch.setattr(runner, name, value)
    headers = "".join(f"#include <{name}.h>\n" for name in ("fcntl", "sys/stat", "pthread"))
    source = f"{headers} static char text[1 << 16]; int zeInit(int flags) {{ {body} }}"
    with pytest.raises(errors.LimitExceeded) as caught:
        level_zero(source)
    assert caught.value.metadata["limit"] == limit
    assert not list((tmp_path / "tmp").iterdir()), "nothing is left, however deep and unreadable"


KERNEL = "kernel void f(global int *a) { a[0] = 1; }"
ATTEMPTS = [
    ("-g", '#include "SECRET_FILE"'),
    ("-g -ISECRET_FOLDER", '#include "secret.h"'),
    ("-g -I/", '#include "SECRET_FILE"'),
    ("-g -include SECRET_FILE", ""),
    ("-g", '#include "/proc/PARENT/environ"'),
    ("-g", '#include "/etc/shadow"'),
    ("-g -include /etc/passwd", ""),
    ("-g -Xclang -load -Xclang SECRET_FILE", ""),
    ("-g @SECRET_FILE", ""),
    ("-g", '__asm__(".incbin \\"SECRET_FILE\\"");'),
]


def said_by_the_compiler(secret: Path, flags: str, source: str, kind: Confinement) -> str:
    """All that comes back of a build."""
    demand(Target("dg2", None), "opencl")
    words = {"SECRET_FILE": secret, "SECRET_FOLDER": secret.parent, "PARENT": os.getpid()}
    text = f"{source}\n{KERNEL}"
    for word, value in words.items():
        flags, text = flags.replace(word, str(value)), text.replace(word, str(value))
    try:
        request = GrabRequest("opencl", "source", text.encode(), flags, simulate="dg2")
        built = grab(request, Limits(), confinement=kind)
    except errors.BuildFailed as error:
        return f"{error} {error.metadata} {error.build_log}"
    return f"{built.build_log} {built.debug_data!r} {built.native!r}"


@pytest.mark.live
@needs_landlock
@pytest.mark.parametrize(("flags", "source"), ATTEMPTS)
def test_the_real_compiler_reads_no_file_for_a_client(flags: str, source: str, secret: Path) -> None:
    said = said_by_the_compiler(secret, flags, source, Confinement.FULL)
    assert said
    assert "a_secret" not in said
    assert "root:" not in said


@pytest.mark.live
@needs_landlock
def test_a_build_that_misses_a_file_says_that_there_is_none(secret: Path) -> None:
    said = said_by_the_compiler(secret, "-g", '#include "SECRET_FILE"', Confinement.FULL)
    assert "send the source with what it includes" in said


@pytest.mark.live
@pytest.mark.parametrize(("flags", "source"), ATTEMPTS[:3])
def test_unconfined_the_same_compiler_would(flags: str, source: str, secret: Path) -> None:
    """So that the test above can fail."""
    assert "a_secret" in said_by_the_compiler(secret, flags, source, Confinement.NONE)
