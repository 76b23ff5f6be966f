"""Random modules compiled by the backend, against eager mode and float64; and faults of backends, which must be found."""

import contextlib
import importlib.util
import json
import pathlib
import types

import pytest

torch = pytest.importorskip("torch")

from random_modules import drawing, judge, shrink, truncated  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._functorch.aot_autograd import make_boxed_func  # noqa: E402

pytestmark = pytest.mark.check


def valid(program):
    return judge.is_valid(judge.namespace_of(program.script()))


def failure_of(program, backend="unisono"):
    return judge.judged(judge.namespace_of(program.script()), backend=backend)


@pytest.mark.parametrize("seed", [*range(9_000, 9_008), *(pytest.param(s, marks=pytest.mark.long) for s in range(9_008, 9_150))])
def test_random_modules(seed):
    program = drawing.drawn(seed, valid)
    failure = failure_of(program)
    if failure is not None and judge.shared_with(program.script(), "cpu", failure[0]) is None:
        pytest.fail(program.script(f"seed {seed}: {failure[0]}: {failure[1]}"))


@pytest.mark.parametrize("seed", [*range(9_200, 9_206), *(pytest.param(s, marks=pytest.mark.long) for s in range(9_206, 9_300))])
def test_random_modules_as_networks(seed):
    """With weights that may change, every other one with its gradients, cut however small."""
    program = drawing.drawn(seed, valid)
    program.options.update(training=seed % 2 == 0, backend={"networks": "any", "minimum_operators": 0})
    failure = failure_of(program) if valid(program) else None
    if failure is not None and judge.shared_with(program.script(), "cpu", failure[0]) is None:
        pytest.fail(program.script(f"seed {seed}: {failure[0]}: {failure[1]}"))


def program_of(*lines, outputs=("v1",), sizes=None, **options):
    body = [drawing.Statement(text, [argument], f"v{i}", members) for i, (text, argument, members) in enumerate(lines)]
    size = {"N": 2, "H": 5, "W": 6, "T": 3, "D": 2}
    return drawing.Program({"x0": "randn(N, 8, H, W)"}, body, list(outputs), sizes or [size], {**drawing.OPTIONS, **options})


def spoilt(how):
    """A backend of PyTorch that does this to what comes out of each convolution."""
    def compiler(graph, inputs):
        for node in list(graph.graph.nodes):
            if node.target is torch.ops.aten.convolution.default:
                with graph.graph.inserting_after(node):
                    made = graph.graph.call_function(how, (node,))
                node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
        graph.recompile()
        return make_boxed_func(graph.forward)
    return aot_autograd(fw_compiler=compiler)


def a_little_more(x):
    return x * (1 + 2.0**-18)


def refused(x):
    raise RuntimeError("strides (0, 1)")


FAULTS = {"wrong": spoilt(a_little_more), "raises": spoilt(refused)}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found_and_shrunk(kind):
    convolution = ("$o = $ma($x)", "v1", {"a": "nn.Conv2d(8, 8, 3, padding=1)"})
    program = program_of(("$o = F.silu($x)", "x0", {}), ("$o = $x.transpose(2, 3)", "v0", {}), convolution, ("$o = F.gelu($x)", "v2", {}),
                         outputs=("v3", "v0"), last=True)
    assert valid(program) and failure_of(program, "aot_eager") is None
    assert failure_of(program, FAULTS[kind])[0] == kind
    small = shrink.shrunk(program, lambda p: valid(p) and (failure_of(p, FAULTS[kind]) or ("",))[0] == kind, seconds=600)
    assert [s.text for s in small.body] == [convolution[0]] and not small.options["last"] and small.sizes[0]["H"] == 1, small.script()


