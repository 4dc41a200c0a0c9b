"""Real data: where the raw files are, how to get them, and tidy frames with documented columns.

Each loader takes ``path``, a folder that has the raw files (directly or under the data set's name),
and ``download``; see :func:`statsmodels_mnar.datasets.loaders.find_file` for where files are looked
for. Rows keep the order of the raw files.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..tools import write_whole

VARIABLE = "STATSMODELS_MNAR_DATA"
_TIMEOUT = 60.0  # seconds


class DataFileError(FileNotFoundError, ValueError):
    """A raw file is nowhere to be found, cannot be fetched, or is not the file it should be.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import DataFileError, load_mroz
    >>> try:
    ...     load_mroz("a folder that does not exist")
    ... except DataFileError as error:
    ...     print(str(error)[:24])
    Mroz87.csv was not found
    """


@dataclass(frozen=True, slots=True)
class RawFile:
    """One raw file of a data set.

    Its place inside a data folder is ``<data set>/<name>``, or ``<name>`` alone.
    """

    dataset: str
    name: str
    sha256: str
    url: str | None  # None where no public address serves these bytes
    source: str  # for the instructions


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_UCI_SITE = "the UCI machine learning repository"

FILES: dict[str, RawFile] = {
    file.name: file
    for file in (
        RawFile(
            "adult",
            "adult.data",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            f"{_UCI}/adult/adult.data",
            _UCI_SITE,
        ),
        RawFile(
            "adult",
            "adult.test",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            f"{_UCI}/adult/adult.test",
            _UCI_SITE,
        ),
        RawFile(
            "german",
            "german.data",
            "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
            f"{_UCI}/statlog/german/german.data",
            _UCI_SITE,
        ),
        RawFile(
            "drug",
            "drug_consumption.data",
            "90b8cf500b07ad455baf9fe1dc519998c75a1df6d87f6bd7069176f0826ea8c1",
            f"{_UCI}/00373/drug_consumption.data",
            _UCI_SITE,
        ),
        RawFile(
            "credit_card",
            "AmEx.csv",
            "e98848feff1d59eadbb923aff470d3525f980757497bb9dcbf954bd5341802b8",
            None,
            "the data set AmEx of the R package HeckmanSelect, written with "
            "write.csv(AmEx, 'AmEx.csv', row.names = FALSE)",
        ),
        RawFile(
            "mroz",
            "Mroz87.csv",
            "c37436f8fb82b5217c44c8b823a1bfb32f2f21096eca3b760e409ba8279d0648",
            "https://vincentarelbundock.github.io/Rdatasets/csv/sampleSelection/Mroz87.csv",
            "the data set Mroz87 of the R package sampleSelection",
        ),
    )
}


def cache_dir() -> Path:
    """The folder downloads are kept in: ``$XDG_CACHE_HOME/statsmodels_mnar`` or ``~/.cache``'s.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import cache_dir
    >>> cache_dir().name
    'statsmodels_mnar'
    """
    root = os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root and Path(root).is_absolute() else Path.home() / ".cache"
    return base / "statsmodels_mnar"


def find_file(
    name: str, path: str | os.PathLike[str] | None = None, *, download: bool = False
) -> Path:
    """The place of a raw file.

    Parameters
    ----------
    name : str
        One of ``FILES``.
    path : path-like, optional
        A folder that has the file, directly or under the data set's name. Nothing else is searched
        then. By default the folder named by the environment variable
        STATSMODELS_MNAR_DATA and then the per-user cache (:func:`cache_dir`) are.
    download : bool
        Fetch the file from its public source into the cache where it is not found. Its checksum
        must be that of the file these loaders were written for.

    Raises
    ------
    DataFileError
        Where the file is nowhere, or cannot be fetched, with what to do.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from statsmodels_mnar.datasets import find_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = (Path(folder) / "german.data").write_text("A11 6 A34")
    ...     find_file("german.data", folder).name
    'german.data'
    """
    file = FILES[name]
    named = os.environ.get(VARIABLE)
    if path is not None:
        folders = [Path(path)]
    else:
        folders = [Path(named)] if named else []
        folders.append(cache_dir())
    for folder in folders:
        for place in (folder / file.dataset / name, folder / name):
            if place.is_file():
                return place
    if download and path is None:
        return fetch(file, cache_dir() / file.dataset / name)
    raise DataFileError(_instructions(file, folders))


def fetch(file: RawFile, place: Path) -> Path:
    """Download a file, check it, and put it in its place in one step."""
    if file.url is None:
        raise DataFileError(
            f"{file.name} has no public address to download from. Take it from {file.source} and "
            f"put it at {place}"
        )
    try:
        with urllib.request.urlopen(file.url, timeout=_TIMEOUT) as response:
            content = response.read()
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise DataFileError(
            f"{file.name} could not be fetched from {file.url} ({error}). Without a network: "
            f"get the file elsewhere and put it at {place}, or name its folder in the environment "
            f"variable {VARIABLE}"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise DataFileError(
            f"{file.url} served {len(content):,} bytes with sha256 {found}, not {file.sha256}: the "
            "file has changed or the download is incomplete. Nothing was kept."
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, content)
    return place


def _instructions(file: RawFile, folders: list[Path]) -> str:
    remedy = "pass download=True, or " if file.url is not None else ""
    return (
        f"{file.name} was not found in {', '.join(map(str, folders))}: {remedy}get it from "
        f"{file.source} and pass its folder as path, or name the folder in the environment "
        f"variable {VARIABLE}"
    )


# -- real data: raw files -> tidy frames with documented columns -----------------------------------


PathLike = str | os.PathLike[str] | None

_ADULT = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week",
    "native_country", "income",
]  # fmt: skip
_GERMAN = [
    "status_checking", "duration", "credit_history", "purpose", "credit_amount", "savings",
    "employment", "installment_rate", "personal_status_sex", "other_debtors", "residence",
    "property", "age", "other_plans", "housing", "existing_credits", "job", "liable", "telephone",
    "foreign_worker", "risk",
]  # fmt: skip
_DRUG = [
    "id", "age", "gender", "education", "country", "ethnicity", "nscore", "escore", "oscore",
    "ascore", "cscore", "impulsive", "ss", "alcohol", "amphet", "amyl", "benzos", "caffeine",
    "cannabis", "chocolate", "coke", "crack", "ecstasy", "heroin", "ketamine", "legalh", "lsd",
    "meth", "mushrooms", "nicotine", "semer", "vsa",
]  # fmt: skip

_APPLICANT = "AGE + INCOME + INCPER + OWNRENT + ADEPCNT + SELFEMPL"
_RECORD = "MAJORDRG + MINORDRG + ACADMOS + TRADACCT + CREDMAJR + BANKSAV + BANKBOTH"
FORMULAS: dict[str, tuple[str, str]] = {
    "credit_card": (f"DEFAULT ~ {_APPLICANT}", f"CARDHLDR ~ {_APPLICANT} + {_RECORD}"),
    "mroz": ("y ~ exper + exper2 + educ + city", "s ~ age + age2 + faminc + kids + educ"),
    "fair": (
        "y ~ rate_marriage + age + yrs_married + religious + educ",
        "s ~ rate_marriage + age + yrs_married + religious + educ + reminder",
    ),
}
"""Outcome and selection formulas that suit the frames of the loaders of the same name."""


def load_adult(path: PathLike = None, *, download: bool = False) -> pd.DataFrame:
    """UCI Adult (Census Income): 48,842 persons, ``adult.data`` followed by ``adult.test``.

    Parameters
    ----------
    path : path-like, optional
        Folder with adult.data and adult.test.
    download : bool
        Fetch the files where they are not found.

    Returns
    -------
    DataFrame
        ``age``, ``fnlwgt`` (census weight), ``education_num`` (years), ``capital_gain``,
        ``capital_loss``, ``hours_per_week``: numbers. ``workclass``, ``education``,
        ``marital_status``, ``occupation``, ``relationship``, ``race``, ``sex``,
        ``native_country``: the file's words, missing where it has "?" (45,222 rows are complete).
        ``income``: 1 where above 50K. ``government``: 1 where workclass is Federal-gov, State-gov
        or Local-gov (missing with workclass), the label of the paper's experiment. ``file``:
        "data" or "test".

    Notes
    -----
    Becker, B. and R. Kohavi (1996), Adult, UCI Machine Learning Repository; CC BY 4.0.

    Examples
    --------
    >>> load_adult().shape  # doctest: +SKIP
    (48842, 17)
    """
    parts = []
    for name in ("adult.data", "adult.test"):
        raw = pd.read_csv(
            find_file(name, path, download=download),
            names=_ADULT,
            skipinitialspace=True,
            na_values="?",
            keep_default_na=False,
            comment="|",  # the first line of adult.test
        )
        parts.append(raw.assign(file=name.removeprefix("adult.")))
    data = pd.concat(parts, ignore_index=True)
    # adult.test has a full stop after each label.
    data["income"] = (data["income"].str.rstrip(".") == ">50K").astype(int)
    government = data["workclass"].isin(["Federal-gov", "State-gov", "Local-gov"]).astype(float)
    data["government"] = government.where(data["workclass"].notna())
    return data


def load_german(path: PathLike = None, *, download: bool = False) -> pd.DataFrame:
    """UCI Statlog German credit: 1,000 loans.

    Parameters
    ----------
    path, download
        As in :func:`load_adult`; the file is german.data.

    Returns
    -------
    DataFrame
        Numbers: ``duration`` (months), ``credit_amount`` (DM), ``installment_rate`` (per cent of
        income), ``residence`` (years), ``age``, ``existing_credits``, ``liable`` (persons to
        maintain). Codes as in the file, "A11" and so on: ``status_checking``, ``credit_history``,
        ``purpose``, ``savings``, ``employment`` (A71 unemployed, A72 below a year, A73 1 to 4,
        A74 4 to 7, A75 7 years and more), ``personal_status_sex``, ``other_debtors``, ``property``,
        ``other_plans``, ``housing``, ``job``, ``telephone``, ``foreign_worker``. ``good``: 1 where
        the credit risk is good.

    Notes
    -----
    Hofmann, H. (1994), Statlog (German Credit Data), UCI Machine Learning Repository; CC BY 4.0.

    Examples
    --------
    >>> load_german().good.sum()  # doctest: +SKIP
    700
    """
    place = find_file("german.data", path, download=download)
    data = pd.read_csv(place, sep=" ", names=_GERMAN)
    data["good"] = (data.pop("risk") == 1).astype(int)
    return data


def load_drug(path: PathLike = None, *, download: bool = False) -> pd.DataFrame:
    """UCI Drug consumption (quantified): 1,885 respondents.

    Parameters
    ----------
    path, download
        As in :func:`load_adult`; the file is drug_consumption.data.

    Returns
    -------
    DataFrame
        ``id``. The depositors' quantified covariates: ``age``, ``gender`` (positive: female),
        ``education``, ``country``, ``ethnicity``; personality scores ``nscore``, ``escore``,
        ``oscore``, ``ascore``, ``cscore`` (neuroticism, extraversion, openness, agreeableness,
        conscientiousness), ``impulsive``, ``ss`` (sensation seeking). One column for each of 19
        drugs (``alcohol`` to ``vsa``; ``semer`` does not exist and catches over-claimers), with
        "CL0" (never used) to "CL6" (used in the last day). ``benzos_used``: 1 where benzodiazepines
        were used within the last decade (CL2 to CL6), the label of the paper's experiment.

    Notes
    -----
    Fehrman, E., V. Egan and E. Mirkes (2015), Drug Consumption (Quantified), UCI Machine Learning
    Repository; CC BY 4.0.

    Examples
    --------
    >>> load_drug().benzos_used.sum()  # doctest: +SKIP
    769
    """
    place = find_file("drug_consumption.data", path, download=download)
    data = pd.read_csv(place, names=_DRUG)
    data["benzos_used"] = (~data["benzos"].isin(["CL0", "CL1"])).astype(int)
    return data


def load_credit_card(path: PathLike = None) -> pd.DataFrame:
    """Greene's credit card applications: 13,444, of which 10,499 got the card and 996 defaulted.

    The classic of reject inference: default is seen only for applicants who were accepted.

    Parameters
    ----------
    path : path-like, optional
        Folder with AmEx.csv, which has no public address to download from: take it from the R
        package HeckmanSelect.

    Returns
    -------
    DataFrame
        Under the names of the file. Outcome: ``DEFAULT``, missing where no card was given (the
        file has 0 there, which means nothing). Selection: ``CARDHLDR``.

        Applicant: ``AGE``, ``ADEPCNT`` (dependents), ``OWNRENT`` (owns the home), ``SELFEMPL``,
        ``INCOME`` and ``INCPER`` (income per member of the household, dollars a year), ``AADLINC``
        (additional income), ``ACADMOS``, ``APADMOS``, ``AEMPMOS`` (months at the current and the
        previous address, and in the job); ``PROF``, ``UNEMP``, ``MGT``, ``MILITARY``, ``CLERICAL``,
        ``SALES``, ``OTHERJOB``: the occupation.

        Record: ``MAJORDRG``, ``MINORDRG`` (major and minor derogatory reports), ``ACBINQ``
        (inquiries), ``TRADACCT``, ``ACURTRD`` (open and current trade accounts), ``CREDMAJR``,
        ``CREDDEPT``, ``CREDGAS`` (holds a major, department store, gasoline card), ``BANKSAV``,
        ``BANKCH``, ``BANKBOTH`` (savings, checking, both accounts), ``CPTOPNB``, ``CPTOPNG``,
        ``CPT30C``, ``CPTF30``, ``CPTAVRV``, ``CBURDEN``, ``AMAMIND`` (the credit bureau's).
        ``EXP_INC`` (spending over income) and ``EXPRATIO`` follow the decision: next to nothing
        without a card, so they all but separate selection.

        Neighbourhood: ``BUYPOWER``, ``PCTCOLL``, ``MEDAGE``, ``MEDINC``, ``PCTOWN``, ``PCTBLACK``,
        ``PCTSPAN``, ``GROWTH``, ``PCTEMPL``, and trade in ``APPAREL``, ``AUTO``, ``BUILDMTL``,
        ``DEPTSTOR``, ``DRUGSTOR``, ``EATDRINK``, ``FURN``, ``GAS``.

    Notes
    -----
    Greene, W. H. (1998), Sample selection in credit-scoring models, Japan and the World Economy 10.
    The file is as shipped by the R package HeckmanSelect (MIT); the data are W. H. Greene's.
    ``FORMULAS["credit_card"]`` has a pair of formulas.

    Examples
    --------
    >>> load_credit_card().CARDHLDR.sum()  # doctest: +SKIP
    10499
    """
    data = pd.read_csv(find_file("AmEx.csv", path))
    return data.assign(DEFAULT=data["DEFAULT"].where(data["CARDHLDR"] == 1))


def load_mroz(path: PathLike = None, *, download: bool = False) -> pd.DataFrame:
    """Mroz's married women of 1975: 753, of whom 428 worked and have a wage.

    Parameters
    ----------
    path, download
        As in :func:`load_adult`; the file is Mroz87.csv.

    Returns
    -------
    DataFrame
        The columns of the R package sampleSelection: ``lfp``, ``hours``, ``kids5``, ``kids618``,
        ``age``, ``educ``, ``wage`` (0 where not working), ``repwage``, ``hushrs``, ``husage``,
        ``huseduc``, ``huswage``, ``faminc``, ``mtr``, ``motheduc``, ``fatheduc``, ``unem``,
        ``city``, ``exper``, ``nwifeinc``, ``wifecoll``, ``huscoll``. Added: ``s`` = lfp; ``y``: 1
        where the wage is above the median of those who work, missing for the others; ``kids``: has
        children below 18; ``age2``, ``exper2``: squares.

    Notes
    -----
    Mroz, T. A. (1987), The sensitivity of an empirical model of married women's hours of work to
    economic and statistical assumptions, Econometrica 55. As shipped by sampleSelection (GPL).
    ``FORMULAS["mroz"]`` has a pair of formulas.

    Examples
    --------
    >>> load_mroz().s.sum()  # doctest: +SKIP
    428
    """
    data = pd.read_csv(find_file("Mroz87.csv", path, download=download), index_col="rownames")
    data = data.reset_index(drop=True)
    works = data["lfp"] == 1
    high = (data["wage"] > data.loc[works, "wage"].median()).astype(float)
    return data.assign(
        s=data["lfp"],
        y=high.where(works),
        kids=((data["kids5"] + data["kids618"]) > 0).astype(int),
        age2=data["age"] ** 2,
        exper2=data["exper"] ** 2,
    )


def load_fair(strength: float = 1.0, *, rng: int | np.random.Generator = 0) -> pd.DataFrame:
    """Fair's survey of affairs, which statsmodels ships, with labels masked by a known rule.

    6,366 married women; the label is whether any time was spent in affairs. Made for examples: the
    covariates and the labels are real, who answers is simulated, and no file is needed. With z a
    ``reminder`` (a fair coin) and u standard normal, the label is seen where

        0.2 + 0.3 religious* + 0.8 (2 reminder - 1) - strength y + u > 0,

    religious* standardized. With strength > 0 those who have something to hide answer less often,
    so the labelled rows have too few ones, whatever the covariates: missing not at random.
    ``strength=0`` is missing at random.

    Parameters
    ----------
    strength : float
        Effect of the label on the latent index of answering.
    rng : int or numpy.random.Generator
        Of the mask.

    Returns
    -------
    DataFrame
        Covariates ``rate_marriage`` (1 very poor to 5 very good), ``age``, ``yrs_married``,
        ``children``, ``religious`` (1 not to 4 strongly), ``educ`` (years), ``occupation``,
        ``occupation_husb`` (codes), ``affairs`` (time spent, which the label comes from);
        ``reminder``; ``s``; ``y``, missing where s = 0; ``y_full``, all labels.

    Notes
    -----
    Fair, R. (1978), A theory of extramarital affairs, Journal of Political Economy 86; in the
    public domain as shipped with statsmodels. ``FORMULAS["fair"]`` has a pair of formulas.

    Examples
    --------
    >>> data = load_fair()
    >>> f"{len(data):,} rows; {data.y_full.mean():.3f} ones, {data.y.mean():.3f} where labelled"
    '6,366 rows; 0.322 ones, 0.193 where labelled'
    """
    from statsmodels.datasets import fair

    if not np.isfinite(strength):
        raise ValueError(f"strength={strength!r} must be a finite number")
    rng = np.random.default_rng(rng)
    data = fair.load_pandas().data.reset_index(drop=True)
    y = (data["affairs"] > 0).astype(float)
    reminder = rng.integers(0, 2, len(data))
    devout = (data["religious"] - data["religious"].mean()) / data["religious"].std(ddof=0)
    latent = 0.2 + 0.3 * devout + 0.8 * (2 * reminder - 1) - strength * y
    s = (latent + rng.standard_normal(len(data)) > 0).astype(int)
    return data.assign(reminder=reminder, s=s, y=y.where(s == 1), y_full=y)
