"""Placement, proved without a GPU: fake tensors have a device and a shape but no numbers."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from statsmodels_mnar.kernel import forms, integration
from statsmodels_mnar.kernel import full_line as fullline
from statsmodels_mnar.kernel import half_line as halfline
from statsmodels_mnar.kernel.forms import FreeForm, LoadingForm, ProbitForm
from statsmodels_mnar.kernel.integration import DRAW_KINDS, Quadrature, Simulation, normal_draws
from statsmodels_mnar.kernel.links import LOGIT, PROBIT
from statsmodels_mnar.kernel.rows import Rows, block_rows, resolve_device
from statsmodels_mnar.optimize import objective
from statsmodels_mnar.optimize.batches import rekeyed, relabelled, stacked
from statsmodels_mnar.optimize.binary import fit_binaries
from statsmodels_mnar.optimize.maximize import _Search, trust_region_step
from statsmodels_mnar.optimize.objective import Objective
from statsmodels_mnar.optimize.solution import judge, scaled_model

FORMS = {
    "free": FreeForm(),
    "standardized": FreeForm(standardized=True),
    "hermite": FreeForm(Quadrature("gauss-hermite")),
    "simulation": FreeForm(Simulation(n_draws=8)),
    "loading": LoadingForm(),
    "probit": ProbitForm(),
}


class ByOperators(TorchFunctionMode):
    """Methods that a torch without CUDA refuses, by operators: indexing, ~, as_tensor ...

    All else runs as it is, and every operator checks devices.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.as_tensor:
            return as_tensor(*args, **(kwargs or {}))
        if func is Tensor.contiguous:
            return torch.ops.aten.clone(*args, memory_format=torch.contiguous_format)
        if func is Tensor.__invert__:
            return torch.bitwise_not(*args)
        if func is Tensor.__getitem__:
            return indexed(*args)
        if func is Tensor.__setitem__:
            return assign(*args)
        return func(*args, **(kwargs or {}))


def as_tensor(value, dtype=None, device=None):
    there = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    dtype, device = dtype or there.dtype, torch.device(device or there.device)
    if there.device.type == device.type and there.dtype == dtype:
        return there
    return torch.empty(there.shape, dtype=dtype, device=device)


def taken_apart(tensor, index):
    """The view that slices, numbers and None make, and the index tensors along its axes."""
    index = index if isinstance(index, tuple) else (index,)
    if any(part is Ellipsis for part in index):
        at = next(i for i, part in enumerate(index) if part is Ellipsis)
        used = sum(part is not None and part is not Ellipsis for part in index)
        index = index[:at] + (slice(None),) * (tensor.ndim - used) + index[at + 1 :]
    tensors, axis = [], 0
    for part in index:
        if part is None:
            tensor = tensor.unsqueeze(axis)
        elif isinstance(part, Tensor):
            tensors += [None] * (axis - len(tensors)) + [part]
        elif isinstance(part, slice):
            tensor = torch.ops.aten.slice(tensor, axis, part.start, part.stop, part.step or 1)
        else:
            tensor = torch.ops.aten.select(tensor, axis, int(part))
            continue
        axis += 1
    return tensor, tensors


def indexed(tensor, index):
    view, tensors = taken_apart(tensor, index)
    return torch.ops.aten.index(view, tensors) if tensors else view


def assign(tensor, index, value):
    view, tensors = taken_apart(tensor, index)
    if tensors:
        torch.ops.aten.index_put_(view, tensors, value)
    elif isinstance(value, Tensor):
        torch.ops.aten.copy_(view, value)
    else:
        view.fill_(value)


@contextlib.contextmanager
def fake_tensors():
    with FakeTensorMode(allow_non_fake_inputs=False), ByOperators():
        yield


def test_the_replaced_indexing_is_torchs_own():
    x = torch.arange(24.0).reshape(2, 3, 4)
    two = torch.tensor([1, 0])
    for index in [
        0, (slice(None), 1), (..., slice(1, 3)), (None, 1), (two, None), (two, slice(None), 0),
        (two, two), (..., two, two), (slice(None), two), (slice(None), None), (..., 2),
    ]:  # fmt: skip
        assert torch.equal(indexed(x, index), x[index])
        mine, theirs = x.clone(), x.clone()
        assign(mine, index, torch.tensor(-1.0))
        theirs[index] = -1.0
        assert torch.equal(mine, theirs)


