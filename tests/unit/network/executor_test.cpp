/// Whole networks against the float64 reference: random ones, and the corners of the executor.

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "cases.hpp"
#include "network/regions.hpp"
#include "network/storage.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::HostTensors;
using test::Random;
using test::user_error;

// Draws networks of images: convolutions, normalisations, activations, skips, pooling, resize, concatenations
class RandomNetwork {
 public:
  explicit RandomNetwork(std::uint64_t seed) : r_(seed) {}

  Network draw() {
    values_.push_back(net_.input("x", {"n", r_.between(1, 6), r_.between(4, 9), r_.between(4, 9)}));
    const int steps = r_.between(3, 14);
    for (int i = 0; i < steps; ++i) step();
    const int outputs = r_.between(1, 3);
    for (int i = 0; i < outputs; ++i) {
      const auto v = i == 0 ? values_.back() : r_.one_of(values_);
      net_.output(v, "y" + std::to_string(i));
    }
    return net_.build();
  }

 private:
  NetworkValue weights(Shape shape, double scale = 0.5) {
    std::int64_t n = 1;
    for (const Dim& d : shape) n *= d.value();
    return net_.constant("w", std::move(shape), test::random_elements(r_, n, scale));
  }
  static std::int64_t extent(NetworkValue v, int i) { return v.shape()[static_cast<std::size_t>(i)].value(); }
  std::int64_t channels(NetworkValue v) { return extent(v, 1); }

  void step() {
    const NetworkValue v = r_.chance(0.6) ? values_.back() : r_.one_of(values_);
    switch (r_.below(13)) {
      case 0:
      case 1: return keep(convolution(v));
      case 2: return keep(activation(v));
      case 3: return keep(normalised(v));
      case 4: return keep(residual(v));
      case 5: return keep(extent(v, 2) > 2 && extent(v, 3) > 2 ? pooled(v) : activation(v));
      case 6: return keep(extent(v, 2) * extent(v, 3) < 200 ? upsample(v, r_.chance(0.5) ? 2 : 1.5) : activation(v));
      case 7: return keep(concatenated(v));
      case 8: return keep(v * sigmoid(convolution1(global_average_pool(v), channels(v))));
      case 9: return keep(v * weights({channels(v), 1, 1}) + weights({1, channels(v), 1, 1}));
      case 10:
        return keep(pad(v, {0, r_.below(2), 1, 0}, {0, 0, 0, extent(v, 3) > 1 && r_.chance(0.5) ? -1 : 1}, 0.25));
      case 11: return keep(transposed(v));
      default: return keep(v + weights({extent(v, 2), extent(v, 3)}));  // a whole plane: expanded
    }
  }
  void keep(NetworkValue v) { values_.push_back(v); }

