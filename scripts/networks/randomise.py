"""Draws all parameters and running statistics of a network anew, so that no block of it is silent.

Libraries start zero convolutions, last scales of residual branches and LayerScale at 0 or 1e-6: a wrong block behind
such a number changes nothing that could be measured.
"""
import math

import torch

NORMS = (torch.nn.modules.batchnorm._NormBase, torch.nn.GroupNorm, torch.nn.LayerNorm)


def fan_in(module, tensor):
    """Products that one sum of this weight has; of a table of embeddings, 1."""
    if isinstance(module, torch.nn.Embedding):
        return 1
    if isinstance(module, torch.nn.modules.conv._ConvTransposeNd):
        return max(tensor.shape[0] // module.groups * math.prod(tensor.shape[2:]) // math.prod(module.stride), 1)
    return math.prod(tensor.shape[1:])


def draw(module, name, p):
    """One parameter: a bias, a vector of scales, or a matrix of weights that keeps the size of activations."""
    vector = p.numel() == max(p.shape, default=1)  # (C), (C,1,1), (1,1,C), a scalar
    if vector and ("bias" in name or "beta" in name):
        p.normal_(0, 0.2)
    elif isinstance(module, torch.nn.PReLU):
        p.uniform_(0.1, 0.4)
    elif vector:
        p.uniform_(0.5, 1.5)
    elif "pos" in name or "token" in name or "relative" in name:
        p.normal_(0, 0.5)
    else:
        gain = 1.4 if isinstance(module, torch.nn.modules.conv._ConvNd) else 1.0
        p.normal_(0, gain / math.sqrt(fan_in(module, p)))


def measure_statistics(net, inputs):
    """Running statistics as this network has them on random inputs, then moved."""
    norms = [m for m in net.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.momentum = None  # the statistics of the batch below alone
        m.reset_running_stats()
        m.train()
    if norms:
        net(*[torch.randn(4 * x.shape[0], *x.shape[1:]) for x in inputs.values()])
    for m in norms:
        m.running_mean += 0.1 * m.running_var.sqrt() * torch.randn_like(m.running_mean)
        m.running_var *= torch.empty_like(m.running_var).uniform_(0.8, 1.25)
        m.eval()


def randomise(net, inputs):
    net.eval()
    with torch.no_grad():
        for module in net.modules():
            for name, p in module.named_parameters(recurse=False):
                draw(module, name, p)
        measure_statistics(net, inputs)
    return net.requires_grad_(False)
