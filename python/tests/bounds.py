"""Bounds on the error of a kernel against float64, derived from dtypes and lengths of sums."""

import numpy as np

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def sum_error(magnitudes, length):
    """Of f32 sums of `length` products: γ_n Σ|a||b|, n = length + 2, and the rounding of each f32 operation behind it."""
    return (length + 2) * UNIT["float32"] * magnitudes


def check(result, expected, error, dtype, growth=1.0):
    """Every element of `result` within `error`·growth (the derivative of what follows, at most) of float64, what a few
    f32 operations add, and half a unit of its own dtype."""
    result = np.asarray(result, np.float64)
    expected = np.asarray(expected, np.float64)
    assert result.shape == expected.shape, (result.shape, expected.shape)
    assert np.isfinite(result).all()
    own = UNIT[dtype] if dtype != "float32" else 0
    limit = growth * error + (16 * UNIT["float32"] + own) * (np.abs(expected) + growth * error) + 2.0**-24
    worst = np.max(np.abs(result - expected) / limit)
    assert worst <= 1, f"off by {worst:.2f} of the bound"
