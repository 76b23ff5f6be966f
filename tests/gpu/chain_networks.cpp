// Elementwise operators, moves and reductions that are one launch: rotations of heads, their lengths, and what
// normalises by primitives.
#include <cmath>

#include "gpu/networks.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

struct ChainBuilder {
  NetworkBuilder net;
  test::Random random{20265};
  int count = 0;

  NetworkValue weights(std::vector<std::int64_t> shape, double scale) {
    std::vector<float> x(static_cast<std::size_t>(element_count(shape)));
    for (float& v : x) v = static_cast<float>(random.uniform(-scale, scale));
    return net.constant("w" + std::to_string(++count), Shape(shape.begin(), shape.end()), std::move(x));
  }
  NetworkValue linear(NetworkValue x, std::int64_t from, std::int64_t to) {
    return gemm(x, weights({from, to}, std::sqrt(3.0 / static_cast<double>(from)))) + weights({to}, 0.2);
  }
  NetworkValue range(NetworkValue x, int axis, std::int64_t from, std::int64_t to, std::int64_t step = 1) {
    return net.apply(operators::Slice{{from}, {to}, {step}, {axis}}, {x});
  }
  NetworkValue reduced(ReduceOp op, NetworkValue x, int axis) {
    return net.apply(operators::Reduce{.op = op, .axes = {axis}, .keep = true}, {x});
  }
  // (batch, rows, heads·width) as (batch, 1, heads, rows, width): of rank 5, so that no axis is one of channels
  NetworkValue heads(NetworkValue x, std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t width) {
    return transpose(reshape(x, {batch, rows, 1, heads, width}), {0, 2, 3, 1, 4});
  }
  NetworkValue halves(NetworkValue x, std::int64_t width) {
    return concat({-range(x, 4, width / 2, width), range(x, 4, 0, width / 2)}, 4);
  }
  // -x1, x0, -x3, x2, …
  NetworkValue pairs(NetworkValue x, const std::vector<std::int64_t>& shape, std::int64_t width) {
    std::vector<std::int64_t> split = shape;
    split.back() = width / 2, split.push_back(1);
    const NetworkValue odd = range(x, 4, 1, width, 2), even = range(x, 4, 0, width, 2);
    return reshape(concat({reshape(-odd, split), reshape(even, split)}, 5), shape);
  }
};

}  // namespace

Network rotated_heads(std::int64_t rows, std::int64_t heads, std::int64_t width) {
  ChainBuilder b;
  const std::int64_t batch = 2, all = heads * width;
  const NetworkValue x = b.net.input("x", {batch, rows, 16});
  const auto own = [&] { return b.heads(b.linear(x, 16, all), batch, rows, heads, width); };
  const NetworkValue a = own();
  b.net.output(a * b.weights({rows, width}, 1) + b.halves(a, width) * b.weights({rows, width}, 1), "halves");
  // the first row stays as it is
  const NetworkValue c = own(), rest = b.range(c, 3, 1, rows);
  const NetworkValue turned =
      rest * b.weights({rows - 1, width}, 1) +
      b.pairs(rest, {batch, 1, heads, rows - 1, width}, width) * b.weights({rows - 1, width}, 1);
  b.net.output(concat({b.range(c, 3, 0, 1), turned}, 3), "pairs");
  // real and imaginary parts
  const NetworkValue parts = reshape(own(), {batch, 1, heads, rows, width / 2, 2});
  const std::vector<std::int64_t> single{batch, 1, heads, rows, width / 2, 1};
  const NetworkValue real = b.range(parts, 5, 0, 1), imaginary = b.range(parts, 5, 1, 2),
                     cosine = b.weights({rows, width / 2, 1}, 1), sine = b.weights({rows, width / 2, 1}, 1);
  const NetworkValue both = concat({real * cosine - imaginary * sine, real * sine + imaginary * cosine}, 5);
  b.net.output(reshape(both, {batch, 1, heads, rows, width}), "parts");
  return b.net.build();
}

Network normalised_lines(std::int64_t rows, std::int64_t heads, std::int64_t width) {
  ChainBuilder b;
  const std::int64_t batch = 2, all = heads * width;
  const NetworkValue x = b.net.input("x", {batch, rows, 16});
  const auto own = [&] { return b.heads(b.linear(x, 16, all), batch, rows, heads, width); };
  const NetworkValue a = own();
  b.net.output(a / max(b.reduced(ReduceOp::l2, a, 4), 1e-4), "unit");
  const NetworkValue c = own(), squares = b.reduced(ReduceOp::mean, c * c, 4);
  const NetworkValue normal = c / sqrt(squares + 1e-5) * b.weights({width}, 2);
  b.net.output(normal * b.weights({rows, width}, 1) + b.halves(normal, width) * b.weights({rows, width}, 1), "rms");
  const NetworkValue d = own(), power = exp(d - b.reduced(ReduceOp::max, d, 4));
  b.net.output(power / b.reduced(ReduceOp::sum, power, 4), "softmax");
  const NetworkValue image = reshape(transpose(own(), {0, 1, 2, 4, 3}), {batch, all, rows, 1});
  const NetworkValue distance = image - b.reduced(ReduceOp::mean, image, 1);
  const NetworkValue variance = b.reduced(ReduceOp::mean, distance * distance, 1);
  b.net.output(distance / sqrt(variance + 1e-5) * b.weights({all, 1, 1}, 2) + b.weights({all, 1, 1}, 1), "layer norm");
  return b.net.build();
}

Network windows_and_residuals(std::int64_t width) {
  ChainBuilder b;
  const NetworkValue x = b.net.input("x", {2, 12, 16});
  const NetworkValue image = transpose(reshape(b.linear(x, 16, width), {2, 3, 4, width}), {0, 2, 1, 3});
  const NetworkValue sum = reshape(image, {24, width}) + b.weights({24, width}, 1);
  const NetworkValue next = b.linear(layer_norm(sum), width, width) + sum;
  const NetworkValue rows = reshape(next, {2, 12, width});
  const NetworkValue rolled = concat({b.range(rows, 1, 5, 12), b.range(rows, 1, 0, 5)}, 1);
  const NetworkValue again = reshape(rolled, {24, width}) + b.weights({24, width}, 1);
  b.net.output(layer_norm(again, {.scale = b.weights({width}, 1), .shift = b.weights({width}, 1)}), "y");
  b.net.output(again, "z");
  const NetworkValue heads = b.net.input("heads", {2, 1100, 4});
  const NetworkValue mixed = gemm(heads, b.weights({4, 4}, 1)) + b.weights({4}, 1);
  b.net.output(gemm(softmax(mixed), b.weights({4, 3}, 1)), "mixed");
  return b.net.build();
}

}  // namespace unisono::gpu
