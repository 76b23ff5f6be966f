"""Training graphs as networks (networks="any"), against gradients in float64."""

import copy

import pytest
import torch
import torch.nn.functional as F
from as_networks import compiled, fresh  # noqa: F401
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map_only

from unisono.pytorch import backend
from unisono.pytorch.training import Trained, decompositions
from unisono.pytorch.whole import Choices

aten = torch.ops.aten


def step(model, call, inputs, weights):
    """Results, gradients and buffers of a step of training."""
    given = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = call(*given)
    (y * weights.to(y)).sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    gradients += [x.grad for x in given if x.grad is not None]
    return [y.detach(), *(b for b in model.buffers() if b.is_floating_point())], gradients


def agree(model, *inputs, steps=2, unit=1e-6):
    """Each number is as right as one of eager mode's is, or within units of the largest gradient."""
    exact, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    with torch.no_grad():
        weights = torch.randn(copy.deepcopy(model)(*inputs).shape)
    call = compiled(model)
    for _ in range(steps):
        right = step(exact, exact, [x.double() if x.is_floating_point() else x for x in inputs], weights)
        theirs, mine = step(eager, eager, inputs, weights), step(model, call, inputs, weights)
        for wanted, other, found in zip(right, theirs, mine, strict=True):
            least = unit * max(t.norm().item() for t in wanted)
            for w, o, f in zip(wanted, other, found, strict=True):
                assert f.dtype == o.dtype and f.shape == o.shape
                off, noise = (f.double() - w).norm().item(), (o.double() - w).norm().item()
                assert off <= max(3 * noise, least, 2 * unit * w.norm().item()), (f.shape, off, noise)
    kinds = [report.kind for report in backend.reports()]
    assert kinds == ["forward", "backward"], [str(report) for report in backend.reports()]
    assert all(row["taken"] for report in backend.reports() for row in report.rows), "\n".join(map(str, backend.reports()))


class Transformer(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.words, self.norm = nn.Embedding(11, 16), nn.LayerNorm(16)
        self.qkv, self.out, self.causal = nn.Linear(16, 48), nn.Linear(16, 16), causal

    def forward(self, words, bias):
        x = self.words(words)
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        mask = None if self.causal else bias
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return F.log_softmax(x + self.out(y.transpose(1, 2).flatten(2)), -1)


def sequence(*layers):
    return nn.Sequential(*layers)


MODELS = {
    "layers": (lambda: sequence(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.SELU(), nn.Linear(16, 3)), (5, 8)),
    "batch norm": (lambda: sequence(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                                    nn.Conv2d(8, 6, 3, stride=2, groups=2, dilation=(1, 2))), (2, 3, 12, 11)),
    "group norm": (lambda: sequence(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Upsample(scale_factor=(2, 3)),
                                    nn.Conv2d(8, 4, 1), nn.AvgPool2d(3, 2, 1, count_include_pad=False)), (2, 3, 7, 6)),
    "transposed": (lambda: sequence(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
                                    nn.Mish(), nn.ConvTranspose2d(6, 2, (1, 2))), (2, 4, 5, 4)),
    "instance norm": (lambda: sequence(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.Hardswish(),
                                       nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)), (2, 3, 6, 5)),
    "rows of pixels": (lambda: sequence(nn.Conv1d(4, 6, 3, padding=1, stride=2), nn.BatchNorm1d(6), nn.Softplus(),
                                        nn.Conv1d(6, 2, 2, bias=False)), (2, 4, 9)),
    "volumes": (lambda: sequence(nn.Conv3d(4, 6, (3, 2, 1), stride=(2, 1, 2), padding=(2, 0, 1), dilation=(1, 2, 1), groups=2), nn.SiLU(),
                                 nn.Conv3d(6, 3, (2, 3, 3), padding=(0, 1, 1)), nn.Tanh(), nn.Conv3d(3, 5, 1)), (2, 4, 5, 6, 4)),
    "transposed volumes": (lambda: sequence(nn.ConvTranspose3d(4, 6, 3, stride=(2, 1, 2), padding=1, output_padding=(1, 0, 0), groups=2),
                                            nn.Mish(), nn.ConvTranspose3d(6, 2, (1, 2, 1), dilation=(1, 2, 1))), (2, 4, 3, 5, 4)),
    "no images": (lambda: sequence(nn.Conv2d(3, 8, 3), nn.SiLU(), nn.Conv2d(8, 4, 2, bias=False)), (0, 3, 6, 5)),
    "no rows": (lambda: sequence(nn.Linear(8, 4), nn.GELU(), nn.Linear(4, 3)), (2, 0, 8)),
    "one pixel": (lambda: sequence(nn.Conv2d(1, 1, 1), nn.Tanh(), nn.Conv2d(1, 5, 1, bias=False)), (1, 1, 1, 1)),
}


QUICK = ("batch norm", "transposed", "volumes")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.check) for n in MODELS])
def test_gradients_are_those_of_float64(name):
    make, shape = MODELS[name]
    agree(make(), torch.randn(shape))


