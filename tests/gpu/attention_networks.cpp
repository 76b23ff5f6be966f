// Attention as exporters write it, and products of computed tensors.
#include <cmath>
#include <limits>

#include "gpu/networks.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

struct Builder {
  NetworkBuilder net;
  test::Random random{20262};
  int count = 0;

  NetworkValue weights(std::vector<std::int64_t> shape, double scale) {
    std::vector<float> x(static_cast<std::size_t>(element_count(shape)));
    for (float& v : x) v = static_cast<float>(random.uniform(-scale, scale));
    return net.constant("w" + std::to_string(++count), Shape(shape.begin(), shape.end()), std::move(x));
  }
  NetworkValue linear(NetworkValue x, std::int64_t from, std::int64_t to) {
    return gemm(x, weights({from, to}, std::sqrt(3.0 / static_cast<double>(from)) * 1.5)) + weights({to}, 0.2);
  }
  NetworkValue multiply(NetworkValue a, NetworkValue b) { return net.apply(operators::MatMul{}, {a, b}); }
  NetworkValue range(NetworkValue x, int axis, std::int64_t from, std::int64_t to) {
    return net.apply(operators::Slice{{from}, {to}, {1}, {axis}}, {x});
  }
  NetworkValue softmax_of_rows(NetworkValue scores) {
    const NetworkValue rows =
        net.apply(operators::Flatten{.axis = static_cast<int>(scores.shape().size()) - 1}, {scores});
    return net.apply(operators::ReshapeLike{}, {softmax(rows), scores});
  }
  NetworkValue heads(NetworkValue x, std::int64_t heads, std::int64_t width) {
    return transpose(reshape(x, {0, 0, heads, width}), {0, 2, 1, 3});
  }
  NetworkValue merged(NetworkValue y, std::int64_t width) { return reshape(transpose(y, {0, 2, 1, 3}), {0, 0, width}); }
  // Row i sees the first i + 1 keys; the one before the last sees none
  NetworkValue causal(std::int64_t queries, std::int64_t keys) {
    std::vector<float> mask(static_cast<std::size_t>(queries * keys), 0);
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j)
        if (j > i || i == queries - 2)
          mask[static_cast<std::size_t>(i * keys + j)] = -std::numeric_limits<float>::infinity();
    return net.constant("causal", {1, 1, queries, keys}, std::move(mask));
  }
};

}  // namespace

Network packed_attention(std::int64_t rows, std::int64_t heads, std::int64_t width) {
  Builder b;
  const std::int64_t all = heads * width;
  const NetworkValue x = b.net.input("x", {"batch", rows, 16});
  const NetworkValue qkv = transpose(reshape(b.linear(x, 16, 3 * all), {0, 0, 3, heads, width}), {2, 0, 3, 1, 4});
  const auto part = [&](std::int64_t i) { return reshape(b.range(qkv, 0, i, i + 1), {-1, heads, rows, width}); };
  const double root = std::pow(static_cast<double>(width), -0.25);
  const NetworkValue scores = b.multiply(part(0) * root, transpose(part(1), {0, 1, 3, 2}) * root);
  b.net.output(b.linear(b.merged(b.multiply(b.softmax_of_rows(scores), part(2)), all), all, 16), "y");
  return b.net.build();
}

Network masked_attention() {
  Builder b;
  const std::int64_t rows = 21, heads = 3, width = 20, all = heads * width;
  const NetworkValue x = b.net.input("x", {"batch", rows, 24});
  const NetworkValue mask = b.net.input("mask", {"batch", 1, 1, rows});
  const auto own = [&] { return b.heads(b.linear(x, 24, all), heads, width); };
  const NetworkValue scores = b.multiply(own(), transpose(own(), {0, 1, 3, 2})) * 0.25;
  const NetworkValue biased = scores + b.weights({1, heads, rows, rows}, 2);
  b.net.output(b.merged(b.multiply(b.softmax_of_rows(biased + mask), own()), all), "y");

  const NetworkValue hidden = b.multiply(own(), transpose(own(), {0, 1, 3, 2})) * 0.25 + b.causal(rows, rows);
  const NetworkValue weights = b.softmax_of_rows(hidden);
  const NetworkValue wrong =
      b.net.apply(operators::Map{MapOp::logical_not}, {b.net.apply(operators::Map{MapOp::equal}, {weights, weights})});
  const NetworkValue guarded = b.net.apply(operators::Map{MapOp::select}, {wrong, b.net.constant(0.0), weights});
  b.net.output(b.merged(b.multiply(guarded, own()), all), "z");
  return b.net.build();
}

