"""Inference graphs as networks: each is one executable, whose operators are Unisono's, on a GPU one CUDA graph.

Weights that are declared frozen are constants of a network, others are inputs of it; on a CPU those are constants, too,
while they stay as they are (Kept). Operators that networks lack are PyTorch's, between networks (parts.py). What is not
served so is left to regions (fuse.py), with the reason in the report.
"""

from __future__ import annotations

import contextlib
import functools
import math
import pathlib
import tempfile
import weakref
from types import SimpleNamespace
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.utils import counters
from torch._guards import tracing
from torch.fx import Graph, GraphModule, Node

from .._native import (
    CompileError, Device, Layout, NetworkExecutable, Unsupported, UserError, compile_network, load_onnx)
from ..tensors import torch_dtypes, view
from .export import OPSET, write_safetensors
from .flow import of_steps
from .foreign import Compiler, Foreign, is_compiled, operators_of
from .frozen import Contents, Sources
from .onnx_file import Writer
from .onnx_gradients import HANDLERS
from .parts import Step, cut, has_effect
from .program import CONTRACTIONS, Operators, Program, device_of, is_static, tensors_in
from .regions import aten
from .report import Report
from .results import overlaps
from .shapes import hint

# A graph is cut into networks only if there are at least this many contractions for each cut: where networks meet
# PyTorch's kernels, launches and copies are added
FEWEST = 4
# Sets of extents of a graph that become networks; a call with another set is compiled in another way
MOST_SIZES = 8
# Devices on which weights that may change are constants of a network as long as they stay the same
KEEPS = {"cpu"}
# After each of the first LOADS changes of the weights, the network is made again with the new ones as constants. After
# any later change the weights are inputs of a second network, until CALM calls in a row have found the same ones; then
# they are constants again. Either network takes seconds to make, so a training loop must not make one at each step
LOADS = 8
CALM = 8
# Products, and which operand may be a matrix of weights; one that meets up to FEW_ROWS rows is read where it lies
RIGHT = {aten.linear.default: 1, aten.matmul.default: 1, aten.mm.default: 1, aten.addmm.default: 2}
FEW_ROWS = 64
# The left operands of products
LEFT = {aten.linear.default: 0, aten.matmul.default: 0, aten.mm.default: 0, aten.addmm.default: 1, aten.bmm.default: 0,
        aten.baddbmm.default: 1}
# Operations for each byte of matrices and vectors that are hashed at every call. Below, the hash takes longer than
# networks gain. Filters do not count: regions order them anew at every call, which takes longer than to hash them
LEAST_FLOP = 32


class Choices(NamedTuple):
    """The caller's choices: whether weights never change, how many SMs kernels leave free, whether every contraction
    must be part of a network, whether graphs are refused that are slow where weights may change, and what compiles
    steps that are PyTorch's (None: they are run operator by operator)."""
    frozen: bool
    spare_sms: int
    strict: bool
    only_fast: bool = False
    compiler: Optional[Compiler] = None


def _is_last(tensor: torch.Tensor) -> bool:
    return (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
            and not tensor.is_contiguous())


def _is_vector(tensor: torch.Tensor) -> bool:
    """Whether it has several axes, and more than one element along just one of them."""
    return tensor.dim() > 1 and sum(e != 1 for e in tensor.shape) == 1 and tensor.is_contiguous()


