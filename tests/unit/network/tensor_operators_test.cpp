/// Operators on tensors of any type, written with the builder: what ONNX's node tests do not show.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "cases.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::user_error;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& x) {
  const auto bytes = std::as_bytes(std::span(x));
  return {bytes.begin(), bytes.end()};
}

NetworkValue integers(NetworkBuilder& net, const std::vector<std::int64_t>& x, Shape shape) {
  return net.constant("i", std::move(shape), DType::i64, bytes_of(x));
}

// The only output, of type T, of a network whose only input is f32 of this shape with 0, 1, 2, …
template <class T>
std::vector<T> run_ramp(const NetworkBuilder& net, std::vector<std::int64_t> shape) {
  const NetworkExecutable n = compile(net.build(), {.threads = 1});
  std::vector<float> x(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto out = n.output_shapes({{"x", shape}}).at("y");
  std::vector<T> y(static_cast<std::size_t>(element_count(out)));
  const DType dtype = n.network()[n.network().outputs[0]].dtype;
  EXPECT_EQ(size_of(dtype), sizeof(T));
  n.run({{"x", {x.data(), DType::f32, shape, {}}}}, {{"y", {y.data(), dtype, out, {}}}});
  return y;
}

TEST(TensorOperators, IntegersWrapAndDivideTowardZero) {
  NetworkBuilder net;
  net.input("x", {1});
  constexpr std::int64_t low = std::numeric_limits<std::int64_t>::min();
  const auto a = integers(net, {low, -7, low}, {3}), b = integers(net, {-1, 2, 1}, {3});
  net.output(net.apply(operators::Map{MapOp::div}, {a, b}), "y");
  EXPECT_EQ(run_ramp<std::int64_t>(net, {1}), (std::vector<std::int64_t>{low, -3, low}));
}

// y = 2·concat(2x, x·2x) of another type
void join(NetworkBuilder& net, DType dtype) {
  const auto a = net.apply(operators::Map{MapOp::cast, dtype}, {net.input("x", {2, 3})});
  const auto b = net.apply(operators::Map{MapOp::add}, {a, a}), c = net.apply(operators::Map{MapOp::mul}, {a, b});
  const auto joined = net.apply(operators::Concat{1}, {b, c});
  net.output(net.apply(operators::Map{MapOp::add}, {joined, joined}), "y");
}

// Elements of one and of eight bytes stand in one arena; their producers write into the concatenation
TEST(TensorOperators, ConcatenationsOfAnyTypeAreWrittenInPlace) {
  NetworkBuilder bytes, words;
  join(bytes, DType::u8);
  join(words, DType::i64);
  for (const NetworkBuilder* net : {&bytes, &words})
    EXPECT_EQ(compile(net->build(), {.threads = 1}).memory({{"x", {2, 3}}}).free_concats, 2);
  EXPECT_EQ(run_ramp<std::uint8_t>(bytes, {2, 3}),
            (std::vector<std::uint8_t>{0, 4, 8, 0, 4, 16, 12, 16, 20, 36, 64, 100}));
  EXPECT_EQ(run_ramp<std::int64_t>(words, {2, 3}),
            (std::vector<std::int64_t>{0, 4, 8, 0, 4, 16, 12, 16, 20, 36, 64, 100}));
}

TEST(TensorOperators, ErrorsOfARunNameTheOperator) {
  NetworkBuilder division;
  auto x = division.input("x", {2});
  const auto whole = division.apply(operators::Map{MapOp::cast, DType::i64}, {x});
  division.output(division.apply(operators::Map{MapOp::div}, {whole, whole}, "ratio"), "y");
  EXPECT_EQ(user_error([&] { run_ramp<std::int64_t>(division, {2}); }), "div 'ratio': integers are divided by 0");
  NetworkBuilder gather;
  x = gather.input("x", {3});
  gather.output(gather.apply(operators::Gather{0}, {x, integers(gather, {0, 3}, {2})}, "pick"), "y");
  EXPECT_THAT(user_error([&] { run_ramp<float>(gather, {3}); }), Says("gather 'pick': index 3 is outside … extent 3"));
}

TEST(TensorOperators, DtypesAreChecked) {
  NetworkBuilder net;
  const auto x = net.input("x", {2}), i = net.input("i", {2}, DType::i64);
  EXPECT_EQ(user_error([&] {
              net.apply(operators::Map{MapOp::add}, {x, i}, "sum");
            }),
            "add 'sum': input 'i' has elements of i64; expected f32 as of 'x'");
  EXPECT_EQ(user_error([&] { relu(i).named("r"); }), "relu 'relu_0': input 'i' has elements of i64; expected f32");
  EXPECT_EQ(user_error([&] { net.apply(operators::Map{MapOp::exp}, {i}, "e"); }),
            "exp 'e': input 'i' has elements of i64; expected f32 or f64");
  net.output(net.apply(operators::Map{MapOp::neg}, {i}), "y");
  const NetworkExecutable n = compile(net.build());
  std::vector<float> wrong(2);
  std::vector<std::int64_t> y(2);
  EXPECT_EQ(user_error([&] {
              n.run({{"x", {wrong.data(), DType::f32, {2}, {}}}, {"i", {wrong.data(), DType::f32, {2}, {}}}},
                    {{"y", {y.data(), DType::i64, {2}, {}}}});
            }),
            "input 'i' was given dtype f32; expected i64");
}

TEST(TensorOperators, ExtentsOfSymbols) {
  NetworkBuilder net;
  const auto x = net.input("x", {"n", 3, "h", "w"});
  const auto flat = net.apply(operators::Flatten{2}, {x});
  EXPECT_EQ(to_string(flat.shape()), "(n*3,h*w)");
  const auto back = net.apply(operators::ReshapeLike{}, {flat, x});
  EXPECT_EQ(back.shape(), x.shape());
  net.output(net.apply(operators::Concat{0},
                       {net.apply(operators::ShapeOf{0, 2}, {back}), net.apply(operators::ShapeOf{3, 4}, {back})}),
             "y");
  EXPECT_EQ(run_ramp<std::int64_t>(net, {2, 3, 4, 5}), (std::vector<std::int64_t>{2, 3, 5}));
}

TEST(TensorOperators, ReshapeTakesExtentsFromOtherPlaces) {
  NetworkBuilder net;
  const auto x = net.input("x", {"a", "b"});
  const auto y = reshape(x, {1, -2, -3});
  EXPECT_EQ(to_string(y.shape()), "(1,a,b)");
  net.output(y, "y");
  EXPECT_EQ(run_ramp<float>(net, {2, 3}), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(TensorOperators, ResizeLikeAnotherTensor) {
  NetworkBuilder net;
  const auto x = net.input("x", {1, 1, "h", "w"});
  const auto small = max_pool(x);
  operators::Resize r;
  r.height = r.width = -1;
  const auto y = net.apply(r, {small, x});
  EXPECT_EQ(y.shape(), x.shape());
  net.output(y, "y");
  EXPECT_EQ(run_ramp<float>(net, {1, 1, 2, 4}), (std::vector<float>{5, 5, 7, 7, 5, 5, 7, 7}));
}

TEST(TensorOperators, ChannelsLastIsNotSeen) {
  // slices, reductions and choices of rank 4 lie channels last in memory; the caller's order is (N,C,H,W)
  NetworkBuilder net;
  const auto x = net.input("x", {1, 2, 2, 2});
  const auto column = net.apply(operators::Slice{{1}, {2}, {1}, {3}}, {x});  // w = 1: 1 3 | 5 7
  const auto sum = net.apply(operators::Reduce{ReduceOp::sum, {2}, false}, {column});
  EXPECT_EQ(to_string(sum.shape()), "(1,2,1)");
  net.output(sum, "y");
  EXPECT_EQ(run_ramp<float>(net, {1, 2, 2, 2}), (std::vector<float>{4, 12}));
}

// An image that is cut into strips of two heights, for which oneDNN wants the filter in two formats
TEST(TensorOperators, StripsWithFiltersOfTheirOwn) {
  NetworkBuilder net;
  test::Random r(5);
  const auto x = net.input("x", {1, 192, 20, 30});
  const auto w = net.constant("w", {192, 192, 1, 1}, test::random_elements(r, 192 * 192, 0.1));
  net.output(relu(conv2d(x, w)), "y");
  const Network n = net.build();
  const test::HostTensors inputs{{"x", test::random_tensor(r, {1, 192, 20, 30})}};
  test::expect_agreement(n, inputs, test::run(compile(n, {.threads = 2}), inputs));
}

// Strips of output rows for which no row of the image is read: between others, at both ends, and all of them
TEST(TensorOperators, PaddingBeyondTheFilter) {
  test::Random r(9);
  struct Case {
    std::vector<std::int64_t> image;
    std::int64_t outputs, groups;
    ConvAttributes how;
  };
  for (const auto& [image, outputs, groups, how] :
       {Case{{2, 2, 3, 3}, 4, 1, {.pad = 120}}, Case{{1, 32, 3, 3}, 32, 32, {.pad = Margins(200, 0, 0, 1)}},
        Case{{1, 16, 4, 3}, 8, 1, {.pad = Margins(0, 2, 200, 0)}},
        Case{{1, 3, 5, 3}, 2, 1, {.stride = 3, .pad = 90, .dilation = 5}},
        Case{{1, 2, 3, 3}, 2, 1, {.stride = 100, .pad = 50}}})
    for (const bool biased : {false, true}) {
      NetworkBuilder net;
      const auto x = net.input("x", Shape(image.begin(), image.end()));
      const std::int64_t taps = how.stride.h == 100 ? 1 : 3, channels = image[1] / groups;
      const auto w = net.constant("w", {outputs, channels, taps, taps},
                                  test::random_elements(r, outputs * channels * taps * taps));
      ConvAttributes attributes = how;
      attributes.groups = groups;
      const auto y = biased ? conv2d(x, w, net.constant("b", {outputs}, test::random_elements(r, outputs)), attributes)
                            : conv2d(x, w, attributes);
      net.output(relu(y), "y");
      const Network n = net.build();
      const test::HostTensors inputs{{"x", test::random_tensor(r, image)}};
      test::expect_agreement(n, inputs, test::run(compile(n, {.threads = 2}), inputs));
    }
}

// By the definition written down twice: tables of taps, and a weight for every element
TEST(TensorOperators, ResampleAgreesWithTheReference) {
  test::Random r(7);
  for (int round = 0; round < 60; ++round) {
    operators::Resample how;
    how.mode = static_cast<ResizeMode>(r.below(3));
    how.coordinates = static_cast<ResizeCoordinates>(r.below(6));
    how.rounding = static_cast<NearestRounding>(r.below(4));
    how.exclude_outside = how.mode == ResizeMode::cubic && r.chance(0.3);
    how.antialias = how.mode != ResizeMode::nearest && how.coordinates != ResizeCoordinates::crop_and_resize &&
                    r.chance(0.3);  // not of a region of interest
    how.extrapolation = 7;
    std::vector<std::int64_t> shape;
    const auto rank = static_cast<std::size_t>(r.between(1, 4));
    for (std::size_t i = 0; i < rank; ++i) {
      shape.push_back(r.between(3, 5));
      const bool sized = r.chance(0.5);
      how.sizes.push_back(sized ? r.between(1, 7) : 0);
      how.scales.push_back(sized ? 0 : static_cast<double>(r.between(2, 9)) / 4);
      how.roi_begin.push_back(r.uniform(-0.1, 0.1));
      how.roi_end.push_back(r.uniform(0.9, 1.1));
    }
    if (how.coordinates != ResizeCoordinates::crop_and_resize && r.chance(0.3)) {
      how.rounded_sizes = true;
      for (std::size_t i = 0; i < rank; ++i) {
        how.scales[i] = r.uniform(0.3, 2.5);
        how.sizes[i] = std::max<std::int64_t>(1, std::llround(how.scales[i] * static_cast<double>(shape[i])));
      }
    }
    NetworkBuilder net;
    net.output(net.apply(how, {net.input("x", Shape(shape.begin(), shape.end()))}), "y");
    const Network n = net.build();
    const test::HostTensors inputs{{"x", test::random_tensor(r, shape)}};
    test::expect_agreement(n, inputs, test::run(compile(n, {.threads = 2}), inputs));
  }
}

TEST(TensorOperators, EmptyTensors) {
  NetworkBuilder net;
  const auto x = net.input("x", {2, 3});
  const auto none = net.apply(operators::Slice{{5}, {9}, {1}, {1}}, {x});
  EXPECT_EQ(to_string(none.shape()), "(2,0)");
  net.output(net.apply(operators::Reduce{ReduceOp::sum, {1}, false}, {relu(none)}), "y");
  EXPECT_EQ(run_ramp<float>(net, {2, 3}), (std::vector<float>{0, 0}));
  EXPECT_EQ(to_string(softmax(none).shape()), "(2,0)");
}

}  // namespace
}  // namespace unisono
