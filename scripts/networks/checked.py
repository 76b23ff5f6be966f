"""Whether what an exporter wrote is ONNX."""
import onnx


def check(file):
    """Raises where the package onnx finds the file, or a type or shape in it, not to be as ONNX defines it. The
    TorchScript exporter writes such files: a permutation with a negative axis, an axis beyond the rank."""
    onnx.checker.check_model(str(file), full_check=True)
