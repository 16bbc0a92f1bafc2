"""What every test gets: one thread, a seed of its own, and a way to switch the shape checks off."""

import jaxtyping
import pytest
import torch

pytest.register_assert_rewrite("tests.laws")


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow") or "slow" in config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="slow: give --slow, or -m slow, to run it")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _seeded():
    """The global torch stream starts at the same place in every test, whatever ran before it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def generator():
    """A stream of the test's own, equal in every run."""
    return torch.Generator().manual_seed(0)


@pytest.fixture
def types_unchecked():
    """Shape and type checks off: what a user has, what ``torch.compile`` needs."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