  NetworkValue convolution1(NetworkValue v, std::int64_t to) { return conv2d(v, weights({to, channels(v), 1, 1})); }
  NetworkValue convolution(NetworkValue v) {
    const std::int64_t to = r_.between(1, 8), c = channels(v);
    if (r_.chance(0.2)) return conv_transpose2d(v, weights({c, to, 2, 2}), {.stride = r_.between(1, 2)});
    if (r_.chance(0.15)) return conv2d(v, weights({c, 1, 3, 3}), {.pad = 1, .groups = c});
    return conv2d(v, weights({to, c, 3, 3}, 0.3), weights({to}), {.stride = r_.chance(0.2) ? 2 : 1, .pad = 1});
  }
  NetworkValue activation(NetworkValue v) {
    switch (r_.below(6)) {
      case 0: return relu(v);
      case 1: return mish(v);
      case 2: return v * tanh(softplus(v));
      case 3: return leaky_relu(v, 0.1);
      case 4: return clamp(v, -1, 1.5) - 0.5;
      default: return silu(v);
    }
  }
  NetworkValue normalised(NetworkValue v) {
    const std::int64_t c = channels(v);
    if (r_.chance(0.3)) return softmax(v);
    if (r_.chance(0.3)) return layer_norm(v + weights({c, 1, 1}, 2), {.scale = weights({c}), .eps = 0.1});
    const int groups = c % 2 == 0 && r_.chance(0.5) ? 2 : 1;
    return group_norm(v, {.groups = groups, .scale = weights({c}), .shift = weights({c}), .eps = 0.1});
  }
  NetworkValue residual(NetworkValue v) {
    for (const NetworkValue& other : values_)
      if (other.id() != v.id() && other.shape() == v.shape()) return r_.chance(0.5) ? v + other : v * other;
    return v + conv2d(v, weights({channels(v), channels(v), 3, 3}, 0.3), {.pad = 1});
  }
  NetworkValue pooled(NetworkValue v) {
    const PoolOptions o{
        .kernel = r_.between(2, 3), .stride = r_.between(1, 2), .pad = r_.below(2), .ceil_mode = r_.chance(0.3)};
    return r_.chance(0.5) ? max_pool(v, o) : average_pool(v, o);
  }
  NetworkValue concatenated(NetworkValue v) {
    std::vector<NetworkValue> parts{v};
    for (const NetworkValue& other : values_)
      if (other.shape()[2] == v.shape()[2] && other.shape()[3] == v.shape()[3] && parts.size() < 3 && r_.chance(0.6))
        parts.push_back(other);
    return channels(v) < 20 ? concat(parts) : activation(v);
  }
  NetworkValue transposed(NetworkValue v) {
    const std::int64_t c = channels(v), h = extent(v, 2), w = extent(v, 3);
    if (r_.chance(0.5)) return transpose(v, {0, 1, 3, 2});
    return reshape(gelu(reshape(v, {0, h, c * w})), {0, c, w, h});
  }

  Random r_;
  NetworkBuilder net_;
  std::vector<NetworkValue> values_;
};

HostTensors inputs_for(const Network& n, Random& r, std::int64_t batch) {
  HostTensors inputs;
  for (const TensorId id : n.inputs) {
    std::vector<std::int64_t> shape;
    for (const Dim& d : n[id].shape) shape.push_back(d.known() ? d.value() : batch);
    inputs[n[id].name] = test::random_tensor(r, shape);
  }
  return inputs;
}

TEST(Executor, RandomNetworksAgreeWithTheReference) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Network n = RandomNetwork(seed).draw();
    const NetworkExecutable fused = compile(n, {.threads = 2});
    Random r(seed);
    for (const std::int64_t batch : {2, 1}) {
      const HostTensors inputs = inputs_for(n, r, batch);
      test::expect_agreement(n, inputs, test::run(fused, inputs));
    }
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << to_string(n) << to_string(fused.report());
      return;
    }
  }
}

TEST(Executor, UnfusedAndWithoutReuseAgreeToo) {
  for (std::uint64_t seed = 1000; seed < 1030; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Network n = RandomNetwork(seed).draw();
    Random r(seed);
    const HostTensors inputs = inputs_for(n, r, 3);
    test::expect_agreement(n, inputs, test::run(compile(n, {.fuse = false}), inputs));
    // where memory lies changes nothing
    const HostTensors with = test::run(compile(n), inputs),
                      without = test::run(compile(n, {.reuse_memory = false}), inputs);
    for (const auto& [name, t] : with) EXPECT_EQ(t.data, without.at(name).data) << name;
  }
}

