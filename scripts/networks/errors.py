"""How far one array is from another."""
import numpy as np

FLOOR = 1e-6  # no tolerance is below it


def relative_error(y, exact):
    """The L2 norm of the difference over that of `exact`; infinite if shapes differ or a value is no number."""
    if y is None or y.shape != exact.shape:
        return float("inf")
    difference = np.linalg.norm((y.astype(np.float64) - exact).ravel())
    error = float(difference / max(np.linalg.norm(exact.astype(np.float64).ravel()), 1e-300))
    return error if np.isfinite(error) else float("inf")


def tolerance(float32_error):
    return max(2 * float32_error, FLOOR)
