#!/usr/bin/env python3
"""PyTorch on the cases of the GPU benchmark: eager, torch.compile, torch.compile with max-autotune; and quack.

Serves unisono_gpu_bench (`--beside SOCKET`), whose contenders and these take turns in one duty cycle; tools/bench/peer_program.hpp
describes what is said at the socket. A case is its convolution, text of the epilogue, operands, number of sets. The text is
translated into PyTorch's functions, statement by statement. As in the benchmark itself, the operands rotate through more than L2,
and a time is that of one execution within the replay of a CUDA graph.

usage: torch_gpu.py SOCKET [--peers eager,compile,max_autotune,quack] [--limit SECONDS]

It ends when the benchmark leaves. A peer that has taken SECONDS for compiling, over all cases, takes no part in further ones.
"""
import argparse
import ast
import json
import os
import queue
import re
import socket
import sys
import threading
import time

PEERS = {"eager": None, "compile": {}, "max_autotune": {"mode": "max-autotune-no-cudagraphs"}, "quack": None}
DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


def named(peer):
    """As results call it."""
    return peer if peer == "quack" else f"torch_{peer}"


def statements(text):
    """(target, expression, type): target is a name, or "store NAME" for an output of this type. Declarations are left out."""
    for line in re.split(r"[\n;]", text):
        line = line.split("#")[0].strip()
        if not line or line.startswith("operand "):
            continue
        if line.startswith("store "):
            match = re.fullmatch(r"store (.*?)(?:\s+as\s+(\w+))?(?:\s*:\s*(\w+))?", line)
            yield "store " + (match[2] or match[1]), match[1], match[3]
        else:
            name, expression = line.split("=", 1)
            yield name.strip(), expression.strip(), None


UNARY = {"gelu_tanh": 'F.gelu({}, approximate="tanh")'}
UNARY |= {f: f"F.{f}({{}})" for f in ("silu", "relu", "relu6", "mish", "gelu", "softplus", "hardswish")}
UNARY |= {f: f"torch.{f}({{}})" for f in ("tanh", "sigmoid", "exp", "log", "log1p", "abs", "sqrt", "rsqrt", "square", "erf", "neg",
                                          "reciprocal", "sin", "cos")}
BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class Translation(ast.NodeVisitor):
    """An expression of the text form, which is Python's syntax, as PyTorch's. Raises NotImplementedError."""

    def python(self, expression):
        return self.visit(ast.parse(expression, mode="eval").body)

    def visit_Constant(self, node):
        return repr(node.value)

    def visit_Name(self, node):
        return node.id

    def visit_Subscript(self, node):  # axes; the operand has been given the shape that broadcasts so
        return self.visit(node.value)

    def visit_UnaryOp(self, node):
        if not isinstance(node.op, ast.USub):
            raise NotImplementedError(ast.unparse(node))
        return f"(-{self.visit(node.operand)})"

    def visit_BinOp(self, node):
        if type(node.op) not in BINARY:
            raise NotImplementedError(ast.unparse(node))
        return f"({self.visit(node.left)} {BINARY[type(node.op)]} {self.visit(node.right)})"

    def visit_Call(self, node):
        name, options = node.func.id, {k.arg: k.value for k in node.keywords}
        if name in UNARY and len(node.args) == 1 and not options:
            return UNARY[name].format(self.visit(node.args[0]))
        if name == "clamp" and len(node.args) == 1 and set(options) <= {"lower", "upper"}:
            limits = [f"{there}={ast.unparse(options[here])}" for here, there in (("lower", "min"), ("upper", "max")) if here in options]
            return f"torch.clamp({', '.join([self.visit(node.args[0]), *limits])})"
        if name == "sum" and len(node.args) == 1 and not options:  # over all elements
            return f"torch.sum({self.visit(node.args[0])}, dtype=torch.float32)"
        if name == "sum" and len(node.args) == 1 and {k: ast.unparse(v) for k, v in options.items()} == {"over": "n"}:
            return f"torch.sum({self.visit(node.args[0])}, channel_axis, dtype=torch.float32)"
        if name in ("group_norm", "instance_norm") and len(node.args) == 1:
            return self.normalisation(name, self.visit(node.args[0]), options)
        if name in ("layer_norm", "rms_norm", "batch_norm") and len(node.args) == 1:
            return self.of_rows(name, self.visit(node.args[0]), options)
        if name == "softmax" and len(node.args) == 1 and ast.unparse(options.get("over", ast.Constant(None))) == "n" and len(options) == 1:
            return f"torch.softmax({self.visit(node.args[0])}, channel_axis)"
        raise NotImplementedError(ast.unparse(node))

    def vectors(self, name, options):
        """scale and shift as PyTorch takes them: (channels,)"""
        vectors = []
        for key in ("scale", "shift"):
            value = options.get(key)
            if value is not None and not (isinstance(value, ast.Subscript) and ast.unparse(value.slice) == "n"):
                raise NotImplementedError(f"{name} with {key}={ast.unparse(value)}")
            vectors.append("None" if value is None else f"{value.value.id}_vector")
        return vectors

    def of_rows(self, name, x, options):
        """layer_norm and rms_norm of a product's rows, batch_norm of either with the batch's own statistics"""
        scale, shift = self.vectors(name, options)
        eps = ast.unparse(options["eps"]) if "eps" in options else "1e-5"
        if name == "batch_norm":
            return f"F.batch_norm({x}, None, None, {scale}, {shift}, True, 0.1, {eps})"
        if name == "rms_norm":
            return f"F.rms_norm({x}, ({x}.shape[-1],), {scale}, {eps})"
        return f"F.layer_norm({x}, ({x}.shape[-1],), {scale}, {shift}, {eps})"

    def normalisation(self, name, x, options):
        vectors = self.vectors(name, options)
        groups = ast.unparse(options["groups"]) if "groups" in options else "channels"
        eps = ast.unparse(options["eps"]) if "eps" in options else "1e-5"
        return f"F.group_norm({x}, {groups}, {', '.join(vectors)}, {eps})"

    def generic_visit(self, node):
        raise NotImplementedError(ast.unparse(node))


