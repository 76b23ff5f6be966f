"""Networks that a library makes of a class's name and its configuration, and what they are called with."""

TIMESTEP = "timestep"


def drawn(spec):
    """A tensor: of a shape, normal numbers; of (kind, shape, …), tokens below a number, a mask of ones (int64) or of what is kept
    (bool), steps of noise, or numbers from 0 to 1."""
    import torch
    if not isinstance(spec[0], str):
        return torch.randn(spec)
    kind, shape, *rest = spec
    if kind == "tokens":
        return torch.randint(2, rest[0], shape)
    if kind == "ones":
        return torch.ones(shape, dtype=torch.int64)
    if kind == "kept":
        return torch.ones(shape, dtype=torch.bool)
    if kind == TIMESTEP:
        return (torch.arange(shape[0]) * 437 + 61) % 1000
    if kind == "unit":
        return torch.rand(shape)
    raise ValueError(f"unknown kind of input '{kind}'")


def resolved(library, name):
    """A class of a module: 'AutoencoderKL', or 'networks.nets.BasicUNet' below the module."""
    import functools
    import importlib
    *path, last = name.split(".")
    return getattr(importlib.import_module(".".join([library, *path])), last)


def called(net, inputs, constants=(), picked=()):
    """(the network that is called with these inputs by keyword, its inputs); `picked` names the fields of its result
    that count, or there is a tuple."""
    from .wrap import Flat
    names, fixed = list(inputs), dict(constants)

    def call(net, *values):
        result = net(**dict(zip(names, values)), **fixed)
        return [getattr(result, field) for field in picked] if picked else result
    return Flat(net, call), {name: drawn(spec) for name, spec in inputs.items()}