class Part:
    """A network: a step of a program, with the weights that it was made of."""

    def __init__(self, step: Step, program: Operators, like: dict[Node, torch.Tensor], weights: set[Node],
                 spare_sms: int):
        """like: of results of the program, what they are to be like; weights: inputs that may change but lie in one
        place."""
        self.step, self.program, self.spare_sms = step, program, spare_sms
        self.reads = [n for n in step.reads if n not in program.constant]
        self.weights = [n.name for n in self.reads if n in weights]
        self.vectors = {n for n in self.reads if n in weights and _is_vector(n.meta["val"])}
        wanted = [like.get(n, n.meta["val"]) for n in step.makes]
        self.like = [t.new_empty(t.shape) if overlaps(t) else t for t in wanted]
        self.last = any(map(_is_last, (*(n.meta["val"] for n in self.reads), *self.like)))

    def load(self, weights: dict[str, torch.Tensor]) -> NetworkExecutable:
        """The executable with these weights."""
        names = SimpleNamespace(user_inputs=[n.name for n in self.reads],
                                user_outputs=[n.name for n in self.step.makes])
        writer = Writer(SimpleNamespace(graph=self.program.graph, graph_signature=names), weights)
        writer.take_as_vectors(self.vectors)
        for node in self.step.nodes:
            HANDLERS[node.target](writer, node)
        with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
            path = pathlib.Path(folder) / "weights.safetensors"
            places = write_safetensors(path, {n: t for n, t in weights.items() if n in writer.used})
            file = path.with_name("graph.onnx")
            file.write_bytes(writer.model(OPSET, path.name, places).SerializeToString())
            try:
                network = load_onnx(str(file))
            except UserError as error:
                raise Unsupported(str(error).replace(str(file), "its ONNX form")) from error
        self.executable = self._compiled(network)
        self.inputs, self.outputs = list(network.inputs), list(network.outputs)
        return self.executable

    def _compiled(self, network: Any) -> NetworkExecutable:
        options: dict[str, Any] = {"layout": Layout.nhwc if self.last else Layout.nchw}
        device = self.program.device
        if device.type == "cpu":
            return compile_network(network, device=Device.cpu, threads=torch.get_num_threads(), short_products=True,
                                   **options)
        return compile_network(network, device=Device.cuda, device_index=device.index or 0, strict=True,
                               precision=torch_dtypes()[self.program.precision], spare_sms=self.spare_sms,
                               weights=self.weights, **options)

    def plan(self) -> None:
        """Compiles the kernels. Raises Unsupported."""
        shapes = self._shapes()
        made = self.executable.output_shapes(shapes)
        for name, like in zip(self.outputs, self.like):
            if list(made[name]) != list(self._ordered(like).shape):
                raise Unsupported(f"{name} would have the shape {made[name]}, and not {list(like.shape)}")
        if self.program.device.type == "cuda":
            self.executable.workspace_bytes(shapes)

    def _shapes(self) -> dict[str, list[int]]:
        return {n.name: list(self._given(n, n.meta["val"]).shape) for n in self.reads}

    def explored(self) -> str:
        """What a page to explore shows of the network, as JSON."""
        return self.executable.explore(self._shapes())

    def _ordered(self, tensor: torch.Tensor) -> torch.Tensor:
        """As the executable's layout has it."""
        return tensor.permute(0, 2, 3, 1) if self.last and tensor.dim() == 4 else tensor

    def _given(self, node: Node, tensor: torch.Tensor) -> torch.Tensor:
        """An input as the executable has it."""
        return tensor.reshape(-1) if node in self.vectors else self._ordered(tensor)

    def prepared(self, executable: NetworkExecutable, given: Sequence[torch.Tensor],
                 made: Sequence[torch.Tensor]) -> Any:
        """Its run of tensors that lie as these do."""
        read = {n.name: view("tensor", self._given(n, t)).native() for n, t in zip(self.reads, given)}
        written = {name: view("tensor", self._ordered(t)).native() for name, t in zip(self.outputs, made)}
        return executable.prepare(read, written)


