#include "host_steps/networks.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "support/random.hpp"

namespace unisono::gpu {

namespace {

class Weights {
 public:
  explicit Weights(NetworkBuilder& net) : net_(net) {}
  NetworkValue conv(NetworkValue x, std::int64_t to, std::int64_t size = 3, int groups = 1) {
    const std::int64_t from = x.shape()[1].value() / groups;
    std::vector<float> w(static_cast<std::size_t>(to * from * size * size));
    const double scale = 1 / std::sqrt(static_cast<double>(from * size * size));
    for (float& f : w) f = static_cast<float>(random_.uniform(-2 * scale, 2 * scale));
    return conv2d(x, net_.constant("w" + std::to_string(++count_), {to, from, size, size}, std::move(w)),
                  {.pad = size / 2, .groups = groups});
  }

 private:
  NetworkBuilder& net_;
  test::Random random_{11};
  int count_ = 0;
};

NetworkValue mapped(MapOp op, const std::vector<NetworkValue>& x, DType to = DType::f32) {
  return x[0].builder().apply(operators::Map{.op = op, .to = to}, x);
}

// Two steps, with kernels ahead of, between and behind them
Network two_steps() {
  NetworkBuilder net("two steps");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const NetworkValue a = reversed(relu(x), 3, "first");
  net.output(relu(reversed(weights.conv(a, 24) * 0.5, 2, "second")), "y");
  return net.build();
}

// What is made in the step is read within it by way of a view, and by kernels
Network view_inside() {
  NetworkBuilder net("a view");
  const NetworkValue x = relu(net.input("x", {4, 16}));
  const NetworkValue view = reshape(reversed(x, 0, "rows"), {8, 8});
  net.output(reversed(view, 1, "columns") + view, "y");
  net.output(relu(view), "z");
  return net.build();
}

// A part of a concatenation from the host, the other from a kernel, both where they belong
Network into_a_slice() {
  NetworkBuilder net("a slice");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 6, 5});
  const NetworkValue part = weights.conv(x, 24);
  net.output(weights.conv(concat({reversed(part, 2, "reversed"), relu(weights.conv(x, 8))}), 16), "y");
  return net.build();
}

// The first operator and the last, straight from the caller and back
Network first_and_last() {
  NetworkBuilder net("ends");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 12, 5, 7});
  net.output(reversed(weights.conv(reversed(x, 3, "first"), 10), 2, "last"), "y");
  net.output(reversed(x, 1, "alone"), "z");
  return net.build();
}

// bool, which is made and read within the step: the lesser and the greater of two, by choices
Network choices() {
  NetworkBuilder net("choices");
  const NetworkValue x = relu(net.input("x", {3, 24})), y = net.input("y", {3, 24}) * 2.0;
  const NetworkValue less = mapped(MapOp::less, {x, y}), not_less = mapped(MapOp::logical_not, {less});
  net.output(relu(mapped(MapOp::select, {less, x, y}) * 2.0 + mapped(MapOp::select, {not_less, x, y})), "z");
  return net.build();
}

// The step reads the extents of z alone
Network extents() {
  NetworkBuilder net("extents");
  const NetworkValue x = relu(net.input("x", {3, 24})), z = relu(net.input("z", {3, 24}));
  const NetworkValue a = net.input("a", {3, 1}), b = net.input("b", {3, 1});
  const NetworkValue wide = net.apply(operators::Expand{}, {mapped(MapOp::less, {a, b}), z});
  net.output(mapped(MapOp::select, {wide, x, net.constant(0.5)}) + z, "y");
  return net.build();
}

// Tensors of rank 5 and of rank 6 cross
Network ranks() {
  NetworkBuilder net("ranks");
  const NetworkValue x = relu(net.input("x", {2, 4, 6, 8}));
  const NetworkValue five = transpose(reshape(x, {2, 4, 3, 2, 8}), {0, 2, 1, 4, 3});
  net.output(reshape(reversed(five, 2, "five"), {6, 64}), "y");
  const NetworkValue six = transpose(reshape(x, {2, 2, 2, 6, 4, 2}), {0, 1, 3, 2, 4, 5});
  net.output(relu(reshape(reversed(six, 3, "six"), {2, 4, 6, 8})), "z");
  return net.build();
}

