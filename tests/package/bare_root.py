"""A root folder with a Python, the C and C++ libraries that every distribution has, and nothing else: no compiler, no libgomp."""
import os
import pathlib
import shutil
import subprocess

# the C++ library is one that wheels may expect (PEP 600)
ALWAYS = ("libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2", "libnss_files.so.2")
# modules of Python that need libraries which the wheel has to bring along itself, or none of which is needed
LEFT_OUT = ("_tkinter", "_sqlite3", "_dbm", "_gdbm", "readline", "_curses", "_curses_panel", "nis")


def libraries_of(files):
    """What the dynamic linker loads for these."""
    text = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True).stdout
    words = (w for line in text.splitlines() for w in line.split())
    return {w for w in words if w.startswith("/") and not w.endswith(":")}


def copy(file, root):
    """A file under the name that it has here, whatever links lead to it."""
    target = root / str(file).lstrip("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def make(root, python):
    """Fills `root`, and returns where Python is in it."""
    query = "import sys, sysconfig; print(sys.base_prefix, sysconfig.get_path('stdlib'), *sys.version_info[:2])"
    answer = subprocess.run([python, "-c", query], check=True, capture_output=True, text=True).stdout
    prefix, standard, major, minor = answer.split()
    program = pathlib.Path(prefix, "bin", f"python{major}.{minor}")
    copy(program, root)
    ignored = shutil.ignore_patterns("test", "idlelib", "site-packages", "dist-packages", "__pycache__", "config-*",
                                     *(f"{m}.*" for m in LEFT_OUT))
    shutil.copytree(standard, root / standard.lstrip("/"), ignore=ignored)
    modules = (root / standard.lstrip("/")).glob("lib-dynload/*.so")
    for library in libraries_of([program, *modules]):
        copy(library, root)
    cache = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    for line in cache.splitlines():
        words = line.split()
        if words and words[0] in ALWAYS and "x86-64" in line:
            copy(words[-1], root)
    for folder in ("tmp", "root", "proc", "dev"):
        (root / folder).mkdir(exist_ok=True)
    (root / "dev/null").touch()
    return str(program)


def run(root, command, **environment):
    """Runs a command in the root folder, as root there; no variables of ours reach it."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    libraries = {f"/{f.parent.relative_to(root)}" for name in ("libc.so.6", "libstdc++.so.6") for top in ("lib", "usr")
                 for f in (root / top).rglob(name)}
    # the dynamic linker finds $ORIGIN of a program through /proc
    enter = 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"'
    return subprocess.run(["unshare", *user, "--mount", "sh", "-c", enter, str(root), *command], capture_output=True, text=True,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                               "LD_LIBRARY_PATH": ":".join(sorted(libraries)), **environment})
