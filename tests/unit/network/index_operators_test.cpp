/// Operators that pick, place, count and order elements: small tables written by hand, for the executor and for the
/// float64 reference.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>

#include "cases.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::user_error;
using Floats = std::vector<float>;

NetworkValue indices(NetworkBuilder& net, std::vector<std::int64_t> x, Shape shape, DType dtype = DType::i64) {
  std::vector<std::byte> bytes;
  for (const std::int64_t i : x) {
    const auto narrow = static_cast<std::int32_t>(i);
    const auto wide_bytes = std::as_bytes(std::span(&i, 1)), narrow_bytes = std::as_bytes(std::span(&narrow, 1));
    const auto own = dtype == DType::i64 ? wide_bytes : narrow_bytes;
    bytes.insert(bytes.end(), own.begin(), own.end());
  }
  return net.constant("i", std::move(shape), dtype, std::move(bytes));
}

test::HostTensor ramp(std::vector<std::int64_t> shape) {
  test::HostTensor x{std::move(shape), {}};
  for (std::int64_t i = 0; i < element_count(x.shape); ++i) x.data.push_back(static_cast<float>(i));
  return x;
}

// The output as floats of the network that `build` makes of x; the float64 reference must agree
template <class F>
Floats result_for(test::HostTensor x, F build, int threads = 2) {
  NetworkBuilder net;
  NetworkValue y = build(net, net.input("x", Shape(x.shape.begin(), x.shape.end())));
  if (y.dtype() != DType::f32) y = net.apply(operators::Map{MapOp::cast, DType::f32}, {y});
  net.output(y, "y");
  const Network n = net.build();
  const test::HostTensors inputs{{"x", std::move(x)}}, outputs = test::run(compile(n, {.threads = threads}), inputs);
  if (!outputs.at("y").data.empty()) test::expect_agreement(n, inputs, outputs);
  return outputs.at("y").data;
}

template <class Kind, class... V>
auto with_indices(Kind kind, std::vector<std::int64_t> at, Shape shape, DType dtype = DType::i64) {
  return [=](NetworkBuilder& net, NetworkValue x) {
    return net.apply(kind, {x, indices(net, at, shape, dtype)}, "pick");
  };
}

template <class Kind>
auto scattered(Kind kind, std::vector<std::int64_t> at, Shape at_shape, Floats updates, Shape shape) {
  return [=](NetworkBuilder& net, NetworkValue x) {
    return net.apply(kind, {x, indices(net, at, at_shape), net.constant("u", shape, updates)}, "place");
  };
}

TEST(GatherElements, NamesOneAxis) {
  const operators::GatherElements columns{.axis = 1}, rows{.axis = 0};
  EXPECT_EQ(result_for(ramp({2, 3}), with_indices(columns, {2, -3, 0, 1}, {2, 2})), (Floats{2, 0, 3, 4}));
  EXPECT_EQ(result_for(ramp({2, 3}), with_indices(rows, {1, 0, -1}, {1, 3}, DType::i32)), (Floats{3, 1, 5}));
  // channels last: (1,2,1,2) by channel
  EXPECT_EQ(result_for(ramp({1, 2, 1, 2}), with_indices(columns, {1, 0, 0, 1, 1, 1}, {1, 3, 1, 2})),
            (Floats{2, 1, 0, 3, 2, 3}));
}

TEST(GatherElements, IndicesAreChecked) {
  const auto message = [](std::int64_t i) {
    return user_error([&] {
      result_for(ramp({2, 3}), with_indices(operators::GatherElements{.axis = 1}, {0, i}, {1, 2}));
    });
  };
  EXPECT_THAT(message(3), Says("gather_elements 'pick': index 3 is outside … extent 3"));
  EXPECT_THAT(message(-4), Says("gather_elements 'pick': index -4 is outside … extent 3"));
  EXPECT_EQ(message(std::numeric_limits<std::int64_t>::min()).substr(0, 36), "gather_elements 'pick': index -92233");
  EXPECT_EQ(user_error([&] {
              result_for(ramp({2, 3}), with_indices(operators::GatherElements{.axis = 1}, {0, 0, 0}, {3, 1}));
            }),
            "gather_elements 'pick': indices have shape (3,1), which is longer than (2,3) along axis 0");
}