RESHAPE = {"[n]": ".reshape(1, -1, 1, 1)", "[b,n]": "[:, :, None, None]", "[b]": ".reshape(-1, 1, 1, 1)", "[m,n]": ""}


def source_of(case):
    """The text of `def run(x, w, OPERANDS…)`: the case as a user of PyTorch would write it."""
    axes, text = {o["name"]: o["axes"] for o in case["operands"]}, case["text"]
    # a bias that is added to the accumulator at once is the convolution's own
    has_bias = axes.get("bias") == "[n]" and "acc + bias[n]" in text
    if has_bias:
        text = text.replace("acc + bias[n]", "acc")
    dual = case.get("product", {}).get("products", 1) == 2
    lines = [f"def run({', '.join(['x', 'w', *(f'{name}_vector' for name in axes)])}):"]
    bias, others = "bias_vector" if has_bias else "None", {name: a for name, a in axes.items() if not (has_bias and name == "bias")}
    if "product" in case:
        lines += ["channel_axis = -1"] + [f"{name} = {name}_vector" for name in others]
        # both right operands of a dual product are one, stacked, as models hold them: one product of twice the columns
        lines.append("acc0, acc1 = F.linear(x, w).chunk(2, -1)" if dual else f"acc = F.linear(x, w, {bias})")
    else:
        conv = case["conv"]
        if conv["pad"][:2] != conv["pad"][2:]:
            raise NotImplementedError(f"padding {conv['pad']}")
        if re.search("layer_norm|rms_norm", text):
            raise NotImplementedError("a convolution's pixels normalised over their channels")
        lines += [f"channels = {conv['k']}", "channel_axis = 1"] + [f"{name} = {name}_vector{RESHAPE[a]}" for name, a in others.items()]
        moves, groups = f"{conv['stride']}, {conv['pad'][:2]}", conv.get("groups", 1)
        lines.append(f"acc = F.conv_transpose2d(x, w, {bias}, {moves}, {conv['output_pad']}, {groups}, {conv['dilation']})"
                     if conv.get("transposed") else f"acc = F.conv2d(x, w, {bias}, {moves}, {conv['dilation']}, {groups})")
    outputs = []
    for target, expression, dtype in statements(text):
        as_stored = ".float()" if dtype == "f32" else ""  # of 16 bits otherwise, as PyTorch computes it
        lines.append(f"{target.removeprefix('store ')} = {Translation().python(expression)}{as_stored}")
        if target.startswith("store "):
            outputs.append(target.removeprefix("store "))
    return "\n    ".join(lines + [f"return ({', '.join(outputs)},)"]) + "\n"


def make_function(torch, case):
    import torch.nn.functional as F

    names = {"torch": torch, "F": F}
    exec(source_of(case), names)
    return names["run"]


