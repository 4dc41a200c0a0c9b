"""Numbers from arrays: covariances, tests, dependence measures, predictions."""
