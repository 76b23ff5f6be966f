/// What a region may write over: nothing that it, or a later one, still reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cases.hpp"
#include "ir/op_table.hpp"
#include "network/operand_view.hpp"
#include "network/regions.hpp"
#include "network/storage.hpp"
#include "support/broadcasts.hpp"
#include "view_network.hpp"

namespace unisono {
namespace {

using network::Memory;
using network::PlanKey;
using network::Sizes;
using network::StoragePlan;
using test::HostTensors;
using test::Random;
using test::ViewNetwork;

PlanKey key_of(const network::FusedNetwork& f, bool direct) {
  PlanKey key;
  for (const TensorId id : f.network.inputs) {
    key.inputs.push_back({});
    for (const Dim& d : f.network[id].shape) key.inputs.back().push_back(d.value());
  }
  key.direct_inputs.assign(f.network.inputs.size(), direct);
  key.planar_inputs.assign(f.network.inputs.size(), false);
  key.direct_outputs.assign(f.network.outputs.size(), direct);
  key.planar_outputs.assign(f.network.outputs.size(), false);
  return key;
}

// The addresses of all elements of a tensor, as (where, index, bytes from there)
using Address = std::tuple<int, std::size_t, std::size_t>;
std::map<Address, std::int64_t> addresses(const StoragePlan& plan, TensorId id) {
  std::map<Address, std::int64_t> all;
  const Memory& m = plan.memory[id];
  const Sizes& sizes = plan.shapes[id];
  const Sizes strides = network::memory_strides(m, sizes);
  const bool arena = m.where == Memory::Where::arena;
  std::int64_t number = 0;
  test::for_each_index(sizes, [&](const Sizes& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i) at += index[i] * strides[i];
    const std::size_t bytes = m.offset + static_cast<std::size_t>(at) * sizeof(float);
    all[{static_cast<int>(m.where), arena ? 0 : m.index, bytes + (arena ? m.index : 0)}] = number++;
  });
  return all;
}

bool reduces(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& x) {
    return ir::info(x.op).op_class != ir::OpClass::leaf && !ir::is_elementwise(x.op);
  });
}

// An element that a region writes is none that it reads, unless it is the same element of the tensor that it stands
// over and the region works element by element. What an input, a constant or an output holds is written by nobody else.
TEST(InPlace, NoRegionWritesOverWhatItReads) {
  int over = 0, operands = 0, views = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Network given = ViewNetwork(seed).draw();
    const auto f = network::fuse(given);
    for (const bool direct : {false, true}) {
      const StoragePlan plan = network::plan_storage(f, key_of(f, direct), true);
      for (const auto& placed : f.placement) views += placed && !placed->slice ? 1 : 0;
      for (const network::Region& r : f.regions) {
        if (r.kind != RegionReport::Kind::epilogue) continue;
        operands += static_cast<int>(r.operands.size());
        std::vector<TensorId> read;
        for (const network::RegionOperand& o : r.operands) read.push_back(o.tensor);
        for (const network::RegionOutput& o : r.outputs) {
          ASSERT_NE(plan.memory[o.tensor].where, Memory::Where::input);
          ASSERT_NE(plan.memory[o.tensor].where, Memory::Where::constant);
          const auto written = addresses(plan, o.tensor);
          for (const TensorId id : read)
            for (const auto& [address, number] : addresses(plan, id))
              ASSERT_FALSE(written.contains(address))
                  << "seed " << seed << ": '" << f.network[o.tensor].name << "' is written over the operand '"
                  << f.network[id].name << "'\n"
                  << to_string(given) << to_string(explain(given));
          if (!r.source) continue;
          for (const auto& [address, number] : addresses(plan, *r.source)) {
            const auto at = written.find(address);
            if (at == written.end()) continue;
            ++over;
            ASSERT_EQ(at->second, number) << "seed " << seed << ": another element\n" << to_string(given);
            ASSERT_FALSE(reduces(r.graph)) << "seed " << seed << ": a region that reduces\n" << to_string(given);
          }
        }
      }
    }
  }
  EXPECT_GT(over, 1000);
  EXPECT_GT(operands, 1000);
  EXPECT_GT(views, 200);
}

// And the numbers are right: with and without reuse, twice, so that an input or a constant that was written over shows
TEST(InPlace, NetworksOfViewsAgree) {
  int in_place = 0;
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Network n = ViewNetwork(seed).draw();
    Random r(seed);
    HostTensors inputs;
    std::map<std::string, Sizes> shapes;
    for (const TensorId id : n.inputs) {
      for (const Dim& d : n[id].shape) shapes[n[id].name].push_back(d.value());
      inputs[n[id].name] = test::random_tensor(r, shapes[n[id].name]);
    }
    const HostTensors given = inputs;
    const NetworkExecutable run = compile(n, {.threads = 2});
    in_place += run.memory(shapes).in_place;
    const HostTensors first = test::run(run, inputs), second = test::run(run, inputs);
    test::expect_agreement(n, inputs, first);
    for (const auto& [name, t] : given) EXPECT_EQ(t.data, inputs.at(name).data) << name << " was written over";
    for (const auto& [name, t] : first) EXPECT_EQ(t.data, second.at(name).data) << name << ": another run, other bits";
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << to_string(n) << to_string(run.report());
      return;
    }
  }
  EXPECT_GT(in_place, 10);
}

