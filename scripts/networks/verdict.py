"""When a result of 16 bits is wrong: its error beside the one that PyTorch's eager mode makes in the same precision.

Both errors are one draw each of what roundings happen to add up to. Where a network amplifies them, or an output is a few
numbers, they vary from input to input by more than the margin. Such a network is not called wrong by one input: both sides
compute more of them, and their errors over all inputs are compared. Both sides have the same inputs: taking the largest of
several errors of eager mode for the bound of one of ours would let kernels pass that are worse.
"""
import math

MARGIN = 1.5  # over PyTorch's own error in the precision
CHANCE = 3.0  # what is off by more than so many times PyTorch's error is wrong by one input
UNITS = {"bf16": 2.0 ** -8, "f16": 2.0 ** -11}
FAR = 32  # units of rounding: an error above that is amplified
FEW = 64  # numbers of an output: the errors of fewer do not average out
DRAWS = 8  # inputs, with the first one
NOISE = 0.5  # of an output's norm: where PyTorch itself is off by more, its error bounds nothing


def draw_name(name, draw):
    """A file of the first inputs, "inputs.npz", or of those drawn after them, "inputs.1.npz"."""
    return f"{name}.{draw}.npz" if draw else f"{name}.npz"


def one_input_says_little(errors, sizes, precision):
    """Whether eager mode is far off in some output, or one has few numbers. Lists by output."""
    return any(math.isfinite(e) and (e > FAR * UNITS[precision] or size < FEW) for e, size in zip(errors, sizes))


def asks_for_more(ours, theirs):
    """Whether an output is over the bound by an amount that may be chance. Lists by output."""
    ratios = [o / max(t, 1e-300) for o, t in zip(ours, theirs, strict=True)]
    return any(r > MARGIN for r in ratios) and all(r <= CHANCE for r in ratios)


def no_bound(theirs, precision):
    """Why PyTorch's own errors, by output, bound nothing; empty if they do."""
    if not all(map(math.isfinite, theirs)):
        return f"PyTorch's own result in {precision} is not finite"
    if max(theirs, default=0) > NOISE:
        return f"PyTorch's own result in {precision} is off by {max(theirs):.0%} of its norm"
    return ""


def over_all(draws):
    """The root of the mean square of each output's errors; a list of errors by output for each draw."""
    return [math.sqrt(sum(e * e for e in of_output) / len(draws)) for of_output in zip(*draws, strict=True)]


def is_right(ours, theirs):
    return all(o <= MARGIN * t for o, t in zip(ours, theirs, strict=True))
