"""Same bits whatever surrounds a fit, and nothing around it is changed."""

from __future__ import annotations

import json
import locale
import os
import random
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene
from tests.patience import PATIENCE

from .fits import CASES, everything, run, simulated

pytestmark = pytest.mark.filterwarnings("ignore")  # of small data and few draws
ROOT = Path(__file__).resolve().parents[2]


SOME = ("loading", "draws", "biascorr, network", "bootstrap")
cases = pytest.mark.parametrize(
    "names", [SOME, pytest.param(tuple(CASES), marks=pytest.mark.full)], ids=["some", "all"]
)


def bits(names=tuple(CASES)):
    return {name: run(name).hex() for name in names}


@pytest.fixture(scope="module")
def alone():
    """The bits of a case alone in this process."""
    return cache(lambda name: run(name).hex())


@pytest.fixture
def expected(request, alone):
    """Those of the test's cases, or of all."""
    call = getattr(request.node, "callspec", None)
    return {name: alone(name) for name in (call.params["names"] if call else CASES)}


def in_a_process(threads, *how):
    """The same in a process of its own: "here" in it, and in children of it."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.trust.fits", *how],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# -- where and when --------------------------------------------------------------------------------


@pytest.mark.full
def test_a_second_run_has_the_same_bits(expected):
    assert bits() == expected


@cases
def test_two_threads_at_once_have_the_same_bits(expected, names):
    """Each case in two threads beside each other, started together."""
    together = threading.Barrier(2)

    def work(_):
        found = {}
        for name in names:
            together.wait(timeout=PATIENCE)
            found[name] = run(name).hex()
        return found

    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(work, range(2)):
            assert found == expected


def test_two_threads_can_share_a_model():
    model = GreeneSelectionLogit(**simulated(), normalization={"sigma": 1.0})
    alone = everything(model.fit())
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(lambda _: everything(model.fit()), range(2))) == {alone}


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_forked_and_spawned_processes_have_the_same_bits(expected):
    found = in_a_process(1, "fork", "spawn")
    assert found["fork"] == found["spawn"] == expected


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
@pytest.mark.full
def test_the_number_of_threads_changes_rounding_only(expected):
    """In the process itself, and in a child that is forked from it after its fits.

    The engine's sums do not depend on it; numpy's BLAS divides long sums among its own threads.
    """
    for found in in_a_process(2, "here", "fork").values():
        for name in CASES:
            left, right = (np.frombuffer(bytes.fromhex(v[name])) for v in (expected, found))
            np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14, err_msg=name)


@cases
def test_global_seeds_and_a_default_dtype_of_the_user_have_no_influence(expected, names):
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    try:
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        assert bits(names) == expected
    finally:
        torch.set_default_dtype(torch.float32)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.random.set_rng_state(states[2])


# -- arrays ----------------------------------------------------------------------------------------


def strided(values):
    """Every other entry of an array twice as long in every direction."""
    wide = np.full([2 * n for n in values.shape], 7.0)
    view = wide[tuple(slice(None, None, 2) for _ in values.shape)]
    view[...] = values
    return view


def backwards(values):
    return values[::-1].copy()[::-1]


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "negative strides": backwards,
    "bytes swapped": lambda v: v.astype(v.dtype.newbyteorder()),
    "read-only": read_only,
    "lists": np.ndarray.tolist,
    "float32": lambda v: v.astype(np.float32),
    "float16": lambda v: v.astype(np.float16),
    "longdouble": lambda v: v.astype(np.longdouble),
}


@pytest.mark.parametrize(
    "name",
    ["sigma fixed"]
    + [pytest.param(name, marks=pytest.mark.full) for name in ("draws", "probit", "biascorr")],
)
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(layout, marks=pytest.mark.full if i % 3 else ())
        for i, layout in enumerate(LAYOUTS)
    ],
)
def test_the_layout_of_arrays_has_no_influence(layout, name):
    given = {key: LAYOUTS[layout](value) for key, value in simulated().items()}
    plain = {key: np.array(value, dtype=np.float64) for key, value in given.items()}
    before = {key: np.array(value, copy=True) for key, value in given.items()}
    assert run(name, given) == run(name, plain)
    for key, value in given.items():
        np.testing.assert_array_equal(value, before[key])


def test_weights_offsets_groups_and_new_rows_may_be_read_only():
    arrays = {key: read_only(value) for key, value in simulated().items()}
    n = len(arrays["endog"])
    rng = np.random.default_rng(0)
    extras = {
        "freq_weights": rng.integers(1, 3, n).astype(float),
        "offset": rng.normal(size=n),
        "offset_select": rng.normal(size=n),
    }
    groups = np.arange(n) // 5
    fits = []
    for change in (np.array, read_only, strided):
        options = {key: change(value) for key, value in extras.items()}
        model = GreeneSelectionLogit(**arrays, **options, normalization="loading")
        results = model.fit(cov_type="cluster", cov_kwds={"groups": read_only(groups)})
        shown = results.predict(
            change(arrays["exog"]), change(arrays["exog_select"]), which="p11",
            offset=options["offset"], offset_select=options["offset_select"],
        )  # fmt: skip
        fits.append(everything(results) + np.asarray(shown).tobytes())
    assert len(set(fits)) == 1


def test_data_frames_are_left_as_they_were():
    sim = simulate_greene(400, rng=1)
    data = sim.data.assign(g=pd.Categorical(np.arange(400) % 3), w=1.0, k=np.arange(400) // 4)
    before = data.copy(deep=True)
    for column in data:  # a write through a view of the frame would raise
        values = data[column].array
        if hasattr(values, "_ndarray"):
            values._ndarray.flags.writeable = False
    model = GreeneSelectionLogit.from_formula(
        "y ~ x1 + C(g)", "s ~ x1 + C(g) + z", data, normalization="loading", freq_weights="w"
    )
    results = model.fit(cov_type="cluster", cov_kwds={"groups": "k"})
    results.predict(data, which="p11")
    results.get_margeff(variables="g")
    results.summary()
    results.bootstrap(3, rng=0)
    pd.testing.assert_frame_equal(data, before)


# -- the guard -------------------------------------------------------------------------------------


def toggle(setter, value, back):
    return (lambda: setter(value)), (lambda: setter(back))


def draw_from_torch():
    state = torch.random.get_rng_state()
    return (lambda: torch.rand(1)), (lambda: torch.random.set_rng_state(state))


def draw_from_numpy():
    state = np.random.get_state()  # noqa: NPY002
    return (lambda: np.random.rand()), (lambda: np.random.set_state(state))  # noqa: NPY002


def draw_from_python():
    state = random.getstate()
    return random.random, (lambda: random.setstate(state))


def filter_warnings():
    saved = warnings.filters[:]

    def back():
        warnings.filters[:] = saved

    return (lambda: warnings.simplefilter("ignore", BytesWarning)), back


def change_rc():
    import matplotlib

    old = matplotlib.rcParams["lines.linewidth"]
    params = matplotlib.rcParams
    return (
        lambda: params.__setitem__("lines.linewidth", old + 1),
        lambda: params.__setitem__("lines.linewidth", old),
    )


def set_variable():
    return (lambda: os.environ.__setitem__("X_GUARD", "1")), (lambda: os.environ.pop("X_GUARD"))


DISTURBANCES = {
    "numpy's global random state": draw_from_numpy,
    "torch's global random state": draw_from_torch,
    "Python's global random state": draw_from_python,
    "torch's default dtype": lambda: toggle(torch.set_default_dtype, torch.float64, torch.float32),
    "torch's default device": lambda: toggle(torch.set_default_device, "meta", None),
    "torch's number of threads": lambda: toggle(
        torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()
    ),
    "torch's grad mode": lambda: toggle(torch.set_grad_enabled, False, True),
    "torch's deterministic mode": lambda: toggle(torch.use_deterministic_algorithms, True, False),
    "numpy's error handling": lambda: toggle(lambda v: np.seterr(over=v), "raise", "warn"),
    "numpy's print options": lambda: toggle(lambda v: np.set_printoptions(precision=v), 3, 8),
    "pandas' options": lambda: toggle(
        lambda v: pd.set_option("display.width", v), 33, pd.get_option("display.width")
    ),
    "the locale": lambda: toggle(
        lambda v: locale.setlocale(locale.LC_NUMERIC, v),
        "C.UTF-8",
        locale.setlocale(locale.LC_NUMERIC),
    ),
    "the environment": set_variable,
    "the working directory": lambda: toggle(os.chdir, "/", os.getcwd()),
    "the warning filters": filter_warnings,
    "matplotlib's rcParams": change_rc,
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_the_guard_sees_a_change(global_state, name):
    disturb, restore = DISTURBANCES[name]()
    before = global_state()
    disturb()
    try:
        after = global_state()
    finally:
        restore()
    assert [key for key in before if before[key] != after[key]] == [name]
    assert global_state() == before


def test_every_state_that_is_guarded_is_disturbed_above(global_state):
    import matplotlib  # noqa: F401 - guarded once it is loaded

    assert set(global_state()) == set(DISTURBANCES)