// Every pair of tensors in memory at the same time lies apart: by element, slices and strides included
TEST(Storage, TensorsInUseTogetherShareNoElement) {
  for (std::uint64_t seed = 2000; seed < 2200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Network given = RandomNetwork(seed).draw();
    const auto f = network::fuse(given);
    const Network& n = f.network;
    network::PlanKey key;
    for (const TensorId id : n.inputs) {
      key.inputs.push_back({});
      for (const Dim& d : n[id].shape) key.inputs.back().push_back(d.known() ? d.value() : 2);
      key.direct_inputs.push_back(false);
    }
    key.direct_outputs.assign(n.outputs.size(), false);
    key.planar_inputs.assign(n.inputs.size(), seed % 2 == 0);  // used where the caller has them, or copied
    key.planar_outputs.assign(n.outputs.size(), seed % 2 == 0);
    const auto plan = network::plan_storage(f, key, true);
    // step by step: who owns each byte of the arena
    std::vector<TensorId> owner(plan.arena_bytes, ~TensorId{0});
    const auto for_elements = [&](TensorId id, const auto& visit) {
      const auto& m = plan.memory[id];
      if (m.where != network::Memory::Where::arena || n[id].constant) return;
      const auto& sizes = plan.shapes[id];
      const std::int64_t columns = network::column_count(sizes), rows = element_count(sizes) / columns;
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        const auto element = static_cast<std::size_t>(i / columns * m.row_stride + i % columns);
        for (std::size_t byte = 0; byte < size_of(n[id].dtype); ++byte)
          visit(owner.at(m.index + m.offset + element * size_of(n[id].dtype) + byte));
      }
    };
    // a tensor may rightly hold what was written as a slice of it, or under the names that it is a view of
    const auto base_of = [&](TensorId written, TensorId read) {
      for (TensorId r = read;; r = f.placement[r]->base) {
        for (TensorId w = written;; w = f.placement[w]->base) {
          if (w == r) return true;
          if (w >= f.placement.size() || !f.placement[w]) break;
        }
        if (!f.placement[r] || f.placement[r]->slice) return false;
      }
    };
    for (const TensorId id : n.inputs) for_elements(id, [&](TensorId& o) { o = id; });
    const auto check = [&](TensorId id) {
      std::set<TensorId> intruders;
      for_elements(id, [&](TensorId& o) {
        if (o != id && !base_of(o, id)) intruders.insert(o);
      });
      EXPECT_TRUE(intruders.empty()) << n[id].name << " was overwritten by " << *intruders.begin() << "\n"
                                     << to_string(n) << to_string(explain(given));
    };
    for (const auto& region : f.regions) {
      std::set<TensorId> made;
      for (const std::size_t i : region.operators) {
        for (const TensorId id : network::data_inputs(n.operators[i]))
          if (!made.contains(id) && !n[id].constant && region.kind != RegionReport::Kind::free) check(id);
        made.insert(n.operators[i].output);
      }
      if (region.kind == RegionReport::Kind::free) continue;
      const auto* concat = std::get_if<operators::Concat>(&n.operators[region.operators[0]].kind);
      for (const auto& o : region.outputs)
        for_elements(o.tensor, [&](TensorId& e) {
          if (!(concat && base_of(e, o.tensor))) e = o.tensor;  // a partly copied concatenation leaves its slices alone
        });
    }
    for (const TensorId id : n.outputs) check(id);
  }
}

struct SmallNetwork : testing::Test {
  Network network = [] {
    Random r(9);
    NetworkBuilder net;
    auto x = net.input("x", {"n", 3, "h", "w"});
    auto w = net.constant("w", {4, 3, 3, 3}, test::random_elements(r, 108));
    auto h = mish(group_norm(conv2d(x, w, {.pad = 1}), {.groups = 2}));
    auto low = upsample(max_pool(h));
    net.output(sigmoid(concat({h, low})), "y");
    return net.build();
  }();
};

TEST_F(SmallNetwork, PlansAgainForOtherSizesAndForgetsTheOldest) {
  const NetworkExecutable run = compile(network, {.threads = 1, .cached_plans = 2});
  Random r(1);
  for (int round = 0; round < 2; ++round)
    for (const auto& shape : {std::vector<std::int64_t>{1, 3, 4, 6}, {2, 3, 8, 4}, {3, 3, 4, 4}, {1, 3, 4, 6}}) {
      const HostTensors inputs{{"x", test::random_tensor(r, shape)}};
      test::expect_agreement(network, inputs, test::run(run, inputs));
    }
}

