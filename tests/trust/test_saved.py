"""Results as JSON: exact there and back, nothing executed, and what is malformed is named."""

from __future__ import annotations

import json
import math
import pickle
import warnings

import numpy as np
import pytest

from statsmodels_mnar import (
    BiasCorrLogit,
    Execution,
    GreeneSelectionLogit,
    ProbitSelection,
    Quadrature,
    Simulation,
    from_json,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.errors import NotInMemoryError

SIGMA_FIXED = {"normalization": {"sigma": 1.0}}
CASES = {
    "loading": (GreeneSelectionLogit, {"normalization": "loading"}, {}),
    "on a face": (GreeneSelectionLogit, {}, {}),
    "robust": (GreeneSelectionLogit, SIGMA_FIXED, {"cov_type": "HC1"}),
    "penalised": (GreeneSelectionLogit, SIGMA_FIXED, {"penalty": 1e-3, "maxiter": 50}),
    "draws": (GreeneSelectionLogit, SIGMA_FIXED | {"integration": Simulation(200)}, {}),
    "replaced": (
        GreeneSelectionLogit,
        SIGMA_FIXED | {"integration": Quadrature("gauss-hermite", 3)},
        {},
    ),
    "descent": (GreeneSelectionLogit, {}, {"method": "sgd", "rng": 3}),
    "probit": (ProbitSelection, {}, {}),
    "biascorr": (BiasCorrLogit, SIGMA_FIXED, {}),
    "biascorr, penalised": (BiasCorrLogit, SIGMA_FIXED, {"penalty": 1e-3}),
}


@pytest.fixture(scope="module")
def simulated():
    return simulate_greene(1_000, sigma=1.0, rho=0.7, rng=1)


def build(simulated, cls=GreeneSelectionLogit, **options):
    return cls.from_formula(simulated.formula, simulated.select_formula, simulated.data, **options)


class Fits(dict):
    """Model and results of a case by its name, fitted when they are asked for."""

    def __init__(self, simulated):
        super().__init__()
        self.simulated = simulated

    def __missing__(self, name):
        cls, options, fit_options = CASES[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = build(self.simulated, cls, **options)
            self[name] = model, model.fit(**fit_options)
        return self[name]


@pytest.fixture(scope="module")
def fits(simulated):
    return Fits(simulated)


FEW = ("loading", "replaced", "descent", "probit", "biascorr")  # the cases of the default run
EVERY = [pytest.param(name, marks=() if name in FEW else pytest.mark.full) for name in CASES]


def without_date(summary):
    return [line for line in str(summary).splitlines() if not line.startswith(("Date", "Time"))]


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_lost_to_the_last_bit(fits, name):
    model, results = fits[name]
    text = results.to_json()
    again = from_json(text)
    assert type(again) is type(results)
    assert type(again.model) is type(results.model)
    for quantity in ("params", "bse", "tvalues", "pvalues"):
        one, other = getattr(results, quantity), getattr(again, quantity)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        assert list(one.index) == list(other.index)
    np.testing.assert_array_equal(results.cov_params(), again.cov_params())
    np.testing.assert_array_equal(results.conf_int(0.1), again.conf_int(0.1))
    for quantity in ("llf", "nobs", "nobs_selected", "eta", "df_model", "df_resid", "status"):
        assert getattr(again, quantity) == getattr(results, quantity), quantity
    assert without_date(again.summary()) == without_date(results.summary())
    assert without_date(again.summary2()) == without_date(results.summary2())
    assert again.glance().equals(results.glance())
    assert again.tidy().equals(results.tidy())
    X, W = model.exog[:20], model.exog_select[:20]
    for which in ("mean", "linear-select", "p10", "mean-unselected"):
        one = results.get_prediction(X, W, transform=False, which=which)
        other = again.get_prediction(X, W, which=which)
        np.testing.assert_array_equal(one.predicted, other.predicted)
        np.testing.assert_array_equal(one.se, other.se)
    assert again.to_json() == text


def test_tests_of_hypotheses_work_without_data(fits):
    _, results = fits["loading"]
    again = from_json(results.to_json())
    for hypothesis in ("x1 = x2", np.eye(8)[:2]):
        one, other = (r.wald_test(hypothesis, scalar=True) for r in (results, again))
        assert one.statistic == other.statistic
    assert again.t_test("x1 = 0").pvalue == results.t_test("x1 = 0").pvalue
    assert again.test_independence() == results.test_independence()
    assert str(again.identification) == str(results.identification)
    assert again.accuracy == results.accuracy
    assert again.dependence.equals(results.dependence)


def test_the_reports_record_can_be_read_too(fits, tmp_path):
    _, results = fits["loading"]
    again = from_json(results.report(tmp_path / "fit.json"))
    np.testing.assert_array_equal(again.params, results.params)


def test_text_file_and_pickle_of_what_was_read_agree(fits, tmp_path):
    _, results = fits["probit"]
    text = results.to_json(tmp_path / "fit.json")
    assert (tmp_path / "fit.json").read_text() == text
    for source in (tmp_path / "fit.json", str(tmp_path / "fit.json"), f"\n {text}"):
        assert from_json(source).to_json() == text
    assert pickle.loads(pickle.dumps(from_json(text))).to_json() == text


def test_results_whose_data_were_removed_can_be_written(simulated, fits):
    results = build(simulated, **SIGMA_FIXED).fit(penalty=1e-3)
    before = json.loads(results.to_json())
    results.remove_data()
    assert json.loads(results.to_json()) == before


# -- no data, and of formulas only columns and arithmetic ------------------------------------------


def test_formulas_are_text_and_never_evaluated(fits, tmp_path):
    """A formula that would write a file, were it evaluated."""
    _, results = fits["loading"]
    record = json.loads(results.to_json())
    flag = tmp_path / "executed"
    record["formula"] = f"y ~ __import__('pathlib').Path({str(flag)!r}).touch() or x1"
    record["select_formula"] = record["formula"]
    again = from_json(json.dumps(record))
    assert again.model.formula == record["formula"]
    X, W = np.ones((2, 3)), np.ones((2, 4))
    data = simulate_greene(100).data
    again.summary(), again.predict(X), again.get_prediction(X, W, which="p11"), again.predict(data)
    record["terms"]["outcome"]["factors"][0]["eval_code"] = record["formula"].partition("~ ")[2]
    with pytest.raises(ValueError, match=r"terms\.outcome: .* is not evaluated from a file"):
        from_json(json.dumps(record))
    assert not flag.exists()


def test_predictions_from_data_are_those_of_the_fit(simulated, fits, tmp_path):
    _, results = fits["probit"]
    again, new = from_json(results.to_json()), simulate_greene(50, rng=9).data
    for which in ("mean", "mean-unselected", "p10", "linear-select"):
        one, other = (r.get_prediction(new, which=which).summary_frame() for r in (results, again))
        assert one.equals(other)
    assert len(again.predict_parquet(new, tmp_path / "parts")) == 1


def test_without_a_record_of_formulas_data_are_refused(fits, tmp_path):
    again = from_json(changed(json.loads(fits["loading"][1].to_json()), ("terms",), None))
    with pytest.raises(ValueError, match="no record of what their formulas learned"):
        again.predict(simulate_greene(100).data)
    with pytest.raises(ValueError, match="need a model built from formulas"):
        again.predict_parquet(simulate_greene(100).data, tmp_path / "out")


def test_frames_are_designs_by_name(fits):
    model, results = fits["loading"]
    again = from_json(results.to_json())
    design = model.data.orig_exog.head(5)
    assert again.predict(design).equals(results.predict(design, transform=False))
    assert again.predict(design[["x2", "x1", "Intercept"]]).equals(again.predict(design))
    with pytest.raises(ValueError, match=r"data lacks the column\(s\) x2"):
        again.predict(design.set_axis(["Intercept", "x1", "x3"], axis=1))
    with pytest.raises(ValueError, match="exog_select must have the columns Intercept, x1, x2, z"):
        again.predict(design, design, which="p11")


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r.predict(),
        lambda r: r.fittedvalues,
        lambda r: r.get_margeff(),
        lambda r: r.bootstrap(5),
        lambda r: r.profile("loading"),
        lambda r: r.get_robustcov_results("HC0"),
        lambda r: r.test_independence("score"),
        lambda r: r.impute(),
        lambda r: r.get_influence(),
        lambda r: r.model.fit(),
        lambda r: r.model.loglike(r.params),
    ],
)
def test_what_needs_the_data_says_so(fits, ask):
    _, results = fits["loading"]
    with pytest.raises(NotInMemoryError, match=r"from_json\(\.\.\., model=\)"):
        ask(from_json(results.to_json()))


