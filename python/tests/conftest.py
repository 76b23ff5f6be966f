"""Marks: `check` for what `make test` leaves to `make check`, `long` for what both leave to `make test-python`. A run that is
stopped tells where it was, and no test runs on without an end."""

import contextlib
import faulthandler
import os
import signal
import sys
import zlib

import pytest

TOLD, STOPPED = 240, 900  # seconds of one test after which stacks are printed, and after which the run ends
ERRORS = pytest.StashKey()
WORKERS = []  # process ids


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes a minute or more; `make test` leaves it out")
    config.addinivalue_line("markers", "check: takes some seconds; `make check` runs it, `make test` does not")
    errors = os.fdopen(os.dup(2), "w")  # those of the run, which are not captured
    config.add_cleanup(faulthandler.cancel_dump_traceback_later)
    config.stash[ERRORS] = errors
    signal.signal(signal.SIGTERM, _stopped)
    faulthandler.register(signal.SIGTERM, file=errors, all_threads=True, chain=True)
    faulthandler.register(signal.SIGALRM, file=errors, all_threads=True)


@pytest.fixture(autouse=True)
def seeded(request):
    """Numbers drawn by a test are its own, whichever tests ran before it in the same process."""
    torch = sys.modules.get("torch")
    if torch:
        torch.manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node):
    """pytest-xdist has started a process that runs tests."""
    WORKERS.append(node.gateway._rinfo().pid)


def _stopped(*_):
    """What `timeout` sends: programs that the test has started are ended on the way out."""
    for worker in WORKERS:
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.kill(worker, signal.SIGTERM)
    pytest.exit(f"SIGTERM in {os.environ.get('PYTEST_CURRENT_TEST', 'no test')}", returncode=143)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    signal.setitimer(signal.ITIMER_REAL, TOLD)  # printed by faulthandler, whatever holds the interpreter
    faulthandler.dump_traceback_later(STOPPED, exit=True, file=item.config.stash[ERRORS])
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
