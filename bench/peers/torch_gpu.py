#!/usr/bin/env python3
"""PyTorch on the cases of the GPU benchmark: eager, torch.compile, and torch.compile with max-autotune.

Reads the cases as `coda bench --list` or a result of `coda bench --json` has them: convolution, text of the epilogue,
operands, number of sets. The text is translated into PyTorch's functions, statement by statement. As in the benchmark
itself, the operands rotate through more than the second-level cache, a time is that of one execution within the replay
of a CUDA graph, and what is printed is the median over rounds.

One JSON line a case and contender: {"suite", "name", "peer", "us", "spread"} or {…, "error"}.

usage: torch_gpu.py CASES.json… [--peers eager,compile,max_autotune] [--only TEXT] [--rounds 5] [--replays 8]
"""
import argparse
import ast
import json
import re
import statistics
import sys
import time

PEERS = {"eager": None, "compile": {}, "max_autotune": {"mode": "max-autotune-no-cudagraphs"}}
DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


def statements(text):
    """(target, expression): target is a name, or "store NAME" for an output. Declarations are left out."""
    for line in re.split(r"[\n;]", text):
        line = line.split("#")[0].strip()
        if not line or line.startswith("operand "):
            continue
        if line.startswith("store "):
            match = re.fullmatch(r"store (.*?)(?:\s+as\s+(\w+))?(?:\s*:\s*(\w+))?", line)
            yield "store " + (match[2] or match[1]), match[1]
        else:
            name, expression = line.split("=", 1)
            yield name.strip(), expression.strip()


class Translation(ast.NodeVisitor):
    """An expression of the text form as a function of the values named so far. Raises NotImplementedError."""

    def __init__(self, torch):
        import torch.nn.functional as F
        self.unary = {
            "silu": F.silu, "relu": F.relu, "relu6": F.relu6, "mish": F.mish, "gelu": F.gelu, "tanh": torch.tanh,
            "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "sigmoid": torch.sigmoid, "exp": torch.exp, "log": torch.log,
            "abs": torch.abs, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "square": torch.square, "softplus": F.softplus,
            "hardswish": F.hardswish, "erf": torch.erf, "neg": torch.neg, "reciprocal": torch.reciprocal,
        }
        self.group_norm = F.group_norm

    def python(self, expression):
        """The text form is Python's syntax, but for axes in brackets, which PyTorch needs no more."""
        tree = ast.parse(expression, mode="eval")
        return self.visit(tree.body)

    def visit_Constant(self, node):
        return lambda values: node.value

    def visit_Name(self, node):
        return lambda values: values[node.id]

    def visit_Subscript(self, node):
        return self.visit(node.value)

    def visit_UnaryOp(self, node):
        if not isinstance(node.op, ast.USub):
            raise NotImplementedError(ast.dump(node.op))
        inner = self.visit(node.operand)
        return lambda values: -inner(values)

    def visit_BinOp(self, node):
        import operator
        known = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
        if type(node.op) not in known:
            raise NotImplementedError(ast.dump(node.op))
        left, right, op = self.visit(node.left), self.visit(node.right), known[type(node.op)]
        return lambda values: op(left(values), right(values))

    def visit_Call(self, node):
        name, arguments = node.func.id, [self.visit(a) for a in node.args]
        options = {k.arg: k.value for k in node.keywords}
        if name in self.unary and not options and len(arguments) == 1:
            function = self.unary[name]
            return lambda values: function(arguments[0](values))
        if name in ("group_norm", "instance_norm"):
            return self.normalisation(name, arguments[0], options)
        raise NotImplementedError(f"{name} with {len(arguments)} values and {sorted(options)}")

    def normalisation(self, name, x, options):
        groups = ast.literal_eval(options["groups"]) if "groups" in options else None
        eps = ast.literal_eval(options["eps"]) if "eps" in options else 1e-5
        vectors = {}
        for key in ("scale", "shift"):
            if key in options:
                if not isinstance(options[key], ast.Subscript) or ast.unparse(options[key].slice) != "n":
                    raise NotImplementedError(f"{name} with {key}={ast.unparse(options[key])}")
                vectors[key] = options[key].value.id

        def run(values):
            # PyTorch wants the parameters of a normalisation as vectors in the input's dtype
            given = {k: values[v + "[n]"] for k, v in vectors.items()}
            h = x(values)
            return self.group_norm(h, groups or h.shape[1], given.get("scale"), given.get("shift"), eps)
        return run

    def generic_visit(self, node):
        raise NotImplementedError(ast.unparse(node))


