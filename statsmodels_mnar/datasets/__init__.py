"""Data sets and simulators that document their truth."""

from .simulators import Simulated, simulate_greene

__all__ = ["Simulated", "simulate_greene"]