// What a symbol left open at first is found by the run
TEST(GatherElements, ExtentsAreCheckedByTheRun) {
  NetworkBuilder net;
  net.output(
      net.apply(operators::GatherElements{.axis = 1}, {net.input("x", {"n", 3}), indices(net, {0, 0}, {2, 1})}, "pick"),
      "y");
  const NetworkExecutable n = compile(net.build(), {.threads = 1});
  EXPECT_EQ(test::run(n, {{"x", ramp({2, 3})}}).at("y").data, (Floats{0, 3}));
  EXPECT_EQ(user_error([&] {
              test::run(n, {{"x", ramp({1, 3})}});
            }),
            "gather_elements 'pick': indices have shape (2,1), which is longer than (1,3) along axis 0");
}

TEST(GatherND, TuplesNameAxes) {
  EXPECT_EQ(result_for(ramp({2, 3}), with_indices(operators::GatherND{}, {1, -1, 0, 0}, {2, 2})), (Floats{5, 0}));
  EXPECT_EQ(result_for(ramp({2, 3}), with_indices(operators::GatherND{}, {1}, {1, 1})), (Floats{3, 4, 5}));
  EXPECT_EQ(result_for(ramp({2, 2, 2}), with_indices(operators::GatherND{.batch = 1}, {1, 0}, {2, 1})),
            (Floats{2, 3, 4, 5}));
  EXPECT_THAT(user_error([&] {
                result_for(ramp({2, 3}), with_indices(operators::GatherND{}, {1, 3}, {1, 2}));
              }),
              Says("gather_nd 'pick': index 3 is outside … extent 3"));
  EXPECT_EQ(user_error([&] {
              result_for(ramp({2, 3}), with_indices(operators::GatherND{}, {1, 2, 0}, {1, 3}));
            }),
            "gather_nd 'pick': indices (1,3) name 3 axes after the first 0 of (2,3)");
}

TEST(ScatterElements, ReplacesAndReduces) {
  using R = ScatterReduction;
  const auto on = [&](R r) {
    return result_for(ramp({2, 2}),
                      scattered(operators::ScatterElements{1, r}, {1, 1, -2, 0}, {2, 2}, {10, -5, 7, 3}, {2, 2}));
  };
  EXPECT_EQ(on(R::none), (Floats{0, -5, 3, 3}));
  EXPECT_EQ(on(R::add), (Floats{0, 6, 12, 3}));
  EXPECT_EQ(on(R::mul), (Floats{0, -50, 42, 3}));
  EXPECT_EQ(on(R::max), (Floats{0, 10, 7, 3}));
  EXPECT_EQ(on(R::min), (Floats{0, -5, 2, 3}));
  EXPECT_THAT(user_error([&] {
                result_for(ramp({2, 2}), scattered(operators::ScatterElements{0}, {2}, {1, 1}, {1}, {1, 1}));
              }),
              Says("scatter_elements 'place': index 2 is outside … extent 2"));
}

TEST(ScatterElements, AMaximumWithNanIsNan) {
  const Floats y = result_for(
      ramp({3}), scattered(operators::ScatterElements{0, ScatterReduction::max}, {0, 1}, {2}, {NAN, 5}, {2}));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 5);
}

TEST(ScatterND, ReplacesAndReducesSlices) {
  using R = ScatterReduction;
  const auto on = [&](R r) {
    return result_for(ramp({3, 2}), scattered(operators::ScatterND{r}, {2, -1}, {2, 1}, {10, 1, 20, 9}, {2, 2}));
  };
  EXPECT_EQ(on(R::none), (Floats{0, 1, 2, 3, 20, 9}));
  EXPECT_EQ(on(R::add), (Floats{0, 1, 2, 3, 34, 15}));
  EXPECT_EQ(on(R::mul), (Floats{0, 1, 2, 3, 800, 45}));
  EXPECT_EQ(on(R::min), (Floats{0, 1, 2, 3, 4, 1}));
  EXPECT_EQ(on(R::max), (Floats{0, 1, 2, 3, 20, 9}));
  // single elements, channels last
  EXPECT_EQ(result_for(ramp({1, 2, 1, 2}), scattered(operators::ScatterND{}, {0, 1, 0, 0}, {1, 4}, {9}, {1})),
            (Floats{0, 1, 9, 3}));
  EXPECT_THAT(user_error([&] {
                result_for(ramp({3, 2}), scattered(operators::ScatterND{}, {0, -3}, {1, 2}, {1}, {1}));
              }),
              Says("scatter_nd 'place': index -3 is outside … extent 2"));
  EXPECT_EQ(user_error([&] {
              result_for(ramp({3, 2}), scattered(operators::ScatterND{}, {0, 1}, {2, 1}, {1, 1}, {2, 1}));
            }),
            "scatter_nd 'place': updates have shape (2,1); expected (2,2)");
}

