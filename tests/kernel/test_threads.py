"""Threads of ours in place of torch's: nobody else's number changes, and nothing waits forever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.kernel import threads
from statsmodels_mnar.kernel.forms import LoadingForm
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.kernel.threads import (
    in_threads,
    one_thread,
    one_thread_a_step,
    users_threads,
)
from statsmodels_mnar.optimize.objective import Objective

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300  # seconds for a process that takes a few, on a machine that does much else


@pytest.fixture
def three():
    """The user has three threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def elsewhere() -> int:
    """The number that a new thread has."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


# -- the number ------------------------------------------------------------------------------------


def test_one_thread_is_of_the_calling_thread_alone(three):
    with one_thread():
        assert torch.get_num_threads() == 1
        assert elsewhere() == 3
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    assert elsewhere() == 3


def test_the_number_comes_back_after_an_error(three):
    @one_thread()
    def fail():
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert torch.get_num_threads() == 3


def test_many_threads_at_once_each_get_their_own_number_back(three):
    found: list[tuple[int, int, int]] = []

    def work(number):
        torch.set_num_threads(number)
        for _ in range(20):
            with one_thread():
                inside = torch.get_num_threads()
            found.append((inside, torch.get_num_threads(), number))

    workers = [threading.Thread(target=work, args=(2 + i % 3,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 120
    assert all(inside == 1 and after == number for inside, after, number in found)
    assert torch.get_num_threads() == 3


def test_a_number_set_meanwhile_for_threads_to_come_stays(three):
    def other():
        torch.set_num_threads(2)

    with one_thread():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert (torch.get_num_threads(), elsewhere()) == (3, 2)


def test_a_generator_has_one_thread_only_while_it_works(three):
    @one_thread_a_step
    def numbers():
        for _ in range(2):
            yield torch.get_num_threads()

    for inside in numbers():
        assert (inside, torch.get_num_threads()) == (1, 3)


def test_code_of_the_user_has_the_number_of_the_user(three):
    seen: list[int] = []
    data = simulate_greene(300, rng=1)
    model = GreeneSelectionLogit.from_formula(
        data.formula, data.select_formula, data.data, normalization="loading"
    )
    model.fit(callback=lambda step: seen.append(torch.get_num_threads()))
    assert set(seen) == {3}
    with one_thread(), users_threads():
        assert torch.get_num_threads() == 3
        with one_thread():  # a fit in a callback
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3


# -- work in threads -------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_items():
    def worker():
        def run(item):
            time.sleep(0.001 * (item % 3))
            return item, torch.get_num_threads()

        return run

    with one_thread():
        found = list(in_threads(worker, range(40), threads=4))
    assert found == [(item, 1) for item in range(40)]


def test_the_first_error_is_raised_and_the_rest_is_left():
    done: list[int] = []

    def run(item):
        if item == 3:
            raise ValueError("item 3")
        done.append(item)
        time.sleep(0.001)

    with pytest.raises(ValueError, match="item 3"):
        list(in_threads(lambda: run, range(1_000), threads=3))
    assert len(done) < 500
    assert list(in_threads(lambda: abs, [-1, 2], threads=2)) == [1, 2]  # and goes on


def test_work_within_work_ends(three):
    """Helpers have no helpers, so none of them waits for another."""

    def outer(item):
        return sum(in_threads(lambda: abs, range(item), threads=threads.available()))

    assert list(in_threads(lambda: outer, range(20), threads=3)) == [
        sum(range(item)) for item in range(20)
    ]


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    rng = np.random.default_rng(0)
    n = 30_000
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    s = (X @ [0.2, 0.4] + rng.standard_normal(n) > 0).astype(float)
    y = np.where(s == 1, rng.random(n) < 0.4, np.nan)
    objective = Objective(Rows.build(X, X, y, s), LoadingForm(), block_size=2_000)
    theta = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr("statsmodels_mnar.optimize.objective.available", lambda n=count: n)
        at = objective.evaluate(theta)
        found.append(
            [at.value, at.score, at.hessian, objective.row_scores(theta), objective.opg(theta),
             objective.row_values(theta)]
        )  # fmt: skip
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.equal(one, two)


def test_rows_that_are_none_have_sums_of_zero():
    one = np.ones((1, 1))
    none = Rows.build(one, one, np.ones(1), np.ones(1)).take(np.empty(0, dtype=int))
    objective, theta = Objective(none, LoadingForm()), np.zeros(3)
    assert objective.evaluate(theta).value.item() == 0.0
    assert objective.row_scores(theta).shape == (0, 3)
    assert objective.row_values(theta).shape == (1, 0)


# -- in processes of their own ---------------------------------------------------------------------

FITS = """
import json, os, sys, threading, time, warnings
import numpy as np, scipy.linalg, torch
from statsmodels_mnar import BiasCorrLogit, Execution, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene

warnings.simplefilter("ignore")
sim = simulate_greene(36_000, rng=1)  # beyond 32,768 elements torch divides an operation

def fits():
    formulas = sim.formula, sim.select_formula, sim.data
    model = GreeneSelectionLogit.from_formula(*formulas, normalization="loading")
    results = model.fit()
    results.predict(sim.data, which="p11")
    results.get_margeff()
    results.get_robustcov_results("HC0")
    draws = results.bootstrap(2, rng=0).replicates
    other = BiasCorrLogit.from_formula(*formulas, normalization="loading").fit(penalty=1e-4)
    parts = GreeneSelectionLogit.from_formula(
        *formulas, normalization="loading", execution=Execution(partition_rows=9_000)).fit()
    return [results.llf, other.llf, parts.llf, float(draws.to_numpy().sum())]

def torchs():
    "Threads of this process that are not Python's."
    time.sleep(0.5)  # those that have ended are gone
    return len(os.listdir("/proc/self/task")) - threading.active_count()
"""


def run(code: str):
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", FITS + code],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_no_call_of_ours_starts_torchs_threads():
    """They wait for each other after every operation, beside a busy process for a time slice."""
    before, after, users = run(
        """
np.ones((300, 300)) @ np.ones((300, 300)); scipy.linalg.eigh(np.eye(200))  # BLAS has its own
before = torchs(); fits(); after = torchs()
torch.rand(10**6).erfc()  # what the test can see
print(json.dumps([before, after, torchs()]))
"""
    )
    assert after == before
    assert users == before + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
@pytest.mark.full
def test_a_forked_child_fits_after_a_parent_that_used_all_threads():
    here, forked, number = run(
        """
import multiprocessing
torch.rand(10**6).erfc(); torch.rand(500, 500) @ torch.rand(500, 500)  # torch's threads are there
here = fits()
with multiprocessing.get_context("fork").Pool(1) as pool:
    forked = pool.apply_async(fits).get(timeout=240)
    number = pool.apply_async(torch.get_num_threads).get(timeout=60)
print(json.dumps([here, forked, number]))
"""
    )
    assert forked == here
    assert number == 2  # the user's setting, untouched
