/// Each kind of derivative: against central differences in float64, and on the CPU against float64.

#include "unisono/gradients.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "../network/cases.hpp"
#include "random_networks/gradients.hpp"

namespace unisono {
namespace {

using test::CaseTensor;
using test::Random;
using test::user_error;

class GradientsOf : public ::testing::Test {
 protected:
  // A normal input of the network
  NetworkValue input(Shape shape) {
    const std::string name = "x" + std::to_string(inputs_.size());
    std::vector<std::int64_t> extents;
    for (const Dim& d : shape) extents.push_back(d.value());
    const auto values = test::random_tensor(random_, extents).data;
    const auto bytes = std::as_bytes(std::span(values));
    inputs_[name] = CaseTensor{DType::f32, extents, {bytes.begin(), bytes.end()}};
    return net_.input(name, shape);
  }
  NetworkValue indices(std::vector<std::int64_t> values, Shape shape) {
    const auto bytes = std::as_bytes(std::span(values));
    return net_.constant("indices", std::move(shape), DType::i64, {bytes.begin(), bytes.end()});
  }

  // Slopes, and values in f32, which have the same bits in each run
  void check(NetworkValue y) {
    net_.output(y, "y");
    const Network network = net_.build();
    for (const std::uint64_t seed : {2, 3}) {
      const test::GradientCase g = test::gradient_case(network, inputs_, seed);
      EXPECT_EQ(g.wrong, "") << to_string(network);
      EXPECT_FALSE(g.undecided);
      test::HostTensors in;
      for (const auto& [name, t] : g.inputs) {
        in[name].shape = t.shape;
        in[name].data.resize(t.bytes.size() / sizeof(float));
        std::memcpy(in[name].data.data(), t.bytes.data(), t.bytes.size());
      }
      test::expect_agreement(g.network, in, test::run(compile(g.network, {.threads = 1}), in));
      const NetworkExecutable threads = compile(g.network, {.threads = 2});
      const test::HostTensors twice = test::run(threads, in), thrice = test::run(threads, in);
      test::expect_agreement(g.network, in, twice);
      for (const auto& [name, t] : twice) EXPECT_EQ(t.data, thrice.at(name).data) << name;
    }
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return random_.between(static_cast<int>(low), static_cast<int>(high));
  }