TEST_F(SmallNetwork, RunsFromSeveralThreadsAtOnce) {
  const NetworkExecutable run = compile(network, {.threads = 2});
  Random r(2);
  std::vector<HostTensors> inputs, expected, got(8);
  for (int i = 0; i < 8; ++i) {
    inputs.push_back({{"x", test::random_tensor(r, {1 + i % 3, 3, 6, 6})}});
    expected.push_back(test::run(run, inputs.back()));
  }
  const NetworkExecutable fresh = compile(network, {.threads = 2});  // plans while others run
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) got[i] = test::run(fresh, inputs[i]);
    });
  for (auto& t : threads) t.join();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(got[i].at("y").data, expected[i].at("y").data);
}

TEST_F(SmallNetwork, ChannelsLastInterfaceGivesTheSameNumbers) {
  Random r(3);
  const HostTensors inputs{{"x", test::random_tensor(r, {2, 3, 4, 6})}};
  const auto expected = test::run(compile(network), inputs).at("y");
  test::HostTensor last{{2, 4, 6, 3}, std::vector<float>(144)};
  for (std::size_t i = 0; i < 144; ++i)  // i = ((n·4 + h)·6 + w)·3 + c
    last.data[i] = inputs.at("x").data[((i / 72) * 3 + i % 3) * 24 + i / 3 % 24];
  const NetworkExecutable run = compile(network, {.layout = Layout::nhwc});
  const auto got = test::run(run, {{"x", last}}).at("y");
  EXPECT_EQ(got.shape, (std::vector<std::int64_t>{2, 4, 6, 8}));
  for (std::size_t i = 0; i < got.data.size(); ++i)
    ASSERT_EQ(got.data[i], expected.data[((i / 192) * 8 + i % 8) * 24 + i / 8 % 24]) << i;
}

TEST_F(SmallNetwork, StridedViewsOfTheCaller) {
  Random r(4);
  const HostTensors inputs{{"x", test::random_tensor(r, {1, 3, 4, 4})}};
  const NetworkExecutable run = compile(network);
  const auto expected = test::run(run, inputs).at("y");
  std::vector<float> in(3 * 4 * 8), out(8 * 4 * 4 * 2, -7.f);  // rows of 8; every second element
  for (std::size_t i = 0; i < 48; ++i) in[i / 4 * 8 + i % 4] = inputs.at("x").data[i];
  run.run({{"x", {in.data(), DType::f32, {1, 3, 4, 4}, {96, 32, 8, 1}}}},
          {{"y", {out.data(), DType::f32, {1, 8, 4, 4}, {256, 32, 8, 2}}}});
  for (std::size_t i = 0; i < 128; ++i) {
    ASSERT_EQ(out[2 * i], expected.data[i]);
    ASSERT_EQ(out[2 * i + 1], -7.f);
  }
}

// Dense channels-first views are read and written as they are, wherever they begin; an output in the memory of the
// input is written when everything has been read
TEST_F(SmallNetwork, ChannelsFirstViewsNeedNoCopy) {
  Random r(5);
  NetworkBuilder net;
  auto x = net.input("x", {2, 3, 20, 24});
  auto h = conv2d(x, net.constant("w", {3, 3, 3, 3}, test::random_elements(r, 81)), {.pad = 1});
  net.output(mish(group_norm(h, {.groups = 3})), "y");
  const NetworkExecutable run = compile(net.build());
  const std::vector<std::int64_t> shape{2, 3, 20, 24};
  const std::vector<float> image = test::random_elements(r, 2880);
  std::vector<float> expected;
  for (const std::size_t offset : {0u, 1u, 5u}) {
    std::vector<float> given(2900), y(2900, -7.0f);
    std::copy(image.begin(), image.end(), given.begin() + static_cast<std::ptrdiff_t>(offset));
    std::vector<StepTime> steps;
    run.run({{"x", {given.data() + offset, DType::f32, shape, {}}}},
            {{"y", {y.data() + offset, DType::f32, shape, {}}}}, &steps);
    EXPECT_EQ(steps.size(), 1u) << steps.front().name;
    EXPECT_EQ(y[offset + 2880], -7.0f);
    const std::vector<float> result(y.begin() + static_cast<std::ptrdiff_t>(offset),
                                    y.begin() + static_cast<std::ptrdiff_t>(offset + 2880));
    if (expected.empty()) expected = result;
    EXPECT_EQ(result, expected) << "from " << offset << " on";
  }
  EXPECT_EQ(run.memory({{"x", shape}}).arena, 0u);
  std::vector<float> both = image;
  std::vector<StepTime> steps;
  run.run({{"x", {both.data(), DType::f32, shape, {}}}}, {{"y", {both.data(), DType::f32, shape, {}}}}, &steps);
  EXPECT_EQ(both, expected);
  EXPECT_EQ(steps.size(), 2u) << "the output is copied";
}