// More axes than images have, from the caller and back by kernels
Network five_axes() {
  NetworkBuilder net("five axes");
  const NetworkValue x = net.input("x", {2, 3, 2, 4, 5});
  net.output(relu(reversed(relu(x) * 0.5, 1, "reversed")), "y");
  net.output(relu(x), "z");
  return net.build();
}

// The filter of a transposed convolution is computed
Network computed_filter() {
  NetworkBuilder net("filter");
  const NetworkValue x = relu(net.input("x", {2, 8, 5, 5})), f = net.input("f", {8, 6, 2, 2}) * 0.25;
  net.output(relu(conv_transpose2d(x, f, {.stride = 2})), "y");
  return net.build();
}

// More tensors than a kernel of an epilogue reads, by itself or behind a contraction that has no kernel with it
Network many_operands(bool behind_a_contraction) {
  NetworkBuilder net("operands");
  Weights weights(net);
  NetworkValue sum = net.input("x", {1, 9, 3, 3});
  if (behind_a_contraction) sum = weights.conv(sum, 9, 3, 3);
  for (int i = 0; i < 50; ++i) sum = sum + net.input("x" + std::to_string(i), {1, 9, 3, 3});
  net.output(sum, "y");
  return net.build();
}

Shapes many_shapes() {
  Shapes shapes{{"x", {1, 9, 3, 3}}};
  for (int i = 0; i < 50; ++i) shapes["x" + std::to_string(i)] = {1, 9, 3, 3};
  return shapes;
}

// A part is a kernel's; a kernel and the step both read the whole
Network concatenation_that_both_read() {
  NetworkBuilder net("both read");
  Weights weights(net);
  const NetworkValue x = relu(net.input("x", {2, 16, 4, 6})), y = relu(net.input("y", {2, 8, 4, 6}));
  const NetworkValue both = concat({reversed(x, 3, "first"), y});
  net.output(reversed(both, 2, "second"), "z");
  net.output(weights.conv(both, 8), "w");
  return net.build();
}

// The caller, a kernel and another step read what a step makes
Network result_of_many_readers() {
  NetworkBuilder net("readers");
  const NetworkValue r = reversed(relu(net.input("x", {4, 16})), 1, "first");
  net.output(r, "r");
  const NetworkValue half = relu(r * 0.5);
  net.output(half, "half");
  net.output(reversed(half + r, 0, "second"), "s");
  return net.build();
}

// Statistics of a tensor that a convolution on the host makes a part of
Network normalised() {
  NetworkBuilder net("statistics");
  Weights weights(net);
  const NetworkValue x = relu(net.input("x", {2, 8, 5, 5})), f = net.input("f", {8, 16, 2, 2}) * 0.25;
  const NetworkValue up = conv_transpose2d(x, f, {.stride = 2}),
                     other = weights.conv(net.input("z", {2, 8, 10, 10}), 16);
  net.output(relu(group_norm(concat({up, other}), {.groups = 4})), "y");
  return net.build();
}

// No kernel at all
Network steps_alone() {
  NetworkBuilder net("alone");
  net.output(reversed(reversed(net.input("x", {2, 3, 4, 5}), 3, "first"), 2, "second"), "y");
  return net.build();
}

// Inputs that are outputs, as they are and as a view
Network inputs_that_are_outputs() {
  NetworkBuilder net("through");
  const NetworkValue x = net.input("x", {4, 6}), v = net.input("v", {4, 6});
  net.output(reversed(x, 1, "first"), "y");
  net.output(reshape(x, {2, 12}), "view");
  net.output(v, "same");
  net.output(reversed(reshape(v, {2, 12}), 0, "second"), "z");
  return net.build();
}

// An image of few channels, which kernels have with the filter taps as channels, is read by a step as it is
Network few_channels() {
  NetworkBuilder net("few channels");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 3, 16, 16});
  net.output(relu(weights.conv(x, 16, 7)), "y");
  net.output(reversed(x, 3, "mirrored"), "z");
  return net.build();
}

}  // namespace

