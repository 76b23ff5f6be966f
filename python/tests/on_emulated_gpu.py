"""Run by test_emulated_gpu.py, with the emulated GPU for the driver: kernels, launches and workspaces by the bindings."""

import ctypes

import numpy as np

import unisono as u

cuda = ctypes.CDLL("libcuda.so.1")


def check(code):
    assert code == 0, f"driver error {code}"


def context():
    made = ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0))
    check(cuda.cuCtxPushCurrent_v2(made))


class Memory:
    """Device memory of the emulated GPU, as a unisono.Tensor and as an array."""

    def __init__(self, array, dtype):
        self.array, self.address = array, ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(max(array.nbytes, 16))))
        self.dtype = dtype
        self.put()

    def put(self):
        check(cuda.cuMemcpy(self.address, ctypes.c_uint64(self.array.ctypes.data), ctypes.c_size_t(self.array.nbytes)))

    def get(self):
        check(cuda.cuMemcpy(ctypes.c_uint64(self.array.ctypes.data), self.address, ctypes.c_size_t(self.array.nbytes)))
        return self.array

    def tensor(self):
        return u.Tensor(self.address.value, self.dtype, list(self.array.shape), device=u.Device.cuda)


def stream():
    made = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(made), 1))
    return made.value


def wait(one):
    check(cuda.cuStreamSynchronize(ctypes.c_void_p(one)))


def uncleared(size):
    """A workspace of so many bytes, as an allocator gives it."""
    memory = Memory(np.full(size + 256, 255, np.uint8), u.DType.u8)
    address = memory.address.value
    return u.Tensor(address + -address % 256, u.DType.u8, [size], device=u.Device.cuda, owner=memory)