  Random random_{7};
  NetworkBuilder net_;
  std::map<std::string, CaseTensor> inputs_;
};

ConvAttributes random_attributes(Random& r, std::int64_t groups) {
  return {.stride = {r.between(1, 3), r.between(1, 3)},
          .pad = {r.between(0, 2), r.between(0, 2), r.between(0, 2), r.between(0, 2)},
          .dilation = {r.between(1, 2), r.between(1, 3)},
          .groups = groups};
}

class RandomConvolution : public GradientsOf, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override { random_ = Random(static_cast<std::uint64_t>(100 + GetParam())); }
};

TEST_P(RandomConvolution, Conv2d) {
  const std::int64_t groups = between(0, 2) == 0 ? between(2, 3) : 1, c = groups * between(1, 5),
                     k = groups * between(1, 5);
  const std::int64_t r = between(1, 3), s = between(1, 4), n = between(1, 19);
  const ConvAttributes a = random_attributes(random_, groups);
  const NetworkValue x = input({n, c, between(5, 11), between(10, 13)}), w = input({k, c / groups, r, s});
  check(conv2d(x, w, input({k}), a));
}

TEST_P(RandomConvolution, ConvTranspose2d) {
  const std::int64_t groups = between(0, 2) == 0 ? between(2, 3) : 1, c = groups * between(1, 5),
                     k = groups * between(1, 5);
  const std::int64_t r = between(3, 4), s = between(3, 4), n = between(1, 9);
  ConvAttributes a = random_attributes(random_, groups);
  a.pad = {between(0, 1), between(0, 1), between(0, 1), between(0, 1)};
  a.output_pad = {between(0, a.stride.h - 1), between(0, a.stride.w - 1)};
  const NetworkValue x = input({n, c, between(2, 6), between(2, 7)}), w = input({c, k / groups, r, s});
  check(conv_transpose2d(x, w, input({k}), a));
}

// The CPU has no such forward convolution (oneDNN refuses it), so that the slopes alone are looked at
TEST_P(RandomConvolution, OutputPadOfAStrideOrMore) {
  ConvAttributes a = random_attributes(random_, 1);
  a.dilation = {a.stride.h + 2, a.stride.w + 1};
  a.output_pad = {between(a.stride.h, a.stride.h + 1), a.stride.w};
  net_.output(conv_transpose2d(input({2, 3, between(3, 5), 4}), input({3, 2, 3, 4}), a), "y");
  EXPECT_EQ(test::gradient_case(net_.build(), inputs_, 2).wrong, "") << to_string(net_.build());
}

// Both directions, with output_pad of a stride or more where transposed
TEST_P(RandomConvolution, Volumes) {
  const std::int64_t groups = between(0, 2) == 0 ? 2 : 1, c = groups * between(1, 4), k = groups * between(1, 4);
  operators::Conv3d a;
  a.groups = groups, a.transposed = GetParam() % 2 != 0;
  for (int axis = 0; axis < 3; ++axis) {
    a.stride.push_back(between(1, 3)), a.dilation.push_back(between(1, 2));
    a.before.push_back(between(0, 1)), a.after.push_back(between(0, 1));
    a.output_pad.push_back(a.transposed ? between(0, a.stride.back() - 1) : 0);
  }
  const Shape taps{between(1, 3), between(1, 3), between(2, 3)};
  const NetworkValue x = a.transposed ? input({between(1, 3), c, between(2, 4), between(2, 4), between(2, 4)})
                                      : input({between(1, 3), c, between(5, 7), between(5, 7), between(5, 7)});
  const Shape filter{a.transposed ? c : k, (a.transposed ? k : c) / groups, taps[0], taps[1], taps[2]};
  check(net_.apply(a, {x, input(filter), input({k})}));
}

TEST_F(GradientsOf, VolumesWithMuchOutputPad) {
  const operators::Conv3d a{{2, 1, 2}, {3, 3, 4}, {0, 1, 0}, {1, 0, 0}, {2, 2, 3}, 1, true};
  net_.output(net_.apply(a, {input({2, 3, 3, 4, 3}), input({3, 2, 2, 3, 2})}), "y");
  EXPECT_EQ(test::gradient_case(net_.build(), inputs_, 2).wrong, "") << to_string(net_.build());
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomConvolution, ::testing::Range(0, 24));

TEST_F(GradientsOf, Products) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const NetworkValue a = ta ? input({5, 3}) : input({3, 5}), b = tb ? input({4, 5}) : input({5, 4});
      net_.output(gemm(a, b, {.transpose_a = ta, .transpose_b = tb, .bias = input({4})}),
                  "y" + std::to_string(ta) + std::to_string(tb));
    }
  check(gemm(input({2, 3, 5}), input({4, 5}), {.transpose_b = true}));
}

TEST_F(GradientsOf, BatchedProducts) {
  net_.output(net_.apply(operators::MatMul{}, {input({2, 1, 3, 5}), input({4, 5, 2})}), "broadcast");
  net_.output(net_.apply(operators::MatMul{}, {input({2, 3, 5}), input({5, 2})}), "one");
  check(net_.apply(operators::MatMul{}, {input({3, 5}), input({2, 5, 4})}));
}

TEST_F(GradientsOf, Normalisations) {
  const NetworkValue x = input({3, 6, 5, 2});
  net_.output(group_norm(x, {.groups = 3, .scale = input({6}), .shift = input({6})}), "group");
  net_.output(group_norm(x, {.groups = 1, .scale = input({6})}), "one group");
  net_.output(group_norm(x, {.groups = 6, .shift = input({6})}), "each channel");
  net_.output(instance_norm(x, {.scale = input({6}), .shift = input({6})}), "instance");
  net_.output(layer_norm(x, {.scale = input({6}), .shift = input({6})}), "layer");
  net_.output(rms_norm(x, {.scale = input({6})}), "rms");
  net_.output(softmax(x), "softmax");
  net_.output(softmax(input({2, 5, 3})), "softmax of rows");
  net_.output(layer_norm(input({4, 7}), {.scale = input({7}), .shift = input({7})}), "rows");
  check(rms_norm(input({2, 3, 7})));
}