@pytest.mark.parametrize("name", [case for case in EVERY if case.values != ("descent",)])
def test_with_a_model_everything_works(simulated, fits, name):
    model, results = fits[name]
    again = from_json(results.to_json(), model)
    fresh = simulated.data.head(7)
    assert again.predict(fresh).equals(results.predict(fresh))
    one, other = (r.get_margeff().summary_frame() for r in (results, again))
    np.testing.assert_array_equal(one, other)
    # A robust covariance is computed from the rows, not read from the file.
    one, other = (r.get_robustcov_results("HC0").bse for r in (results, again))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_another_model_is_refused(simulated, fits):
    _, results = fits["loading"]
    text = results.to_json()
    other = simulate_greene(1_000, rng=2)
    loading = {"normalization": "loading"}
    for model, message in (
        (build(simulated, ProbitSelection), "model must be a GreeneSelectionLogit"),
        (
            build(simulated, normalization="free"),
            "model has normalization='free', the file 'loading'",
        ),
        (build(other, **loading), "model has the log-likelihood"),
        (
            GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1 + z", simulated.data, **loading),
            "model has the parameters",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            from_json(text, model)


def test_clusters_are_not_in_the_file(simulated):
    model = build(simulated, normalization="loading")
    groups = np.arange(1_000) // 4
    results = model.fit(cov_type="cluster", cov_kwds={"groups": groups})
    again = from_json(results.to_json())
    np.testing.assert_array_equal(again.bse, results.bse)
    assert without_date(again.summary()) == without_date(results.summary())
    with pytest.raises(ValueError, match="its clusters are not in the file"):
        from_json(results.to_json(), model)


def test_penalised_biascorr_in_partitions_comes_back(simulated):
    options = SIGMA_FIXED | {"execution": Execution(partition_rows=300)}
    model = build(simulated, BiasCorrLogit, **options)
    results = model.fit(penalty=1e-3)
    again = from_json(results.to_json(), model)
    assert (
        again.get_prediction(average=True).predicted
        == results.get_prediction(average=True).predicted
    )


# -- malformed files -------------------------------------------------------------------------------


def changed(record, path, value):
    """A copy with one value replaced, or its key removed."""
    record = json.loads(json.dumps(record))
    *parents, last = path
    at = record
    for key in parents:
        at = at[key]
    if value is KeyError:
        del at[last]
    else:
        at[last] = value
    return json.dumps(record)


@pytest.fixture(scope="module")
def record(fits):
    return json.loads(fits["loading"][1].to_json())


def every_key(value, path=()):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from every_key(inner, (*path, name))


NOT_READ = {  # what follows from other keys, for readers other than from_json
    ("fit",), ("notes",), ("versions",), ("data", "missing_ratio"), ("status", "message"),
    ("status", "boundary"), ("likelihoods", "faces", "independent"),
}  # fmt: skip
# Which are read too.
NOT_IN_OLD_FILES = {
    ("link",),
    ("instrument",),
    ("weak",),
    ("terms",),
    ("offsets",),
    ("penalised_terms",),
    ("free_shares",),
    ("adjustment",),
    ("effects_apart",),
    ("across", "conservative"),
    ("across", "widened"),
    ("terms",),
    ("free_shares",),
}


def test_a_missing_key_is_named(record):
    tried = 0
    for path in every_key(record):
        if path in NOT_READ | NOT_IN_OLD_FILES or path[:1] in NOT_READ:
            from_json(changed(record, path, KeyError))
            continue
        with pytest.raises(ValueError, match=path[-1]):
            from_json(changed(record, path, KeyError))
        tried += 1
    assert tried > 40


MATRIX = np.eye(8).tolist()
BAD = [
    (("schema",), 2, "schema is of another version"),
    (("schema",), "1", "schema is of another version"),
    (("model",), "os.system", "model must be one of GreeneSelectionLogit"),
    (("model",), ["GreeneSelectionLogit"], "model must be a text"),
    (("normalization",), "nowhere", "normalization"),
    (("normalization",), {"sigma": -1.0}, "normalization"),
    (("normalization",), {"sigma": "1"}, "normalization.sigma must be a number"),
    (("integration", "by"), "eval", "integration.by must be one of"),
    (("integration", "tol"), 10.0, "integration.tol must lie between"),
    (("integration", "n_nodes"), 1, "integration.n_nodes must be at least 2"),
    (("integration", "n_nodes"), True, "integration.n_nodes must be an integer"),
    (("formula",), 5, "formula must be a text"),
    (("equations", "outcome"), [], "equations.outcome must be different names"),
    (("equations", "outcome"), ["x1", "x1", "x2"], "equations.outcome must be different"),
    (("equations", "outcome"), ["x1", None, "x2"], r"equations.outcome\[1\] must be a text"),
    (("equations", "outcome"), ["Intercept", "x1"], "must make the columns of the equation"),
    (("equations", "select"), ["Intercept", "x1"], "must make the columns of the equation"),
    (("terms", "outcome", "columns"), "x1", r"terms\.outcome: a list of names is expected"),
    (("offsets",), ["z"], "offsets must be two names or null"),
    (("data", "nobs"), 0, "data.nobs must lie between"),
    (("data", "nobs"), -5.0, "data.nobs must lie between"),
    (("data", "nobs"), 10**400, "data.nobs must lie between"),
    (("data", "labelled"), 1e9, "data.labelled must lie between"),
    (("data", "weights"), "heavy", "data.weights must be one of"),
    (("data", "dropped", "missing"), -1, "data.dropped.missing must be at least 0"),
    (("data", "constant"), 1, "data.constant must be true or false"),
    (("status", "name"), "excellent", "status.name must be one of"),
    (("status", "method"), "magic", "status.method must be one of"),
    (("status", "iterations"), 1.5, "status.iterations must be an integer"),
    (("status", "penalty"), -1.0, "status.penalty must lie between"),
    (("status", "options"), [], "status.options must be an object"),
    (("likelihoods", "value"), "high", "likelihoods.value must be a number"),
    (("likelihoods", "llnull"), "inf", "likelihoods.llnull must be a number"),
    (("apart", "params"), [0.0], "apart.params must have 7 numbers and has 1"),
    (("params",), [1.0] * 8, "params must be an object"),
    (("params", "x1"), None, "params.x1 must be a number"),
    (("params", "x1"), "0.5", "params.x1 must be a number"),
    (("params", "x1"), 1e300, "params.x1 must lie between"),
    (("params", "loading"), 1e6, "params.loading must lie between"),
    (("cov", "names"), ["a"] * 8, "cov.names must be different names"),
    (("cov", "names"), list("abcdefgh"), "cov.names must be Intercept, x1"),
    (("cov", "type"), "HC9", "cov.type must be one of"),
    (("cov", "n_groups"), [1], r"cov.n_groups\[0\] must be at least 2"),
    (("cov", "matrix"), MATRIX[:7], "cov.matrix must have 8 rows and has 7"),
    (("cov", "matrix"), [row[:7] for row in MATRIX], r"cov.matrix\[0\] must have 8 numbers"),
    (("cov", "matrix"), [[1e200] * 8] * 8, r"cov.matrix\[0\]\[0\] must lie between"),
    (("cov", "matrix"), [[None] * 8, *MATRIX[1:]], r"cov.matrix\[0\]\[0\] must be a number"),
    (("cov", "matrix"), (-np.eye(8)).tolist(), "cov.matrix must be positive semidefinite"),
    (("cov", "matrix"), (2 - np.eye(8)).tolist(), "cov.matrix must be positive semidefinite"),
    (("cov", "matrix"), np.triu(np.ones((8, 8))).tolist(), "cov.matrix must be symmetric"),
    (("hessian",), {}, "hessian must be a list"),
    (("independence", "method"), "luck", "independence.method must be one of"),
    (("accuracy", "simulated"), None, "accuracy.simulated must be true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), BAD, ids=lambda v: str(v)[:40])
def test_a_bad_value_is_named(record, path, value, message):
    with pytest.raises(ValueError, match=message):
        from_json(changed(record, path, value))


def deep(levels):
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"schema": 1', '"schema": NaN'), "NaN is not a number of JSON"),
        (
            lambda text: text.replace('"nobs": 1000.0', '"nobs": Infinity'),
            "Infinity is not a number",
        ),
        (lambda text: text.replace('"nobs": 1000.0', '"nobs": 1e999'), "data.nobs must lie"),
        (lambda text: text.replace('"nobs": 1000.0', f'"nobs": {"9" * 5000}'), "data.nobs must"),
        (lambda text: text.replace('"schema": 1', '"schema": 1, "schema": 1'), "'schema' appears"),
        (lambda text: text[: len(text) // 2], "it is not JSON"),
        (lambda text: "{" + text, "it is not JSON"),
        (lambda text: '{"a": ' + deep(100_000) + "}", "nested too deeply"),
        (
            lambda text: text.replace('"formula": "', f'"formula": {deep(30)}, "x": "', 1),
            "formula",
        ),
        (lambda text: deep(100_000), "nested too deeply"),
        (lambda text: "[" * 100_000, "nested too deeply"),
        (lambda text: text.replace('"formula": "', f'"x": {deep(65)}, "formula": "', 1), "deeply"),
        (lambda text: text.replace('"options": {}', '"options": {"gtol": [[]]}'), "options.gtol"),
        (lambda text: '{"a": "' + '\\"' * 100_000, "it is not JSON"),
        (lambda text: "{}", "'schema' is missing"),
        (lambda text: '{"schema": 1}', "'model' is missing"),
    ],
)
def test_a_malformed_text_is_refused(fits, change, message):
    text = change(fits["loading"][1].to_json())
    with pytest.raises(ValueError, match=message):
        from_json(text)


def test_an_accuracy_without_end_is_refused(record):
    inner = record["accuracy"]
    for _ in range(20):
        inner = inner | {"replaced": dict(inner)}
    with pytest.raises(ValueError, match=r"accuracy\.replaced\.replaced must be null"):
        from_json(changed(record, ("accuracy",), inner))


def test_what_is_no_file_of_results_is_refused(tmp_path, fits):
    pickled = tmp_path / "fit.pickle"
    fits["loading"][1].save(pickled)
    with pytest.raises(ValueError, match="not a file of results"):
        from_json(pickled)
    with pytest.raises(FileNotFoundError, match="neither a JSON text nor a file"):
        from_json("no such file")
    with pytest.raises(FileNotFoundError, match="neither a JSON text nor a file"):
        from_json("x" * 100_000)  # longer than any file's name
    with pytest.raises(TypeError, match="source must be a JSON text or a path, got dict"):
        from_json({"schema": 1})
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="its content must be an object"):
        from_json(tmp_path / "list.json")


@pytest.mark.parametrize(
    "others",
    [
        [None, True, 1e308, "x", [[]], {}],
        pytest.param([-1, "", [], {"x": 1}, [None] * 8], marks=pytest.mark.full),
    ],
    ids=["some", "others"],
)
def test_random_damage_never_does_more_than_raise_a_value_error(record, others):
    """Every value in turn replaced by others of every JSON type."""
    for path in every_key(record):
        for value in others:
            try:
                again = from_json(changed(record, path, value))
            except ValueError as error:
                assert str(error)  # noqa: PT017 - most raise, some are as good as the original
            else:
                assert np.isfinite(again.params).all()
                assert math.isfinite(again.nobs)


def test_properties_without_data_are_absent_not_broken(simulated):
    """``hasattr`` is False for what a file or a fit without data does not have."""
    results = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="loading"
    ).fit()
    read = from_json(results.to_json())
    results.remove_data()
    for holder in (results, results.model, read, read.model, read.model.design):
        for name in object.__dir__(holder):
            hasattr(holder, name)
    assert not hasattr(read, "resid") and not hasattr(results, "resid")
    assert hasattr(read, "params") and hasattr(results, "bse")