OperatorsOnHost::OperatorsOnHost() {
  ::setenv("UNISONO_HOST_STEPS", "gather,less,logical_not,select,expand,conv_transpose2d,cast,arg_max", 1);
}
OperatorsOnHost::~OperatorsOnHost() { ::unsetenv("UNISONO_HOST_STEPS"); }

NetworkValue reversed(NetworkValue x, int axis, const std::string& name) {
  const Dim& extent = x.shape()[static_cast<std::size_t>(axis)];
  // An axis whose extent is a symbol gives its last four elements
  std::vector<std::int64_t> places;
  for (std::int64_t i = extent.known() ? extent.value() : 4; i-- > 0;) places.push_back(extent.known() ? i : i - 4);
  std::vector<std::byte> bytes(places.size() * sizeof(std::int64_t));
  std::memcpy(bytes.data(), places.data(), bytes.size());
  const auto count = static_cast<std::int64_t>(places.size());
  const NetworkValue indices = x.builder().constant(name + "_places", {count}, DType::i64, std::move(bytes));
  return x.builder().apply(operators::Gather{.axis = axis}, {x, indices}, name);
}

Network reversed_between_convolutions() {
  NetworkBuilder net("between convolutions");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 6, 10});
  net.output(relu(weights.conv(reversed(relu(weights.conv(x, 24)), 2, "reversed"), 16)), "y");
  return net.build();
}

Network gathered_rows() {
  NetworkBuilder net("rows");
  const NetworkValue data = relu(net.input("data", {8, 16})), places = net.input("places", {4});
  const NetworkValue indices = mapped(MapOp::cast, {places}, DType::i64);
  net.output(relu(net.apply(operators::Gather{.axis = 0}, {data, indices}, "rows")), "y");
  return net.build();
}

const std::vector<HostCase>& host_cases() {
  static const std::vector<HostCase> cases{
      {"between convolutions", reversed_between_convolutions, {{"x", {2, 16, 6, 10}}}, 1, 1},
      {"two steps", two_steps, {{"x", {2, 16, 6, 5}}}, 2, 2},
      {"a view", view_inside, {{"x", {4, 16}}}, 1, 2},
      {"part of a concatenation", into_a_slice, {{"x", {2, 16, 6, 5}}}, 1, 1},
      {"first and last", first_and_last, {{"x", {2, 12, 5, 7}}}, 2, 3},
      {"choices", choices, {{"x", {3, 24}}, {"y", {3, 24}}}, 1, 1},
      {"extents", extents, {{"x", {3, 24}}, {"z", {3, 24}}, {"a", {3, 1}}, {"b", {3, 1}}}, 1, 3},
      {"ranks", ranks, {{"x", {2, 4, 6, 8}}}, 2, 2},
      {"five axes", five_axes, {{"x", {2, 3, 2, 4, 5}}}, 1, 1},
      {"a computed filter", computed_filter, {{"x", {2, 8, 5, 5}}, {"f", {8, 6, 2, 2}}}, 1, 1},
      {"many operands", [] { return many_operands(false); }, many_shapes(), 1, 1},
      {"a contraction with many operands", [] { return many_operands(true); }, many_shapes(), 1, 1},
      {"a concatenation that both read",
       concatenation_that_both_read,
       {{"x", {2, 16, 4, 6}}, {"y", {2, 8, 4, 6}}},
       1,
       2},
      {"a result of many readers", result_of_many_readers, {{"x", {4, 16}}}, 2, 2},
      {"statistics", normalised, {{"x", {2, 8, 5, 5}}, {"f", {8, 16, 2, 2}}, {"z", {2, 8, 10, 10}}}, 1, 1},
      {"alone", steps_alone, {{"x", {2, 3, 4, 5}}}, 1, 2},
      {"inputs that are outputs", inputs_that_are_outputs, {{"x", {4, 6}}, {"v", {4, 6}}}, 2, 2},
      {"few channels", few_channels, {{"x", {2, 3, 16, 16}}}, 1, 1}};
  return cases;
}

}  // namespace unisono::gpu
