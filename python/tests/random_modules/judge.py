"""Judges a script of drawing.py: compiled by the backend, against eager mode and a run in float64.

A failure is a pair (kind, what): "raises" where eager mode runs, "wrong" numbers, other "strides", "aliasing" or "dtype",
"varies" from call to call. Errors are relative to float64: at most twice eager mode's, or two units of the dtype. Where that
fails, eager mode's noise decides: the largest error of runs whose inputs are off by a unit, and of one whose contractions
read tf32 where PyTorch may, and only what fails with two of three draws of the data is wrong.
"""

from __future__ import annotations

import contextlib
import copy
import traceback
import warnings
from typing import Any, Callable

import torch

from .truncated import Truncated

UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12, torch.float64: 2.0**-53}
TF32 = 2.0**-10  # of a factor, as tensor cores truncate it
ALL_DATA, NOISY = (11, 12, 13), 4


class Case:
    """A script's module with drawn parameters, and runs of it."""

    def __init__(self, namespace: dict, device: str = "cpu"):
        self.space, self.options, self.device = namespace, namespace["OPTIONS"], device
        self.dtype = getattr(torch, self.options["dtype"])
        torch.manual_seed(5)
        model = namespace["Model"]()
        _draw(model)
        self.model = model.to(device, self.dtype).train(self.options["training"])
        if self.options["last"]:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.model.wide = torch.float32
        self.state = copy.deepcopy(self.model.state_dict())
        self.wide = copy.deepcopy(self.model).double()
        self.wide.wide = self.wide.narrow = torch.float64
        self.wide_state = copy.deepcopy(self.wide.state_dict())

    def inputs(self, size: dict, data: int, exact: bool = False, noise: int = 0) -> list[torch.Tensor]:
        """Tensors of a draw of the data: on the device, in the dtype or as exact float64 of the same values."""
        generator = torch.Generator().manual_seed(data)
        other = torch.Generator().manual_seed(100 + noise)

        def randn(*shape: int) -> torch.Tensor:
            x = torch.randn(*shape, generator=generator)
            if noise:
                x = x * (1 + self.unit() * torch.randn(*shape, generator=other))
            x = x.to(self.device, self.dtype)
            return x.double() if exact else x

        made = [x.detach() for x in self.space["inputs"](randn, **{k: size[k] for k in "NHWTD"})]
        if self.options["last"]:
            made = [x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 and x.is_contiguous() else x for x in made]
        return [x.requires_grad_() for x in made] if self.options["training"] else made

    def unit(self) -> float:
        return UNITS[torch.bfloat16] if self.options["autocast"] else self.unit_of(self.dtype)

    def unit_of(self, dtype: torch.dtype) -> float:
        return max(UNITS.get(dtype, 0.0), self.least() if dtype == torch.float32 else 0.0)

    def least(self) -> float:
        """The unit of products where float32 may be multiplied as tf32: not each kernel of PyTorch's makes use of that."""
        return TF32 if self.device == "cuda" and self.options["tf32"] else 0.0

    @contextlib.contextmanager
    def settings(self):
        """PyTorch's settings of tf32 as the options have them; they matter on a GPU alone."""
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        before = cudnn.allow_tf32, matmul.allow_tf32
        if self.device == "cuda":
            cudnn.allow_tf32, matmul.allow_tf32 = (kind in self.options["tf32"] for kind in ("convolutions", "products"))
        try:
            yield
        finally:
            cudnn.allow_tf32, matmul.allow_tf32 = before

    def run(self, call: Callable, inputs: list, wide: bool = False) -> "Outcome":
        """Results, gradients of a weighted sum of them, and what inputs and buffers are afterwards."""
        model, state = (self.wide, self.wide_state) if wide else (self.model, self.state)
        model.load_state_dict(state)
        model.zero_grad(set_to_none=True)
        training = self.options["training"]
        with torch.set_grad_enabled(training), torch.autocast(self.device, torch.bfloat16, enabled=self.options["autocast"] and not wide):
            results = call(*inputs)
        gradients = {}
        if training:
            terms = [(_weights(r, i) * r).sum() for i, r in enumerate(results) if r.requires_grad]
            if terms:
                sum(terms[1:], terms[0]).backward()
            gradients = {**{f"gradient of input {i}": x.grad for i, x in enumerate(inputs)},
                         **{f"gradient of {n}": p.grad for n, p in model.named_parameters()}}
        after = {**({f"input {i} afterwards": x for i, x in enumerate(inputs)} if not training else {}),
                 **{f"buffer {n}": b.clone() for n, b in model.named_buffers()}}
        return Outcome(list(results), gradients, after, inputs)


