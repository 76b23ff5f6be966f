"""Whether an exporter has written another network than the module: transformers 5.17 masks the decoder of UMT5 while it is
exported and in no other run. ONNX's interpreter, which shares nothing with unisono, is asked where a row is wrong."""
import numpy as np

from . import onnx_reference
from .errors import relative_error


def why_other(model, inputs, exact, ours, tolerances):
    """A reason if the interpreter is off from the module's results, `exact`, by more than a tolerance, and unisono's are
    within the tolerances of its own; else "". inputs: the file with them; the others: of each output."""
    with np.load(inputs) as arrays, np.errstate(all="ignore"):
        try:
            theirs = onnx_reference.evaluate(model, dict(arrays), np.float32)
        except Exception:  # of operators that it lacks or gets wrong; then it has no opinion
            return ""
    off = [relative_error(y, e) for y, e in zip(theirs, exact, strict=True)]
    agrees = all(relative_error(o, y) <= t for o, y, t in zip(ours, theirs, tolerances, strict=True))
    if not agrees or all(o <= t for o, t in zip(off, tolerances, strict=True)):
        return ""
    return f"the exporter wrote another network: by ONNX's interpreter the file is off by {max(off):.2g}, and unisono agrees with it"
