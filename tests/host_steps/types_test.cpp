// Networks of integers, bool and floats of other widths: by kernels alone, and with some operators on the host, against
// the CPU's executor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ostream>

#include "host_steps/networks.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

// visit(T()) for the type of a network's tensors that the test has
template <class Visit>
void with_type(DType t, const Visit& visit) {
  switch (t) {
    case DType::f32: return visit(float{});
    case DType::f64: return visit(double{});
    case DType::i64: return visit(std::int64_t{});
    case DType::i32: return visit(std::int32_t{});
    case DType::u8:
    case DType::boolean: return visit(std::uint8_t{});
    default: throw InternalError("a type that no test has");
  }
}

// A tensor of any type, with strides of its own
struct Typed {
  DType type{};
  Sizes shape, strides;
  std::vector<std::byte> data;

  ConstTensorView view() const { return {data.data(), type, shape, strides}; }
  TensorView view() { return {data.data(), type, shape, strides}; }
  double at(std::int64_t i) const {
    double x = 0;
    with_type(type, [&]<class T>(T) { x = static_cast<double>(reinterpret_cast<const T*>(data.data())[i]); });
    return x;
  }
};
using AllTyped = std::map<std::string, Typed>;

Typed zeros(DType type, const Sizes& shape) {
  return {type, shape, {}, std::vector<std::byte>(static_cast<std::size_t>(element_count(shape)) * size_of(type))};
}

// Whole numbers from `low` to before `high`
Typed numbers(DType type, const Sizes& shape, std::int64_t low, std::int64_t high) {
  test::Random random(5);
  Typed t = zeros(type, shape);
  with_type(type, [&]<class T>(T) {
    for (std::int64_t i = 0; i < element_count(shape); ++i)
      reinterpret_cast<T*>(t.data.data())[i] =
          static_cast<T>(std::floor(random.uniform(static_cast<double>(low), static_cast<double>(high))));
  });
  return t;
}

NetworkValue applied(const OperatorKind& kind, const std::vector<NetworkValue>& x) {
  return x[0].builder().apply(kind, x);
}
NetworkValue mapped(MapOp op, const std::vector<NetworkValue>& x) { return applied(operators::Map{.op = op}, x); }
NetworkValue cast(NetworkValue x, DType to) { return applied(operators::Map{.op = MapOp::cast, .to = to}, {x}); }

// Numbers that 16 bits hold
NetworkValue constants(NetworkBuilder& net, const std::string& name, const Shape& shape, std::size_t count) {
  test::Random random(3);
  std::vector<float> x(count);
  for (float& f : x) f = static_cast<float>(std::floor(random.uniform(-128, 128)) / 128);
  return net.constant(name, shape, std::move(x));
}
NetworkValue integer(NetworkBuilder& net, const std::string& name, std::int64_t value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return net.constant(name, {}, DType::i64, std::move(bytes));
}

struct TypeCase {
  const char* name;
  std::function<Network()> make;
  std::function<AllTyped()> inputs;
  const char* on_host;       // operators of a second run
  std::size_t unserved = 0;  // operators on the host in the first
};
void PrintTo(const TypeCase& c, std::ostream* out) { *out << c.name; }

// Which words an embedding has, the greatest of each word, and choices by a comparison
Network tokens() {
  NetworkBuilder net("tokens");
  const NetworkValue t = net.input("t", {2, 5}, DType::i64), table = constants(net, "table", {11, 24}, 11 * 24);
  const NetworkValue words = applied(operators::Gather{.axis = 0}, {table, t});
  const NetworkValue is_chosen = mapped(MapOp::equal, {t, integer(net, "a word", 8)});
  net.output(applied(operators::ArgReduce{.axis = 2}, {words}), "greatest");
  net.output(is_chosen, "is chosen");
  const NetworkValue mask = applied(operators::Expand{}, {reshape(is_chosen, {2, 5, 1}), words});
  net.output(
      gemm(mapped(MapOp::select, {mask, net.constant(0.5), relu(words)}), constants(net, "w", {24, 16}, 24 * 16)), "y");
  return net.build();
}

// Products and sums of numbers that need all of their digits, parts of which are joined where they lie
Network arithmetic() {
  NetworkBuilder net("arithmetic");
  const NetworkValue a = net.input("a", {3, 4, 5}, DType::i64), b = net.input("b", {4, 1}, DType::i64);
  const NetworkValue product = mapped(MapOp::mul, {a, b}), sum = mapped(MapOp::add, {a, b});
  net.output(concat({product, sum, a}, 2), "joined");
  const NetworkValue both = concat({product, sum}, 2);
  net.output(reshape(mapped(MapOp::sub, {both, b}), {6, 20}), "flat");
  net.output(applied(operators::Slice{.starts = {3}, .ends = {9}, .steps = {1}, .axes = {2}}, {both}), "range");
  net.output(applied(operators::Reduce{.axes = {0, 2}, .keep = false}, {product}), "sums");
  return net.build();
}