@pytest.mark.parametrize("causal", (False, pytest.param(True, marks=pytest.mark.check)))
def test_attention_and_words(causal):
    agree(Transformer(causal), torch.randint(0, 11, (3, 5)), torch.randn(5, 5))


@pytest.mark.parametrize("kind", ("bools", "numbers"))
def test_attention_of_a_row_without_keys(kind):
    """Its weights are 0, and so are its gradients."""
    seen = torch.rand(5, 5) > 0.3
    seen[3] = False
    agree(Transformer(False), torch.randint(0, 11, (3, 5)), seen if kind == "bools" else torch.randn(5, 5).masked_fill(~seen, -torch.inf))


class Grouped(nn.Module):
    """Attention whose keys and values have fewer heads than its queries."""

    def __init__(self, mask, causal):
        super().__init__()
        self.q, self.kv, self.mask, self.causal = nn.Linear(8, 6 * 4), nn.Linear(8, 2 * 2 * 4), mask, causal

    def forward(self, x):
        q, (k, v) = self.q(x).unflatten(-1, (6, 4)).transpose(1, 2), self.kv(x).unflatten(-1, (2, 2, 4)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.causal, enable_gqa=True)
        return y.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("mask", ("none", "causal", "of all heads", "of each head"))
def test_attention_of_groups_of_heads(mask):
    agree(Grouped(torch.randn(5, 5) if mask == "of all heads" else torch.randn(3, 6, 5, 5) if mask == "of each head" else None,
                  mask == "causal"), torch.randn(3, 5, 8))


def test_filters_that_are_channels_last():
    model = sequence(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).to(memory_format=torch.channels_last)
    agree(model, torch.randn(2, 3, 9, 8).contiguous(memory_format=torch.channels_last))
    assert all(p.grad.is_contiguous(memory_format=torch.channels_last) for p in model.parameters() if p.dim() == 4)


def test_images_of_one_pixel_that_are_channels_last():
    """Beside a linear layer they are rows: PyTorch writes their gradient by strides."""
    model = sequence(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    model = model.to(memory_format=torch.channels_last)
    agree(model, torch.randn(2, 3, 6, 4).contiguous(memory_format=torch.channels_last))


def of_a_gpu(function, inputs):
    """Traced on tensors of a GPU, in whose types a GPU's operators have results; the network of it is the CPU's."""
    mode = FakeTensorMode()
    with mode:
        graph = make_fx(function, decomposition_table=decompositions())(
            *(torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda") for x in inputs)).graph
        graph.eliminate_dead_code()
        for node in graph.nodes:
            node.meta["val"] = tree_map_only(torch.Tensor, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype), node.meta.get("val"))
    return Trained(graph, set(), Choices(False, 0, False))


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("weights", (torch.float32, None), ids=("autocast", "short"))
def test_batch_norms_of_16_bits_have_the_types_of_a_gpu(dtype, weights):
    """Mean and rstd are float32 there whatever the weights are, and of the image's type on a CPU."""
    def step(x, filters, scale, shift, mean, variance, gradient):
        y = F.conv2d(x, filters)
        z, m, r, *new = aten._native_batch_norm_legit_functional(y, scale, shift, mean, variance, True, 0.1, 1e-5)
        return (z, m, r, *new, *aten.native_batch_norm_backward(gradient, y, scale, mean, variance, m, r, True, 1e-5, [True] * 3))

    vectors = [torch.rand(6, dtype=weights or dtype) + 0.5 for _ in range(4)]
    inputs = [torch.randn(3, 4, 5, 6, dtype=dtype), torch.randn(6, 4, 2, 3, dtype=dtype), *vectors, torch.randn(3, 6, 4, 4, dtype=dtype)]
    made = of_a_gpu(step, inputs)
    assert made.program.outputs[1].meta["val"].dtype == torch.float32
    exact = step(*(x.double() for x in inputs))
    for mine, right in zip(made(*inputs), exact, strict=True):
        assert (mine.double() - right).norm() <= 2.0**-6 * right.norm() + 2.0**-8, (mine.double() - right).norm() / right.norm()


def by_flash(q, k, v, gradient, causal):
    y, sums, cq, ck, mq, mk, seed, offset, _ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    return y, *aten._scaled_dot_product_flash_attention_backward(gradient, q, k, v, y, sums, cq, ck, mq, mk, 0.0, causal, seed, offset)


def by_efficient(q, k, v, gradient, causal):
    y, sums, seed, offset = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)
    wanted = [True, True, True, False]
    return y, *aten._scaled_dot_product_efficient_attention_backward(gradient, q, k, v, None, y, sums, seed, offset, 0.0, wanted, causal)[:3]


def by_cudnn(q, k, v, gradient, causal):
    y, sums, cq, ck, mq, mk, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)
    return y, *aten._scaled_dot_product_cudnn_attention_backward(gradient, q, k, v, y, sums, seed, offset, None, cq, ck, mq, mk, 0.0, causal)


