// What a network's enqueue refuses of the caller's streams and memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

// A classifier with its tensors in the GPU's memory
struct OnDevice {
  NetworkExecutable executable = compile(classifier(24, 10), on_gpu());
  HostTensors inputs = random_inputs({{"x", {2, 24, 5, 7}}}, 5), expected = run(executable, inputs);
  Buffer x{2 * 24 * 5 * 7 * 4}, p{2 * 10 * 4};
  TestStream stream;

  OnDevice() { x.upload(inputs.at("x").data.data()); }
  std::map<std::string, ConstTensorView> in() const { return {{"x", {x.data(), DType::f32, {2, 24, 5, 7}, {}}}}; }
  std::map<std::string, TensorView> out(void* to) const { return {{"p", {to, DType::f32, {2, 10}, {}}}}; }
  // What the call is refused with
  template <class Call>
  std::string refusal(const Call& call) {
    try {
      call();
    } catch (const UserError& e) {
      return e.what();
    }
    return "accepted";
  }
  void expect_served() {
    executable.enqueue(in(), out(p.data()), stream);
    wait(stream.get(), "a network");
    std::vector<float> result(20);
    p.download(result.data());
    EXPECT_EQ(result, expected.at("p").data);
  }
};

// A replay of the graph would run with whatever the network's tables hold by then
TEST(NetworkSmall, CapturesAreRefused) {
  OnDevice n;
  for (const bool enqueued_before : {false, true}) {
    std::string said;
    const TestGraph graph(
        n.stream.get(), [&] { said = n.refusal([&] { n.executable.enqueue(n.in(), n.out(n.p.data()), n.stream); }); });
    EXPECT_THAT(said, testing::HasSubstr("NetworkExecutable::enqueue was given a stream that is being captured"))
        << enqueued_before;
    EXPECT_EQ(graph.nodes(), 0u) << "nothing of it is in the graph";
    n.expect_served();
  }
}

// Tensors of the device, to the last byte
TEST(NetworkSmall, MemoryThatIsTooSmall) {
  OnDevice n;
  const cuda::Memory few(device(), 16, "sixteen bytes");
  auto* const at = reinterpret_cast<void*>(few.address());
  for (int i = 0; i < 2; ++i)  // what was refused is not remembered as bound
    EXPECT_THAT(n.refusal([&] { n.executable.enqueue(n.in(), n.out(at), n.stream); }),
                testing::AllOf(testing::HasSubstr("output p was given the address"),
                               testing::HasSubstr("16 bytes of its allocation are left"),
                               testing::HasSubstr("expected 80 bytes")));
  EXPECT_THAT(n.refusal([&] { n.executable.run(n.in(), n.out(at)); }), testing::HasSubstr("output p was given"));
  auto in = n.in();
  in.at("x").data = at;
  EXPECT_THAT(n.refusal([&] { n.executable.run(in, n.out(n.p.data())); }), testing::HasSubstr("input x was given"));
  n.expect_served();
}

}  // namespace
}  // namespace unisono::gpu