TEST_F(SmallNetwork, WrongArguments) {
  const NetworkExecutable run = compile(network);
  std::vector<float> x(3 * 16), y(8 * 16);
  const ConstTensorView in{x.data(), DType::f32, {1, 3, 4, 4}, {}};
  const TensorView out{y.data(), DType::f32, {1, 8, 4, 4}, {}};
  EXPECT_EQ(user_error([&] { run.run({}, {{"y", out}}); }), "input 'x' is missing; the network has x");
  EXPECT_THAT(user_error([&] { run.run({{"x", in}, {"z", in}}, {{"y", out}}); }), Says("no input 'z'; it has x"));
  EXPECT_EQ(user_error([&] { run.run({{"x", in}}, {}); }), "output 'y' is missing; the network has y");
  auto wrong = in;
  wrong.shape = {1, 4, 4, 3};
  EXPECT_EQ(user_error([&] {
              run.run({{"x", wrong}}, {{"y", out}});
            }),
            "input 'x' was given shape (1,4,4,3); expected (n,3,h,w)");
  wrong = in;
  wrong.dtype = DType::f64;
  EXPECT_EQ(user_error([&] { run.run({{"x", wrong}}, {{"y", out}}); }), "input 'x' was given dtype f64; expected f32");
  wrong = in;
  wrong.shape = {1, 3, 4, 5};  // the pooled and upsampled image has 4 columns, the other 5
  EXPECT_NE(user_error([&] { run.run({{"x", wrong}}, {{"y", out}}); }).find("concat"), std::string::npos);
  auto small = out;
  small.shape = {1, 8, 4, 3};
  EXPECT_EQ(user_error([&] {
              run.run({{"x", in}}, {{"y", small}});
            }),
            "output 'y' was given shape (1,8,4,3); expected (1,8,4,4)");
  EXPECT_EQ(user_error([&] { compile(network, {.cached_plans = 0}); }), "cached_plans is 0; expected at least 1");
}

TEST_F(SmallNetwork, ViewsThatCannotBeReadOrWritten) {
  const NetworkExecutable run = compile(network);
  std::vector<float> x(3 * 16), y(2 * 8 * 16, -5);
  const ConstTensorView in{x.data(), DType::f32, {1, 3, 4, 4}, {}};
  const auto refusal = [&](const std::vector<std::int64_t>& to) {
    return user_error([&] { run.run({{"x", in}}, {{"y", {y.data() + 128, DType::f32, {1, 8, 4, 4}, to}}}); });
  };
  EXPECT_EQ(refusal({128, -16, 4, 1}), "output 'y' was given strides (128,-16,4,1); expected none below 0");
  EXPECT_THAT(refusal({128, 0, 4, 1}),
              Says("output 'y' … strides (128,0,4,1) … shape (1,8,4,4): its elements overlap"));
  EXPECT_EQ(y, std::vector<float>(y.size(), -5));
}

