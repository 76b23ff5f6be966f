// A run allocates nothing after its network was planned, but what oneDNN takes for the arguments of a primitive. A
// binary of its own, because it replaces operator new; the linker leads calls of oneDNN here (CMakeLists.txt).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>

#include "cases.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> allocations{0}, bytes{0};

thread_local bool in_onednn = false;

void* allocate(std::size_t size, std::size_t alignment) {
  if (counting && !in_onednn) ++allocations, bytes += size;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  if (void* p = std::aligned_alloc(alignment, rounded)) return p;
  throw std::bad_alloc();
}

}  // namespace

extern "C" int __real_dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments);
extern "C" int __wrap_dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  in_onednn = true;
  const int status = __real_dnnl_primitive_execute(primitive, stream, count, arguments);
  in_onednn = false;
  return status;
}

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace unisono {
namespace {

test::HostTensor ramp(std::vector<std::int64_t> shape) {
  test::HostTensor t{std::move(shape), {}};
  t.data.resize(static_cast<std::size_t>(element_count(t.shape)));
  std::iota(t.data.begin(), t.data.end(), 0.0f);
  for (float& x : t.data) x = x * 0x1p-16f - 0.5f;
  return t;
}

// The network that `build` makes of x, run with results in two places by turns: once both are known nothing is taken
void expect_nothing_taken(const char* what, std::vector<std::int64_t> shape,
                          const std::function<NetworkValue(NetworkBuilder&, NetworkValue)>& build) {
  const test::HostTensor x = ramp(std::move(shape));
  NetworkBuilder net;
  net.output(build(net, net.input("x", Shape(x.shape.begin(), x.shape.end()))), "y");
  const Network network = net.build();
  for (const int threads : {1, 4}) {
    const NetworkExecutable run = compile(network, {.threads = threads});
    const auto y_shape = run.output_shapes({{"x", x.shape}}).at("y");
    const std::vector<std::byte> zeros(static_cast<std::size_t>(element_count(y_shape)) * sizeof(std::int64_t));
    std::array<std::vector<std::byte>, 2> y{zeros, zeros};
    const std::map<std::string, ConstTensorView> in{{"x", {x.data.data(), DType::f32, x.shape, {}}}};
    const auto out_of = [&](std::vector<std::byte>& memory) {
      return std::map<std::string, TensorView>{{"y", {memory.data(), network[network.outputs[0]].dtype, y_shape, {}}}};
    };
    const std::array<std::map<std::string, TensorView>, 2> out{out_of(y[0]), out_of(y[1])};
    for (std::size_t i = 0; i < 4; ++i) run.run(in, out[i % 2]);
    // a thread of the pool that takes part in these tensors' runs for the first time makes its machine
    // (TiledExecutable::run_stage), and which threads do is chance: of several runs, that of the fewest
    std::size_t fewest = std::numeric_limits<std::size_t>::max(), of_these = 0;
    for (std::size_t i = 0; i < (threads == 1 ? 2 : 16) && fewest > 0; ++i) {
      allocations = bytes = 0;
      counting = true;
      run.run(in, out[i % 2]);
      counting = false;
      if (allocations < fewest) fewest = allocations, of_these = bytes;
    }
    EXPECT_EQ(y[0], y[1]) << what;
    EXPECT_EQ(fewest, 0u) << of_these << " bytes for " << what << ", " << threads << " threads";
  }
}

NetworkValue weights(NetworkBuilder& net, const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (const Dim& d : shape) extents.push_back(d.value());
  return net.constant("w", shape, ramp(extents).data);
}

TEST(RunMemory, OfContractions) {
  expect_nothing_taken("conv2d", {2, 16, 24, 24}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::Conv2d{}, {x, weights(net, {8, 16, 3, 3})});
  });
  expect_nothing_taken("gemm", {96, 128}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::Gemm{}, {x, weights(net, {128, 64})});
  });
}

TEST(RunMemory, OfBatchedProducts) {
  // x·xᵀ, of which oneDNN reads a copy where neither rows nor columns are contiguous
  expect_nothing_taken("matmul", {8, 6, 64, 32}, [](NetworkBuilder& net, NetworkValue x) {
    const NetworkValue rows = net.apply(operators::Slice{{0}, {64}, {2}, {2}}, {x});
    const NetworkValue odd = net.apply(operators::Slice{{1}, {32}, {2}, {3}}, {rows});
    return net.apply(operators::MatMul{}, {odd, net.apply(operators::Transpose{{0, 1, 3, 2}}, {odd})});
  });
}

TEST(RunMemory, OfVolumes) {
  const operators::Conv3d conv{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1, false};
  expect_nothing_taken("conv3d", {1, 8, 12, 16, 16}, [&](NetworkBuilder& net, NetworkValue x) {
    return net.apply(conv, {x, weights(net, {8, 8, 3, 3, 3})});
  });
  expect_nothing_taken("conv3d with a computed filter", {8, 8, 3, 3, 3}, [&](NetworkBuilder& net, NetworkValue x) {
    return net.apply(conv, {weights(net, {1, 8, 12, 16, 16}), net.apply(operators::Elementwise{.op = Op::relu}, {x})});
  });
}

