#include "reference/network/tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "command/execution.hpp"
#include "reference/network/answer.hpp"
#include "unisono/error.hpp"

namespace unisono::command {

using namespace float64;

namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsNan;
using Values = std::vector<double>;

Tensor64 tensor(Extents64 shape, Values values, DType dtype = DType::f32) {
  Tensor64 x{std::move(shape), std::move(values), {}};
  x.bound.assign(x.value.size(), 0.0);
  x.dtype = dtype;
  return x;
}

Tensor64 counting(Extents64 shape) {
  Values values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  return tensor(std::move(shape), std::move(values));
}

Values map(MapOp op, DType dtype, Values x, Values y) {
  const auto n = static_cast<std::int64_t>(x.size());
  const Tensor64 a = tensor({n}, std::move(x), dtype), b = tensor({n}, std::move(y), dtype);
  return evaluate_tensors(operators::Map{op}, {&a, &b}).value;
}

Values cast(DType from, DType to, Values x) {
  const auto n = static_cast<std::int64_t>(x.size());
  const Tensor64 a = tensor({n}, std::move(x), from);
  return evaluate_tensors(operators::Map{MapOp::cast, to}, {&a}).value;
}

TEST(ReferenceTensors, IntegersWrapAndTruncate) {
  EXPECT_THAT(map(MapOp::add, DType::i8, {127, -128}, {1, -1}), ElementsAre(-128, 127));
  EXPECT_THAT(map(MapOp::mul, DType::u8, {200, 16}, {2, 16}), ElementsAre(144, 0));
  EXPECT_THAT(map(MapOp::sub, DType::u32, {0}, {1}), ElementsAre(4294967295.0));
  EXPECT_THAT(map(MapOp::div, DType::i32, {7, -7}, {2, 2}), ElementsAre(3, -3));
  EXPECT_THAT(map(MapOp::mod, DType::i32, {7, -7, 7}, {3, 3, -3}), ElementsAre(1, 2, -2));
  EXPECT_THAT(map(MapOp::mod, DType::f32, {-3, 3, -1, INFINITY}, {INFINITY, 2, 0.75, 2}),
              ElementsAre(INFINITY, 1, 0.5, IsNan()));
  EXPECT_TRUE(std::signbit(map(MapOp::mod, DType::f32, {0}, {-2})[0]));  // ONNX, opset 28: the divisor's sign
  EXPECT_THAT(map(MapOp::fmod, DType::i32, {7, -7, 7}, {3, 3, -3}), ElementsAre(1, -1, 1));
  EXPECT_THAT(map(MapOp::pow, DType::i64, {-2, 2}, {3, -1}), ElementsAre(-8, 0));
  EXPECT_THROW(map(MapOp::div, DType::i32, {1}, {0}), UserError);
  EXPECT_THROW(map(MapOp::mul, DType::i64, {0x1p40}, {0x1p40}), Unsupported);
}

TEST(ReferenceTensors, Casts) {
  EXPECT_THAT(cast(DType::f32, DType::i8, {2.9, -2.9, 300, NAN}), ElementsAre(2, -2, 127, 0));
  EXPECT_THAT(cast(DType::i32, DType::u8, {300, -1}), ElementsAre(44, 255));
  EXPECT_THAT(cast(DType::f32, DType::boolean, {0, 0.25}), ElementsAre(0, 1));
  EXPECT_THAT(cast(DType::f32, DType::f16, {1 + 0x1p-12}), ElementsAre(1));
  EXPECT_THAT(cast(DType::i64, DType::f32, {0x1p24 + 1}), ElementsAre(0x1p24));
}

TEST(ReferenceTensors, Reductions) {
  const Tensor64 x = counting({2, 3});
  const auto reduce = [&](ReduceOp op, std::vector<int> axes) {
    return evaluate_tensors(operators::Reduce{op, std::move(axes), false}, {&x}).value;
  };
  EXPECT_THAT(reduce(ReduceOp::sum, {1}), ElementsAre(3, 12));
  EXPECT_THAT(reduce(ReduceOp::mean, {-2}), ElementsAre(1.5, 2.5, 3.5));
  EXPECT_THAT(reduce(ReduceOp::max, {}), ElementsAre(5));
  EXPECT_THAT(reduce(ReduceOp::l2, {1}), ElementsAre(std::sqrt(5.0), std::sqrt(50.0)));
  EXPECT_NEAR(reduce(ReduceOp::log_sum_exp, {})[0], std::log((std::exp(6) - 1) / (std::exp(1) - 1)), 1e-12);
  const Tensor64 ties = tensor({2, 3}, {1, 5, 5, 2, 2, 0});
  EXPECT_THAT(evaluate_tensors(operators::ArgReduce{.axis = 1}, {&ties}).value, ElementsAre(1, 0));
  EXPECT_THAT(evaluate_tensors(operators::ArgReduce{.axis = 1, .last = true}, {&ties}).value, ElementsAre(2, 1));
  EXPECT_THAT(evaluate_tensors(operators::ArgReduce{.axis = 0, .smallest = true}, {&ties}).value, ElementsAre(0, 1, 1));
}

TEST(ReferenceTensors, Movement) {
  const Tensor64 x = counting({2, 3});
  constexpr auto far = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(evaluate_tensors(operators::Slice{{1}, {3}, {1}, {1}}, {&x}).value, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(evaluate_tensors(operators::Slice{{-1}, {far}, {-2}, {-1}}, {&x}).value, ElementsAre(2, 0, 5, 3));
  EXPECT_THAT(evaluate_tensors(operators::Slice{{5}, {9}, {1}, {1}}, {&x}).shape, ElementsAre(2, 0));
  const Tensor64 rows = tensor({2}, {-1, 0}, DType::i64), outside = tensor({1}, {2}, DType::i64);
  EXPECT_THAT(evaluate_tensors(operators::Gather{0}, {&x, &rows}).value, ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(evaluate_tensors(operators::Gather{1}, {&x, &rows}).value, ElementsAre(2, 0, 5, 3));
  EXPECT_THROW(evaluate_tensors(operators::Gather{0}, {&x, &outside}), UserError);
  EXPECT_THAT(evaluate_tensors(operators::Tile{{1, 2}}, {&x}).value, ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  EXPECT_THAT(evaluate_tensors(operators::ShapeOf{0, 2}, {&x}).value, ElementsAre(2, 3));
  const auto pad = [&](PadMode mode) {
    return pad_repeating({.before = {0, 2}, .after = {0, 1}, .mode = mode}, tensor({1, 3}, {1, 2, 3})).value;
  };
  EXPECT_THAT(pad(PadMode::edge), ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(pad(PadMode::reflect), ElementsAre(3, 2, 1, 2, 3, 2));
  EXPECT_THAT(pad(PadMode::wrap), ElementsAre(2, 3, 1, 2, 3, 1));
}

TEST(ReferenceTensors, Resampling) {
  const Tensor64 x = tensor({4}, {0, 1, 2, 3});
  const auto resized = [&](ResizeMode mode, std::int64_t size, auto&& change) {
    operators::Resample o;
    o.mode = mode, o.scales = {0}, o.sizes = {size};
    change(o);
    return evaluate_tensors(o, {&x}).value;
  };
  const auto plain = [](operators::Resample&) {};
  EXPECT_THAT(resized(ResizeMode::linear, 8, plain), ElementsAre(0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3));
  EXPECT_THAT(resized(ResizeMode::cubic, 2, plain), ElementsAre(0.40625, 2.59375));
  EXPECT_THAT(resized(ResizeMode::nearest, 2, plain), ElementsAre(0, 2));
  EXPECT_THAT(resized(ResizeMode::nearest, 2, [](auto& o) { o.rounding = NearestRounding::ceil; }), ElementsAre(1, 3));
  EXPECT_THAT(resized(ResizeMode::linear, 3, [](auto& o) { o.coordinates = ResizeCoordinates::align_corners; }),
              ElementsAre(0, 1.5, 3));
  // 4·0.875 rounded: four elements, which lie where the scale puts them and not where they were
  EXPECT_THAT(resized(ResizeMode::linear, 4,
                      [](auto& o) {
                        o.coordinates = ResizeCoordinates::asymmetric;
                        o.scales = {0.875}, o.rounded_sizes = true;
                      }),
              ElementsAre(0, DoubleNear(8.0 / 7, 1e-12), DoubleNear(16.0 / 7, 1e-12), DoubleNear(3, 1e-12)));
  EXPECT_THAT(resized(ResizeMode::linear, 2, [](auto& o) { o.antialias = true; }), ElementsAre(0.625, 2.375));
}

TEST(ReferenceTensors, DepthToSpaceAndBack) {
  const Tensor64 x = counting({1, 8, 2, 3});
  for (const bool crd : {false, true}) {
    const Tensor64 wide = evaluate_tensors(operators::DepthToSpace{2, crd, false}, {&x});
    EXPECT_THAT(wide.shape, ElementsAre(1, 2, 4, 6));
    // of the first pixel's block the cell to the right of the corner: channel 2 (depth first) or 1
    EXPECT_EQ(wide.value[1], crd ? 6 : 12);
    EXPECT_EQ(evaluate_tensors(operators::DepthToSpace{2, crd, true}, {&wide}).value, x.value);
  }
}

TEST(ReferenceTensors, ProductsAndWindows) {
  const Tensor64 a = counting({2, 1, 2}), b = counting({2, 2});
  EXPECT_THAT(evaluate_tensors(operators::MatMul{}, {&a, &b}).value, ElementsAre(2, 3, 6, 11));
  const Tensor64 line = tensor({1, 1, 5}, {3, 1, 4, 1, 5});
  operators::PoolNd pool{.kernel = {2}, .stride = {2}, .dilation = {1}, .before = {1}, .after = {1}};
  EXPECT_THAT(evaluate_tensors(pool, {&line}).value, ElementsAre(3, 4, 5));
  pool.indices = true;
  EXPECT_THAT(evaluate_tensors(pool, {&line}).value, ElementsAre(0, 2, 4));
  pool.indices = false, pool.average = true, pool.count_pad = true;
  EXPECT_THAT(evaluate_tensors(pool, {&line}).value, ElementsAre(1.5, 2.5, 3));
}

/// Reference and backend are written apart: they must agree on a network of both.
TEST(ReferenceTensors, AgreeWithTheBackend) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {2, 4, 6, 6});
  std::vector<float> weights(4 * 4 * 9);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  const NetworkValue h = conv2d(x, net.constant("w", {4, 4, 3, 3}, weights), {.pad = 1});
  const NetworkValue wide = net.apply(operators::DepthToSpace{2, false, false}, {h});
  net.output(net.apply(operators::Slice{{1}, {12}, {3}, {3}}, {wide}), "slice");
  net.output(net.apply(operators::Reduce{ReduceOp::log_sum_exp, {1, 3}, true}, {h}), "reduced");
  net.output(net.apply(operators::ArgReduce{.axis = 1}, {h}), "class");
  net.output(net.apply(operators::Map{MapOp::cast, DType::f16}, {h}), "half");
  const Network network = net.build();
  const Tensors inputs{{"x", random_array({2, 4, 6, 6}, DType::f32, 3)}};
  Tensors outputs = execute(compile(network), inputs, 0).outputs;
  for (const NetworkAgreement& a : check_network(network, to_float64(inputs), to_float64(outputs))) {
    EXPECT_TRUE(a.ok()) << a.output;
    EXPECT_EQ(a.undecided, 0) << a.output;
    EXPECT_LT(a.tolerance, a.output == "half" ? 2e-2 : 1e-4) << a.output;
  }
  outputs.at("class").bytes[8] ^= 1;  // another class
  for (const NetworkAgreement& a : check_network(network, to_float64(inputs), to_float64(outputs)))
    EXPECT_EQ(a.outside, a.output == "class" ? 1 : 0) << a.output;
}

TEST(ReferenceTensors, DecisionsWithinRoundingAreLeftOut) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {1, 3});
  const NetworkValue third = x * (1.0 / 3);
  net.output(net.apply(operators::Map{MapOp::greater}, {third, net.constant("c", {}, {1})}), "y");
  const Network network = net.build();
  const Tensors64 inputs{{"x", tensor({1, 3}, {0.5, 3, 9})}};
  const auto check = [&](Values y) {
    return check_network(network, inputs, {{"y", tensor({1, 3}, std::move(y), DType::boolean)}}).at(0);
  };
  EXPECT_EQ(check({0, 1, 1}).undecided, 1);  // 3·0.33333334 > 1: not in f32
  EXPECT_TRUE(check({0, 0, 1}).ok());
  EXPECT_EQ(check({1, 0, 1}).outside, 1);
}

TEST(ReferenceTensors, ConstantsOfAnyType) {
  NetworkBuilder net;
  const std::int64_t ids[2] = {1, 0};
  const auto* bytes = reinterpret_cast<const std::byte*>(ids);
  const NetworkValue picks = net.constant("ids", {2}, DType::i64, {bytes, bytes + sizeof(ids)});
  net.output(net.apply(operators::Gather{0}, {net.input("x", {2}), picks}), "y");
  EXPECT_THAT(evaluate_network(net.build(), {{"x", tensor({2}, {3, 4})}}).at("y").value, ElementsAre(4, 3));
}

}  // namespace
}  // namespace unisono::command