struct Over : testing::Test {
  Random random{31};
  NetworkBuilder net;

  NetworkValue full(const Sizes& s) { return net.constant("c", Shape(s.begin(), s.end()), elements(s)); }
  std::vector<float> elements(const Sizes& s) { return test::random_elements(random, element_count(s)); }
  static NetworkValue moved(NetworkValue v) { return max_pool(v, {.kernel = 1, .stride = 1}); }
  void check(int in_place) {
    const Network n = net.build();
    HostTensors inputs;
    std::map<std::string, Sizes> shapes;
    for (const TensorId id : n.inputs) {
      for (const Dim& d : n[id].shape) shapes[n[id].name].push_back(d.value());
      inputs[n[id].name] = test::random_tensor(random, shapes[n[id].name]);
    }
    const NetworkExecutable run = compile(n);
    EXPECT_EQ(run.memory(shapes).in_place, in_place) << to_string(run.report());
    for (int i = 0; i < 2; ++i) test::expect_agreement(n, inputs, test::run(run, inputs));
  }
};

// Beside operands of other shapes
TEST_F(Over, TheTensorThatIsReadLast) {
  const NetworkValue x = net.input("x", {2, 4, 3, 5}), s = net.input("s", {4, 1, 1}), t = net.input("t", {2, 1, 3, 5});
  net.output(upsample(moved(x) * s - moved(t)), "y");
  check(1);
}

// A reduction needs every element before the first is written
TEST_F(Over, NoSoftmax) {
  net.output(upsample(softmax(moved(net.input("x", {2, 4, 3, 5})))), "y");
  check(0);
}

TEST_F(Over, NoConstant) {
  net.output(upsample(full({2, 4, 3, 5}) * net.input("s", {4, 1, 1})), "y");
  check(0);
}

TEST_F(Over, NoInputAndNoOutput) {
  const NetworkValue x = net.input("x", {5, 5}), s = net.input("s", {5});
  const NetworkValue y = x * s;
  net.output(y, "y");
  net.output(transpose(relu(transpose(y, {1, 0}) * s), {1, 0}), "z");
  check(1);
}

// The pooled tensor is read as it was by a view of it, after a region over it
TEST_F(Over, NothingThatAViewReadsLater) {
  const NetworkValue p = moved(net.input("x", {2, 4, 1, 1}));
  const NetworkValue first = transpose(p * 2, {1, 0, 2, 3});
  net.output(reshape(p, {8}) + reshape(first, {8}), "y");
  check(0);
}

TEST_F(Over, NoPartOfAConcatenation) {
  const NetworkValue p = moved(net.input("x", {2, 4, 3, 5}));
  const NetworkValue q = relu(p), joined = concat({q, moved(q)});
  net.output(upsample(joined * joined), "y");
  net.output(upsample(q), "z");
  check(0);
}

// The same tensor over which a region stands is broadcast in a later one
TEST_F(Over, NothingThatIsBroadcastLater) {
  const NetworkValue p = moved(net.input("x", {1, 4, 1, 1}));
  const NetworkValue y = p * 3;
  net.output(upsample(y), "y");
  net.output(net.input("z", {2, 4, 3, 5}) * p, "w");
  check(0);
}

// A filter that is also joined with another tensor stays by itself
TEST_F(Over, NoFilterIsPartOfAConcatenation) {
  const NetworkValue w = relu(net.input("w", {3, 2, 3, 3}));
  net.output(max_pool(concat({w, w * 2}), {.kernel = 1, .stride = 1}), "both");
  net.output(conv2d(net.input("x", {1, 2, 5, 5}), w), "y");
  check(0);
}

// An output in the memory of an input that is read afterwards
TEST_F(Over, NoInputThatTheCallerReusesTooEarly) {
  const NetworkValue x = net.input("x", {6, 6});
  net.output(x * 2, "y");
  net.output(gemm(transpose(x, {1, 0}), full({6, 6})), "z");
  const Network n = net.build();
  const NetworkExecutable run = compile(n);
  const HostTensors inputs{{"x", test::random_tensor(random, {6, 6})}};
  const HostTensors expected = test::run(run, inputs);
  test::expect_agreement(n, inputs, expected);
  std::vector<float> both = inputs.at("x").data, z(36);
  run.run({{"x", {both.data(), DType::f32, {6, 6}, {}}}},
          {{"y", {both.data(), DType::f32, {6, 6}, {}}}, {"z", {z.data(), DType::f32, {6, 6}, {}}}});
  EXPECT_EQ(both, expected.at("y").data);
  EXPECT_EQ(z, expected.at("z").data);
}

}  // namespace
}  // namespace unisono
