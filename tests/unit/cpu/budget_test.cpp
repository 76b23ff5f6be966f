// Memory that a run would need and the process may not have: an error ahead of the first byte.

#include <gtest/gtest.h>

#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {
namespace {

TEST(Budget, IntermediatesBeyondTheMachine) {
  constexpr std::int64_t side = std::int64_t{1} << 18;
  NetworkBuilder net;
  const auto small = [](NetworkValue x) { return max_pool(x, {.kernel = 1, .stride = 1}); };
  net.output(small(small(net.input("x", {1, 64, side, side}))), "y");  // 16 TB each
  const NetworkExecutable run = compile(net.build(), {.threads = 1});
  float x = 0, y = 0;  // never looked at
  try {
    run.run({{"x", {&x, DType::f32, {1, 64, side, side}, {}}}}, {{"y", {&y, DType::f32, {1, 64, side, side}, {}}}});
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("bytes for these inputs, and this process may use"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace unisono
