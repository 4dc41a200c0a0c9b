"""Formulas and data in, one frozen `Design` out, and the checks a design has to pass."""

from .checks import (
    check_design,
    check_exclusion,
    check_levels,
    check_outcome_varies,
    check_rank,
    check_selection_varies,
    check_separation,
    check_some_selected,
    check_width,
    degeneracies,
    find_excluded,
    find_separation,
)
from .data import (
    Design,
    design_from_arrays,
    design_from_formula,
    over_rows,
    refuse_penalised,
)
from .specs import FormulaSpec, rebuild
from .values import Dropped

__all__ = [
    "Design",
    "Dropped",
    "FormulaSpec",
    "check_design",
    "check_exclusion",
    "check_levels",
    "check_outcome_varies",
    "check_rank",
    "check_selection_varies",
    "check_separation",
    "check_some_selected",
    "check_width",
    "degeneracies",
    "design_from_arrays",
    "design_from_formula",
    "find_excluded",
    "find_separation",
    "over_rows",
    "rebuild",
    "refuse_penalised",
]