@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize("kernel", (by_flash, by_efficient, by_cudnn))
def test_attention_of_a_gpu(kernel, causal):
    inputs = [torch.randn(2, 3, 7, 8, dtype=torch.bfloat16) for _ in range(4)]
    made = of_a_gpu(lambda *given: kernel(*given, causal), inputs)
    q, k, v = (x.double().requires_grad_() for x in inputs[:3])
    exact = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    for mine, right in zip(made(*inputs), (exact, *torch.autograd.grad(exact, (q, k, v), inputs[3].double())), strict=True):
        assert (mine.double() - right).norm() <= 2.0**-6 * right.norm()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_on_a_gpu():
    model = sequence(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.SiLU(), nn.MaxPool2d(2), nn.Conv2d(32, 16, 3),
                     nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8))
    model = model.cuda().bfloat16().to(memory_format=torch.channels_last)
    x = torch.randn(4, 16, 12, 12, device="cuda", dtype=torch.bfloat16)
    agree(model, x.contiguous(memory_format=torch.channels_last), unit=0.01)


@pytest.mark.parametrize("norm", (lambda: nn.InstanceNorm2d(16, affine=True), lambda: nn.BatchNorm2d(16), lambda: nn.GroupNorm(16, 16)),
                         ids=("instance", "batch", "group"))
def test_gradients_ahead_of_a_norm_cancel(norm):
    """Of the bias, which the norm takes out: by the statistics of what the backward pass reads, and not of float32."""
    model, x = sequence(nn.Conv2d(4, 16, 3, padding=1), norm(), nn.ReLU()), torch.randn(4, 4, 3, 2)
    weights, found = torch.randn(4, 16, 3, 2), []
    for call in (compiled(model), model):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            y = call(x)
        (y.float() * weights).sum().backward()
        found.append([p.grad.norm().item() for p in model.parameters()])
    assert found[0][1] <= 2 * found[1][1] and found[0][0] > 100 * found[0][1], found
    assert found[0][0] == pytest.approx(found[1][0], rel=0.1)
    assert [report.kind for report in backend.reports()] == ["forward", "backward"]


def test_optimiser_steps_are_seen():
    model, x = sequence(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(128, 2)), torch.randn(4, 3, 6, 6)
    other = copy.deepcopy(model)
    losses = []
    for m, call in ((model, compiled(model)), (other, other)):
        optimiser, own = torch.optim.Adam(m.parameters(), 0.01), []
        for _ in range(5):
            loss = call(x).square().mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            own.append(loss.item())
        losses.append(own)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3) and losses[0][-1] < losses[0][0]
    assert model[1].num_batches_tracked == 5
    assert [report.kind for report in backend.reports()] == ["forward", "backward"]


def test_dropout_draws_its_numbers_ahead():
    model = sequence(nn.Linear(64, 64), nn.Dropout(0.25), nn.Linear(64, 64), nn.Dropout(0.5))
    x, call = torch.randn(100, 64, requires_grad=True), compiled(model)
    first, second = call(x), call(x)
    assert not torch.equal(first, second) and 0.4 < (first == 0).double().mean() < 0.6
    with torch.no_grad():
        model[2].weight.zero_()
        model[2].bias.fill_(3)
    assert set(call(x).unique().tolist()) == {0.0, 6.0}
    (y := call(x)).sum().backward()
    torch.testing.assert_close(model[2].bias.grad, 2.0 * (y != 0).sum(0))
    assert [report.kind for report in backend.reports()] == ["forward", "backward"]


class Views(nn.Linear):
    """Results that are views of inputs and of one another."""

    def forward(self, x):
        y = super().forward(x)
        return y, y.t(), x[1:], self.weight, y.sum(0).expand(3, -1), y.chunk(2, 1)[1]


def test_results_that_are_views():
    model, x = Views(4, 4), torch.randn(3, 4, requires_grad=True)
    mine, theirs = compiled(model)(x), model(x)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        assert one.stride() == other.stride()
    assert mine[0].data_ptr() == mine[1].data_ptr() == mine[5].data_ptr() - 8 and mine[3] is model.weight
    found = torch.autograd.grad(sum(t.square().sum() for t in mine), [x, model.weight])
    wanted = torch.autograd.grad(sum(t.square().sum() for t in theirs), [x, model.weight])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


REFUSED = {
    "no contraction": (lambda x, w: F.silu(x + w), "products and convolutions of no type"),
    "float64": (lambda x, w: x.double() @ w.double(), "products and convolutions of torch.float64"),
}


@pytest.mark.check
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network_is_trained_by_regions(name):
    function, why = REFUSED[name]
    weight, x = nn.Parameter(torch.randn(4, 4)), torch.randn(4, 4, requires_grad=True)
    compiled(lambda x: function(x, weight))(x).sum().backward()
    assert weight.grad is not None
    report = backend.reports()[0]
    assert report.note.startswith("not one network: ") and why in report.note, report.note


def test_networks_of_training_can_be_switched_off():
    model, x = nn.Linear(4, 4), torch.randn(4, 4)
    compiled(model, without=("networks",))(x).sum().backward()
    assert backend.reports()[-1].note == ""
