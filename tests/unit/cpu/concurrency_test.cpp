// The same bits for any number of threads, and several users at once.

#include <atomic>
#include <stdexcept>
#include <thread>

#include "unisono/builder.hpp"
#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

const std::string block =
    "operand bias[n] : f32\nh = acc + bias[n]\nstore silu(group_norm(h, groups=4)) as y : f32\nstore sum(h, over=m) as "
    "s\n";
const Conv2d convolution{.n = 2, .h = 33, .w = 29, .c = 8, .k = 16, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};

TEST(CpuConcurrency, BitsDoNotDependOnThreads) {
  RandomCase c = problem(convolution, block);
  std::string first;
  for (const int threads : {1, 2, 3, 7}) {
    const Executable kernel = compile(c.contraction, c.graph, options_of(c, threads));
    for (int repeat = 0; repeat < 3; ++repeat) {
      poison_outputs(c);
      kernel.run(c.arguments);
      if (first.empty()) first = output_bytes(c);
      ASSERT_EQ(output_bytes(c), first) << threads << " threads, run " << repeat;
    }
  }
}

TEST(CpuConcurrency, OneExecutableForSeveralUsers) {
  constexpr int users = 4;
  const RandomCase shared = problem(convolution, block);
  const Executable kernel = compile(shared.contraction, shared.graph, options_of(shared, 2));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int u = 0; u < users; ++u)
    threads.emplace_back([&, u] {
      RandomCase mine = problem(convolution, block, static_cast<std::uint64_t>(10 + u));
      kernel.run(mine.arguments);
      const std::string alone = output_bytes(mine);
      for (int i = 0; i < 5; ++i) {
        poison_outputs(mine);
        kernel.run(mine.arguments);
        if (output_bytes(mine) != alone) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// An exception of a user function comes out of run(), and the executable can be used again
TEST(CpuConcurrency, ExceptionsReachTheCaller) {
  GraphBuilder g;
  std::atomic<bool> fail{true};
  g.define(
      {.name = "fussy", .arity = 1, .returns_value = true, .cuda_source = {}, .cpu = [&](std::span<const double> x) {
         if (fail) throw std::runtime_error("fussy");
         return x[0];
       }});
  g.store(*g.call("fussy", {g.acc()}), DType::f32, "y");
  RandomCase c;
  c.contraction = convolution;
  c.graph = g.build();
  random_arguments(c, 1);
  const Executable kernel = compile(c.contraction, c.graph, options_of(c, 3));
  EXPECT_THROW(kernel.run(c.arguments), std::runtime_error);
  fail = false;
  expect_agreement(c, 3);
  EXPECT_NO_THROW(kernel.run(c.arguments));
}

// Effects: each element once, whatever the threads
TEST(CpuConcurrency, EffectsSeeEachElementOnce) {
  GraphBuilder g;
  std::atomic<std::int64_t> calls{0};
  g.define(
      {.name = "watch", .arity = 2, .returns_value = false, .cuda_source = {}, .cpu = [&](std::span<const double>) {
         ++calls;
         return 0.0;
       }});
  g.call("watch", {g.acc(), g.index(Coordinate::n)});
  RandomCase c;
  c.contraction = convolution;
  c.graph = g.build();
  random_arguments(c, 1);
  compile(c.contraction, c.graph, options_of(c, 3)).run(c.arguments);
  const Extents e = extents(c.contraction);
  EXPECT_EQ(calls, e.rows() * e.cols);
}

}  // namespace
}  // namespace unisono::test