TEST_F(GradientsOf, BatchNorm) {
  const NetworkValue x = input({3, 4, 5, 2}), mean = net_.constant("mean", {4}, {0, 1, 2, 3}),
                     variance = net_.constant("variance", {4}, {1, 2, 3, 4});
  check(batch_norm(x, input({4}), input({4}), mean, variance));  // both by stored and by own statistics
}

TEST_F(GradientsOf, Pools) {
  const NetworkValue x = input({2, 3, 7, 9});
  for (const bool ceil : {false, true}) {
    const std::string tag = ceil ? " ceil" : "";
    net_.output(max_pool(x, {.kernel = 3, .stride = 2, .pad = {1, 0, 1, 1}, .ceil_mode = ceil}), "max" + tag);
    net_.output(max_pool(x, {.kernel = 2, .stride = {2, 1}, .dilation = 2, .ceil_mode = ceil}), "dilated" + tag);
    net_.output(average_pool(x, {.kernel = {3, 2}, .stride = 2, .pad = {1, 0, 1, 1}, .ceil_mode = ceil}), "mean" + tag);
    net_.output(average_pool(x, {.kernel = 3, .stride = 2, .pad = 1, .ceil_mode = ceil, .count_pad = true}),
                "counted" + tag);
    net_.output(max_pool(x, {.kernel = {3, 2}, .stride = {3, 2}, .ceil_mode = ceil}), "side by side" + tag);
  }
  const operators::PoolNd of_volumes{.average = true,
                                     .kernel = {2, 3, 2},
                                     .stride = {2, 1, 3},
                                     .dilation = {1, 1, 1},
                                     .before = {0, 1, 1},
                                     .after = {1, 1, 0}};
  net_.output(net_.apply(of_volumes, {input({2, 2, 4, 5, 6})}), "mean of a volume");
  check(global_average_pool(x));
}

// Windows side by side need no scatter, whose updates a GPU adds one by one. Of equal elements the first counts
TEST(Gradients, OfWindowsSideBySide) {
  NetworkBuilder net("pool");
  net.output(max_pool(net.input("x", {1, 2, 3, 5}), {.kernel = 2, .stride = 2}), "y");
  const Loss sum = [](NetworkBuilder& b, const NamedTensors& tensors) {
    const NetworkValue factors = b.constant("factors", {1, 2, 1, 2}, {1, 2, 3, 4});
    return b.apply(operators::Reduce{.op = ReduceOp::sum, .axes = {}, .keep = false}, {tensors.at("y") * factors});
  };
  const GradientNetwork g = gradients(net.build(), sum, {.inputs = {"x"}});
  for (const Operator& o : g.network.operators)
    EXPECT_FALSE(std::holds_alternative<operators::ScatterElements>(o.kind)) << o.name;
  std::vector<float> x{1, 1, 0, 7, 9, 1, 0, 7, 7, 9, 9, 9, 9, 9, 9,  //
                       0, 0, 1, 2, 9, 0, 5, 3, 4, 9, 9, 9, 9, 9, 9};
  const auto out = test::run(compile(g.network), {{"x", {{1, 2, 3, 5}, {x.begin(), x.end()}}}});
  const auto gradient = out.at(g.input_gradients.at("x")).data;
  EXPECT_THAT(gradient, ::testing::ElementsAreArray({1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                                     0, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0}));
}

TEST_F(GradientsOf, Resizes) {
  const NetworkValue x = input({2, 3, 4, 5});
  net_.output(upsample(x, 2), "nearest");
  net_.output(upsample(x, 1.7), "nearest by 1.7");
  net_.output(resize(x, {.mode = ResizeMode::linear, .scale_h = 2, .scale_w = 3}), "linear");
  net_.output(
      resize(x, {.mode = ResizeMode::linear, .height = 3, .width = 9, .coordinates = ResizeCoordinates::align_corners}),
      "corners");
  check(resize(x, {.mode = ResizeMode::nearest, .height = 2, .width = 3}));
}