// 999 steps of a process are no 1000
Network embedding_of_steps() {
  NetworkBuilder net("steps");
  const NetworkValue t = cast(net.input("t", {"batch"}, DType::i64), DType::f32);
  const NetworkValue angle = reshape(t, {-1, 1}) * constants(net, "f", {1, 8}, 8);
  const NetworkValue e = concat({elementwise(Op::sin, {angle}), elementwise(Op::cos, {angle})});
  net.output(e, "embedding");
  net.output(relu(gemm(e, constants(net, "w", {16, 24}, 16 * 24))), "y");
  net.output(t, "t as it is");
  return net.build();
}

// What a contraction reads beside what must be exact
Network steps_that_a_product_reads() {
  NetworkBuilder net("products of steps");
  const NetworkValue t = cast(net.input("t", {2, 8}, DType::i64), DType::f32);
  net.output(gemm(t, constants(net, "w", {8, 16}, 8 * 16)) * (1.0 / 64), "y");
  net.output(elementwise(Op::sin, {transpose(t, {1, 0}) * (1.0 / 64)}), "sine");
  return net.build();
}

// Pixels of a byte become an image of floats, and the classes of a mask an image of bytes
Network bytes() {
  NetworkBuilder net("bytes");
  const NetworkValue pixels = net.input("pixels", {2, 6, 5, 3}, DType::u8);
  const NetworkValue image = transpose(cast(pixels, DType::f32) * (1.0 / 255), {0, 3, 1, 2});
  const NetworkValue scores = conv2d(image, constants(net, "w", {4, 3, 3, 3}, 4 * 27), {.pad = 1});
  net.output(cast(applied(operators::ArgReduce{.axis = 1}, {scores}), DType::u8), "classes");
  net.output(mapped(MapOp::greater, {scores, net.constant(0.0)}), "positive");
  net.output(scores, "scores");
  return net.build();
}

// More axes than images have, of types that the network computes in, some of them the caller's own order
Network many_axes() {
  NetworkBuilder net("axes");
  const NetworkValue x = net.input("x", {2, 3, 2, 4, 5}, DType::i32), d = net.input("d", {2, 1, 3}, DType::f64);
  net.output(transpose(mapped(MapOp::add, {x, x}), {4, 0, 3, 1, 2}), "turned");
  net.output(mapped(MapOp::mul, {d, d}), "squares");
  net.output(relu(cast(d, DType::f32)), "floats");
  net.output(mapped(MapOp::logical_not, {cast(x, DType::boolean)}), "zeros");
  net.output(applied(operators::ShapeOf{.begin = 1, .end = 4}, {x}), "extents");
  return net.build();
}

AllTyped of_many_axes() {
  AllTyped all{{"x", numbers(DType::i32, {5, 4, 2, 3, 2}, -3, 4)}, {"d", numbers(DType::f64, {2, 1, 3}, -9, 9)}};
  all["x"].shape = {2, 3, 2, 4, 5}, all["x"].strides = {1, 2, 6, 12, 48};
  return all;
}

const std::vector<TypeCase>& type_cases() {
  static const std::vector<TypeCase> cases{
      {"tokens", tokens,
       [] {
         return AllTyped{{"t", numbers(DType::i64, {2, 5}, 0, 11)}};
       },
       "equal,arg_max"},
      {"arithmetic", arithmetic,
       [] {
         return AllTyped{{"a", numbers(DType::i64, {3, 4, 5}, -(std::int64_t{1} << 40), std::int64_t{1} << 40)},
                         {"b", numbers(DType::i64, {4, 1}, -1000, 1000)}};
       },
       "sub,reduce_sum"},
      {"embedding of steps", embedding_of_steps,
       [] {
         return AllTyped{{"t", numbers(DType::i64, {5}, 900, 1000)}};
       },
       "sin"},
      {"steps that a product reads", steps_that_a_product_reads,
       [] {
         return AllTyped{{"t", numbers(DType::i64, {2, 8}, 900, 1000)}};
       },
       "", 2},
      {"bytes", bytes,
       [] {
         return AllTyped{{"pixels", numbers(DType::u8, {2, 6, 5, 3}, 0, 256)}};
       },
       "greater"},
      {"many axes", many_axes, of_many_axes, "add,logical_not"}};
  return cases;
}

std::map<std::string, Sizes> shapes_of(const AllTyped& tensors) {
  std::map<std::string, Sizes> shapes;
  for (const auto& [name, t] : tensors) shapes[name] = t.shape;
  return shapes;
}

AllTyped results(const NetworkExecutable& network, const AllTyped& inputs) {
  AllTyped outputs;
  const auto shapes = network.output_shapes(shapes_of(inputs));
  for (const TensorId id : network.network().outputs) {
    const NetworkTensor& t = network.network()[id];
    outputs[t.name] = zeros(t.dtype, shapes.at(t.name));
  }
  network.run(views<ConstTensorView>(inputs), views<TensorView>(outputs));
  return outputs;
}

// Integers are equal; floats as far as 16 bits go
void expect_equal(const AllTyped& actual, const AllTyped& expected) {
  for (const auto& [name, e] : expected) {
    const Typed& a = actual.at(name);
    double largest = 0;
    for (std::int64_t i = 0; i < element_count(e.shape); ++i) largest = std::max(largest, std::abs(e.at(i)));
    EXPECT_GT(largest, 0) << name << " proves nothing";
    for (std::int64_t i = 0; i < element_count(e.shape); ++i)
      ASSERT_NEAR(a.at(i), e.at(i), e.type == DType::f32 ? 0.02 * largest : 0) << name << ", element " << i;
  }
}

