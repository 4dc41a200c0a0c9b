"""Partitions, what is kept of them, and the objective as a sum over them."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.kernel.links import LOGIT, PROBIT
from statsmodels_mnar.kernel.rows import Rows
from statsmodels_mnar.large.checkpoint import Journal, signature
from statsmodels_mnar.large.execution import LocalPartitions, Spool, Store, _same
from statsmodels_mnar.large.partitions import PartitionedObjective, PartitionedRows
from statsmodels_mnar.optimize.binary import fit_binary, fit_independent
from statsmodels_mnar.optimize.objective import Objective
from statsmodels_mnar.post.stacked import Derivatives

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


@pytest.fixture
def spooled(monkeypatch) -> list[int]:
    """Sizes of the arrays that were put into temporary files."""
    written: list[int] = []
    write = Spool.write

    def counted(self: Spool, numbers: np.ndarray) -> int:
        written.append(numbers.nbytes)
        return write(self, numbers)

    monkeypatch.setattr(Spool, "write", counted)
    return written


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


def test_memory_spool_and_threads_give_the_same_digits(tmp_path, spooled):
    theta = np.zeros(6)

    def digits(rows: PartitionedRows) -> bytes:
        return PartitionedObjective(rows, LoadingForm()).evaluate(theta).hessian.numpy().tobytes()

    in_memory, threaded = cut(), cut(threads=3)
    on_disk, mixed = cut(0, folder=str(tmp_path)), cut(1_000_000, folder=str(tmp_path))
    assert len(spooled) == 4 + 2  # the first two fit into a megabyte
    assert digits(in_memory) == digits(threaded) == digits(on_disk) == digits(mixed)
    assert os.listdir(tmp_path) == []


def test_room_for_the_work_on_items_is_left_free(tmp_path, whole, spooled):
    free = Store(5 * whole.nbytes, str(tmp_path), room=2)
    kept = [free.put(whole) for _ in range(5)]
    assert len(spooled) == 2  # three in memory, and room for two
    assert all(torch.equal(get().X, whole.X) for get in kept)


# -- temporary files -------------------------------------------------------------------------------


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_temporary_file_has_no_name_and_goes_with_its_store(tmp_path, whole):
    linux = os.path.isdir("/proc/self/fd")
    before = open_files() if linux else 0
    store = Store(0, str(tmp_path))
    kept = [store.put(whole), store.put(whole.take(np.empty(0, dtype=int)))]
    assert os.listdir(tmp_path) == []
    assert [get().n for get in kept] == [N, 0]
    if linux:
        assert open_files() == before + 1  # one for all items
    del store
    assert torch.equal(kept[0]().X, whole.X)  # as long as an item is held
    del kept
    gc.collect()
    if linux:
        assert open_files() == before


KILLED = """
import sys, time
import numpy as np
from statsmodels_mnar.large.execution import Store
from statsmodels_mnar.kernel.rows import Rows

X = np.ones((1_000, 2))
store = Store(0, sys.argv[1])
kept = store.put(Rows.build(X, X, X[:, 0], X[:, 0]))
print(kept().n, flush=True)
time.sleep(600)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="other signals there")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_leaves_nothing_behind(how, tmp_path):
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=os.environ | {"PYTHONPATH": path},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "1000\n"
        process.send_signal(how)
        assert process.wait(120) == -how
    assert os.listdir(tmp_path) == []


@pytest.mark.full  # forks this process, which a pool of torch's threads may not survive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
def test_a_forked_child_reads_what_is_there_and_writes_elsewhere(tmp_path, whole):
    store = Store(0, str(tmp_path))
    kept = store.put(whole)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = store.put(whole.take(np.arange(10)))
            code = 0 if own().n == 10 and torch.equal(kept().X, whole.X) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    again = store.put(whole)
    assert torch.equal(again().X, whole.X) and torch.equal(kept().X, whole.X)


def test_a_folder_that_cannot_be_written_is_named(tmp_path, whole, monkeypatch):
    with pytest.raises(ValueError, match=r"folder='.*nowhere' .*; give Execution a folder"):
        Store(0, str(tmp_path / "nowhere")).put(whole)
    store = Store(0, str(tmp_path))
    store.put(whole)

    class Full:
        def seek(self, place: int) -> None:
            pass

        def write(self, part: memoryview) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store._spool, "_file", Full())
    with pytest.raises(OSError, match=r"has no room for [\d,]+ more bytes.*another folder"):
        store.put(whole)


