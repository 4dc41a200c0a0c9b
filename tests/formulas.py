"""Formulas of the reference data, for the tests that fit them."""

FORMULAS = ("y ~ x1 + x2 + x3", "s ~ x1 + x2 + x3 + z")
MROZ = ("y ~ exper + exper2 + educ + city", "s ~ age + age2 + faminc + kids + educ")