TEST_F(GradientsOf, Resamplings) {
  const NetworkValue x = input({2, 3, 4, 5, 3});
  const auto resample = [&](ResizeMode mode, const std::function<void(operators::Resample&)>& change) {
    operators::Resample r;
    r.mode = mode, r.scales = {1, 1, 1.7, 0.6, 2}, r.sizes.assign(5, 0);
    change(r);
    return net_.apply(r, {x});
  };
  using R = operators::Resample;
  net_.output(resample(ResizeMode::nearest, [](R& r) { r.scales = {1, 1, 2, 3, 1}; }), "repeated");
  net_.output(resample(ResizeMode::nearest, [](R& r) { r.coordinates = ResizeCoordinates::asymmetric; }), "nearest");
  net_.output(resample(ResizeMode::linear, [](R&) {}), "linear");
  net_.output(resample(ResizeMode::linear, [](R& r) { r.antialias = true; }), "antialias");
  net_.output(resample(ResizeMode::cubic, [](R& r) { r.sizes = {2, 3, 3, 7, 6}; }), "cubic");
  net_.output(resample(ResizeMode::cubic, [](R& r) { r.cubic_a = -0.5, r.exclude_outside = true; }), "excluded");
  check(resample(ResizeMode::linear, [](R& r) {
    r.coordinates = ResizeCoordinates::crop_and_resize, r.sizes = {2, 3, 6, 4, 3}, r.extrapolation = 2;
    r.roi_begin = {0, 0, -0.3, 0.2, 0}, r.roi_end = {1, 1, 1.2, 0.9, 1};
  }));
}

TEST_F(GradientsOf, Moves) {
  const NetworkValue x = input({2, 3, 4, 5}), z = input({2, 2, 4, 5});
  net_.output(concat({x, z, x}), "concat");
  net_.output(pad(x, {0, 1, -1, 2}, {1, 0, 2, -1}, 3), "pad");
  for (const PadMode mode : {PadMode::edge, PadMode::reflect, PadMode::wrap})
    net_.output(net_.apply(operators::Pad{.before = {0, 1, 2, 1}, .after = {1, 0, 1, 2}, .mode = mode}, {x}),
                "pad" + std::to_string(static_cast<int>(mode)));
  net_.output(net_.apply(operators::Slice{.starts = {1, -1}, .ends = {4, -9}, .steps = {2, -3}, .axes = {2, 3}}, {x}),
              "slice");
  net_.output(transpose(x, {3, 0, 2, 1}), "transpose");
  net_.output(flatten(reshape(x, {3, -1, 2}), 2), "reshape");
  net_.output(net_.apply(operators::Expand{}, {input({3, 1, 5}), x}), "expand");
  net_.output(net_.apply(operators::Tile{.repeats = {2, 1, 3, 1}}, {x}), "tile");
  net_.output(net_.apply(operators::Triangle{.upper = false, .diagonal = 1}, {x}), "triangle");
  check(net_.apply(operators::DepthToSpace{.block = 2}, {input({2, 8, 2, 3})}));
}

TEST_F(GradientsOf, Reductions) {
  const NetworkValue x = input({2, 3, 4});
  const auto reduce = [&](ReduceOp op, std::vector<int> axes, bool keep, NetworkValue v) {
    return net_.apply(operators::Reduce{op, std::move(axes), keep}, {v});
  };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::l1, ReduceOp::l2,
                            ReduceOp::sum_square, ReduceOp::log_sum_exp}) {
    net_.output(reduce(op, {0, 2}, op < ReduceOp::min, x), "some" + std::to_string(static_cast<int>(op)));
    net_.output(reduce(op, {}, false, x), "all" + std::to_string(static_cast<int>(op)));
  }
  net_.output(reduce(ReduceOp::log_sum, {1}, true, exp(x)), "log_sum");
  check(net_.apply(operators::CumulativeSum{.axis = 1, .exclusive = true}, {x}));
}

