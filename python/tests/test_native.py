"""The C++ interface in Python: graphs, errors, tensors, networks."""

import os
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import unisono as u


def test_text_goes_there_and_back():
    graph = u.parse("h = acc + bias[n]\nstore silu(h) as y : bf16\nstore h : f32")
    assert u.parse(str(graph)) == graph
    assert [(o.name, o.axes) for o in graph.operands] == [("bias", "n")]
    assert [(s.name, s.axes, s.dtype) for s in graph.stores] == [("y", "mn", u.DType.bf16), ("h", "mn", u.DType.f32)]
    assert graph != u.parse("store acc as y : bf16")
    assert "digraph" in graph.to_dot()


def test_errors_of_texts_have_a_caret():
    with pytest.raises(u.UserError) as raised:
        u.parse("y = mish(gruop_norm(acc, groups=32))\nstore y")
    assert "line 1, column 10" in str(raised.value) and "group_norm" in str(raised.value) and "^^^^^^^^^^" in str(raised.value)
    assert isinstance(raised.value, u.Error) and isinstance(raised.value, RuntimeError)


def test_builder_builds_what_the_text_says():
    g = u.GraphBuilder()
    h = g.acc() * 0.5 + g.operand("bias", "n")
    y = u.group_norm(u.leaky_relu(h, slope=g.operand("slope", default=0.1)), groups=4, scale=g.operand("g", "[n]"))
    g.store(u.select(h > 0, y, -y), u.DType.f16, "y")
    g.store(u.sum(h, over="m"), name="s")
    text = """operand slope[] = 0.1
    h = acc * 0.5 + bias[n]
    y = group_norm(leaky_relu(h, slope=slope), groups=4, scale=g[n])
    store select(h > 0, y, -y) as y : f16
    store sum(h, over=m) as s"""
    assert g.build() == u.parse(text)


def test_wrong_use_of_the_builder():
    g = u.GraphBuilder()
    with pytest.raises(u.UserError, match="no truth value"):
        bool(g.acc() > 0)
    with pytest.raises(u.UserError, match="axes 'x'"):
        g.operand("bias", "x")
    with pytest.raises(u.UserError, match="expected a unisono.Value or a number"):
        g.acc() + "1"
    with pytest.raises(u.UserError, match="another GraphBuilder"):
        g.acc() + u.GraphBuilder().acc()


def test_values_keep_their_builder():
    value = u.silu(u.GraphBuilder().acc() + 1)
    assert value.axes == "mn" and value.dtype == u.DType.f32


@pytest.fixture(scope="module")
def product():
    return u.compile(u.Gemm(m=4, n=8, k=16), u.parse("store acc * s[] + bias[n] as y"))


def operands(seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(s).astype(np.float32) for s in ((4, 16), (16, 8), (8,))]


def test_run(product):
    a, b, bias = operands()
    y = np.full((4, 8), np.nan, np.float32)
    product.run(a, b, {"bias": bias, "s": 2.0}, outputs={"y": y})
    np.testing.assert_allclose(y, 2 * (a.astype(np.float64) @ b) + bias, atol=20 * 2.0**-24 * 2 * (abs(a) @ abs(b)).max())
    assert "oneDNN" in product.describe() and product.workspace_bytes == 0
    strided = np.full((4, 16), np.nan, np.float32)
    product.run(a, b, {"bias": bias, "s": 2.0}, outputs={"y": strided[:, :8]})
    assert (strided[:, :8] == y).all() and np.isnan(strided[:, 8:]).all()


@pytest.mark.parametrize("change, message", [
    ({"y": None}, "argument 'y' is missing"),
    ({"y": np.zeros((4, 9), np.float32)}, r"shape \(1,4,9\); expected \(1,4,8\)|expected"),
    ({"y": np.zeros((4, 8))}, "dtype|f64"),
    ({"y": np.zeros((4, 8), np.complex64)}, "elements of a type"),
    ({"bias": np.zeros(9, np.float32)}, r"bias\[n\]"),
    ({"bias": "x"}, "argument 'bias' is a str"),
    ({"other": np.zeros(8, np.float32)}, "other"),
])
def test_wrong_arguments(product, change, message):
    a, b, bias = operands()
    arguments = {"bias": bias, "s": 1.0, "y": np.zeros((4, 8), np.float32), **change}
    outputs = {"y": arguments.pop("y")}
    with pytest.raises(u.UserError, match=message):
        product.run(a, b, arguments, outputs=outputs)


