"""Programs that tests start: each has a limit, and one that passes it tells where it was. Neither it nor what it has started is left."""

import os
import signal
import subprocess
import tempfile

GRACE = 10  # seconds in which a program that is stopped prints its stacks


def run(command, environment=None, limit=300):
    """The finished program, with its output as text. `limit`: seconds. One that takes longer is an AssertionError with all that it has
    printed and, of a Python program, the stack of each thread. Output goes to files: a pipe would stay open for as long as a process
    that the program has left behind, such as a worker of a compiler, holds it."""
    environment = {
        **(os.environ if environment is None else environment),
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
    }
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        def told():
            return [file.read() for file in (out, errors) if file.seek(0) == 0]

        started = subprocess.Popen(command, env=environment, stdout=out, stderr=errors, start_new_session=True)
        try:
            started.wait(limit)
        except subprocess.TimeoutExpired:
            _signal(started, signal.SIGABRT)
            try:
                started.wait(GRACE)
            except subprocess.TimeoutExpired:
                pass
            raise AssertionError(f"{command} took longer than {limit} s; it printed:\n" + "\n".join(told())) from None
        finally:
            _signal(started, signal.SIGKILL)
            started.wait()
        return subprocess.CompletedProcess(command, started.returncode, *told())


def _signal(started, which):
    """To the program and all that it has started."""
    try:
        os.killpg(started.pid, which)
    except ProcessLookupError:
        pass