TEST_F(GradientsOf, GathersAndScatters) {
  const NetworkValue table = input({5, 3}), x = input({2, 5, 3});
  net_.output(net_.apply(operators::Gather{.axis = 0}, {table, indices({4, 0, 4, -1, 2, 2}, {2, 3})}), "embedding");
  net_.output(net_.apply(operators::Gather{.axis = 1}, {x, indices({1, 1, 0}, {3})}), "along 1");
  net_.output(net_.apply(operators::Gather{.axis = 2}, {x, indices({-1}, {})}), "one");
  net_.output(net_.apply(operators::GatherElements{.axis = 1}, {table, indices({0, 2, 2, 1}, {2, 2})}), "elements");
  net_.output(net_.apply(operators::GatherND{}, {x, indices({0, 3, 1, 3, 0, 3}, {3, 2})}), "nd");
  net_.output(net_.apply(operators::ScatterElements{.axis = 0}, {table, indices({3, 1}, {2, 1}), input({2, 1})}),
              "scatter");
  check(net_.apply(operators::ScatterND{.reduction = ScatterReduction::add},
                   {table, indices({1, 1, 3}, {3, 1}), input({3, 3})}));
}

class RecurrentLayer : public GradientsOf, public ::testing::WithParamInterface<int> {};

// With every cell in turn; other functions of gates are those of random networks
TEST_P(RecurrentLayer, OfDrawnExtents) {
  random_ = Random(static_cast<std::uint64_t>(GetParam()));
  operators::Recurrence r;
  r.cell = static_cast<RecurrentCell>(GetParam() % 3);
  const std::int64_t steps = between(1, 4), rows = between(1, 3), hidden = between(1, 4), directions = between(1, 2);
  r.reverse = directions == 1 && between(0, 1) == 1;
  r.linear_before_reset = between(0, 1) == 1, r.input_forget = between(0, 2) == 0,
  r.clip = between(0, 2) == 0 ? 0.6 : 0;
  using Kind = GateFunction::Kind;
  for (int i = 0; i < directions * functions_of(r.cell); ++i) {
    const bool opens = i % functions_of(r.cell) == 0 && r.cell != RecurrentCell::rnn;
    r.functions.push_back({between(0, 3) == 0 ? Kind::affine : opens ? Kind::sigmoid : Kind::tanh, 0.5, 0.3});
  }
  const std::int64_t columns = gates_of(r.cell) * hidden;
  std::vector<NetworkValue> in{input({steps, rows, directions * columns}), input({directions, hidden, columns})};
  const bool may_have_extra = r.cell == RecurrentCell::lstm || (r.cell == RecurrentCell::gru && r.linear_before_reset);
  r.has_extra = may_have_extra && between(0, 1) == 1;
  if (r.has_extra) in.push_back(input({directions, (r.cell == RecurrentCell::lstm ? 3 : 1) * hidden}));
  r.has_lengths = between(0, 1) == 1;
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < rows; ++i) lengths.push_back(static_cast<std::int32_t>(between(1, steps)));
  const auto bytes = std::as_bytes(std::span(lengths));
  if (r.has_lengths) in.push_back(net_.constant("lengths", {rows}, DType::i32, {bytes.begin(), bytes.end()}));
  r.has_h = between(0, 1) == 1, r.has_c = r.cell == RecurrentCell::lstm && between(0, 1) == 1;
  for (const bool has : {r.has_h, r.has_c})
    if (has) in.push_back(input({rows, directions * hidden}));
  check(net_.apply(r, in));
}
INSTANTIATE_TEST_SUITE_P(Gradients, RecurrentLayer, ::testing::Range(0, 24));

TEST_F(GradientsOf, RecurrentLayersThatAreLinear) {
  const operators::Recurrence r{.cell = RecurrentCell::rnn,
                                .reverse = true,
                                .has_h = true,
                                .functions = {{GateFunction::Kind::affine, 0.48, 0.27}}};
  check(net_.apply(r, {input({3, 4, 8}), input({1, 8, 8}), input({4, 8})}));
}

TEST_F(GradientsOf, Elementwise) {
  const NetworkValue x = input({2, 3, 4}), z = input({3, 1}), positive = exp(input({2, 1, 4}));
  net_.output(x * z + x / positive - min(x, z), "binary");
  net_.output(pow(positive, z), "pow");
  net_.output(max(x * x, x), "twice");
  net_.output(mish(x) + silu(x) + gelu(x) + gelu_tanh(x) + hardswish(x), "activations");
  net_.output(elu(x, 0.7) + leaky_relu(x, 0.2) + relu(x) + clamp(x, -1, 1.5) + softplus(x), "pieces");
  net_.output(net_.apply(operators::Map{.op = MapOp::select},
                         {net_.apply(operators::Map{.op = MapOp::less}, {x, z}), x * x, z}),
              "select");
  check(log(positive) + rsqrt(positive) + tanh(x) + erf(x) + sin(x) * cos(z));
}

