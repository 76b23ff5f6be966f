"""What others make of a network: ONNX Runtime, and PyTorch or ONNX's own interpreter."""

import importlib.util
import json
import pathlib
import select
import subprocess
import sys
import tempfile

import numpy
from onnx import helper

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))


def swish(node, result=None):
    """Its nodes, as the body that ONNX defines for it has them."""
    y = result or node.output[0]
    alpha, times, gate = (f"{y}/{part}" for part in ("alpha", "times", "gate"))
    return [helper.make_node("Constant", [], [alpha], value_float=next((a.f for a in node.attribute if a.name == "alpha"), 1.0)),
            helper.make_node("Mul", [alpha, node.input[0]], [times]), helper.make_node("Sigmoid", [times], [gate]),
            helper.make_node("Mul", [node.input[0], gate], [y])]


def swiglu(node):
    gate = node.output[0] + "/swish"
    return [*swish(node, gate), helper.make_node("Mul", [gate, node.input[1]], list(node.output))]


BODIES = {"SwiGLU": swiglu, "Swish": swish}  # of operators that ONNX Runtime 1.32 does not have, or not for every model


def written_out(model):
    """The model with bodies in place of the operators that ONNX Runtime lacks."""
    if not any(n.op_type in BODIES for n in model.graph.node):
        return model
    result = type(model)()
    result.CopyFrom(model)
    del result.graph.node[:]
    for node in model.graph.node:
        result.graph.node.extend(BODIES[node.op_type](node) if node.op_type in BODIES else [node])
    return result


def onnxruntime(model, inputs):
    """Outputs by name, in float32 and without its own rewriting of the graph. Raises for a model that it refuses."""
    import onnxruntime as runtime
    runtime.set_default_logger_severity(4)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(written_out(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


def third_opinion(model, inputs):
    """(whose, outputs by name) in float64: PyTorch's convolutions where it is installed and has what the model asks for, else
    ONNX's interpreter on NumPy."""
    names = [o.name for o in model.graph.output]
    with numpy.errstate(all="ignore"):
        whose, values = by_pytorch(model, inputs) or ("ONNX's interpreter", interpreted(model, inputs))
    return whose, {n: v.astype(numpy.float32) if v.dtype == numpy.float64 else v for n, v in zip(names, values)}


def by_pytorch(model, inputs):
    if not importlib.util.find_spec("torch"):
        return None
    from networks.onnx_reference import evaluate
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model.SerializeToString())
        file.flush()
        try:
            return "PyTorch", evaluate(file.name, inputs, numpy.float64)
        except NotImplementedError:  # ConvTranspose with auto_pad
            return None


def padded_convolution():
    """ONNX's convolution with auto_pad as pads: where the interpreter turns one into the other, it takes the extents of the batch
    and the channels for those of the image."""
    from onnx.reference.ops.op_conv import Conv as Interpreted

    class Conv(Interpreted):
        def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None, strides=None):
            if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
                spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations or [1] * (w.ndim - 2))]
                steps = strides or [1] * (w.ndim - 2)
                totals = [max((-(-e // s) - 1) * s + k - e, 0) for e, s, k in zip(x.shape[2:], steps, spans)]
                lesser, greater = [t // 2 for t in totals], [t - t // 2 for t in totals]
                pads = lesser + greater if auto_pad == "SAME_UPPER" else greater + lesser
            elif auto_pad == "VALID":
                pads = None
            return super()._run(x, w, b, "NOTSET", dilations, group, kernel_shape, pads, strides)

    return Conv


def interpreted(model, inputs):
    """The outputs by ONNX's interpreter: in float64, or in float32 if an operator is not defined for the wider type."""
    from networks.onnx_float64 import CORRECTED, widened
    from onnx.reference import ReferenceEvaluator
    wide = {k: v.astype(numpy.float64) if v.dtype == numpy.float32 else v for k, v in inputs.items()}
    model = written_out(model)
    copy = type(model)()
    copy.CopyFrom(model)
    operators = [padded_convolution(), *CORRECTED]
    try:
        return ReferenceEvaluator(widened(copy), new_ops=operators).run(None, wide)
    except (TypeError, RuntimeError):
        return ReferenceEvaluator(model, new_ops=operators).run(None, inputs)


class Judge:
    """The judging program, started again after it died. `ask` gives its line for a model's path, or what it died of."""

    def __init__(self, command, environment=None, seconds=300):
        self.command, self.environment, self.seconds = command, environment, seconds
        self.process = None

    def ask(self, path):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                            env=self.environment)
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.seconds)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        text = "no answer"
        if not ready:
            self.process.kill()
            text = f"no answer within {self.seconds} s"
        _, errors = self.process.communicate()
        code, self.process = self.process.returncode, None
        return {"verdict": "crashed", "stage": f"exit code {code}", "text": (text + "\n" + errors[-3000:]).strip()}

    def close(self):
        if self.process is not None:
            self.process.communicate()
            self.process = None
