"""Every hostile input of the catalogue, at every door it can come through."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from statsmodels.tools.sm_exceptions import ModelWarning

from .catalogue import ENTRIES, Entry
from .doors import BASE, COMMAND, DOORS, Call, Numbers

QUICK = ("naive", "naive arrays", "independent", "ipw", "rba")


def _cases(*, refused: bool) -> list[Any]:
    """Every entry at every door, of which the default run takes one door each, in turn.

    Where numbers are compared, three times of four it is a door without a dependence, if the
    entry has one: its fits are quick.
    """
    found = []
    for turn, entry in enumerate(e for e in ENTRIES if (e.raises is not None) is refused):
        quick = [door for door in entry.doors if door in QUICK and not refused and turn % 4]
        usual = (quick or entry.doors)[turn % len(quick or entry.doors)]
        for door in entry.doors:
            marks = () if door == usual else pytest.mark.full
            found.append(pytest.param(door, entry, id=f"{door}-{entry.name}", marks=marks))
    return found


@pytest.mark.parametrize(("door", "entry"), _cases(refused=True))
def test_the_error_names_the_argument_and_the_remedy(door: str, entry: Entry):
    assert entry.raises is not None
    kind = ValueError if door in COMMAND else entry.raises
    with np.errstate(all="ignore"), pytest.raises(kind) as caught:
        DOORS[door].numbers(entry.call())
    for part in entry.says:
        assert part in str(caught.value)


WARNED = [
    pytest.param(entry, id=entry.name, marks=pytest.mark.full if i % 4 else ())
    for i, entry in enumerate(
        e for e in ENTRIES if e.raises is not None and "biascorr, no penalty" in e.doors
    )
]


@pytest.mark.parametrize("entry", WARNED)
def test_biascorrs_default_penalty_takes_it_and_says_so(entry: Entry):
    """What its bare objective refuses; the warning names what the penalty alone decides."""
    with pytest.warns(ModelWarning, match=r"[Tt]he penalty alone|equation says nothing about"):
        found = DOORS["biascorr"].numbers(entry.call())
    assert np.isfinite(found).all()


@pytest.mark.filterwarnings("ignore:all 202 pseudolabels")
def test_biascorrs_default_penalty_warns_of_an_offset_that_it_works_against():
    far, near = (Call(BASE, model={"offset": offset}) for offset in (np.full(400, 1e4), BASE.w))
    with pytest.warns(ModelWarning, match=r"offset is 1e\+04 from zero .* Subtract its mean"):
        DOORS["biascorr"].numbers(far)
    DOORS["biascorr"].numbers(near)  # without a warning


@pytest.mark.parametrize(("door", "entry"), _cases(refused=False))
def test_the_numbers_are_those_of_clean_data(door: str, entry: Entry):
    assert entry.clean is not None
    call = entry.call()
    if entry.warns is None:
        found = DOORS[door].numbers(call)
    else:
        with pytest.warns(entry.warns):
            found = DOORS[door].numbers(call)
    np.testing.assert_allclose(found, _expected(door, entry.clean()), rtol=DOORS[door].tolerance)


def _expected(door: str, call: Call) -> Numbers:
    if call.data is BASE and call.model is None and call.fit is None:
        return _expected_of_base(door, call.outcome, call.select)
    return DOORS[door].expected(call)


@cache
def _expected_of_base(door: str, outcome: str, select: str) -> Numbers:
    return DOORS[door].expected(Call(BASE, outcome, select))


def test_entries_have_names_of_their_own():
    names = [(entry.topic, entry.name) for entry in ENTRIES]
    assert len(set(names)) == len(names)