def make_factors(torch, case, dtype):
    """Image and filter, in the case's layout; of a product its two factors."""
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
    if p := case.get("product"):
        return random(p["m"], p["k"]), random(p.get("products", 1) * p["n"], p["k"]) / p["k"] ** 0.5
    conv = case["conv"]
    last = (lambda t: t) if conv.get("layout") == "nchw" else lambda t: t.contiguous(memory_format=torch.channels_last)
    groups = conv.get("groups", 1)
    depth = conv["c"] // groups * conv["r"] * conv["s"]
    filters = (conv["c"], conv["k"] // groups) if conv.get("transposed") else (conv["k"], conv["c"] // groups)
    return last(random(conv["n"], conv["c"], conv["h"], conv["w"])), last(random(*filters, conv["r"], conv["s"]) / depth**0.5)


def make_sets(torch, case):
    """Operands of each set in the case's type: what PyTorch's own modules would hold."""
    dtype, sets = getattr(torch, DTYPES[case["dtype"]]), []
    for _ in range(case["sets"]):
        factors, operands = make_factors(torch, case, dtype), []
        for o in case["operands"]:
            t = torch.randn(*o["shape"], device="cuda", dtype=dtype)
            if o["axes"] == "[m,n]" and case.get("conv", {}).get("layout") != "nchw":  # (N,P,Q,K) seen as (N,K,P,Q), (1,m,n) as (m,n)
                t = t[0] if "product" in case else t.permute(0, 3, 1, 2)
            operands.append(t)
        sets.append((*factors, *operands))
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


class Server:
    """Answers requests one by one; `seconds` is what each peer has taken for compiling."""

    def __init__(self, torch, peers, limit):
        self.torch, self.peers, self.limit = torch, peers, limit
        self.seconds = dict.fromkeys(peers, 0.0)
        self.contenders = {}

    def prepare(self, case, suite):
        print(f"[torch {suite}] {case['name']}", file=sys.stderr, flush=True)
        self.release()
        try:
            function, sets = make_function(self.torch, case), make_sets(self.torch, case)
        except Exception as error:  # noqa: BLE001: a peer that cannot run a case is a result
            return {"contenders": [], "errors": {named(p): described(error) for p in self.peers}}
        ready, errors = [], {}
        for peer in self.peers:
            if self.seconds[peer] > self.limit:
                errors[named(peer)] = f"not measured: compiling had taken {self.seconds[peer]:.0f} s, the limit is {self.limit:.0f}"
                continue
            start = time.time()
            try:
                self.torch._dynamo.reset()
                runs = self.function_of(peer, case, function)
                runs(*sets[0])
                self.torch.cuda.synchronize()
                taken = time.time() - start
                self.contenders[named(peer)] = Replays(self.torch, runs, sets)
                ready.append({"peer": named(peer), "compile_seconds": round(taken, 2)})
            except Exception as error:  # noqa: BLE001
                errors[named(peer)] = described(error)
            self.seconds[peer] += time.time() - start
        return {"contenders": ready, "errors": errors}

    def function_of(self, peer, case, function):
        if peer == "quack":
            import quack_gpu  # beside this file
            return quack_gpu.make_function(self.torch, case)
        return function if PEERS[peer] is None else self.torch.compile(function, **PEERS[peer])

    def release(self):
        self.contenders.clear()
        self.torch.cuda.empty_cache()
        return {}

    def answer(self, request):
        try:
            if "prepare" in request:
                return self.prepare(request["prepare"], request.get("suite", ""))
            if "time" in request:
                return {"us": self.contenders[request["time"]].time()}
            return self.release() if "release" in request else {"error": f"unknown request {sorted(request)}"}
        except Exception as error:  # noqa: BLE001: the benchmark goes on without this one
            return {"error": described(error)}


def described(error):
    return f"{type(error).__name__}: {error}"[:400]


def requests_of(connection):
    """Requests as they come. If the benchmark leaves while one is worked at, which may be never, the process ends."""
    waiting, lines = queue.Queue(), connection.makefile()

    def read():
        for line in lines:
            waiting.put(json.loads(line))
        waiting.put(None)
        time.sleep(5)
        os._exit(3)
    threading.Thread(target=read, daemon=True).start()
    yield from iter(waiting.get, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("socket")
    parser.add_argument("--peers", default="eager,compile,max_autotune")
    parser.add_argument("--limit", type=float, default=600, help="seconds of compiling of each peer")
    args = parser.parse_args()
    peers = [p for p in args.peers.split(",") if p]
    if unknown := [p for p in peers if p not in PEERS]:
        parser.error(f"--peers {','.join(unknown)}: expected some of {','.join(PEERS)}")
    import torch
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True  # what cases of f32 mean
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    server = Server(torch, peers, args.limit)
    about = {"torch": torch.__version__, "cuda": torch.version.cuda, "torch_cudnn": torch.backends.cudnn.version(),
             "torch_gpu": torch.cuda.get_device_name()}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(args.socket)
        listening.listen(1)
        connection, _ = listening.accept()
    os.unlink(args.socket)  # the next one to come waits for the next program
    with connection:
        connection.sendall((json.dumps({"about": about}) + "\n").encode())
        for request in requests_of(connection):
            connection.sendall((json.dumps(server.answer(request)) + "\n").encode())


if __name__ == "__main__":
    main()