class Running:
    """An executable of a part, with its run of tensors that lie as at the last call."""

    def __init__(self, part: Part, executable: NetworkExecutable):
        self.part, self.executable, self.device = part, executable, part.program.device
        self.made = [(t.shape, t.stride(), t.dtype) for t in part.like]  # once: these are fake tensors, and slow
        self.last: tuple = (None, None)

    def __call__(self, values: dict[Node, Any]) -> None:
        device = self.device
        made = [torch.empty_strided(shape, stride, dtype=dtype, device=device) for shape, stride, dtype in self.made]
        given = [values[n] for n in self.part.reads]
        forms = [(t.shape, t.stride(), t.dtype, t.is_neg()) for t in given]
        known, run = self.last
        if forms != known:
            run = self.part.prepared(self.executable, given, made)  # raises if one is lazily negated
            self.last = (forms, run)
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        run.run(list(map(torch.Tensor.data_ptr, given + made)), stream)
        values.update(zip(self.part.step.makes, made))


def foreign_among(steps: Sequence[Step]) -> list[Node]:
    """Operators that are PyTorch's, without views."""
    return [n for s in steps if not s.is_network for n in operators_of(s)]


def run_by(steps: Sequence[Step], program: Operators, choices: Choices, weights: set[Node],
           like: dict[Node, torch.Tensor]) -> list[Any]:
    """What runs each step: a Part or Foreign."""
    made = {n for s in steps if s.is_network for n in s.makes}
    return [Part(s, program, like, weights, choices.spare_sms) if s.is_network else Foreign(s, choices.compiler, made)
            for s in steps]


def refuse_pieces(steps: Sequence[Step], program: Operators, choices: Choices) -> None:
    """Raises Unsupported if networks are too small, or if PyTorch would have contractions that it may not have. What is
    compiled is one cut, and what is not one for each operator."""
    networks, foreign = [s for s in steps if s.is_network], foreign_among(steps)
    why = "; ".join(dict.fromkeys(program.refused[n] for n in foreign if n in program.refused))
    if not networks:
        raise Unsupported(why or "no product or convolution is served")
    if choices.strict and any(n.target in CONTRACTIONS for n in foreign):
        raise Unsupported(f"some products and convolutions are PyTorch's: {why}")
    taken = sum(n.target in CONTRACTIONS for s in networks for n in s.nodes)
    drawn: set[Node] = set()  # random numbers that depend on nothing, which PyTorch draws in any case
    for node in foreign:
        if drawn.issuperset(node.all_input_nodes):
            drawn.add(node)
    between = [len([n for n in operators_of(s) if n not in drawn]) for s in steps if not s.is_network]
    compiled = [is_compiled(s, choices.compiler) for s in steps if not s.is_network]
    cuts = sum(min(n, 1) if one else n for n, one in zip(between, compiled)) + len(networks) - 1
    if taken < FEWEST * cuts:
        raise Unsupported(f"{len(networks)} networks of {taken} products and convolutions, with {sum(between)} "
                          f"operators of PyTorch's between them, are fewer than {FEWEST} for each of {cuts} "
                          f"cuts: {why}")


def is_read_in_place(weight: Optional[Node]) -> bool:
    """Whether a CPU reads a matrix where it lies: rows of it as embeddings, or as the right operand of products of few
    rows (src/runtime/cpu/column_contraction.cpp), and nothing else. It is then an input of networks: to hash it would
    take as long as they."""
    value = None if weight is None else weight.meta["val"]
    if (value is None or value.dim() != 2 or value.dtype != torch.float32 or not value.is_contiguous()
            or value.numel() < 1 << 16):
        return False
    return all([i for i, a in enumerate(n.args) if a is weight] == [RIGHT.get(n.target)]
               and 128 <= n.meta["val"].shape[-1] and n.meta["val"].numel() <= FEW_ROWS * n.meta["val"].shape[-1]
               for n in weight.users if n.target is not aten.embedding.default)


def flop_of(node: Node) -> int:
    """Of a convolution or product of known extents; 0 of other nodes."""
    if node.target is aten.convolution.default:  # each pixel, of the input if transposed, meets the whole filter
        image = (node.args[0] if node.args[6] else node).meta["val"].shape
        return 2 * image[0] * math.prod(image[2:]) * node.args[1].meta["val"].numel()
    if node.target not in LEFT:
        return 0
    return 2 * node.meta["val"].numel() * node.args[LEFT[node.target]].meta["val"].shape[-1]