TEST(Gradients, NameWhatHasNoDerivative) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {1, 2, 4, 4}), w = net.constant("w", {2, 2, 1, 1}, {1, 2, 3, 4});
  const NetworkValue y = net.apply(operators::Map{.op = MapOp::fmod}, {conv2d(x, w), net.constant(3.0)}, "rest");
  net.output(y, "y");
  try {
    (void)gradients(net.build(), mean_squared_error());
    FAIL() << "no error";
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("fmod 'rest'"), std::string::npos) << error.what();
  }
  // nothing ahead of it is a parameter
  EXPECT_EQ(gradients(net.build(), mean_squared_error(), {.parameters = {{}}}).parameters.size(), 0U);
}

TEST(Gradients, SayWhatIsNotKnown) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {"batch", 3}), w = net.constant("w", {3, 1}, {1, 2, 3});
  net.output(gemm(x, w), "y");
  const Network n = net.build();
  EXPECT_THAT(user_error([&] { (void)gradients(n, mean_squared_error()); }),
              ::testing::HasSubstr("'batch' is not known"));
  EXPECT_THAT(user_error([&] {
                (void)gradients(n, mean_squared_error(), {.extents = {{"batch", 2}}, .parameters = {{"v"}}});
              }),
              ::testing::HasSubstr("no constant 'v'"));
  EXPECT_THAT(user_error([&] {
                (void)gradients(n, mean_squared_error({.prediction = "z"}), {.extents = {{"batch", 2}}});
              }),
              ::testing::HasSubstr("a tensor 'z'"));
  const Loss whole = [](NetworkBuilder&, const NamedTensors& t) { return t.at(""); };
  EXPECT_THAT(user_error([&] {
                (void)gradients(n, whole, {.extents = {{"batch", 2}}});
              }),
              ::testing::HasSubstr("the loss is (2,1)"));
  EXPECT_EQ(gradients(n, mean_squared_error(), {.extents = {{"batch", 2}}}).parameters[0].name, "w");
}

TEST(Gradients, TellApartConstantsOfOneName) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {2, 2});
  const NetworkValue h = net.apply(operators::Gemm{}, {x, net.constant("w", {2, 2}, {1, 2, 3, 4})}, "first");
  net.output(net.apply(operators::Gemm{}, {h, net.constant("w", {2, 1}, {5, 6})}, "second"), "y");
  EXPECT_EQ(trainable_constants(net.build()), (std::vector<std::string>{"w@first", "w@second"}));
  EXPECT_EQ(gradients(net.build(), mean_squared_error()).parameters[1].shape, (std::vector<std::int64_t>{2, 1}));
}

TEST(Gradients, HaveTheStatisticsOfABatch) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {2, 2, 1, 2}), one = net.constant("one", {2}, {1, 1}),
                     zero = net.constant("zero", {2}, {0, 0});
  net.output(batch_norm(x, one, zero, net.constant("mean", {2}, {9, 9}), net.constant("variance", {2}, {9, 9})), "y");
  const GradientNetwork g = gradients(net.build(), mean_squared_error());
  ASSERT_EQ(g.statistics.size(), 1U);
  EXPECT_EQ(g.statistics[0].count, 4);
  const auto out = test::run(compile(g.network), {{"x", {{2, 2, 1, 2}, {1, 2, 0, 0, 3, 6, 4, 4}}},
                                                  {"target", {{2, 2, 1, 2}, std::vector<float>(8)}},
                                                  {"one", {{2}, {1, 1}}},
                                                  {"zero", {{2}, {0, 0}}}});
  EXPECT_EQ(out.at(g.statistics[0].mean_output).data, (std::vector<float>{3, 2}));
  EXPECT_EQ(out.at(g.statistics[0].variance_output).data, (std::vector<float>{3.5, 4}));
}

}  // namespace
}  // namespace unisono