def test_strides_and_memory_are_eager_modes():
    def graph_of(graph, inputs):
        return lambda x: (x.clone(memory_format=torch.contiguous_format),)
    turned = program_of(("$o = $x.transpose(1, 2)", "x0", {}), outputs=("v0",))
    assert failure_of(turned, graph_of)[0] in ("wrong", "strides")
    space = judge.namespace_of(turned.script())
    theirs = judge.Outcome([x := torch.randn(2, 3).t(), x[0]], {}, {}, [x])
    copied = judge.Outcome([x.clone(), x[0]], {}, {}, [x])
    dense = judge.Outcome([x.contiguous(), x[0]], {}, {}, [x])
    for other, kind in ((copied, "aliasing"), (dense, "strides")):
        with pytest.raises(judge.Failure) as failure:
            judge._same_form(other, theirs)
        assert failure.value.kind == kind
    assert space["SIZES"] == turned.sizes


def test_factors_of_tf32():
    """They lose the bits that tensor cores do not read, in the contractions whose kind may be of tf32 alone, backward as well."""
    x, w = torch.randn(2, 8, 5, 4, requires_grad=True), torch.randn(8, 8, 1, 1)
    exact = torch.conv2d(x, w)
    with truncated.Truncated(["convolutions"]):
        y = torch.conv2d(x, w)
        y.backward(torch.full_like(y, 1 + 2.0**-20))
    with truncated.Truncated(["products"]):
        assert torch.equal(torch.conv2d(x, w), exact)
    short, filters = truncated.truncated(x.detach()), truncated.truncated(w)
    assert torch.equal(y, torch.conv2d(short, filters)) and not torch.equal(y, exact)
    assert torch.equal(x.grad, torch.conv_transpose2d(torch.ones_like(y), filters))
    error = ((short - x.detach()) / x.detach()).abs().max()
    assert 2.0**-11 < error < 2.0**-10 and short.stride() == x.stride()


def test_a_chain_of_truncated_products_is_right_where_tf32_is(monkeypatch):
    """Its error is that of tf32, which inputs that are off by a unit do not show."""
    layer = {"a": "nn.Linear(6, 6)"}
    program = program_of(*(("$o = $ma($x)", f"v{i - 1}" if i else "x0", layer) for i in range(6)), outputs=("v5",), tf32=["products"])
    space = judge.namespace_of(program.script())

    def error():
        case = judge.Case(space)

        def cut(x):
            with truncated.Truncated(["products"]):
                return case.model(x)

        return judge._judge_once(case, cut, judge.ALL_DATA[0], False)

    assert "result 0 is off by" in error()
    monkeypatch.setattr(judge.Case, "least", lambda self: judge.TF32)
    assert error() is None
    monkeypatch.setattr(judge, "Truncated", lambda kinds: contextlib.nullcontext())
    assert "result 0 is off by" in error()


def test_a_seed_gives_the_same_script_each_time():
    assert drawing.drawn(4, valid).script() == drawing.drawn(4, valid).script() != drawing.drawn(5, valid).script()


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    path = pathlib.Path(__file__).parents[2] / "scripts" / "random_modules.py"
    script = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("random_modules_script", path))
    spec.loader.exec_module(script)
    asked, verdicts = [], {1: "wrong"}

    class Worker:
        def __init__(self, options):
            pass

        def ask(self, seed):
            if seed == 4:
                raise KeyboardInterrupt
            asked.append(seed)
            return {"verdict": verdicts.get(seed, "right"), "text": "", "regions": 2}

        def stop(self):
            pass

    monkeypatch.setattr(script, "Worker", Worker)
    monkeypatch.setattr(script.threading, "excepthook", lambda _: None)
    options = types.SimpleNamespace(work=tmp_path, device="cuda", rest="eager", commit="one", seed=0, count=6, again=False, minutes=1, jobs=1, given=False)
    script.run(options)
    assert asked == [0, 1, 2, 3]  # each was kept as soon as it was judged
    verdicts.clear()
    script.run(types.SimpleNamespace(**{**vars(options), "seed": 5, "count": 2}))
    assert asked[4:] == [1, 5, 6]  # what failed comes first
    state = json.loads((tmp_path / "state.json").read_text())
    assert not state["failures"] and [(r["first"], r["end"]) for r in state["ranges"]] == [(0, 4), (5, 7)]
    script.run(types.SimpleNamespace(**{**vars(options), "given": True, "count": 2}))
    assert asked[7:] == [0, 1]  # judged in another way
