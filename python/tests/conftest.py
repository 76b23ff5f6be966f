"""Marks: `long` for what `make test` leaves to `make test-python`."""


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes a minute or more; `make test` leaves it out")