class Outcome:
    def __init__(self, results: list, gradients: dict, after: dict, inputs: list):
        self.results, self.gradients = results, gradients
        self.aliases = _aliases(results, inputs)
        self.strides = [_strides(r) for r in results]
        self.tensors = {**{f"result {i}": r.detach() for i, r in enumerate(results)},
                        **{k: g.detach() for k, g in gradients.items() if g is not None}, **{k: t.detach() for k, t in after.items()}}


def _draw(model: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for module in model.modules():
            for name, p in module.named_parameters(recurse=False):
                largest = p.numel() == max(p.shape, default=1)
                fan = max(p[0].numel() if p.dim() > 1 and isinstance(module, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)) else p.shape[0], 1) if p.dim() else 1
                p.copy_(torch.randn(p.shape, generator=generator) * (0.3 if largest else (1.5 / fan) ** 0.5) + (0.7 if largest and name == "weight" else 0))
        for name, b in model.named_buffers():
            if b.is_floating_point():
                b.copy_(torch.rand(b.shape, generator=generator) + (0.5 if "var" in name else -0.5))


def _weights(result: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.randn(result.shape, generator=torch.Generator().manual_seed(50 + seed)).to(result.device, result.dtype)


def _strides(t: torch.Tensor) -> tuple:
    """Those that say where elements lie."""
    return tuple(st for n, st in zip(t.shape, t.stride()) if n > 1) if t.numel() else ()


def _aliases(results: list, inputs: list) -> list:
    """For each result the first input or result that has its memory."""
    places = [t.untyped_storage().data_ptr() if t.numel() else None for t in (*inputs, *results)]
    return [places.index(p) if p is not None else None for p in places[len(inputs):]]


def _size(t: torch.Tensor) -> float:
    return float(t.detach().double().norm())


class Failure(Exception):
    def __init__(self, kind: str, what: str):
        super().__init__(f"{kind}: {what}")
        self.kind, self.what = kind, what


def _same_form(mine: Outcome, theirs: Outcome) -> None:
    if set(mine.tensors) != set(theirs.tensors):
        raise Failure("wrong", f"there are {sorted(set(mine.tensors) ^ set(theirs.tensors))} in one run only")
    for name, one in mine.tensors.items():
        other = theirs.tensors[name]
        if one.shape != other.shape:
            raise Failure("wrong", f"{name} has shape {tuple(one.shape)}; eager mode's is {tuple(other.shape)}")
        if one.dtype != other.dtype:
            raise Failure("dtype", f"{name} is {one.dtype}; eager mode's is {other.dtype}")
    if mine.strides != theirs.strides:
        raise Failure("strides", f"results have strides {mine.strides}; eager mode's are {theirs.strides}")
    if mine.aliases != theirs.aliases:
        raise Failure("aliasing", f"results lie in {mine.aliases}; eager mode's in {theirs.aliases}")


def _floors(theirs: Outcome, right: Outcome, case: Case) -> dict:
    """Errors that are no fault: units of the number, and of a gradient units of the largest of them, as a sum that cancels
    has the error of its terms."""
    gradients = [_size(g) for g in right.gradients.values() if g is not None]
    most = max(gradients, default=0.0)
    def floor(name: str, t: torch.Tensor) -> float:
        own = case.unit_of(t.dtype)
        if name in right.gradients:
            return 8 * max(own, case.unit()) * max(_size(right.tensors[name]), 0.1 * most)
        return 2 * own * _size(right.tensors[name]) + 1e-30
    return {name: floor(name, t) for name, t in theirs.tensors.items()}


def _off(outcome: Outcome, right: Outcome) -> dict:
    return {name: _size(t.double() - right.tensors[name].double()) for name, t in outcome.tensors.items()}


def _wrong(mine: Outcome, eager: list[Outcome], right: Outcome, case: Case, times: float = 2.0) -> str | None:
    """What is too far from float64, or None."""
    ours, theirs, floors = _off(mine, right), [_off(e, right) for e in eager], _floors(eager[0], right, case)
    for name, off in ours.items():
        noise = max(t[name] for t in theirs)
        if noise != noise or noise == float("inf"):
            continue  # eager mode overflows, too
        if not off <= max(times * noise, floors[name]):
            size = _size(right.tensors[name])
            return f"{name} is off by {off / size if size else off:.3g}, eager mode by {noise / size if size else noise:.3g}"
    return None


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_valid(namespace: dict, device: str = "cpu") -> bool:
    """Whether eager mode runs it, forward and backward, at all sizes, with finite numbers, and so does float64."""
    try:
        with quiet():
            case = Case(namespace, device)
            for size in namespace["SIZES"]:
                with case.settings():
                    right = case.run(case.wide, case.inputs(size, ALL_DATA[0], exact=True), wide=True)
                    theirs = case.run(case.model, case.inputs(size, ALL_DATA[0]))
                if set(right.tensors) != set(theirs.tensors) or not all(torch.isfinite(t).all() for o in (right, theirs) for t in o.tensors.values()):
                    return False
        return True
    except (RuntimeError, ValueError, IndexError, TypeError, NameError, NotImplementedError, AssertionError):
        return False


def compiled(case: Case, backend: str, rest: str) -> Callable:
    torch._dynamo.reset()
    dynamic = case.options["dynamic"] or None
    if backend != "unisono":
        return torch.compile(case.model, backend=backend, dynamic=dynamic)
    from unisono.pytorch import backend as ours, whole
    options = {"rest": rest, **case.options["backend"]}
    if not case.options["kept"]:
        whole.KEEPS = set()  # weights that may change are inputs of networks
    if options.get("minimum_operators") == 0:
        whole.FEWEST = 0  # contractions for each cut of a graph
    if case.device == "cuda" and "minimum_gain" not in options and options.get("minimum_operators") == 0:
        options["minimum_gain"] = -1e9  # all that can be a region is one
    return torch.compile(case.model, backend=ours.unisono, options=options, dynamic=dynamic)


def _judge_once(case: Case, call: Callable, data: int, varies: bool) -> str | None:
    """Raises Failure for what no noise explains; what is wrong by a comparison of numbers is returned."""
    found = None
    for number, size in enumerate(case.space["SIZES"]):
        right = case.run(case.wide, case.inputs(size, data, exact=True), wide=True)
        theirs = case.run(case.model, case.inputs(size, data))
        try:
            mine = case.run(call, case.inputs(size, data))
        except Exception as error:
            raise Failure("raises", _last_of(error)) from error
        _same_form(mine, theirs)
        if varies and number == 0:
            again = case.run(call, case.inputs(size, data))
            for name, t in mine.tensors.items():
                if not torch.equal(t.nan_to_num(), again.tensors[name].nan_to_num()):
                    raise Failure("varies", f"{name} is not the same from call to call")
        if found is None and (found := _wrong(mine, [theirs], right, case)) is not None:
            found = _wrong(mine, [theirs, *_noisy(case, size, data)], right, case)
            if found is not None and len(case.space["SIZES"]) > 1:
                found += f" at {size}"
    return found


def _noisy(case: Case, size: dict, data: int) -> list[Outcome]:
    """Runs of eager mode that are as right as any. Not each kernel of PyTorch's makes use of tf32 where it may, and factors that
    are truncated again and again are off by more than inputs that are off once."""
    runs = [case.run(case.model, case.inputs(size, data, noise=i + 1)) for i in range(NOISY)]
    if case.least():
        with Truncated(case.options["tf32"]):
            runs.append(case.run(case.model, case.inputs(size, data)))
    return runs


def _last_of(error: BaseException) -> str:
    text = str(error).strip().splitlines() or [""]
    inner = error.__cause__
    return f"{type(error).__name__}: {' '.join(text)[:600]}" + (f" (from {type(inner).__name__}: {str(inner)[:300]})" if inner else "")


def judged(namespace: dict, device: str = "cpu", rest: str = "eager", backend: str = "unisono") -> tuple[str, str] | None:
    """(kind, what) of the failure, or None."""
    with quiet():
        case = Case(namespace, device)
        try:
            with case.settings():
                return _failure_of(case, compiled(case, backend, rest), backend == "unisono" and rest == "eager" and device == "cpu")
        except Failure as failure:
            return failure.kind, failure.what
        finally:
            torch._dynamo.reset()
            _as_by_default()


def _as_by_default() -> None:
    from unisono.pytorch import whole
    whole.KEEPS, whole.FEWEST = {"cpu"}, 4


def _failure_of(case: Case, call: Callable, varies: bool) -> tuple[str, str] | None:
    found = _judge_once(case, call, ALL_DATA[0], varies)
    if found is None:
        return None
    also = [_judge_once(case, call, data, False) for data in ALL_DATA[1:]]
    return ("wrong", found) if any(also) else None


def regions() -> int:
    """Those of all graphs that have been compiled since this was asked last."""
    from unisono.pytorch import backend
    found = sum(report.regions for report in backend.reports())
    backend._reports.clear()
    return found


def namespace_of(script: str) -> dict:
    space: dict[str, Any] = {"__name__": "a_random_module"}
    exec(compile(script, "<random module>", "exec"), space)  # noqa: S102
    return space


def eager_varies(script: str, device: str, runs: int = 12) -> bool:
    """Whether eager mode itself does not give the same from run to run: some of oneDNN's gradients read memory that nobody
    wrote. On a GPU, where sums have no order, by over a hundredth."""
    case = Case(namespace_of(script), device)
    with quiet(), case.settings():
        first = None
        for number in range(runs):
            outcome = case.run(case.model, case.inputs(case.space["SIZES"][0], ALL_DATA[0]))
            scattered = [torch.randn(7 * i + number + 1) for i in range(8)]  # what lies in freed memory differs
            first = first or outcome
            for name, t in outcome.tensors.items():
                other = first.tensors[name]
                if not torch.equal(t.nan_to_num(), other.nan_to_num()) and (device == "cpu" or _size(t - other) > 0.01 * _size(other)):
                    return True
            del scattered
    return False


def shared_with(script: str, device: str, kind: str) -> str | None:
    """Who of PyTorch fails in the same way, or None."""
    if kind in ("wrong", "varies") and eager_varies(script, device):
        return "eager mode"
    for backend in ("aot_eager", "inductor"):
        try:
            failure = judged(namespace_of(script), device, backend=backend)
        except Exception:
            failure = ("raises", traceback.format_exc(limit=1))
        if failure is not None and failure[0] == kind:
            return backend
    return None


def main(namespace: dict) -> None:
    """Of a script that is run: --backend NAME, --device NAME, --rest NAME."""
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="unisono", help="unisono, aot_eager or inductor")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rest", default="eager")
    arguments = parser.parse_args()
    failure = judged(namespace, arguments.device, arguments.rest, arguments.backend)
    print("right" if failure is None else f"{failure[0]}: {failure[1]}")
    if arguments.backend == "unisono":
        from unisono.pytorch import backend
        for report in backend.reports():
            print(report)
    raise SystemExit(failure is not None)