Network biased_attention() {
  Builder b;
  const std::int64_t rows = 29, keys = 45, heads = 4, width = 24, all = heads * width;
  const NetworkValue x = b.net.input("x", {"batch", rows, 24}), text = b.net.input("text", {"batch", keys, 24});
  std::vector<float> later(static_cast<std::size_t>(rows * rows), 0);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i + 1; j < rows; ++j)
      later[static_cast<std::size_t>(i * rows + j)] = -std::numeric_limits<float>::infinity();
  const auto own = [&] { return b.heads(b.linear(x, 24, all), heads, width); };
  const NetworkValue scores = b.multiply(own(), transpose(own(), {0, 1, 3, 2})) * 0.25;
  const NetworkValue masked =
      scores + b.weights({1, heads, rows, rows}, 2) + b.net.constant("later", {1, 1, rows, rows}, std::move(later));
  b.net.output(b.merged(b.multiply(b.softmax_of_rows(masked), own()), all), "y");

  const std::int64_t groups = 2;  // of two heads each, which share keys: (batch, group, head, rows, width)
  const NetworkValue q = reshape(b.heads(b.linear(x, 24, all), heads, width), {0, groups, -1, rows, width});
  const auto shared = [&] {
    return reshape(b.heads(b.linear(text, 24, groups * width), groups, width), {0, groups, 1, keys, width});
  };
  const NetworkValue grouped = b.multiply(q, transpose(shared(), {0, 1, 2, 4, 3})) * 0.25;
  b.net.output(b.multiply(b.softmax_of_rows(grouped), shared()), "z");
  return b.net.build();
}

Network cross_attention() {
  Builder b;
  const std::int64_t heads = 4, width = 40, all = heads * width;
  const NetworkValue x = b.net.input("x", {"batch", "rows", 24}), text = b.net.input("text", {"batch", 77, 24});
  const auto batched = [&](NetworkValue v, std::int64_t rows) {
    return reshape(b.heads(b.linear(v, 24, all), heads, width), {-1, rows, width});
  };
  const NetworkValue scores = b.multiply(reshape(b.heads(b.linear(x, 24, all), heads, width), {-1, -4, width}),
                                         transpose(batched(text, 77), {0, 2, 1}));
  const NetworkValue y = b.multiply(softmax(scores * 0.158), batched(text, 77));
  b.net.output(y, "y");
  return b.net.build();
}

Network shared_keys() {
  Builder b;
  const std::int64_t heads = 4, width = 24, value_width = 56;
  const NetworkValue x = b.net.input("x", {"batch", "rows", 24}), text = b.net.input("text", {"batch", "keys", 24});
  const NetworkValue keys = b.heads(b.linear(text, 24, width), 1, width);
  const NetworkValue values = b.heads(b.linear(text, 24, value_width), 1, value_width);
  const NetworkValue queries = b.heads(b.linear(x, 24, heads * width), heads, width);
  const NetworkValue scores = b.multiply(queries, transpose(keys, {0, 1, 3, 2})) * 0.2;
  b.net.output(b.merged(b.multiply(b.softmax_of_rows(scores), values), heads * value_width), "y");
  return b.net.build();
}

Network repeated_keys() {
  Builder b;
  const std::int64_t width = 64, count = 136;
  const NetworkValue x = b.net.input("x", {"batch", "rows", 24}), text = b.net.input("text", {"batch", 1, 24});
  const NetworkValue rows = b.net.constant("rows", {1, count, width}, std::vector<float>(count * width, 1.f));
  const auto repeated = [&](NetworkValue v) { return b.net.apply(operators::Expand{}, {v, rows}); };
  const NetworkValue keys = repeated(b.linear(text, 24, width)), values = repeated(b.linear(text, 24, width));
  const NetworkValue scores = b.multiply(b.linear(x, 24, width), transpose(keys, {0, 2, 1}));
  b.net.output(b.multiply(softmax(scores * 0.125), values), "y");
  return b.net.build();
}

Network products_of_tensors() {
  Builder b;
  const NetworkValue x = b.net.input("x", {"batch", 5, 13, 9}), z = b.net.input("z", {5, 9, 70});
  const NetworkValue rows = b.net.input("rows", {"batch", 130, 40}), other = b.net.input("other", {"batch", 66, 40});
  b.net.output(b.multiply(x, z), "a");
  b.net.output(tanh(b.multiply(rows, transpose(other, {0, 2, 1}))), "b");
  b.net.output(b.multiply(transpose(rows, {0, 2, 1}), rows), "c");
  b.net.output(b.multiply(b.weights({7, 130}, 0.2), rows), "d");
  // talking heads: the scores are mixed ahead of the softmax and behind it
  const NetworkValue q = b.heads(b.linear(rows, 40, 24), 3, 8), k = b.heads(b.linear(other, 40, 24), 3, 8);
  const NetworkValue scores = transpose(b.multiply(q * 0.3, transpose(k, {0, 1, 3, 2})), {0, 2, 3, 1});
  const NetworkValue weights = b.softmax_of_rows(transpose(b.linear(reshape(scores, {0, -1, 3}), 3, 3), {0, 2, 1}));
  b.net.output(weights, "e");
  return b.net.build();
}

}  // namespace unisono::gpu