@pytest.fixture(params=["linear", "log"])
def fake_cuda(request, monkeypatch):
    """Fake tensors on a GPU, with or without rows that take the log-space path."""

    def rows_below(values, floor):
        count = 0 if request.param == "linear" else 2
        index = torch.zeros(count, dtype=torch.int64, device=values.device)
        return index, index.clone()

    monkeypatch.setattr(fullline, "_rows_below", rows_below)
    monkeypatch.setattr(halfline, "_rows_below", rows_below)
    integration.legendre_rule_on.cache_clear()
    halfline._step_rule.cache_clear()
    monkeypatch.setattr(forms, "_in_parts", lambda small: [])  # tensors without numbers hold none
    monkeypatch.setattr(integration, "_HALVINGS", 1)  # there are no numbers to find a root of
    # What the host reads of the parameters has no number either: any will do.
    monkeypatch.setattr(
        objective.Objective,
        "_dependence",
        lambda self, theta: np.full((len(theta), len(self.form.names)), 0.5),
    )
    with fake_tensors():
        yield torch.device("cuda")


def build(device):
    """Two rows of every kind."""
    X = np.column_stack([np.ones(6), np.arange(6.0)])
    s = np.array([0.0, 1.0, 0.4, 0.0, 1.0, 0.5])
    return Rows.build(X, X[:, :1], np.array([0, 1, 1, 0, 0, 0.3]), s, device=device)


def assert_on(device, *tensors):
    for tensor in tensors:
        assert tensor.device.type == device.type
        assert tensor.dtype == torch.float64


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_objective_stays_on_the_device(fake_cuda, form):
    rows = build(fake_cuda)
    assert all(
        getattr(rows, field.name).device.type == "cuda"
        for field in dataclasses.fields(rows)
        if field.type == "Tensor"
    )
    target = Objective(rows, form, penalty=0.1)
    theta = torch.zeros(2, target.n_params, dtype=torch.float64, device=fake_cuda)
    at = target.evaluate(theta)
    assert_on(fake_cuda, at.value, at.score, at.hessian)
    assert at.hessian.shape == (2, target.n_params, target.n_params)


def test_a_corner_stays_on_the_device(fake_cuda):
    block = dataclasses.replace(next(iter(build(fake_cuda).blocks(6))), kind="hard")
    a = torch.zeros(2, len(block.key), dtype=torch.float64, device=fake_cuda)
    form = ProbitForm()
    nodes = form.nodes(np.array([[0.5], [9.0]]), fake_cuda)
    terms = form.terms(a, a, a[:, :1], block, nodes, 2)
    assert_on(fake_cuda, terms.value, terms.first, terms.second)


@pytest.mark.parametrize(
    "name",
    ["standardized", *(pytest.param(n, marks=pytest.mark.full) for n in ("simulation", "loading"))],
)
def test_members_with_rows_of_their_own_stay_on_the_device(fake_cuda, name):
    rows = build(fake_cuda)
    soft = torch.full((2, 6), 0.3, dtype=torch.float64, device=fake_cuda)
    keys = rows.key + torch.arange(2, device=fake_cuda)[:, None]
    for own in (
        stacked([rows, rows]),
        relabelled(rows, rows.tilt < 1.0, soft, soft),
        rekeyed(rows, keys),
    ):
        target = Objective(own, FORMS[name])
        theta = torch.zeros(2, target.n_params, dtype=torch.float64, device=fake_cuda)
        at = target.evaluate(theta)
        assert_on(fake_cuda, at.value, at.score, at.hessian)


@pytest.mark.parametrize("link", [LOGIT, PROBIT])
def test_first_stages_of_a_batch_stay_on_the_device(link, monkeypatch):
    monkeypatch.setattr(Tensor, "any", lambda self: False)  # fake tensors have no truth to ask for
    with fake_tensors():
        X = torch.ones(2, 6, dtype=torch.float64, device="cuda")
        fits = fit_binaries(X, X[0], link, torch.ones(3, 6, dtype=torch.float64, device="cuda"))
        assert_on(X.device, fits.params, fits.value, fits.hessian)