class TypeCases : public testing::TestWithParam<TypeCase> {};

TEST_P(TypeCases, AreKernelsAlone) {
  const TypeCase& c = GetParam();
  const AllTyped inputs = c.inputs(), expected = results(compile(c.make(), NetworkOptions{}), inputs);
  for (const DType precision : {DType::bf16, DType::f16}) {
    const NetworkExecutable executable = compile(c.make(), on_gpu(precision));
    EXPECT_THAT(executable.host_steps(shapes_of(inputs)), testing::SizeIs(c.unserved));
    const AllTyped actual = results(executable, inputs);
    expect_equal(actual, expected);
    for (const auto& [name, t] : results(executable, inputs)) EXPECT_EQ(t.data, actual.at(name).data) << name;
  }
}

TEST_P(TypeCases, CrossToHostStepsAndBack) {
  const TypeCase& c = GetParam();
  const AllTyped inputs = c.inputs(), expected = results(compile(c.make(), NetworkOptions{}), inputs);
  ::setenv("UNISONO_HOST_STEPS", c.on_host, 1);
  const NetworkExecutable executable = compile(c.make(), on_gpu());
  const AllTyped actual = results(executable, inputs);
  EXPECT_FALSE(executable.host_steps(shapes_of(inputs)).empty());
  ::unsetenv("UNISONO_HOST_STEPS");
  expect_equal(actual, expected);
}

INSTANTIATE_TEST_SUITE_P(All, TypeCases, testing::ValuesIn(type_cases()));

// As f32 keeps the number of a step, its sine is that of the number itself
TEST(Types, StepsKeepAllOfTheirDigits) {
  NetworkBuilder net("step");
  const NetworkValue t = cast(net.input("t", {4}, DType::i64), DType::f32);
  net.output(elementwise(Op::sin, {t}), "sine");
  Typed steps = zeros(DType::i64, {4});
  const std::int64_t given[] = {999, 257, 1023, 70001};
  std::memcpy(steps.data.data(), given, sizeof given);
  const AllTyped actual = results(compile(net.build(), on_gpu()), {{"t", steps}});
  for (std::int64_t i = 0; i < 4; ++i)
    EXPECT_NEAR(actual.at("sine").at(i), std::sin(static_cast<double>(given[i])), 0x1p-8);
}

// Places of a wide image that a convolution moves, as an optical flow does, and whose halves 16 bits do not hold:
// beside the middle of two pixels, of which one is 0 and the other 1, lies another number
TEST(Types, PositionsKeepAllOfTheirDigits) {
  constexpr std::int64_t width = 720, places = 96;
  NetworkBuilder net("places");
  const NetworkValue x = net.input("x", {1, 1, 1, width}), moves = net.input("moves", {1, 8, 1, places});
  std::vector<float> base(2 * places, 0);
  for (std::int64_t i = 0; i < places; ++i) base[static_cast<std::size_t>(i)] = 600.25f + static_cast<float>(i) / 2;
  std::vector<float> filter(16, 0);
  filter[0] = 0.5f;  // x moves by half of the first channel
  const NetworkValue place = net.constant("base", {1, 2, 1, places}, std::move(base)) +
                             conv2d(moves, net.constant("filter", {2, 8, 1, 1}, std::move(filter)));
  const NetworkValue scale = net.constant("scale", {2, 1, 1}, {2.0f / (width - 1), 1.0f}),
                     shift = net.constant("shift", {2, 1, 1}, {-1.0f, 0.0f});
  const NetworkValue grid = transpose(place * scale + shift, {0, 2, 3, 1});
  net.output(applied(operators::GridSample{.align_corners = true}, {x, grid}), "y");
  net.output(conv2d(place, constants(net, "w", {8, 2, 1, 1}, 16)), "features");
  Typed image = zeros(DType::f32, {1, 1, 1, width});
  for (std::int64_t i = 0; i < width; ++i) reinterpret_cast<float*>(image.data.data())[i] = static_cast<float>(i % 2);
  const AllTyped inputs{{"x", image}, {"moves", numbers(DType::f32, {1, 8, 1, places}, 0, 4)}};
  const AllTyped expected = results(compile(net.build(), NetworkOptions{}), inputs);
  for (const DType precision : {DType::bf16, DType::f16}) {
    const NetworkExecutable executable = compile(net.build(), on_gpu(precision));
    EXPECT_THAT(executable.host_steps(shapes_of(inputs)), testing::IsEmpty());
    const AllTyped actual = results(executable, inputs);
    for (std::int64_t i = 0; i < places; ++i)
      ASSERT_NEAR(actual.at("y").at(i), expected.at("y").at(i), 0x1p-8) << "place " << i;
    expect_equal({{"features", actual.at("features")}}, {{"features", expected.at("features")}});
  }
}

}  // namespace
}  // namespace unisono::gpu
