"""Real data, the paper's experiments, and simulators that document their truth."""

from .experiments import EXPERIMENTS, Experiment, load_experiment
from .loaders import (
    FORMULAS,
    DataFileError,
    cache_dir,
    find_file,
    load_adult,
    load_credit_card,
    load_drug,
    load_fair,
    load_german,
    load_mroz,
)
from .simulators import (
    Simulated,
    simulate_credit,
    simulate_deterministic,
    simulate_greene,
    simulate_interviewers,
    simulate_mar,
)

__all__ = [
    "EXPERIMENTS",
    "FORMULAS",
    "DataFileError",
    "Experiment",
    "Simulated",
    "cache_dir",
    "find_file",
    "load_adult",
    "load_credit_card",
    "load_drug",
    "load_experiment",
    "load_fair",
    "load_german",
    "load_mroz",
    "simulate_credit",
    "simulate_deterministic",
    "simulate_greene",
    "simulate_interviewers",
    "simulate_mar",
]