TEST(RunMemory, OfWhatResamplesAndOrders) {
  operators::Resample linear;
  linear.mode = ResizeMode::linear;
  linear.scales = {1, 1, 2, 2, 0.5};
  linear.sizes = {0, 0, 0, 0, 0};
  expect_nothing_taken("resample", {1, 4, 12, 12, 12},
                       [&](NetworkBuilder& net, NetworkValue x) { return net.apply(linear, {x}); });
  expect_nothing_taken("top_k", {8, 4096}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::TopK{.axis = 1, .count = 1000}, {x});
  });
  expect_nothing_taken("reduce", {8, 64, 64}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::Reduce{.op = ReduceOp::log_sum_exp, .axes = {1}}, {x});
  });
  expect_nothing_taken("cumulative_sum", {8, 64, 64}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::CumulativeSum{.axis = 1}, {x});
  });
}

TEST(RunMemory, OfRegions) {
  expect_nothing_taken("a block", {2, 16, 24, 24}, [](NetworkBuilder& net, NetworkValue x) {
    const NetworkValue h = conv2d(x, weights(net, {16, 16, 3, 3}), {.pad = 1});
    return max_pool(mish(group_norm(h, {.groups = 4})) + x, {.kernel = 2, .stride = 2});
  });
  expect_nothing_taken("softmax", {64, 64}, [](NetworkBuilder& net, NetworkValue x) {
    return softmax(net.apply(operators::Gemm{}, {x, weights(net, {64, 64})}));
  });
}

// What moves elements, by itself
TEST(RunMemory, OfMoves) {
  const auto expect_alone = [](const char* what, const OperatorKind& kind) {
    expect_nothing_taken(what, {4, 6, 8, 10}, [&](NetworkBuilder& net, NetworkValue x) {
      return net.apply(kind, {net.apply(operators::Map{.op = MapOp::floor}, {x})});
    });
  };
  expect_alone("transpose", operators::Transpose{{3, 1, 0, 2}});
  expect_alone("reshape", operators::Reshape{{10, 8, 6, 4}});
  expect_alone("slice", operators::Slice{{1}, {6}, {2}, {2}});
  expect_alone("tile", operators::Tile{{1, 2, 1, 3}});
  expect_alone("pad", operators::Pad{{0, 1, 0, 2}, {0, 0, 1, 0}});
  expect_alone("reflect", operators::Pad{{0, 1, 0, 2}, {0, 0, 1, 0}, 0, PadMode::reflect});
  expect_alone("triangle", operators::Triangle{});
  expect_alone("range", operators::Range{.axis = 1});
  expect_alone("shape", operators::ShapeOf{0, 4});
  expect_alone("arg_max", operators::ArgReduce{.axis = 2});
  expect_alone("reduce_sum", operators::Reduce{.op = ReduceOp::sum, .axes = {1, 3}});
  expect_alone("reduce_max", operators::Reduce{.op = ReduceOp::max, .axes = {3}, .keep = true});
  expect_alone("resize", operators::Resize{.scale_h = 2, .scale_w = 2});
  expect_alone("cast", operators::Map{.op = MapOp::cast, .to = DType::i64});
  expect_alone("global_average_pool", operators::GlobalAveragePool{});
  expect_nothing_taken("concat", {4, 6, 8, 10}, [](NetworkBuilder&, NetworkValue x) { return concat({x, -x}); });
  expect_nothing_taken("depth_to_space", {2, 8, 5, 6}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::DepthToSpace{.block = 2}, {x});
  });
}

TEST(RunMemory, OfIndices) {
  const auto places = [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::Map{.op = MapOp::cast, .to = DType::i64}, {x});
  };
  expect_nothing_taken("gather", {8, 8}, [&](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::Gather{.axis = 1}, {x, places(net, x)});
  });
  expect_nothing_taken("gather_elements", {8, 8}, [&](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::GatherElements{.axis = 1}, {x, places(net, x)});
  });
  expect_nothing_taken("gather_nd", {8, 2}, [&](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::GatherND{}, {x, places(net, x)});
  });
  expect_nothing_taken("scatter_elements", {8, 8}, [&](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::ScatterElements{.axis = 1, .reduction = ScatterReduction::add}, {x, places(net, x), x});
  });
  expect_nothing_taken("scatter_nd", {8, 1}, [&](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::ScatterND{}, {x, places(net, x), x});
  });
  expect_nothing_taken("grid_sample", {2, 6, 6, 2}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::GridSample{}, {weights(net, {2, 3, 7, 8}), x});
  });
  expect_nothing_taken("select", {8, 8}, [](NetworkBuilder& net, NetworkValue x) {
    return net.apply(operators::Map{.op = MapOp::select},
                     {net.apply(operators::Map{.op = MapOp::less}, {x, -x}), x, -x});
  });
}

TEST(RunMemory, OfPools) {
  const operators::PoolNd largest{
      .kernel = {2, 2, 2}, .stride = {2, 2, 2}, .dilation = {1, 1, 1}, .before = {0, 0, 0}, .after = {0, 0, 0}};
  operators::PoolNd mean = largest;
  mean.average = true;
  for (const auto& pool : {largest, mean})
    expect_nothing_taken("pool", {1, 4, 8, 8, 8},
                         [&](NetworkBuilder& net, NetworkValue x) { return net.apply(pool, {x}); });
}

TEST(RunMemory, OfRecurrence) {
  for (const RecurrentCell cell : {RecurrentCell::gru, RecurrentCell::lstm}) {
    operators::Recurrence steps;
    steps.cell = cell;
    steps.functions.resize(static_cast<std::size_t>(functions_of(cell)));
    expect_nothing_taken("recurrence", {20, 16, gates_of(cell) * 128}, [&](NetworkBuilder& net, NetworkValue x) {
      return net.apply(steps, {x, weights(net, {1, 128, gates_of(cell) * 128})});
    });
  }
}

}  // namespace
}  // namespace unisono