def test_read_only_arrays_are_read_and_not_written(product):
    a, b, bias = operands()
    for array in (a, b, bias):
        array.flags.writeable = False
    y = np.zeros((4, 8), np.float32)
    product.run(a, b, {"bias": bias, "s": 1.0}, outputs={"y": y})
    with pytest.raises(u.UserError, match="read-only"):
        product.run(a, b, {"bias": bias, "s": 1.0}, outputs={"y": a[:, :8]})


def test_tensors_by_address(product):
    a, b, bias = operands()
    y = np.zeros((4, 8), np.float32)
    t = [u.Tensor(x.ctypes.data, u.DType.f32, list(x.shape), owner=x) for x in (a, b, bias, y)]
    product.run(t[0], t[1], {"bias": t[2], "s": 1.0}, outputs={"y": t[3]})
    other = np.zeros_like(y)
    product.run(a, b, {"bias": bias, "s": 1.0}, outputs={"y": other})
    assert (y == other).all() and y.any()
    on_gpu = u.Tensor(16, u.DType.f32, [4, 16], device=u.Device.cuda)
    with pytest.raises(u.UserError, match="the memory of GPU 0; expected the host's"):
        product.run(on_gpu, b, {"bias": bias, "s": 1.0}, outputs={"y": y})
    with pytest.raises(u.UserError, match="on the CPU|GPU"):
        product.bind(a, b, {"bias": bias, "s": 1.0}, outputs={"y": y})


def test_unknown_options_and_refusals():
    graph = u.parse("store acc as y")
    with pytest.raises(u.UserError, match="unknown option 'fast'"):
        u.compile(u.Gemm(m=4, n=8, k=16), graph, fast=True)
    with pytest.raises(u.UserError, match="option 'threads' is '4'; expected a whole number"):
        u.compile(u.Gemm(m=4, n=8, k=16), graph, threads="4")
    with pytest.raises(u.UserError, match="option 'tuned' is 3; expected True or False"):
        u.compile(u.Gemm(m=4, n=8, k=16), graph, tuned=3)
    with pytest.raises(u.UserError, match="m"):
        u.compile(u.Gemm(m=0, n=8, k=16), graph)
    with pytest.raises(u.Unsupported):
        u.compile(u.Gemm(m=4, n=8, k=16, dtype_a=u.DType.f64, dtype_b=u.DType.f64), graph)
    with pytest.raises((u.DeviceError, u.Unsupported)):  # no GPU, or no such GPU
        u.compile(u.Gemm(m=4, n=8, k=16), graph, device=u.Device.cuda, device_index=99)


def test_constant_filter_is_copied():
    a, b, _ = operands()
    packed = b.copy()
    kernel = u.compile(u.Gemm(m=4, n=8, k=16), u.parse("store acc as y"), packed)
    packed[:] = 0
    y = np.zeros((4, 8), np.float32)
    kernel.run(a, None, outputs={"y": y})
    np.testing.assert_allclose(y, a @ b, atol=1e-5)


def test_explain_needs_no_gpu():
    contraction = u.Conv2d(n=8, h=64, w=64, c=64, k=320, r=3, s=3, pad=1, dtype_x=u.DType.bf16, dtype_w=u.DType.bf16)
    told = u.explain(contraction, u.parse("store silu(group_norm(acc, groups=32)) as y : bf16"))
    assert told.predicted_us > 0 and "sm90_conv" in str(told) and "conv_fprop" in told.source


