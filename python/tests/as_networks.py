"""Training graphs that the backend compiles as networks."""

import pytest
import torch

from unisono.pytorch import backend


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._reports.clear()
    torch.manual_seed(0)


def compiled(model, without=(), **more):
    """more: of torch.compile."""
    options = {"networks": "any", "rest": "eager", **({"without": without} if without else {})}
    return torch.compile(model, backend=backend.unisono, options=options, **more)
