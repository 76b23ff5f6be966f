"""The command where the system gives little memory: it ends with an error, never by a signal. Takes 24 limits; UNISONO_MEMORY_RUNS: so many."""

import math
import os
import random
import resource
import struct
import subprocess

import command
import onnx_file

MOST, LEAST = 400 << 20, 100 << 20  # below, the dynamic linker finds no place for the libraries


def network():
    """Convolutions that are fused and cut into strips, a convolution of volumes and products, which oneDNN computes by different objects."""
    draw = random.Random(1)

    def weights(name, *shape):
        count = math.prod(shape)
        return onnx_file.constant(name, onnx_file.FLOAT, shape, struct.pack(f"<{count}f", *(draw.uniform(-0.1, 0.1) for _ in range(count))))

    nodes, constants = [], []
    for i, (channels, k) in enumerate([(16, 48), (48, 48), (48, 64), (64, 16)]):
        nodes += [onnx_file.node("Conv", [f"y{i}" if i else "x", f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]), onnx_file.node("Relu", [f"c{i}"], [f"y{i + 1}"])]
        constants.append(weights(f"w{i}", k, channels, 3, 3))
    nodes += [onnx_file.node("Unsqueeze", ["y4", "axes"], ["v"]), onnx_file.node("Conv", ["v", "w3d"], ["v1"], pads=[0, 1, 1, 0, 1, 1]),
              onnx_file.node("Squeeze", ["v1", "axes"], ["s"]), onnx_file.node("MatMul", ["s", "x"], ["y"])]
    constants += [weights("w3d", 16, 16, 1, 3, 3), onnx_file.constant("axes", onnx_file.INT64, [1], struct.pack("<q", 2))]
    shape = [1, 16, 240, 240]
    return onnx_file.model(nodes, [onnx_file.value_info("x", onnx_file.FLOAT, shape)], [onnx_file.value_info("y", onnx_file.FLOAT, shape)], constants=constants)


class Memory(command.Case):
    def setUp(self):
        super().setUp()
        (self.folder / "net.onnx").write_bytes(network())

    def under(self, bytes, threads):
        limited = lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))
        run = subprocess.run([command.COMMAND, "run", "net.onnx", "--random", "--repeat", "0", "--out", "results", "--threads", str(threads)],
                             capture_output=True, text=True, timeout=120, cwd=self.folder, preexec_fn=limited, stdin=subprocess.DEVNULL)
        return run.returncode, run.stdout, run.stderr

    def test_an_error_or_a_result_under_any_limit(self):
        runs = int(os.environ.get("UNISONO_MEMORY_RUNS", "24"))
        draw, ended, failed = random.Random(2), {}, []
        for i in range(runs):
            bytes, threads = LEAST + (MOST - LEAST) * i // max(runs - 1, 1), draw.randint(1, 16)
            code, out, error = self.under(bytes, threads)
            ended[code] = ended.get(code, 0) + 1
            says_why = code in (command.FAILED, command.WRONG) and ("out of memory" in error or "this process may use" in error) and out == ""
            if code != command.OK and not says_why:
                failed.append(f"{bytes} bytes, {threads} threads: {code}: {out}{error}")
        print(f"{runs} runs, by exit code: {dict(sorted(ended.items()))}")
        self.assertEqual(failed, [])
        self.assertGreater(ended.get(command.OK, 0), runs // 8)  # the larger limits suffice
        self.assertLess(ended.get(command.OK, 0), runs)

    def test_fewer_threads_where_there_is_no_memory_for_more(self):
        code, _, error = self.under(MOST, 16)
        self.assertEqual(code, command.OK, error)
        self.assertRegex(error, r"unisono: \d+ of 16 threads could be started \(no memory\)")


command.main()