def refuse_what_regions_do_faster(program: Program, hashed: Sequence[torch.Tensor]) -> None:
    """hashed: the weights that each call hashes. Networks gain by filters that they order once: regions do it at every
    call. Products of matrices gain nothing by that, and may take less time than a hash of the matrices."""
    count = sum(t.nbytes for t in hashed if t.dim() < 3)
    flop = {n: flop_of(n) for n in program.graph.nodes}
    by_filters = sum(f for n, f in flop.items() if n.target is aten.convolution.default)
    total = sum(flop.values())
    if 2 * by_filters < total:
        raise Unsupported(f"{by_filters / total:.0%} of the operations are convolutions; networks of half of them or "
                          "more are faster where weights may change; networks='any' or frozen=True asks for others")
    if total < LEAST_FLOP * count:
        raise Unsupported(f"{count} bytes of matrices would be hashed at each call, for {total / count:.1f} operations "
                          f"a byte; expected {LEAST_FLOP} or more, or networks='any', or frozen=True")


class Loaded(NamedTuple):
    """The weights that a program's executables were made of, and what runs its steps. A call keeps those with which it
    began, whatever another thread loads meanwhile."""
    sources: Any
    runs: list[Callable[[dict[Node, Any]], None]]


class Whole:
    """A program as steps."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], choices: Choices,
                 kept: Callable[..., Any] = Sources):
        """kept: knows weights that are constants again."""
        places = module.graph.find_nodes(op="placeholder")
        if len(places) != len(inputs):
            raise Unsupported("inputs of Dynamo's graph are not those that were given")
        weights = [i for i, (n, v) in enumerate(zip(places, inputs)) if isinstance(v, torch.Tensor) and is_static(n, v)]
        self.static = weights if choices.frozen else []
        self.program = program = Program(module, inputs, self.static)
        if kept is Contents:
            self.static = [i for i in weights if not is_read_in_place(program.places[i])]
            program.constant -= {program.places[i] for i in weights} - {program.places[i] for i in self.static}
            if choices.only_fast:
                refuse_what_regions_do_faster(program, [inputs[i] for i in self.static])
        if program.constant.issuperset(n for n in program.places if n is not None):
            raise Unsupported("the graph reads weights alone")
        given = {program.places[i] for i in weights} - {None} - program.constant
        movable = program.constant | given
        steps = cut(program.graph, program.made, program.served, movable, CONTRACTIONS)
        refuse_pieces(steps, program, choices)
        read = {n for s in steps if not s.is_network for n in s.reads}
        results = program.results
        result_like = {n: t for n, t, direct in zip(program.outputs, results.like, results.direct())
                       if direct and n not in read}
        self.steps = run_by(steps, program, choices, given, result_like)
        self.parts = [s for s in self.steps if isinstance(s, Part)]
        self.given = [(n, i) for i, n in enumerate(program.places)
                      if n is not None and (n in read or n not in program.constant)]
        self.tensors = {n: t for n, t in program.constants.items() if n in read}
        self.kept = kept
        self.is_direct = all(results.direct()) and len(self.steps) == 1 and len(set(program.made)) == len(program.made)
        self.load(inputs)

    def load(self, inputs: Sequence[Any]) -> None:
        """Makes the executables with the weights among these inputs."""
        program = self.program
        sources = self.kept([inputs[i] for i in self.static])  # before the copies, so that a later write is noticed
        weights = {n.name: t for n, t in program.constants.items()}
        weights.update((program.places[i].name, inputs[i]) for i in self.static)
        steps = [Running(s, s.load(weights)) if isinstance(s, Part) else s.run for s in self.steps]
        self.loaded = Loaded(sources, steps)

    def try_out(self, inputs: Sequence[Any]) -> None:
        """Compiles the kernels, and runs what may run: what networks refuse, such as strides, they refuse now."""
        for part in self.parts:
            part.plan()
        if any(hasattr(t, "fake_mode") for t in inputs):
            return
        if not any(has_effect(n) for s in self.steps if isinstance(s, Foreign) for n in s.step.nodes):
            self.run(self.loaded, *inputs)
            return
        for part in self.parts:  # of zeros, as nothing random may run twice
            zeros = {n: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).zero_()
                     for n, t in ((n, n.meta["val"]) for n in part.reads)}
            Running(part, part.executable)(zeros)

    def ready(self, inputs: Sequence[Any]) -> Optional[Callable]:
        """What computes with the weights among these inputs, if it was made of them."""
        loaded = self.loaded
        is_loaded = loaded.sources.are_still([inputs[i] for i in self.static])
        return functools.partial(self.run, loaded) if is_loaded else None

    def renewed(self, inputs: Sequence[Any]) -> Callable:
        """The same, made of them."""
        self.load(inputs)
        return functools.partial(self.run, self.loaded)

    def run(self, loaded: Loaded, *inputs: Any) -> list[Any]:
        values: dict[Node, Any] = {**self.tensors, **{n: inputs[i] for n, i in self.given}}
        for run in loaded.runs:
            run(values)
        results = [values.get(n) if isinstance(n, Node) else n for n in self.program.outputs]
        return results if self.is_direct else self.program.results.made(results, inputs, [*self.tensors.values()])


def _rows(made: Any) -> list[dict]:
    numbers = {n: i for i, part in enumerate(made.parts) for n in part.step.nodes}
    whole = "the whole graph, as one network"
    rows = []
    for n in made.program.contractions():
        taken, count = n in numbers, len(made.parts)
        value = tensors_in([n.meta["val"]])[0]
        rows.append({"anchor": n.name, "operator": str(n.target), "shape": list(value.shape),
                     "dtype": str(value.dtype), "stores": 1, "taken": taken,
                     "fused": [whole if len(made.steps) == 1 else f"network {numbers[n] + 1} of {count}"] if taken
                     else [],
                     "ends": "the note has what the network's kernels are" if taken
                     else made.program.refused.get(n, "no network has it")})
    return rows


def report_of(made: Any, kind: str = "inference") -> Report:
    """made: a Whole, or a part of a training graph."""
    counts: dict[str, Any] = {"calls": len(made.parts)}
    if foreign := foreign_among([s.step for s in made.steps]):
        counts["operators of PyTorch's between networks"] = [
            f"{n.name} ({n.target}): {made.program.refused.get(n, 'of no network with a product or convolution')}"
            for n in foreign]
    return Report(_rows(made), "\n".join(p.executable.report() for p in made.parts), kind, counts,
                  kernels=sum(p.executable.kernels for p in made.parts),
                  nodes=of_steps(made.program.graph, made.steps, made.program.outputs, made.program.constant,
                                 made.program.refused),
                  networks=[weakref.ref(p) for p in made.parts])


def _made(module: GraphModule, inputs: Sequence[Any], choices: Choices, kept: Callable[..., Any] = Sources) -> Whole:
    try:
        made = Whole(module, inputs, choices, kept)
        made.try_out(inputs)
        return made
    except (UserError, CompileError, OSError) as error:  # such as values that the importer refuses, or a full disk
        raise Unsupported(str(error)) from error


class Kept:
    """A graph on a CPU whose weights may change. They are constants of a network, which is made again when their
    contents have changed. Weights that change often are inputs of another network (LOADS and CALM say when)."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], choices: Choices, publish: Callable[[Report], None]):
        self.module, self.choices, self.publish = module, choices, publish
        self.constant = _made(module, inputs, choices._replace(frozen=True), Contents)
        self.given: Optional[Whole] = None
        self.is_given = False  # at the last call
        self.seen: Optional[Contents] = None
        self.calls = 0  # in a row with these weights
        self.loads = 0  # how often the constants were loaded again
        publish(report_of(self.constant))

    def ready(self, inputs: Sequence[Any]) -> Optional[Callable]:
        return None if self.is_given else self.constant.ready(inputs)

    def renewed(self, inputs: Sequence[Any]) -> Callable:
        """For weights that are not the constants, or were not at the last call."""
        ready = self.constant.ready(inputs)
        if ready is not None:
            self.seen = None  # others were not met in a row
        self.is_given = ready is None and not self._is_to_be_loaded(inputs)
        if self.is_given:
            if self.given is None:
                self.given = _made(self.module, inputs, self.choices)
                self.publish(report_of(self.given))
            ready = self.given.ready(inputs)
        return ready or self.constant.renewed(inputs)

    def _is_to_be_loaded(self, inputs: Sequence[Any]) -> bool:
        """Whether other weights become constants."""
        weights = [inputs[i] for i in self.constant.static]
        if self.seen is None or not self.seen.are_still(weights):
            self.seen, self.calls = Contents(weights), 0
        self.calls += 1
        if self.loads >= LOADS and self.calls <= CALM:
            return False
        self.seen, self.loads = None, self.loads + 1
        return True