def make_function(torch, case):
    """f(x, w, *operands): the convolution and its epilogue as a user of PyTorch would write them."""
    import torch.nn.functional as F
    axes, conv, text = {o["name"]: o["axes"] for o in case["operands"]}, case["conv"], case["text"]
    if conv["pad"][:2] != conv["pad"][2:]:
        raise NotImplementedError(f"padding {conv['pad']}")
    # a bias that is added to the accumulator at once is the convolution's own
    has_bias = axes.get("bias") == "[n]" and "acc + bias[n]" in text
    if has_bias:
        text = text.replace("acc + bias[n]", "acc")
    translation = Translation(torch)
    program = [(target, translation.python(expression)) for target, expression in statements(text)]

    def run(x, w, *operands):
        values = {}
        for name, tensor in zip(axes, operands):
            values[name + "[n]"] = tensor  # as normalisations want it
            shape = {"[n]": (1, -1, 1, 1), "[b,n]": (*tensor.shape, 1, 1), "[b]": (-1, 1, 1, 1)}.get(axes[name])
            values[name] = tensor if shape is None else tensor.reshape(shape)
        bias = values["bias[n]"] if has_bias else None
        values["acc"] = F.conv2d(x, w, bias, conv["stride"], conv["pad"][:2], conv["dilation"])
        results = []
        for target, function in program:
            value = values[target.removeprefix("store ")] = function(values)
            if target.startswith("store "):
                results.append(value)
        return tuple(results)

    return run


def make_sets(torch, case):
    """Operands of each set, bf16 or f16, images channels last: what PyTorch's own modules would hold."""
    dtype = getattr(torch, DTYPES[case["dtype"]])
    conv, sets = case["conv"], []
    last = lambda t: t.contiguous(memory_format=torch.channels_last)
    for _ in range(case["sets"]):
        x = last(torch.randn(conv["n"], conv["c"], conv["h"], conv["w"], device="cuda", dtype=dtype))
        w = last(torch.randn(conv["k"], conv["c"], conv["r"], conv["s"], device="cuda", dtype=dtype)
                 / (conv["c"] * conv["r"] * conv["s"]) ** 0.5)
        operands = []
        for o in case["operands"]:
            t = torch.randn(*o["shape"], device="cuda", dtype=dtype)
            operands.append(t.permute(0, 3, 1, 2) if o["axes"] == "[m,n]" else t)  # (N,P,Q,K) seen as (N,K,P,Q)
        sets.append((x, w, *operands))
    return sets


class Replays:
    """A graph that runs the sets in turn. The result of an execution is dropped, as its memory is reused by a later one
    that is `sets` executions away: outputs stay cold, too."""

    def __init__(self, torch, function, sets, target_us=2000.0):
        self.torch = torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                function(*sets[0])
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for s in sets:
                function(*s)
            stop.record()
        torch.cuda.synchronize()
        rounds = max(1, min(64, round(target_us / max(start.elapsed_time(stop) * 1e3, 1.0))))
        self.executions = rounds * len(sets)
        self.graph, kept = torch.cuda.CUDAGraph(), [None] * len(sets)
        with torch.cuda.graph(self.graph):
            for i in range(self.executions):
                kept[i % len(sets)] = function(*sets[i % len(sets)])
        self.kept = kept
        self.events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def time(self):
        start, stop = self.events
        start.record()
        self.graph.replay()
        stop.record()
        self.torch.cuda.synchronize()
        return start.elapsed_time(stop) * 1e3 / self.executions


def measure(contenders, rounds, replays):
    """{name: (median, spread)}: the contenders take turns; spread is that of the medians of the rounds."""
    times = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            for _ in range(2):
                contender.time()
            times[name].append([contender.time() for _ in range(replays)])
    result = {}
    for name, rounds_of_one in times.items():
        middle = statistics.median(t for r in rounds_of_one for t in r)
        medians = [statistics.median(r) for r in rounds_of_one]
        result[name] = (middle, (max(medians) - min(medians)) / middle)
    return result


def run_case(torch, suite, case, peers, args):
    emit = lambda peer, **row: print(json.dumps({"suite": suite, "name": case["name"], "peer": "torch_" + peer, **row}), flush=True)
    try:
        function, sets = make_function(torch, case), make_sets(torch, case)
    except Exception as error:  # noqa: BLE001: a peer that cannot run a case is a result
        for peer in peers:
            emit(peer, error=f"{type(error).__name__}: {error}"[:400])
        return
    contenders, seconds = {}, {}
    for peer in peers:
        try:
            torch._dynamo.reset()
            start = time.time()
            runs = function if PEERS[peer] is None else torch.compile(function, **PEERS[peer])
            runs(*sets[0])
            torch.cuda.synchronize()
            seconds[peer] = time.time() - start
            contenders[peer] = Replays(torch, runs, sets)
        except Exception as error:  # noqa: BLE001
            emit(peer, error=f"{type(error).__name__}: {error}"[:400])
    for peer, (us, spread) in measure(contenders, args.rounds, args.replays).items():
        emit(peer, us=round(us, 3), spread=round(spread, 4), compile_seconds=round(seconds[peer], 2))


def read_suites(paths):
    for path in paths:
        with open(path) as file:
            content = json.load(file)
        yield from content if isinstance(content, list) else [content]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--replays", type=int, default=8)
    args = parser.parse_args()
    peers = [p for p in args.peers.split(",") if p]
    if unknown := [p for p in peers if p not in PEERS]:
        parser.error(f"--peers {','.join(unknown)}: expected some of {','.join(PEERS)}")
    import torch
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "torch_cudnn": torch.backends.cudnn.version(),
                      "torch_gpu": torch.cuda.get_device_name()}), flush=True)
    for suite in read_suites(args.cases):
        for case in suite["cases"]:
            if args.only in case["name"]:
                print(f"[torch {suite['suite']}] {case['name']}", file=sys.stderr, flush=True)
                run_case(torch, suite["suite"], case, peers, args)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