def test_a_checkpoint_removes_what_a_killed_process_left_beside_it(tmp_path):
    path = tmp_path / "fit.npz"
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(120)
    for name in (f"fit.npz.{done.pid}.tmp", f"fit.npz.{os.getpid()}.tmp", "fit.npz.old.tmp"):
        (tmp_path / name).touch()
    Journal(path, {})
    assert sorted(os.listdir(tmp_path)) == sorted([f"fit.npz.{os.getpid()}.tmp", "fit.npz.old.tmp"])


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
@pytest.mark.parametrize("link", [LOGIT, PROBIT])
def test_equations_fitted_apart_are_those_of_the_whole(penalty, link, whole):
    found, expected = (fit_independent(rows, link=link, penalty=penalty) for rows in (cut(), whole))
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
    rows = {"the labels": [1]}
    journal = Journal(path, rows)
    journal["a"] = (np.arange(3.0), np.eye(2))

    def fail(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        journal["b"] = (np.ones(1),)
    assert os.listdir(tmp_path) == ["fit.npz"]
    again = Journal(path, rows)
    assert len(again) == 1
    np.testing.assert_array_equal(again["a"][1], np.eye(2))
    with pytest.raises(ValueError, match=r"other data: the labels have.*Delete it to start over"):
        Journal(path, {"the labels": [2]})
    with pytest.raises(ValueError, match="does not exist"):
        Journal(tmp_path / "nowhere" / "fit.npz", rows)
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        Journal(tmp_path, rows)


def test_a_journal_that_is_cut_or_damaged_anywhere_says_so(tmp_path):
    path, rows = tmp_path / "fit.npz", {"the labels": [1]}
    journal = Journal(path, rows)
    journal["a"] = (np.arange(3.0), np.eye(2))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"is not a checkpoint file.*delete it to start over"):
            Journal(path, rows)
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=200):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(damaged))
        try:  # a bit that nothing reads does no harm
            read = Journal(path, rows)
        except ValueError as error:
            assert "checkpoint=" in str(error)  # noqa: PT017
        else:
            np.testing.assert_array_equal(read["a"][0], np.arange(3.0))
            np.testing.assert_array_equal(read["a"][1], np.eye(2))


def test_signatures_see_every_digit_of_the_arrays_in_a_dataclass():
    """The repr of an array has eight digits, and dots in place of most of a long one."""
    large = np.zeros(2_000)
    other = large.copy()
    other[1_000] = 1.0
    for one, two in [(np.ones(1), np.ones(1) + 1e-12), (large, other)]:
        first, second = (Derivatives(v, v, v, v, 1.0, 1.0) for v in (one, two))
        assert signature(fit_binary, (first,)) != signature(fit_binary, (second,))
    assert signature(fit_binary, (("a", "b"),)) != signature(fit_binary, (("a,b",),))


# -- marks of rows ---------------------------------------------------------------------------------


def marked(cuts=CUTS, **changes) -> dict[str, list[int]]:
    """The fingerprint of the rows with some of their arrays changed."""
    data = arrays() | changes
    parts = [
        Rows.build(**{name: values[low:high] for name, values in data.items()})
        for low, high in pairwise(cuts)
    ]
    loaders = [partial(_same, part) for part in parts]
    names = [str(i) for i in range(len(parts))]
    return PartitionedRows.gathered(LocalPartitions(loaders, names, Store(0))).fingerprint


def exchanged(values: np.ndarray, one: int, other: int) -> np.ndarray:
    values = values.copy()
    values[[one, other]] = values[[other, one]]
    return values


def test_a_fingerprint_does_not_depend_on_partitions_or_the_order_of_reading():
    expected = marked()
    assert marked((0, N)) == expected
    assert marked((0, 1, 2, 9_999, N)) == expected
    data = arrays()
    backwards = {name: values[::-1] for name, values in data.items()}  # with their places
    assert marked(**backwards) == expected
    assert marked(offset=np.where(data["offset"] == 0, -0.0, data["offset"])) == expected


def test_a_fingerprint_changes_with_everything_that_the_likelihood_reads():
    data, expected = arrays(), marked()
    labelled = np.flatnonzero(data["s"] == 1)
    one = labelled[data["y"][labelled] == 1][0]
    other = labelled[data["y"][labelled] == 0][0]
    y, weights = data["y"].copy(), data["weights"].copy()
    y[one] = 0.0
    weights[0] += 1e-12
    columns = data["W"].copy()
    columns[:, [1, 2]] = columns[:, [2, 1]]
    changes = {
        "the outcome or the selection indicator": [
            {"y": y}, {"y": exchanged(data["y"], one, other)},
        ],
        "the covariates of the outcome equation": [
            {"X": data["X"] * (1 + 1e-15)}, {"X": exchanged(data["X"], 0, 1)},
        ],
        "the covariates of the selection equation": [{"W": columns}],
        "the offsets": [
            {"offset": exchanged(data["offset"], 3, 4)},
            {"offset": data["offset_select"], "offset_select": data["offset"]},
        ],
        "the weights": [{"weights": weights}, {"weights": data["weights"][::-1].copy()}],
    }  # fmt: skip
    for what, ways in changes.items():
        for change in ways:
            found = marked(**change)
            assert [name for name in expected if found[name] != expected[name]] == [what]
    s = data["s"].copy()
    s[one] = 0.0
    assert (
        marked(s=s)["the numbers of labelled and unlabelled rows"]
        != (expected["the numbers of labelled and unlabelled rows"])
    )


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