TEST(ScatterND, IntegersWrap) {
  const auto y = result_for(ramp({2}), [](NetworkBuilder& net, NetworkValue x) {
    const auto bytes = net.apply(operators::Map{MapOp::cast, DType::u8}, {x});
    const auto update = net.constant("u", {2}, DType::u8, {std::byte{200}, std::byte{100}});
    return net.apply(operators::ScatterND{ScatterReduction::add}, {bytes, indices(net, {1, 1}, {2, 1}), update});
  });
  EXPECT_EQ(y, (Floats{0, 45}));
}

template <class Kind>
auto alone(Kind kind) {
  return [=](NetworkBuilder& net, NetworkValue x) { return net.apply(kind, {x}, "o"); };
}

TEST(Triangle, DiagonalsOfEveryPlace) {
  const auto part = [](bool upper, std::int64_t k) {
    return result_for(ramp({2, 3}), alone(operators::Triangle{upper, k}));
  };
  EXPECT_EQ(part(true, 0), (Floats{0, 1, 2, 0, 4, 5}));
  EXPECT_EQ(part(true, 1), (Floats{0, 1, 2, 0, 0, 5}));
  EXPECT_EQ(part(false, 0), (Floats{0, 0, 0, 3, 4, 0}));
  EXPECT_EQ(part(false, -1), (Floats{0, 0, 0, 3, 0, 0}));
  EXPECT_EQ(part(false, std::numeric_limits<std::int64_t>::max()), ramp({2, 3}).data);
  EXPECT_EQ(part(true, std::numeric_limits<std::int64_t>::max()), Floats(6, 0));
}

TEST(CumulativeSum, BothWaysWithAndWithoutItself) {
  const auto sums = [](int axis, bool exclusive, bool reverse) {
    return result_for(ramp({2, 3}), alone(operators::CumulativeSum{axis, exclusive, reverse}));
  };
  EXPECT_EQ(sums(1, false, false), (Floats{0, 1, 3, 3, 7, 12}));
  EXPECT_EQ(sums(1, true, false), (Floats{0, 0, 1, 0, 3, 7}));
  EXPECT_EQ(sums(1, false, true), (Floats{3, 3, 2, 12, 9, 5}));
  EXPECT_EQ(sums(1, true, true), (Floats{3, 2, 0, 9, 5, 0}));
  EXPECT_EQ(sums(0, false, false), (Floats{0, 1, 2, 3, 5, 7}));
}

TEST(TopK, TiesGoToTheFirst) {
  const auto places = [](Floats x, std::int64_t k, bool smallest) {
    return result_for({{static_cast<std::int64_t>(x.size())}, x}, alone(operators::TopK{0, k, smallest}));
  };
  EXPECT_EQ(places({1, 3, 3, 0, 3}, 4, false), (Floats{1, 2, 4, 0}));
  EXPECT_EQ(places({1, 0, 3, 0}, 3, true), (Floats{1, 3, 0}));
  EXPECT_EQ(places({1, NAN, INFINITY, 2}, 3, false), (Floats{1, 2, 3}));
  EXPECT_EQ(places({1, NAN, INFINITY, 2}, 3, true), (Floats{0, 3, 2}));
  EXPECT_EQ(user_error([&] { places({1, 2}, 3, false); }), "top_k 'o': k is 3; expected 0 to the extent 2 of axis 0");
  EXPECT_EQ(result_for(ramp({2, 2, 1, 1}), alone(operators::TopK{1, 1, false})), (Floats{1, 1}));
}

TEST(Range, CountsAnExtent) { EXPECT_EQ(result_for(ramp({2, 3}), alone(operators::Range{1})), (Floats{0, 1, 2})); }

Floats sampled(operators::GridSample how, Floats places, std::vector<std::int64_t> image) {
  const auto axes = static_cast<std::int64_t>(image.size()) - 2, n = std::ssize(places) / axes;
  return result_for(ramp(image), [&](NetworkBuilder& net, NetworkValue x) {
    Shape grid(image.size(), Dim(1));
    grid[1] = Dim(n), grid.back() = Dim(axes);
    return net.apply(how, {x, net.constant("g", grid, places)}, "g");
  });
}