// The planes from the last to the first, and the image that has them in that order
TEST_F(SmallNetwork, InputsMayLieBackwards) {
  const NetworkExecutable run = compile(network);
  std::vector<float> x(48), mirrored(48), y(128, -5), expected(128, -6);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i % 7), mirrored[(2 - i / 16) * 16 + i % 16] = x[i];
  const auto result = [&](const ConstTensorView& in, std::vector<float>& to) {
    run.run({{"x", in}}, {{"y", {to.data(), DType::f32, {1, 8, 4, 4}, {}}}});
  };
  result({x.data(), DType::f32, {1, 3, 4, 4}, {}}, expected);
  result({mirrored.data() + 32, DType::f32, {1, 3, 4, 4}, {48, -16, 4, 1}}, y);
  EXPECT_EQ(y, expected);
}

TEST(Executor, OutputsShareNoMemory) {
  NetworkBuilder net;
  const auto x = net.input("x", {2, 3, 4});
  net.output(relu(x), "p");
  net.output(x + x, "q");
  const NetworkExecutable run = compile(net.build());
  const std::vector<float> in(24, 1.5f);
  std::vector<float> both(48);
  const auto outputs = [&](std::int64_t offset, const std::vector<std::int64_t>& strides) {
    return std::map<std::string, TensorView>{{"p", {both.data(), DType::f32, {2, 3, 4}, strides}},
                                             {"q", {both.data() + offset, DType::f32, {2, 3, 4}, strides}}};
  };
  const auto run_to = [&](std::int64_t offset, const std::vector<std::int64_t>& strides) {
    run.run({{"x", {in.data(), DType::f32, {2, 3, 4}, {}}}}, outputs(offset, strides));
  };
  for (const std::int64_t offset : {0, 8, 23})
    EXPECT_EQ(user_error([&] { run_to(offset, {}); }), "output 'p' and output 'q' share memory; give each its own");
  run_to(24, {});
  const std::vector<float> dense = both;
  run_to(12, {24, 4, 1});  // the halves of the images of one tensor
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_EQ(both[i], i / 12 % 2 == 0 ? 1.5f : 3.0f) << i;
  run_to(1, {24, 8, 2});  // in turns
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_EQ(both[i], i % 2 == 0 ? 1.5f : 3.0f) << i;
  EXPECT_EQ(dense[0] + dense[24], 4.5f);
}

TEST_F(SmallNetwork, ProfileAndMemory) {
  const NetworkExecutable run = compile(network);
  std::vector<float> x(2 * 3 * 16), y(2 * 8 * 16);
  std::vector<StepTime> profile;
  run.run({{"x", {x.data(), DType::f32, {2, 3, 4, 4}, {}}}}, {{"y", {y.data(), DType::f32, {2, 8, 4, 4}, {}}}},
          &profile);
  std::vector<std::string> names;
  for (const auto& s : profile) names.push_back(s.name);
  EXPECT_EQ(names, (std::vector<std::string>{"mish_2", "max_pool_3", "resize_nearest_4", "y"}));
  const MemoryReport m = run.memory({{"x", {2, 3, 4, 4}}});
  EXPECT_EQ(m.free_concats, 2);
  EXPECT_EQ(m.constants, 432u);
  EXPECT_LT(m.arena, m.without_reuse);
}

TEST(Executor, ElementwiseWorkOverwritesWhatIsNoLongerNeeded) {
  NetworkBuilder net;
  auto x = net.input("x", {2, 3, 8, 8});
  net.output(upsample(relu(max_pool(x)) * 2), "y");
  const NetworkExecutable run = compile(net.build());
  EXPECT_EQ(run.memory({{"x", {2, 3, 8, 8}}}).in_place, 1);
  Random r(5);
  const HostTensors inputs{{"x", test::random_tensor(r, {2, 3, 8, 8})}};
  test::expect_agreement(run.network(), inputs, test::run(run, inputs));
}

