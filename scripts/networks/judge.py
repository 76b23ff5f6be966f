"""One row of the results: a network by one exporter, right, wrong, refused, broken or not exported, and why."""
import json

import numpy as np
import onnx

from .errors import relative_error, tolerance
from .faults import draw_faults
from .other_network import why_other
from .runs import Broken, Refused, run_unisono, run_onnxruntime, time_onnxruntime

ROUNDS = 5  # of unisono and ONNX Runtime in turn


def output_names(model):
    return [o.name for o in onnx.load(str(model), load_external_data=False).graph.output]


class Judge:
    def __init__(self, unisono, folder, about, threads):
        self.unisono, self.folder, self.about, self.threads = unisono, folder, about, threads

    def _exact(self, run):
        with np.load(self.folder / f"exact.{run}.npz") as arrays:
            return [arrays[f"out{i}"] for i in range(len(arrays))]

    def _results(self, model, run):
        """{output: array} by unisono"""
        return run_unisono(self.unisono, model, self.folder / f"inputs.{run}.npz", threads=self.threads)[0]

    def _outputs(self, model, run):
        """What unisono is off by, output by output."""
        ours, names = self._results(model, run), output_names(model)
        theirs = self._onnxruntime(model, run, len(names))
        return [{"error": relative_error(ours.get(name), exact), "tolerance": tolerance(float32),
                 "pytorch_error": float32,
                 "onnxruntime_error": None if their is None else relative_error(their, exact)}
                for name, exact, float32, their in
                zip(names, self._exact(run), self.about["runs"][run]["float32_error"], theirs, strict=True)]

    def _onnxruntime(self, model, run, count):
        try:
            return run_onnxruntime(model, self.folder / f"inputs.{run}.npz", threads=self.threads)
        except Exception:  # its exceptions have no common class; what it cannot run has no error
            return [None] * count

    def correctness(self, model, free):
        """{status, reason, runs}"""
        runs = []
        try:
            for run, made in enumerate(self.about["runs"]):
                if made["open"] == free:
                    runs.append({"inputs": made["inputs"], "outputs": self._outputs(model, run)})
        except Refused as error:
            return {"status": "refused", "reason": str(error), "runs": runs}
        except Broken as error:
            return {"status": "broken", "reason": str(error), "runs": runs}
        wrong = [run for run, r in enumerate(runs) if any(o["error"] > o["tolerance"] for o in r["outputs"])]
        if wrong and not free and (reason := self._why_other(model, wrong[0])):
            return {"status": "not exported", "reason": reason, "runs": []}
        return {"status": "wrong" if wrong else "right", "reason": "", "runs": runs}

    def _why_other(self, model, run):
        ours = self._results(model, run)
        return why_other(model, self.folder / f"inputs.{run}.npz", self._exact(run), [ours.get(n) for n in output_names(model)],
                         [tolerance(e) for e in self.about["runs"][run]["float32_error"]])

    def _share(self, names, outputs):
        """The error of a first run over its tolerance, in the worst output; outputs are {name: array}."""
        return max(relative_error(outputs.get(name), exact) / tolerance(float32) for name, exact, float32 in
                   zip(names, self._exact(0), self.about["runs"][0]["float32_error"], strict=True))

    def faults(self, model, count):
        inputs, names = self.folder / "inputs.0.npz", output_names(model)
        return draw_faults(
            model, inputs, count, model.with_name("fault.onnx"),
            lambda file: self._share(names, run_unisono(self.unisono, file, inputs, threads=self.threads)[0]),
            lambda file: self._share(names, dict(zip(names, run_onnxruntime(file, inputs, threads=self.threads)))))

    def times(self, model):
        """Rounds in which both take turns, each of half a second or five runs at least, and of each side the least of its
        rounds' medians: other work on the machine only ever adds to a time."""
        inputs = self.folder / "inputs.0.npz"
        once = run_unisono(self.unisono, model, inputs, 5, self.threads)[1]
        repeat = int(np.clip(500 / once, 5, 200))
        unisono, theirs = [], []
        for _ in range(ROUNDS):
            unisono.append(run_unisono(self.unisono, model, inputs, repeat, self.threads)[1])
            theirs.append(time_onnxruntime(model, inputs, repeat, self.threads))
        return {"unisono_ms": float(min(unisono)), "onnxruntime_ms": float(min(theirs))}