def alternating_products():
    """A dual product whose right operands are alternating rows of one tensor: a tuple of two views."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((64, 32), (96, 32)))
    kernel = u.compile(u.Gemm(m=64, n=48, k=32, transpose_b=True, dtype_a=u.DType.f16, dtype_b=u.DType.f16, products=2),
                       u.parse("store silu(acc0) * acc1 as y : f16"), device=u.Device.cuda)
    left, both, y = Memory(a, u.DType.f16), Memory(b, u.DType.f16), Memory(np.full((64, 48), np.nan, np.float16), u.DType.f16)
    rights = tuple(u.Tensor(both.address.value + 64 * i, u.DType.f16, [48, 32], [64, 1], device=u.Device.cuda) for i in (0, 1))
    kernel.run(left.tensor(), rights, outputs={"y": y.tensor()})
    products = [a.astype(np.float64) @ b[i::2].T.astype(np.float64) for i in (0, 1)]

    def agree(gate, up):
        error = np.abs(y.get() - gate / (1 + np.exp(-gate)) * up).max()
        assert error <= 2.0**-9 * np.abs(up * gate).max(), error

    agree(*products)
    # prepared: bound once, then other addresses, those of both right operands too
    call, one = kernel.prepare(left.tensor(), rights, {}, {"y": y.tensor()}, ["", "", ""], [((64, 48), (48, 1), u.DType.f16)]), stream()
    for order in ((0, 1), (1, 0)):
        y.array[:] = np.nan
        y.put()
        call.run([left.address.value, *(both.address.value + 64 * i for i in order), y.address.value], [], one, uncleared)
        wait(one)
        agree(*(products[i] for i in order))
    try:
        kernel.run(left.tensor(), rights[:1], outputs={"y": y.tensor()})
    except u.UserError as raised:
        assert "right operands" in str(raised)
    else:
        raise AssertionError("no UserError")


def slices_of_a_concatenation():
    """A convolution with a pooled store and a transposed convolution, each into its channels of one tensor."""
    random = np.random.default_rng(2)
    x, w = (random.standard_normal(s).astype(np.float16) for s in ((2, 8, 8, 16), (16, 3, 3, 16)))
    small, v = (random.standard_normal(s).astype(np.float16) for s in ((2, 4, 4, 16), (16, 2, 2, 16)))
    whole = Memory(np.full((2, 8, 8, 32), np.nan, np.float16), u.DType.f16)
    pooled = Memory(np.full((2, 4, 4, 16), np.nan, np.float16), u.DType.f16)

    def part(first):
        return u.Tensor(whole.address.value + 2 * first, u.DType.f16, [2, 8, 8, 16], [2048, 256, 32, 1], device=u.Device.cuda)

    half = {"dtype_x": u.DType.f16, "dtype_w": u.DType.f16}
    calls = ((u.Conv2d(n=2, h=8, w=8, c=16, k=16, r=3, s=3, pad=1, **half), "h = relu(acc)\nstore h as y : f16\nstore max_pool_2x2(h) as p : f16", x, w),
             (u.ConvTranspose2d(n=2, h=4, w=4, c=16, k=16, r=2, s=2, stride=2, **half), "store acc as y : f16", small, v),
             (u.Conv2d(n=2, h=4, w=4, c=16, k=16, **half), "store upsample_2x2(acc) as y : f16", small, np.ascontiguousarray(w[:, :1, :1])))
    for i, (contraction, text, image, filters) in enumerate(calls):
        first = 16 * (i % 2)
        outputs, on_cpu = {"y": part(first)}, {"y": np.zeros((2, 8, 8, 16), np.float16)}
        if "pool" in text:
            outputs["p"], on_cpu["p"] = pooled.tensor(), np.zeros((2, 4, 4, 16), np.float16)
        u.compile(contraction, u.parse(text), device=u.Device.cuda).run(Memory(image, u.DType.f16).tensor(), Memory(filters, u.DType.f16).tensor(),
                                                                        outputs=outputs)
        u.compile(contraction, u.parse(text)).run(image, filters, outputs=on_cpu)
        for right, mine in ((on_cpu["y"], whole.get()[..., first:first + 16]), *([(on_cpu["p"], pooled.get())] if "p" in on_cpu else [])):
            assert np.abs(mine.astype(np.float64) - right).max() <= 2.0**-9 * np.abs(right).max()


def an_image_in_a_slice():
    """A convolution reads channels 16 to 31 of a wider image, and writes into the first 16 of the same tensor. Prepared:
    bound once, then slices of another tensor."""
    random, half = np.random.default_rng(3), {"dtype_x": u.DType.f16, "dtype_w": u.DType.f16}
    w, text = random.standard_normal((16, 3, 3, 16)).astype(np.float16), u.parse("store silu(acc) as y : f16")
    contraction = u.Conv2d(n=2, h=8, w=8, c=16, k=16, r=3, s=3, pad=1, **half)
    assert u.explain(contraction, text, device=u.Device.cuda).takes_slices
    kernel, filters, one = u.compile(contraction, text, device=u.Device.cuda), Memory(w, u.DType.f16), stream()
    call = None
    for _ in range(2):
        x = random.standard_normal((2, 8, 8, 32)).astype(np.float16)
        whole, right = Memory(x.copy(), u.DType.f16), np.zeros((2, 8, 8, 16), np.float16)
        y, image = (u.Tensor(whole.address.value + 2 * first, u.DType.f16, [2, 8, 8, 16], [2048, 256, 32, 1], device=u.Device.cuda)
                    for first in (0, 16))
        call = call or kernel.prepare(image, filters.tensor(), {}, {"y": y}, ["", ""], [((2, 8, 8, 16), (2048, 256, 32, 1), u.DType.f16)])
        call.run([whole.address.value + 32, filters.address.value, whole.address.value], [], one, uncleared)
        wait(one)
        u.compile(contraction, text).run(np.ascontiguousarray(x[..., 16:]), w, outputs={"y": right})
        mine = whole.get()
        assert np.array_equal(mine[..., 16:], x[..., 16:])
        assert np.abs(mine[..., :16].astype(np.float64) - right).max() <= 2.0**-9 * np.abs(right).max()


def main():
    context()
    an_image_in_a_slice()
    alternating_products()
    slices_of_a_concatenation()
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float16) for s in ((2, 8, 8, 16), (32, 3, 3, 16)))
    bias, gain = random.standard_normal(32).astype(np.float32), 0.5
    graph = u.parse("h = group_norm(gain[] * acc + bias[n], groups=4)\nstore h as y : f16")
    contraction = u.Conv2d(n=2, h=8, w=8, c=16, k=32, r=3, s=3, pad=1, dtype_x=u.DType.f16, dtype_w=u.DType.f16)
    kernel = u.compile(contraction, graph, device=u.Device.cuda)
    images, filters, biases = Memory(x, u.DType.f16), Memory(w, u.DType.f16), Memory(bias, u.DType.f32)

    def expected(x, gain):  # of the filter as it is now
        on_cpu = u.compile(contraction, graph)
        y = np.zeros((2, 8, 8, 32), np.float16)
        on_cpu.run(x, w, {"bias": bias, "gain": gain}, outputs={"y": y})
        return y.astype(np.float64)

    def agree(memory, right):
        error = np.abs(memory.get().astype(np.float64) - right).max()
        assert error <= 2.0**-9 * np.abs(right).max(), error  # two roundings to f16

    def output():
        return Memory(np.full((2, 8, 8, 32), np.nan, np.float16), u.DType.f16)

    y = output()
    kernel.run(images.tensor(), filters.tensor(), {"bias": biases.tensor(), "gain": gain}, outputs={"y": y.tensor()})
    agree(y, expected(x, gain))

    one, z = stream(), output()
    kernel.enqueue(images.tensor(), filters.tensor(), {"bias": biases.tensor(), "gain": gain}, outputs={"y": z.tensor()}, stream=one)
    wait(one)
    assert (z.get().view(np.uint16) == y.get().view(np.uint16)).all()

    # bound, with the caller's workspace, then other arguments by slot
    assert kernel.workspace_bytes > 0
    room = Memory(np.full(kernel.workspace_bytes + 256, 255, np.uint8), u.DType.u8)
    start = -room.address.value % 256
    workspace = u.Tensor(room.address.value + start, u.DType.u8, [kernel.workspace_bytes], device=u.Device.cuda)
    first = output()
    launch = kernel.bind(images.tensor(), filters.tensor(), {"bias": biases.tensor(), "gain": gain}, outputs={"y": first.tensor()},
                         workspace=workspace, stream=one)
    assert launch.workspace_bytes == kernel.workspace_bytes
    launch.enqueue(one)
    wait(one)
    assert (first.get().view(np.uint16) == y.get().view(np.uint16)).all()
    other, second = Memory((x[::-1] * np.float16(0.5)).copy(), u.DType.f16), output()
    launch.rebind(launch.slot("image"), other.address.value)
    launch.rebind(launch.slot("output y"), second.address.value)
    launch.rebind_scalar(launch.slot("gain"), -2.0)
    launch.enqueue(one)
    wait(one)
    agree(second, expected(other.array, -2.0))

    # as conv2d() runs it: bound once for a stream
    example, allocated = output(), []
    call = kernel.prepare(images.tensor(), filters.tensor(), {"bias": biases.tensor(), "gain": gain}, {"y": example.tensor()}, ["", "", ""],
                          [((2, 8, 8, 32), (2048, 256, 32, 1), u.DType.f16)])

    def allocate(size):
        allocated.append(uncleared(size))
        return allocated[-1]

    two = stream()
    for which, place, number in ((images, one, gain), (other, one, -2.0), (images, two, -2.0), (images, one, gain)):
        result = output()
        call.run([m.address.value for m in (which, filters, biases, result)], [number], place, allocate)
        wait(place)
        agree(result, expected(which.array, number))
    assert len(allocated) == 2 and call.runs == 4 and not call.was_captured  # a workspace for each stream

    # captured: a node that reads what is there when the graph is replayed, with a workspace of its own
    result, captured, instance = output(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuStreamBeginCapture_v2(ctypes.c_void_p(two), 2))
    call.run([m.address.value for m in (images, filters, biases, result)], [gain], two, allocate)
    check(cuda.cuStreamEndCapture(ctypes.c_void_p(two), ctypes.byref(captured)))
    check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(instance), captured, ctypes.c_uint64(0)))
    assert call.was_captured and len(allocated) == 2
    for filters.array in (filters.array, (filters.array * np.float16(0.5)).copy()):
        filters.put()
        check(cuda.cuGraphLaunch(instance, ctypes.c_void_p(two)))
        wait(two)
        w = filters.array
        agree(result, expected(x, gain))

    for call, error, text in (
            (lambda: kernel.run(x, filters.tensor(), {"bias": biases.tensor(), "gain": gain}, outputs={"y": y.tensor()}), u.UserError, "host"),
            (lambda: launch.slot("nothing"), u.UserError, "nothing"),
            (lambda: launch.rebind(launch.slot("image"), 8), u.UserError, "16 bytes|aligned|multiple")):
        try:
            call()
        except error as raised:
            assert any(t in str(raised) for t in text.split("|")), str(raised)
        else:
            raise AssertionError(f"no {error.__name__}")
    print("passed")


if __name__ == "__main__":
    main()
