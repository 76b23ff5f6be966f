"""limited.py and conftest.py: a test that waits without an end is told and ended."""

import pathlib
import signal
import subprocess
import sys
import time

import limited
import pytest

CONFTEST = pathlib.Path(__file__).parent / "conftest.py"
WAITS = "import subprocess, sys, time\nprint('begun')\nsubprocess.Popen(['sleep', '{n}'])\ndef deep():\n    time.sleep(100)\n{how}\n"


def test_a_program_that_takes_too_long_says_where_it_was():
    begun = time.monotonic()
    with pytest.raises(AssertionError, match=r"took longer than 1.5 s; it printed:\nbegun\n[\s\S]*in deep"):
        limited.run([sys.executable, "-c", WAITS.format(n=101, how="deep()")], limit=1.5)
    assert time.monotonic() - begun < 60


def test_what_a_program_leaves_behind_is_not_waited_for():
    """It holds the program's output open."""
    begun = time.monotonic()
    done = limited.run([sys.executable, "-c", WAITS.format(n=102, how="sys.exit(3)")])
    assert (done.returncode, done.stdout) == (3, "begun\n") and time.monotonic() - begun < 60


@pytest.mark.check
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_is_stopped_says_where_it_was(workers, tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"))
    (tmp_path / "test_waits.py").write_text(
        "import pathlib, threading\ndef test_lock():\n    threading.Timer(1, pathlib.Path('begun').touch).start()\n"
        "    threading.Event().wait()\n"  # a signal just ahead of it would be handled behind it, which is never
    )
    run = subprocess.Popen([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"-n{workers}", "."],
                           cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 200
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    out, errors = run.communicate(timeout=200)
    told = "SIGTERM in test_waits.py::test_lock" in out or workers  # they tell by their stacks alone
    assert run.returncode == 143 and told and "in test_lock" in errors, (out, errors)
