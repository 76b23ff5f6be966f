"""What others make of a network: ONNX Runtime, and PyTorch or ONNX's own interpreter."""

import importlib.util
import json
import pathlib
import select
import subprocess
import sys
import tempfile

import numpy


def onnxruntime(model, inputs):
    """Outputs by name, in float32 and without its own rewriting of the graph. Raises for a model that it refuses."""
    import onnxruntime as runtime
    runtime.set_default_logger_severity(4)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


def third_opinion(model, inputs):
    """(whose, outputs by name): PyTorch's convolutions in float64 where it is installed, else ONNX's interpreter on NumPy."""
    names = [o.name for o in model.graph.output]
    with numpy.errstate(all="ignore"):
        if importlib.util.find_spec("torch"):
            sys.path.append(str(pathlib.Path(__file__).parents[2] / "scripts"))
            from networks.onnx_reference import evaluate
            with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                file.write(model.SerializeToString())
                file.flush()
                values = evaluate(file.name, inputs, numpy.float64)
            return "PyTorch", {n: v.astype(numpy.float32) if v.dtype == numpy.float64 else v for n, v in zip(names, values)}
        from onnx.reference import ReferenceEvaluator
        return "ONNX's interpreter", dict(zip(names, ReferenceEvaluator(model).run(None, inputs)))


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
