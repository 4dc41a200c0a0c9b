"""Fixtures for every test: reference values, shared data, and a guard on global state."""

import copy
import gc
import locale
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # one thread for each process, set before torch looks
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch

gc.disable()  # until the tests are collected: a million objects, of which few are garbage
os.environ.setdefault("MPLBACKEND", "Agg")  # plots are tested without a screen

# The same examples in every run, and no files of theirs in the checkout. The default run tries a
# few examples of each property and `-m full` more of them; "thorough" looks further, at other
# examples each time: pytest -m "full or not full" tests/trust --hypothesis-profile=thorough
hypothesis.settings.register_profile(
    "quick",
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
    "full", hypothesis.settings.get_profile("quick"), max_examples=10
)
hypothesis.settings.register_profile(
    "thorough",
    hypothesis.settings.get_profile("quick"),
    max_examples=100,
    derandomize=False,
    print_blob=True,
)
hypothesis.settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    """Load the examples of ``-m full``, before test modules read the settings."""
    if _full(config) and not config.getoption("hypothesis_profile", None):
        hypothesis.settings.load_profile("full")


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what -m leaves out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let ``-m full`` run the properties too, which it tries on more examples."""
    if _full(config):
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("full")


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of the garbage collector's rounds."""
    gc.freeze()
    gc.enable()


def _full(config: pytest.Config) -> bool:
    return config.getoption("markexpr") == "full"


TESTS = Path(__file__).resolve().parent
SHARED_VARIABLE = "STATSMODELS_MNAR_SHARED"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of papers and data that is too large, or not ours, to ship with the package."""
    named = os.environ.get(SHARED_VARIABLE)
    folder = Path(named) if named else TESTS.parents[1] / "shared"
    if folder.is_dir():
        return folder
    if named:  # whoever sets the variable wants these tests run: a wrong path is no reason to skip
        raise FileNotFoundError(f"{SHARED_VARIABLE}={named!r} is not a directory")
    pytest.skip(f"no shared folder beside the repository and {SHARED_VARIABLE} is not set")


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    """Reference values computed independently of this package; its README tells their origin."""
    return TESTS / "reference"


@pytest.fixture(scope="session")
def logit_data(reference_dir: Path) -> pd.DataFrame:
    return pd.read_csv(reference_dir / "logit_n5000.csv")


@pytest.fixture(scope="session")
def probit_data(reference_dir: Path) -> pd.DataFrame:
    return pd.read_csv(reference_dir / "probit_n5000.csv")


@pytest.fixture(scope="session")
def mroz_data(shared: Path) -> pd.DataFrame:
    return pd.read_csv(shared / "data" / "mroz" / "mroz_selection.csv")


_CHANGED_BY_IMPORTS = {"the warning filters", "the environment", "Python's global random state"}
# Set by pytest, and by torch when it first makes an optimiser.
_OTHERS_VARIABLES = {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"}


def _global_state() -> dict[str, Any]:
    """Snapshot what a library must leave as it found it, each item comparable with ``==``."""
    _, key, *rest = np.random.get_state()  # noqa: NPY002 - the legacy state is what we guard
    state: dict[str, Any] = {
        "numpy's global random state": (np.asarray(key).tobytes(), *rest),
        "torch's global random state": torch.random.get_rng_state().numpy().tobytes(),
        "Python's global random state": random.getstate(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": torch.get_default_device(),
        "torch's number of threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "torch's grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "torch's deterministic mode": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "numpy's error handling": np.geterr(),
        "numpy's print options": np.get_printoptions(),
        "pandas' options": copy.deepcopy(pd._config.config._global_config),
        "the locale": locale.setlocale(locale.LC_ALL),
        "the environment": {k: v for k, v in os.environ.items() if k not in _OTHERS_VARIABLES},
        "the working directory": os.getcwd(),
        "the warning filters": list(warnings.filters),
    }
    # Looked up, not imported: the guard must not load matplotlib for tests that do without it.
    params = getattr(sys.modules.get("matplotlib"), "rcParams", None)
    if params is not None:
        # The backend is resolved on first use: that is no change of the user's settings.
        state["matplotlib's rcParams"] = {k: params[k] for k in params if k != "backend"}
    return state


@pytest.fixture
def global_state() -> Callable[[], dict[str, Any]]:
    """The guard's snapshot, for the test that it sees what it should."""
    return _global_state


@pytest.fixture(autouse=True)
def leaves_global_state_alone() -> Iterator[None]:
    """Fail a test during which global state changed (STYLE: nothing global)."""
    modules = frozenset(sys.modules)
    before = _global_state()
    yield
    after = _global_state()
    changed = [name for name in before if before[name] != after[name]]
    if _imported_third_party(modules):
        # Libraries such as scikit-learn add filters for their own warnings, and variables for those
        # that they load, when first imported; some draw a random number.
        changed = [name for name in changed if name not in _CHANGED_BY_IMPORTS]
    if changed:
        pytest.fail(f"the test changed {', '.join(changed)}")


def _imported_third_party(modules: frozenset[str]) -> bool:
    """Whether a package other than ours and the standard library was first imported since."""
    new = {name.partition(".")[0] for name in sys.modules.keys() - modules}
    return bool(new - sys.stdlib_module_names - {"statsmodels_mnar", "tests"})