# What follows does not depend on the path that a row takes, and a fake operator takes milliseconds.
LINEAR = pytest.mark.parametrize("fake_cuda", ["linear"], indirect=True)


@LINEAR
@pytest.mark.parametrize("name", ["free", "simulation"])
def test_row_quantities_stay_on_the_device(fake_cuda, name):
    target = Objective(build(fake_cuda), FORMS[name])
    theta = torch.zeros(1, target.n_params, dtype=torch.float64, device=fake_cuda)
    assert_on(fake_cuda, target.row_values(theta), target.row_scores(theta), target.opg(theta))


@LINEAR
@pytest.mark.parametrize("name", ["standardized", "loading"])
def test_newton_step_stays_on_the_device(fake_cuda, name):
    target = Objective(build(fake_cuda), FORMS[name])
    theta = torch.zeros(2, target.n_params, dtype=torch.float64, device=fake_cuda)
    free = torch.ones_like(theta, dtype=torch.bool)
    search = _Search(target, theta, free, torch.ones(2, 6, dtype=torch.float64, device=fake_cuda))
    search.score, search.information, _ = search._model()
    search.step()
    assert_on(fake_cuda, search.theta, search.radius, search.at.value, search.at.hessian)
    score, information, _ = scaled_model(target, search.theta, free, search.at)
    for found in judge(score, information, search.at.value, 6.0, 1e-8):
        assert found.device.type == "cuda"


@pytest.mark.parametrize("kind", DRAW_KINDS)
def test_draws_are_made_on_the_device_of_the_keys(kind):
    with fake_tensors():
        keys = torch.arange(5, device="cuda")
        assert_on(keys.device, normal_draws(keys, 16, kind, 0))


def test_trust_region_step_stays_on_the_device():
    with fake_tensors():
        score = torch.ones(3, 4, dtype=torch.float64, device="cuda")
        step = trust_region_step(score, torch.diag_embed(score), score[:, 0])
        assert_on(score.device, step)


@LINEAR
def test_a_planted_mismatch_is_caught(fake_cuda, monkeypatch):
    """The tests above can fail: nodes left on the CPU, as a forgotten device= would."""
    target = Objective(build(fake_cuda), FreeForm())
    theta = torch.zeros(1, target.n_params, dtype=torch.float64, device=fake_cuda)
    at_home = FreeForm.nodes
    monkeypatch.setattr(
        FreeForm, "nodes", lambda self, at, device: at_home(self, at, torch.device("cpu"))
    )
    with pytest.raises(RuntimeError, match="cpu"):
        target.evaluate(theta)


def test_auto_takes_what_there_is():
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == expected
    assert resolve_device().type == expected
    assert resolve_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "AUTO", None])
def test_unknown_devices_are_named(name):
    with pytest.raises(ValueError, match=f"device={name!r} is not a torch device"):
        resolve_device(name)


@pytest.mark.parametrize("name", ["meta", "mps", "cuda:99"])
def test_devices_without_float64_or_not_present_are_refused(name):
    with pytest.raises(ValueError, match=f"device='{name}' cannot hold float64"):
        resolve_device(name)


def test_device_without_float64_is_refused_where_it_is_present(monkeypatch):
    """What torch says on Apple's GPU, where only float32 exists."""

    def zeros(*size, dtype, device):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype")

    monkeypatch.setattr(torch, "zeros", zeros)
    with pytest.raises(ValueError, match="cannot hold float64, which the likelihood needs"):
        resolve_device("mps")


def test_blocks_fit_the_cache_on_a_cpu_and_the_budget_elsewhere():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert block_rows(32, cpu, 2**28) == 2**18 // 32
    assert block_rows(32, cuda, 2**28) == 2**28 // (96 * 32)
    assert block_rows(10_000, cpu, 2**20) == 1  # the budget comes first
    assert block_rows(10**9, cuda, 2**20) == 1
    assert block_rows(32, cpu, 2**28, n_more=2**20) == 2**28 // (8 * (12 * 32 + 2**20))
    assert block_rows(32, cuda, 2**28, n_arrays=24) == 2**28 // (192 * 32)
