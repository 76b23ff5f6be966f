"""unisono run of `store acc`: every kind of contraction beside sums that are computed here, by their definition."""

import itertools
import math
import random

from command import Case, main, read_npy, write_npy


class Tensor:
    """Row-major; small integers where no values are given, so that every sum is exact."""

    def __init__(self, shape, values=None, seed=0):
        self.shape = tuple(shape)
        numbers = random.Random(seed)
        self.values = list(values) if values is not None else [float(numbers.randint(-4, 4)) for _ in range(math.prod(shape))]

    def at(self, *index):
        place = 0
        for i, extent in zip(index, self.shape):
            place = place * extent + i
        return self.values[place]


def indices(*extents):
    return itertools.product(*map(range, extents))


def matrix_products(left, right, batch, m, n, k, letters):
    """(batch, m, n); factors lie as they are ('n') or transposed ('t')."""
    a = (lambda b, i, d: left.at(b, d, i)) if letters[0] == "t" else (lambda b, i, d: left.at(b, i, d))
    w = (lambda b, d, j: right.at(b, j, d)) if letters[1] == "t" else (lambda b, d, j: right.at(b, d, j))
    return [sum(a(b, i, d) * w(b, d, j) for d in range(k)) for b, i, j in indices(batch, m, n)]


class Convolution:
    """A convolution or its transpose, by the definition; layouts are indexed and nothing is permuted."""

    def __init__(self, n, h, w, c, k, r, s, stride=(1, 1), pad=(0, 0, 0, 0), dilation=(1, 1), groups=1, nchw=False,
                 transposed=False, output_pad=(0, 0)):
        self.__dict__.update(locals())
        taps = [dilation[0] * (r - 1) + 1, dilation[1] * (s - 1) + 1]
        around = [pad[0] + pad[2], pad[1] + pad[3]]
        if transposed:
            self.p, self.q = ((x - 1) * stride[i] - around[i] + taps[i] + output_pad[i] for i, x in enumerate((h, w)))
        else:
            self.p, self.q = ((x + around[i] - taps[i]) // stride[i] + 1 for i, x in enumerate((h, w)))
        self.image_shape = (n, c, h, w) if nchw else (n, h, w, c)
        self.output_shape = (n, k, self.p, self.q) if nchw else (n, self.p, self.q, k)
        first, last = (c, k // groups) if transposed else (k, c // groups)
        self.filter_shape = (first, last, r, s) if nchw else (first, r, s, last)

    def pixel(self, tensor, image, y, x, channel):
        return tensor.at(image, channel, y, x) if self.nchw else tensor.at(image, y, x, channel)

    def tap(self, tensor, first, r, s, last):
        return tensor.at(first, last, r, s) if self.nchw else tensor.at(first, r, s, last)

    def run(self, image, filters):
        """{(image, y, x, channel): sum}; the transpose scatters, the convolution gathers."""
        sums = dict.fromkeys(indices(self.n, self.p, self.q, self.k), 0.0)
        inputs, outputs = self.c // self.groups, self.k // self.groups
        for b, r, s, g in indices(self.n, self.r, self.s, self.groups):
            for i, o in indices(inputs, outputs):
                c, k = g * inputs + i, g * outputs + o
                weight = self.tap(filters, c, r, s, o) if self.transposed else self.tap(filters, k, r, s, i)
                for y, x in indices(self.h, self.w) if self.transposed else indices(self.p, self.q):
                    far = (y * self.stride[0] + r * self.dilation[0] - self.pad[0], x * self.stride[1] + s * self.dilation[1] - self.pad[1])
                    if self.transposed and 0 <= far[0] < self.p and 0 <= far[1] < self.q:
                        sums[(b, *far, k)] += weight * self.pixel(image, b, y, x, c)
                    if not self.transposed and 0 <= far[0] < self.h and 0 <= far[1] < self.w:
                        sums[b, y, x, k] += weight * self.pixel(image, b, *far, c)
        order = ((b, y, x, k) for b, k, y, x in indices(self.n, self.k, self.p, self.q)) if self.nchw else sums
        return [sums[i] for i in order]


class RunContractions(Case):
    def run_on(self, option, shape, first, second):
        """The stored accumulators; (name, tensor) of both factors."""
        given = []
        for name, tensor in (first, second):
            write_npy(self.folder / f"{name}.npy", tensor.shape, tensor.values)
            given += ["--input", f"{name}={name}.npy"]
        self.unisono("run", "store acc as y", option, shape, *given, "--repeat", "0", "--check", "--out", "y.npy")
        return read_npy(self.folder / "y.npy")

    def test_products(self):
        for text, (batch, m, n, k), letters in (("5,7->3", (1, 5, 3, 7), "nt"), ("5,7->3,nn", (1, 5, 3, 7), "nn"), ("5,7->3,tn", (1, 5, 3, 7), "tn"),
                                                ("5,7->3,tt", (1, 5, 3, 7), "tt"), ("4,5,7->3", (4, 5, 3, 7), "nt"), ("4,5,7->3,nn", (4, 5, 3, 7), "nn"),
                                                ("4,5,7->3,tn", (4, 5, 3, 7), "tn"), ("2,1,9->6,tt", (2, 1, 6, 9), "tt"), ("1,5,7->3", (1, 5, 3, 7), "nt")):
            left = Tensor((batch, k, m) if letters[0] == "t" else (batch, m, k), seed=1)
            right = Tensor((batch, n, k) if letters[1] == "t" else (batch, k, n), seed=2)
            expected = matrix_products(left, right, batch, m, n, k, letters)
            for dtype in ("bf16", "f16", "f32"):
                with self.subTest(f"{text},dtype={dtype}"):
                    shape, values = self.run_on("--gemm", f"{text},dtype={dtype}", ("left", left), ("right", right))
                    self.assertEqual(shape, (m, n) if batch == 1 else (batch, m, n))
                    self.assertEqual(list(values), expected)

    CONVOLUTIONS = {
        "2,6,5,4->6,3x3": dict(n=2, h=6, w=5, c=4, k=6, r=3, s=3, pad=(1, 1, 1, 1)),
        "1,7,6,3->4,3x2,pad=0": dict(n=1, h=7, w=6, c=3, k=4, r=3, s=2),
        "1,7,6,3->4,3x3,pad=2x0,stride=2": dict(n=1, h=7, w=6, c=3, k=4, r=3, s=3, pad=(2, 0, 2, 0), stride=(2, 2)),
        "1,7,9,2->2,3x3,pad=0.1.2.3,stride=1x3": dict(n=1, h=7, w=9, c=2, k=2, r=3, s=3, pad=(0, 1, 2, 3), stride=(1, 3)),
        "1,9,8,4->4,3x3,dilation=2x1": dict(n=1, h=9, w=8, c=4, k=4, r=3, s=3, pad=(2, 1, 2, 1), dilation=(2, 1)),
        "2,5,5,6->4,3x3,groups=2": dict(n=2, h=5, w=5, c=6, k=4, r=3, s=3, pad=(1, 1, 1, 1), groups=2),
        "1,6,6,4->4,3x3,groups=4,stride=2": dict(n=1, h=6, w=6, c=4, k=4, r=3, s=3, pad=(1, 1, 1, 1), groups=4, stride=(2, 2)),
        "2,3,4,5->3,1x1": dict(n=2, h=3, w=4, c=5, k=3, r=1, s=1),
        "1,4,5,3->4,4x4,pad=1,stride=2,transposed": dict(n=1, h=4, w=5, c=3, k=4, r=4, s=4, pad=(1, 1, 1, 1), stride=(2, 2), transposed=True),
        "2,4,3,2->3,3x3,transposed": dict(n=2, h=4, w=3, c=2, k=3, r=3, s=3, pad=(1, 1, 1, 1), transposed=True),
        "1,4,3,2->3,3x2,pad=0.1.1.0,stride=3x2,output_pad=1x0,transposed":
            dict(n=1, h=4, w=3, c=2, k=3, r=3, s=2, pad=(0, 1, 1, 0), stride=(3, 2), output_pad=(1, 0), transposed=True),
        "1,3,4,4->6,3x3,stride=2,groups=2,output_pad=1,transposed":
            dict(n=1, h=3, w=4, c=4, k=6, r=3, s=3, pad=(1, 1, 1, 1), stride=(2, 2), groups=2, output_pad=(1, 1), transposed=True),
        "2,4,3,3->2,3x3,dgrad": dict(n=2, h=4, w=3, c=2, k=3, r=3, s=3, pad=(1, 1, 1, 1), transposed=True),
        "1,7,6,3->4,3x2,pad=0.1.2.0,stride=2x3,dgrad":  # dY has (7 + 2 - 3) / 2 + 1 rows and (6 + 1 - 2) / 3 + 1 columns
            dict(n=1, h=4, w=2, c=4, k=3, r=3, s=2, pad=(0, 1, 2, 0), stride=(2, 3), output_pad=(0, 2), transposed=True),
        "1,4,4,2->2,3x3,dilation=2,pad=0,transposed": dict(n=1, h=4, w=4, c=2, k=2, r=3, s=3, dilation=(2, 2), transposed=True),
    }

    def test_convolutions(self):
        for (text, facts), layout in itertools.product(self.CONVOLUTIONS.items(), ("nhwc", "nchw")):
            with self.subTest(f"{text},layout={layout}"):
                conv = Convolution(**facts, nchw=layout == "nchw")
                image, filters = Tensor(conv.image_shape, seed=3), Tensor(conv.filter_shape, seed=4)
                shape, values = self.run_on("--conv", f"{text},layout={layout}", ("image", image), ("filter", filters))
                self.assertEqual(shape, conv.output_shape)
                self.assertEqual(list(values), conv.run(image, filters))

    def test_a_residual_in_the_layout_of_the_output(self):
        conv = Convolution(n=1, h=4, w=3, c=2, k=5, r=1, s=1, nchw=True)
        image, filters = Tensor(conv.image_shape, seed=5), Tensor(conv.filter_shape, seed=6)
        residual, bias = Tensor(conv.output_shape, seed=7), Tensor((5,), seed=8)
        given = []
        for name, tensor in (("image", image), ("filter", filters), ("r", residual), ("bias", bias)):
            write_npy(self.folder / f"{name}.npy", tensor.shape, tensor.values)
            given += ["--input", f"{name}={name}.npy"]
        self.unisono("run", "y = relu(acc + bias[n] + r[m,n]); store y", "--conv", "1,4,3,2->5,1x1,layout=nchw", *given, "--out", "y.npy")
        expected = [max(0, a + bias.values[i // 12] + r) for i, (a, r) in enumerate(zip(conv.run(image, filters), residual.values))]
        self.assertEqual(read_npy(self.folder / "y.npy"), ((1, 5, 4, 3), tuple(expected)))


if __name__ == "__main__":
    main()