// The pooled tensor is read again later, so it must survive
TEST(Executor, NothingThatIsReadLaterIsOverwritten) {
  NetworkBuilder net;
  auto x = net.input("x", {1, 2, 4, 4});
  auto p = max_pool(x);
  auto r = upsample(relu(p));
  auto raw = upsample(p);  // after the relu
  net.output(r + raw, "y");
  const NetworkExecutable run = compile(net.build());
  EXPECT_EQ(run.memory({{"x", {1, 2, 4, 4}}}).in_place, 0);
  Random random(6);
  const HostTensors inputs{{"x", test::random_tensor(random, {1, 2, 4, 4})}};
  test::expect_agreement(run.network(), inputs, test::run(run, inputs));
}

TEST(Executor, WeightsThatAreGivenAtEachRun) {
  NetworkBuilder net;
  auto x = net.input("x", {1, 2, 5, 5});
  auto w = net.input("w", {3, 2, 3, 3});
  net.output(relu(conv2d(x, w)), "y");
  const NetworkExecutable run = compile(net.build());
  Random r(7);
  const HostTensors inputs{{"x", test::random_tensor(r, {1, 2, 5, 5})}, {"w", test::random_tensor(r, {3, 2, 3, 3})}};
  test::expect_agreement(run.network(), inputs, test::run(run, inputs));
}

TEST(Executor, OperatorsOfOtherRanks) {
  NetworkBuilder net;
  Random r(8);
  auto a = net.input("a", {"n", 3, 4});
  auto w = net.constant("w", {4, 5}, test::random_elements(r, 20));
  auto h = layer_norm(gelu(gemm(a, w)), {.eps = 0.1});
  auto scalar = net.input("s", {});
  net.output(softmax(h * scalar), "y");
  net.output(exp(scalar), "e");
  net.output(transpose(h, {2, 0, 1}), "t");
  const NetworkExecutable run = compile(net.build());
  const HostTensors inputs{{"a", test::random_tensor(r, {2, 3, 4})}, {"s", test::random_tensor(r, {})}};
  test::expect_agreement(run.network(), inputs, test::run(run, inputs));
}

// Products whose right operand is larger than all else are cut by columns: a matrix product, and a convolution of
// single pixels. The bits do not depend on the threads, and memory that moves between runs is noticed.
TEST(Executor, FewRowsWithLargeWeights) {
  const auto make = [] {
    NetworkBuilder net;
    Random r(9);
    auto a = net.input("a", {3, 700});
    auto x = net.input("x", {1, 300, 5, 7});
    auto w = net.constant("w", {700, 330}, test::random_elements(r, 700 * 330, 0.1));
    auto filter = net.constant("filter", {300, 300, 1, 1}, test::random_elements(r, 300 * 300, 0.1));
    auto bias = net.constant("bias", {330}, test::random_elements(r, 330));
    net.output(softmax(gemm(a, w) + bias), "y");
    net.output(relu(conv2d(x, filter) + x), "z");
    return net.build();
  };
  const NetworkExecutable one = compile(make(), {.threads = 1}), three = compile(make(), {.threads = 3});
  Random r(10);
  std::vector<HostTensors> earlier;  // so that each run finds its tensors elsewhere
  for (int i = 0; i < 3; ++i) {
    const HostTensors inputs{{"a", test::random_tensor(r, {3, 700})}, {"x", test::random_tensor(r, {1, 300, 5, 7})}};
    const HostTensors outputs = test::run(one, inputs), others = test::run(three, inputs);
    test::expect_agreement(one.network(), inputs, outputs);
    for (const auto& [name, t] : outputs) EXPECT_EQ(t.data, others.at(name).data) << name;
    earlier.insert(earlier.end(), {inputs, outputs, others});
  }
}

