"""Partitions, what is kept of them, and the objective as a sum over them."""

from __future__ import annotations

import gc
import os
from itertools import pairwise

import numpy as np
import pytest
import torch

from statsmodels_mnar.engine import FreeForm, LoadingForm, Objective, ProbitForm, Rows
from statsmodels_mnar.engine.binary import fit_binary, fit_independent
from statsmodels_mnar.engine.execution import LocalPartitions, Store
from statsmodels_mnar.engine.halfline import LOGIT
from statsmodels_mnar.engine.journal import Journal, signature
from statsmodels_mnar.engine.partitioned import PartitionedObjective, PartitionedRows

N, CUTS = 20_000, (0, 7_000, 7_001, 15_000, 20_000)


def arrays(n: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), 3.0 * rng.standard_normal(n)])
    W = np.column_stack([X, rng.standard_normal(n)])
    s = (W @ [0.3, 0.1, 0.8] + rng.standard_normal(n) > 0).astype(float)
    y = np.where(s == 1, rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [-0.3, 0.2])), np.nan)
    weights, known = rng.integers(1, 4, n).astype(float), 0.1 * rng.standard_normal(n)
    return {
        "X": X, "W": W, "y": y, "s": s, "weights": weights, "offset": known,
        "offset_select": -known, "key": np.arange(n),
    }  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> Rows:
    return Rows.build(**arrays())


def cut(memory: int = 2**30, threads: int = 1, folder: str | None = None) -> PartitionedRows:
    data = arrays()
    frames = [
        {name: value[low:high] for name, value in data.items()} for low, high in pairwise(CUTS)
    ]
    names = [f"part {i}" for i in range(len(frames))]
    loaders = [lambda part=part: part for part in frames]
    parts = LocalPartitions(loaders, names, Store(memory, folder), threads=threads)
    return PartitionedRows.gathered(parts.derive(lambda part: Rows.build(**part), keep=True))


def spooled(folder) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize("form", [FreeForm(), LoadingForm(), ProbitForm()])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_sum_over_partitions_is_the_objective(form, order, whole):
    theta = np.random.default_rng(1).normal(0, 0.3, (2, 5 + len(form.names)))
    found = PartitionedObjective(cut(), form, penalty=0.1).evaluate(theta, order)
    expected = Objective(whole, form, penalty=0.1).evaluate(theta, order)
    for name in ("value", "score", "hessian"):
        one, two = getattr(found, name), getattr(expected, name)
        assert (one is None) == (two is None)
        if one is not None:
            torch.testing.assert_close(one, two, rtol=1e-11, atol=1e-8)
    if order == 2:
        opg = PartitionedObjective(cut(), form).opg(theta[0])
        torch.testing.assert_close(opg, Objective(whole, form).opg(theta[0]), rtol=1e-11, atol=0)


def test_memory_spool_and_threads_give_the_same_digits(tmp_path):
    theta = np.zeros(6)

    def digits(rows: PartitionedRows) -> bytes:
        return PartitionedObjective(rows, LoadingForm()).evaluate(theta).hessian.numpy().tobytes()

    in_memory, threaded = cut(), cut(threads=3)
    on_disk, mixed = cut(0, folder=str(tmp_path)), cut(1_000_000, folder=str(tmp_path))
    assert len(spooled(tmp_path)) == 4 + 2  # the first two fit into a megabyte
    assert digits(in_memory) == digits(threaded) == digits(on_disk) == digits(mixed)
    del on_disk, mixed
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_room_for_the_work_on_items_is_left_free(tmp_path, whole):
    free = Store(5 * whole.nbytes, str(tmp_path), room=2)
    kept = [free.put(whole) for _ in range(5)]
    assert len(spooled(tmp_path)) == 2  # three in memory, and room for two
    assert all(torch.equal(get().X, whole.X) for get in kept)


def test_packed_rows_are_the_rows(whole):
    header, numbers = whole.pack()
    again = Rows.unpack(header, numbers.copy())
    for name in ("X", "W", "offset", "sign", "floor", "gain", "tilt", "key", "weight", "order"):
        torch.testing.assert_close(
            getattr(again, name), getattr(whole, name), rtol=0, atol=0, check_dtype=False
        )
    assert again.segments == whole.segments and again.total_weight == whole.total_weight