def test_threads_run_at_once(product):
    a, b, bias = operands()
    expected = np.zeros((4, 8), np.float32)
    product.run(a, b, {"bias": bias, "s": 1.0}, outputs={"y": expected})
    wrong = []

    def work():
        y = np.zeros((4, 8), np.float32)
        for _ in range(200):
            y[:] = np.nan
            product.run(a, b, {"bias": bias, "s": 1.0}, outputs={"y": y})
            if not (y == expected).all():
                wrong.append(y.copy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_networks(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    w = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["h"], ["y"])], "net",
        [helper.make_tensor_value_info("x", 1, ["n", 3, 8, 8])], [helper.make_tensor_value_info("y", 1, ["n", 4, 8, 8])],
        [onnx.numpy_helper.from_array(w, "w")])
    path = str(tmp_path / "net.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    network = u.load_onnx(path)
    assert network.inputs == ["x"] and network.outputs == ["y"]
    run = u.compile_network(network)
    assert run.kernels == 1 and "Relu" in run.report() or "relu" in run.report()
    assert run.output_shapes({"x": [2, 3, 8, 8]}) == {"y": [2, 4, 8, 8]}
    x, y = np.ones((2, 3, 8, 8), np.float32), np.full((2, 4, 8, 8), np.nan, np.float32)
    run.run({"x": x}, {"y": y})
    np.testing.assert_allclose(y[:, :, 4, 4], np.maximum(w.sum((1, 2, 3)), 0)[None].repeat(2, 0), atol=1e-5)
    with pytest.raises(u.UserError):
        u.load_onnx(str(tmp_path / "none.onnx"))


def test_doctor():
    assert "self-test of the extension: passed" in u.doctor()


def test_a_gpu_without_a_compiler_is_one_line_of_warning(monkeypatch):
    from unisono import compiler
    for gpu, nvrtc in ((False, False), (True, True)):
        monkeypatch.setattr(compiler, "has_gpu", lambda: gpu)
        monkeypatch.setattr(u._native, "_has_nvrtc", lambda: nvrtc)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiler.warn_if_missing()
    monkeypatch.setattr(u._native, "_has_nvrtc", lambda: False)
    with pytest.warns(RuntimeWarning) as raised:
        compiler.warn_if_missing()
    assert "pip install nvidia-cuda-nvrtc" in str(raised[0].message) and "\n" not in str(raised[0].message)


def test_nvrtc_is_found_among_python_packages(tmp_path):
    # a library that is not NVRTC: loading it fails and says which it was
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.13").symlink_to(u._native.__file__)
    script = ("import sys\nsys.path.insert(1, sys.argv[1])\nimport unisono\nassert unisono._native._has_nvrtc()\n"
              "try: unisono._native._nvrtc()\nexcept unisono.CompileError as e: print(e)\nassert 'torch' not in sys.modules")
    bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")}
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=bare, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert f"{folder}/libnvrtc.so.13 has no function nvrtcGetErrorString" in run.stdout


def test_the_command_is_told_where_python_has_nvrtc(tmp_path):
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.13").symlink_to(u._native.__file__)
    script = ("import sys\nsys.path.insert(1, sys.argv[1])\nimport unisono.compiler\n"
              "print(unisono.compiler.environment()['LD_LIBRARY_PATH'].split(':')[:2])")
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env={**os.environ, "LD_LIBRARY_PATH": "/first"},
                         capture_output=True, text=True)
    assert run.stdout == f"['/first', '{folder}']\n", run.stderr


@pytest.mark.check
def test_doctor_whose_reader_goes_away():
    """It ends by SIGPIPE, as the command does, without a traceback."""
    run = subprocess.Popen([sys.executable, "-m", "unisono", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    run.stdout.close()
    assert b"Traceback" not in run.stderr.read()
    run.stderr.close()
    assert run.wait() == -signal.SIGPIPE


def test_what_type_checkers_take_for_exported():
    """mypy --strict knows no name of a module that the module has imported, unless __all__ has it."""
    import types

    for module in (u, u.ops):
        public = {n for n, x in vars(module).items() if not n.startswith("_") and not isinstance(x, types.ModuleType)}
        assert public <= set(module.__all__) and all(hasattr(module, n) for n in module.__all__), public - set(
            module.__all__
        )
