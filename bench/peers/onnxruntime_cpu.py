#!/usr/bin/env python3
"""The peer `onnxruntime`: times ONNX Runtime's CPU provider on a model, one JSON line on standard output.

usage: onnxruntime_cpu.py MODEL.onnx --input X.npy --threads T --seconds S --output Y.npy
"""
import argparse
import json
import time

import numpy as np
import onnxruntime as ort


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()

    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: np.load(args.input)}

    for _ in range(3):
        result = session.run(None, feed)
    np.save(args.output, result[0])
    times, end = [], time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 10:
        start = time.perf_counter()
        session.run(None, feed)
        times.append((time.perf_counter() - start) * 1e6)
    print(json.dumps({"who": "onnxruntime", "version": ort.__version__, "times_us": times}))


main()