class Networks:
    """A graph whose extents may be unknown. Each set of extents gets its own networks when a call first has it. Sets
    after the first MOST_SIZES, and graphs that cannot be networks, go to `rest`, a function that compiles the graph in
    another way. If all extents are known, there is one set."""

    def __init__(self, inputs: Sequence[Any], sized: Sequence[int], numbers: Sequence[int], make: Callable,
                 rest: Callable[[], Callable]):
        """sized: places of inputs whose extents may change. numbers: places of inputs whose values are read. make:
        takes inputs, and returns what computes the graph at their extents: ready(inputs) is a function of them, and
        renewed(inputs), where weights may change."""
        self.sized, self.numbers, self.make, self.rest = sized, numbers, make, rest
        self.other: Optional[Callable] = None
        self.made: dict[tuple, Any] = {self._key(inputs): make(inputs)}

    def _key(self, inputs: Sequence[Any]) -> tuple:
        return (*((tuple(v.shape), v.stride()) if isinstance(v, torch.Tensor) else v
                  for v in (inputs[i] for i in self.sized)), *(inputs[i].item() for i in self.numbers))

    def __call__(self, *inputs: Any) -> Any:
        key = self._key(inputs)
        made = self.made.get(key)
        ready = None if made is None else made.ready(inputs)
        is_new = key not in self.made and len(self.made) < MOST_SIZES
        if ready is None and (is_new or made is not None or self.other is None):
            with compile_lock:  # torch.export and Dynamo are not for several threads at once
                ready = self._ready_for(key, inputs)
                if ready is None and self.other is None:
                    self.other = self.rest()
        if ready is not None:
            return ready(*inputs)
        return self.other(*(v.item() if i in self.numbers else v for i, v in enumerate(inputs)))

    def _ready_for(self, key: tuple, inputs: Sequence[Any]) -> Optional[Callable]:
        if key not in self.made and len(self.made) < MOST_SIZES:
            self.made[key] = self._of(inputs)
        made = self.made.get(key)
        if made is None:
            return None
        ready = made.ready(inputs) or self._renewed(made, inputs)
        if ready is None:
            self.made[key] = None
        return ready

    def _of(self, inputs: Sequence[Any]) -> Any:
        try:
            return self.make(inputs)
        except Unsupported:
            return None

    @staticmethod
    def _renewed(made: Any, inputs: Sequence[Any]) -> Optional[Callable]:
        """With other weights; nothing if they are no network, as it is where constants are indices."""
        try:
            return made.renewed(inputs)
        except (Unsupported, UserError, CompileError, OSError):
            return None