// Operands with more digits than bf16 has are rounded only for a result that the model has in bf16, if the caller
// allows it and the processor multiplies bf16
TEST(ShortProducts, RoundWhereTheModelDoes) {
  constexpr float above_one = 1 + 0x1p-10f;
#ifdef __x86_64__
  const bool has_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
#else
  const bool has_bf16 = false;
#endif
  const auto largest = [&](DType type, bool allowed, bool is_image) {
    NetworkBuilder net;
    const Shape shape = is_image ? Shape{1, 32, 12, 12} : Shape{96, 32};
    std::vector<float> identity(32 * 32, 0.0f);
    for (std::size_t i = 0; i < 32; ++i) identity[33 * i] = 1;
    const NetworkValue w = net.constant("w", is_image ? Shape{32, 32, 1, 1} : Shape{32, 32}, identity);
    const NetworkValue x = net.input("x", shape);
    net.output(is_image ? net.apply(operators::Conv2d{}, {x, w}) : net.apply(operators::Gemm{}, {x, w}), "y");
    Network network = net.build();
    network.tensors[network.outputs[0]].short_type = type;
    test::HostTensor given{{}, {}};
    for (const Dim& d : shape) given.shape.push_back(d.value());
    given.data.assign(static_cast<std::size_t>(element_count(given.shape)), above_one);
    const test::HostTensors y = test::run(compile(network, {.threads = 1, .short_products = allowed}), {{"x", given}});
    return std::ranges::max(y.at("y").data);
  };
  for (const bool is_image : {false, true}) {
    EXPECT_EQ(largest(DType::bf16, true, is_image), has_bf16 ? 1.0f : above_one);
    EXPECT_EQ(largest(DType::bf16, false, is_image), above_one);
    EXPECT_EQ(largest(DType::f16, true, is_image), above_one);
    EXPECT_EQ(largest(DType::f32, true, is_image), above_one);
  }
}

// The gradient of a relu: it passes where the result was above 0
TEST(Executor, ChoosesWithinAContraction) {
  Random r(7);
  NetworkBuilder net;
  const NetworkValue g = net.input("g", {2, 8, 6, 6}), y = net.input("y", {2, 16, 6, 6});
  const NetworkValue w = net.constant("w", {16, 8, 3, 3}, test::random_elements(r, std::int64_t{16} * 8 * 9));
  const NetworkValue passed = net.apply(operators::Conv2d{{.pad = 1}}, {g, w}), zero = net.constant(0.0);
  const NetworkValue is_below = net.apply(operators::Map{.op = MapOp::less_equal, .to = DType::f32}, {y, zero});
  net.output(net.apply(operators::Map{.op = MapOp::select, .to = DType::f32}, {is_below, zero, passed}) * y, "z");
  const Network network = net.build();
  EXPECT_EQ(network::fuse(network, true).regions.size(), 1u);
  test::HostTensors inputs{{"g", test::random_tensor(r, {2, 8, 6, 6})}, {"y", test::random_tensor(r, {2, 16, 6, 6})}};
  for (std::size_t i = 0; i < inputs.at("y").data.size(); i += 3) inputs.at("y").data[i] = 0;
  test::expect_agreement(network, inputs, test::run(compile(network, {.threads = 2}), inputs));
}

// More places than stay bound, in turns
TEST(Executor, WritesWhereTheCallerSays) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {3, 4});
  net.output(relu(x * 2.0 - 1.0), "y");
  const NetworkExecutable network = compile(net.build(), {.threads = 1});
  std::vector<std::vector<float>> in, out(7, std::vector<float>(12, -1.0f));
  for (int i = 0; i < 5; ++i) in.emplace_back(12, 1.0f + static_cast<float>(i));
  for (std::size_t i = 0; i < 70; ++i) {
    std::vector<float>& to = out[i % out.size()];
    std::ranges::fill(to, -1.0f);
    network.run({{"x", {in[i % in.size()].data(), DType::f32, {3, 4}, {}}}},
                {{"y", {to.data(), DType::f32, {3, 4}, {}}}});
    EXPECT_EQ(to, std::vector<float>(12, 1.0f + 2 * static_cast<float>(i % in.size()))) << i;
  }
}

}  // namespace
}  // namespace unisono