// Samples an image of one row 0 1 2 3 at x = −0.5, 1.5, 3.5 and 4.5 pixels
TEST(GridSample, PaddingOfARow) {
  const Floats at{-1, 0, 0, 0, 1, 0, 1.5, 0};
  using M = GridMode;
  using P = GridPadding;
  EXPECT_EQ(sampled({M::linear, P::zeros, false}, at, {1, 1, 1, 4}), (Floats{0, 1.5, 1.5, 0}));
  EXPECT_EQ(sampled({M::linear, P::border, false}, at, {1, 1, 1, 4}), (Floats{0, 1.5, 3, 3}));
  EXPECT_EQ(sampled({M::linear, P::reflection, false}, at, {1, 1, 1, 4}), (Floats{0, 1.5, 3, 2.5}));
  EXPECT_EQ(sampled({M::nearest, P::zeros, false}, at, {1, 1, 1, 4}), (Floats{0, 2, 0, 0}));
  // with align_corners at 0, 1.5, 3 and 3.75
  EXPECT_EQ(sampled({M::linear, P::zeros, true}, at, {1, 1, 1, 4}), (Floats{0, 1.5, 3, 0.75}));
  EXPECT_EQ(sampled({M::linear, P::reflection, true}, at, {1, 1, 1, 4}), (Floats{0, 1.5, 3, 2.25}));
  // halfway between pixels: −3/32, 19/32, 19/32, −3/32
  EXPECT_EQ(sampled({M::cubic, P::zeros, true}, {0, 0}, {1, 1, 1, 4}), (Floats{1.5}));
  EXPECT_EQ(sampled({M::cubic, P::border, false}, {1, 0}, {1, 1, 1, 4}), (Floats{3.09375}));
}

TEST(GridSample, VolumesAndChannels) {
  EXPECT_EQ(sampled({GridMode::linear, GridPadding::zeros, true}, {0, 0, 0}, {1, 2, 2, 2, 2}), (Floats{3.5, 11.5}));
  EXPECT_EQ(sampled({GridMode::nearest, GridPadding::zeros, true}, {1, -1, 1}, {1, 1, 2, 2, 2}), (Floats{5}));
}

TEST(GridSample, PlacesThatAreNoNumbers) {
  const Floats at{NAN, 0, INFINITY, 0, -INFINITY, 0, 1e30f, 0};
  for (const GridMode mode : {GridMode::linear, GridMode::nearest, GridMode::cubic}) {
    EXPECT_EQ(sampled({mode, GridPadding::zeros, false}, at, {1, 1, 1, 4}), (Floats{0, 0, 0, 0}));
    EXPECT_EQ(sampled({mode, GridPadding::border, false}, at, {1, 1, 1, 4}), (Floats{3, 3, 0, 3}));
  }
}

// Halfway between the pixels of a row 0 1 0 1 … at 150000.25: a place of f32 would be off by up to 0.003
TEST(GridSample, Float64) {
  constexpr std::int64_t width = 3 << 16;
  test::HostTensor x{{1, 1, 1, width}, {}};
  for (std::int64_t i = 0; i < width; ++i) x.data.push_back(static_cast<float>(i % 2));
  for (const DType of : {DType::f32, DType::f64}) {
    const auto y = result_for(x, [&](NetworkBuilder& net, NetworkValue image) {
      const std::array<double, 2> at{300001.5 / width - 1, 0};
      const auto bytes = std::as_bytes(std::span(at));
      const NetworkValue grid = net.constant("g", {1, 1, 1, 2}, DType::f64, {bytes.begin(), bytes.end()});
      const NetworkValue in = of == DType::f32 ? image : net.apply(operators::Map{MapOp::cast, of}, {image});
      const NetworkValue sampled = net.apply(operators::GridSample{}, {in, grid}, "g");
      EXPECT_EQ(sampled.dtype(), of);
      return sampled;
    });
    EXPECT_EQ(y, Floats{0.25});
  }
  NetworkBuilder net;
  const NetworkValue image = net.input("x", {1, 1, 2, 2}, DType::i32), grid = net.input("g", {1, 1, 1, 2});
  EXPECT_EQ(user_error([&] {
              net.apply(operators::GridSample{}, {image, grid}, "o");
            }),
            "grid_sample 'o': input 'x' has elements of i32; expected f32 or f64");
}

TEST(IndexOperators, OfNoElements) {
  EXPECT_EQ(result_for(ramp({2, 3}), with_indices(operators::GatherElements{.axis = 1}, {}, {2, 0})), Floats{});
  EXPECT_EQ(result_for(ramp({2, 3}), with_indices(operators::GatherND{}, {}, {0, 1})), Floats{});
  EXPECT_EQ(result_for(ramp({2, 3}), scattered(operators::ScatterND{}, {}, {0, 1}, {}, {0, 3})), ramp({2, 3}).data);
  EXPECT_EQ(result_for(ramp({2, 3}), alone(operators::TopK{1, 0, false})), Floats{});
}

}  // namespace
}  // namespace unisono