def _is_symbolic(value: Any) -> bool:
    """Whether it is a number that is not known, or has extents that are not."""
    extents = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
    return any(isinstance(e, (torch.SymInt, torch.SymFloat)) for e in extents)


def _is_open(place: Node, given: Any) -> bool:
    """Whether extents of an input are not known."""
    value = place.meta.get("example_value")
    return _is_symbolic(value if isinstance(value, torch.Tensor) else given)  # DDP's parts of a graph have none


def _known(given: Any) -> Any:
    """An input of the extents of the example."""
    if not _is_symbolic(given):
        return given
    if not isinstance(given, torch.Tensor):
        return hint(given)  # an int of it would be guarded
    with given.fake_mode:
        known = torch.empty_strided(*([hint(e) for e in extents] for extents in (given.shape, given.stride())),
                                    dtype=given.dtype, device=given.device)
    return known.requires_grad_(given.requires_grad)


def _reads_value(place: Node) -> bool:
    """Whether an input is a number that Dynamo gives as a tensor, as it does where numbers may change."""
    return bool(place.users) and all(n.op == "call_method" and n.target == "item" for n in place.users)


def _with_numbers(module: GraphModule, values: dict[Node, Any]) -> GraphModule:
    """The graph with these values in place of inputs; a value of None leaves the number an input."""
    graph, made = Graph(), {}
    for node in module.graph.nodes:
        place = next((n for n in node.all_input_nodes if n in values), None)
        if place is None:
            made[node] = graph.node_copy(node, made.__getitem__)
        else:
            made[node] = made[place] if values[place] is None else values[place]
    return GraphModule(module, graph)


