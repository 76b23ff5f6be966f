// What a run allocates after its network was planned. A binary of its own, because it replaces operator new.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>

#include "cases.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> largest{0}, bytes{0};

void* allocate(std::size_t size, std::size_t alignment) {
  if (counting) {
    bytes += size;
    std::size_t before = largest;
    while (before < size && !largest.compare_exchange_weak(before, size)) {
    }
  }
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  if (void* p = std::aligned_alloc(alignment, rounded)) return p;
  throw std::bad_alloc();
}

}  // namespace

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

// Shapes, tasks and the like, whatever the extents of tensors are
constexpr std::size_t most_block = 512, most_bytes = std::size_t{64} << 10;

test::HostTensor ramp(std::vector<std::int64_t> shape) {
  test::HostTensor t{std::move(shape), {}};
  t.data.resize(static_cast<std::size_t>(element_count(t.shape)));
  std::iota(t.data.begin(), t.data.end(), 0.0f);
  for (float& x : t.data) x = x * 0x1p-16f - 0.5f;
  return t;
}

// The network that `build` makes of x, run three times: the third time nothing that grows with its tensors is taken
void expect_nothing_taken(const char* what, std::vector<std::int64_t> shape,
                          const std::function<NetworkValue(NetworkBuilder&, NetworkValue)>& build) {
  const test::HostTensor x = ramp(std::move(shape));
  NetworkBuilder net;
  net.output(build(net, net.input("x", Shape(x.shape.begin(), x.shape.end()))), "y");
  const Network network = net.build();
  for (const int threads : {1, 4}) {
    const NetworkExecutable run = compile(network, {.threads = threads});
    const auto y_shape = run.output_shapes({{"x", x.shape}}).at("y");
    std::vector<std::byte> y(static_cast<std::size_t>(element_count(y_shape)) * sizeof(std::int64_t));
    const std::map<std::string, ConstTensorView> in{{"x", {x.data.data(), DType::f32, x.shape, {}}}};
    const std::map<std::string, TensorView> out{{"y", {y.data(), network[network.outputs[0]].dtype, y_shape, {}}}};
    for (int i = 0; i < 2; ++i) run.run(in, out);
    largest = bytes = 0;
    counting = true;
    run.run(in, out);
    counting = false;
    EXPECT_LE(largest, most_block) << what << ", " << threads << " threads";
    EXPECT_LE(bytes, most_bytes) << what << ", " << threads << " threads";
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

}  // namespace
}  // namespace unisono