def test_joined_rows_and_samples_are_those_of_the_whole(whole):
    rows = cut()
    joined = Rows.joined(list(rows.parts.map(lambda part: part)))
    assert torch.equal(joined.key, whole.key) and joined.segments == whole.segments
    assert torch.equal(joined.unsort(joined.key), torch.arange(N))
    positions = np.random.default_rng(2).choice(N, 500, replace=False)
    assert torch.equal(rows.take(positions).key, whole.take(positions).key)
    form = LoadingForm()
    samples = [PartitionedObjective(rows, form).sample(300), Objective(whole, form).sample(300)]
    assert torch.equal(samples[0].rows.key, samples[1].rows.key)
    np.testing.assert_allclose(rows.scale, whole.scale, rtol=1e-13)


@pytest.mark.parametrize("penalty", [0.0, 0.01])
@pytest.mark.parametrize("probit", [False, True])
def test_equations_fitted_apart_are_those_of_the_whole(penalty, probit, whole):
    found, expected = (
        fit_independent(rows, probit=probit, penalty=penalty) for rows in (cut(), whole)
    )
    assert found.converged and expected.converged
    np.testing.assert_allclose(found.params, expected.params, rtol=0, atol=1e-11)
    assert found.value == pytest.approx(expected.value, rel=1e-13)


def test_a_separated_regression_does_not_converge():
    x = torch.linspace(-1, 1, 40, dtype=torch.float64)
    X = torch.stack([torch.ones_like(x), x])
    assert not fit_binary(X, (x > 0).double(), LOGIT).converged


def test_results_come_in_the_order_of_the_partitions():
    import threading

    first = threading.Event()

    def late() -> str:
        assert first.wait(10)  # the second partition ends before the first
        return "first"

    def early() -> str:
        first.set()
        return "second"

    parts = LocalPartitions([late, early], ["a", "b"], Store(0), threads=2)
    assert list(parts.map(str.upper)) == ["FIRST", "SECOND"]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_names_its_partition(threads):
    def check(item: int) -> int:
        if item == 2:
            raise ValueError("bad value")
        return item

    parts = LocalPartitions(
        [lambda i=i: i for i in range(4)], list("abcd"), Store(0), threads=threads
    )
    with pytest.raises(ValueError, match=r"^c: bad value$"):
        list(parts.map(check))
    with pytest.raises(ValueError, match=r"^c: bad value$"):  # once, though both have names
        list(parts.derive(check).map(lambda item: item))


# -- the journal -----------------------------------------------------------------------------------


def test_a_journal_is_whole_after_every_write(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    journal = Journal(path, "rows")
    journal["a"] = (np.arange(3.0), np.eye(2))

    def fail(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        journal["b"] = (np.ones(1),)
    assert os.listdir(tmp_path) == ["fit.npz"]
    again = Journal(path, "rows")
    assert len(again) == 1
    np.testing.assert_array_equal(again["a"][1], np.eye(2))
    with pytest.raises(ValueError, match="other rows"):
        Journal(path, "others")
    with pytest.raises(ValueError, match="does not exist"):
        Journal(tmp_path / "nowhere" / "fit.npz", "rows")


def test_signatures_tell_calls_apart():
    theta = torch.zeros(2, 3, dtype=torch.float64)
    calls = [
        (fit_binary, (theta,)), (fit_independent, (theta,)), (fit_binary, (theta + 1e-16,)),
        (fit_binary, (theta.mT,)), (fit_binary, (theta, 1)), (fit_binary, (theta, True)),
        (fit_binary, (FreeForm(),)), (fit_binary, (FreeForm(standardized=True),)),
        (fit_binary, (LoadingForm(),)), (fit_binary, (LOGIT,)), (fit_binary, (("a", 1.0),)),
        (fit_binary, (("a", 2.0),)),
    ]  # fmt: skip
    assert len({signature(*call) for call in calls}) == len(calls)
    assert signature(fit_binary, (theta,)) == signature(fit_binary, (theta.clone(),))
    with pytest.raises(TypeError, match="no signature"):
        signature(fit_binary, (ValueError,))