@contextlib.contextmanager
def _uncounted() -> Iterator[None]:
    """If AOTAutograd was called for a part of a graph, DDP has it make the fake inputs of the next one, but not if
    it was called for extents other than the part's."""
    counted = counters["aot_autograd"]
    before = counted["total"]
    try:
        yield
    finally:
        counted["total"] = before


def has_known_extents(module: GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether one set of extents, and of numbers, is all that the graph is called with."""
    places = module.graph.find_nodes(op="placeholder")
    return not any(map(_is_open, places, inputs)) and not any(map(_reads_value, places))


def networks(module: GraphModule, inputs: Sequence[Any], make: Callable, rest: Callable) -> Networks:
    """The graph as networks. `make` takes a graph and inputs of known extents; it raises Unsupported if there is no
    network for them. `rest` compiles a graph in another way, for all extents."""
    if has_known_extents(module, inputs):
        return Networks(inputs, (), (), functools.partial(make, module), functools.partial(rest, module))
    places = module.graph.find_nodes(op="placeholder")
    numbers = [i for i, n in enumerate(places) if _reads_value(n)]

    def of(*values: Any) -> GraphModule:
        return _with_numbers(module, dict(zip((places[i] for i in numbers), values))) if numbers else module

    def made(given: Sequence[Any]) -> Any:
        with tracing(None), _uncounted():  # of Dynamo's symbols nothing is to be known
            return make(of(*(given[i].item() for i in numbers)), given)

    sized = [i for i, (n, v) in enumerate(zip(places, inputs)) if not is_static(n, v)]
    return Networks([_known(v) for v in inputs], sized, numbers, made, lambda: rest(of(*(None for _ in numbers))))


def whole(module: GraphModule, inputs: Sequence[Any], choices: Choices, rest: Callable,
          publish: Callable[[Report], None]) -> Callable:
    """The graph as networks. Raises Unsupported, with the reason, if it cannot be a network."""
    tensors = (t for t in (*inputs, *module.parameters()) if isinstance(t, torch.Tensor))
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise Unsupported("gradients are recorded")

    def make(known: GraphModule, given: Sequence[Any]) -> Any:
        if not choices.frozen and device_of(given).type in KEEPS and not any(hasattr(t, "fake_mode") for t in given):
            return Kept(known, given, choices, publish)
        made = _made(known, given, choices)
        publish(report_of(made))
        return made

    return networks(module, inputs, make, rest)
