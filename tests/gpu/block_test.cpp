// The block shapes (convolution, bias, GroupNorm, SiLU), and statistics of values with a large mean.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "codegen/bounds.hpp"
#include "gpu/judges.hpp"
#include "gpu/kernels.hpp"
#include "gpu/options.hpp"
#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "runtime/cuda/driver.hpp"
#include "support/float_convert.hpp"

namespace unisono::gpu {
namespace {

// Data and reference of a block too large for the host: made and judged on the GPU
struct Block {
  Case c;
  Shape shape;
  std::size_t outputs;
  Buffer a, b, bias, gamma, beta, y;

  explicit Block(const Case& from)
      : c(from),
        shape(shape_of(from.conv)),
        outputs(static_cast<std::size_t>(element_count(shape_mn(Contraction(from.conv))))),
        a(2 * static_cast<std::size_t>(element_count(shape_a(Contraction(from.conv))))),
        b(2 * static_cast<std::size_t>(element_count(shape_b(Contraction(from.conv))))),
        bias(4 * static_cast<std::size_t>(from.conv.k)),
        gamma(bias.bytes()),
        beta(bias.bytes()),
        y(2 * outputs) {
    const float unit = std::sqrt(3.f), deep = std::sqrt(static_cast<float>(depth(Contraction(c.conv))));
    fill16(a, unit, c.seed);
    fill16(b, unit / deep, c.seed + 1);
    fill32(bias, 1, 0, c.seed + 2);
    fill32(gamma, 0.6f, 1, c.seed + 3);
    fill32(beta, 1, 0, c.seed + 4);
    wait(nullptr, "filling");
  }

  void fill16(const Buffer& to, float scale, std::uint64_t seed) {
    launch("unisono_fill16", striding, nullptr, to.address(), static_cast<unsigned long long>(to.bytes() / 2), scale,
           0.f, static_cast<unsigned long long>(seed), shape.type);
  }
  void fill32(const Buffer& to, float scale, float offset, std::uint64_t seed) {
    launch("unisono_fill32", striding, nullptr, to.address(), static_cast<unsigned long long>(to.bytes() / 4), scale,
           offset, static_cast<unsigned long long>(seed));
  }

  Arguments arguments() const {
    const Contraction contraction = c.conv;
    Arguments x;
    x.image = {a.data(), c.conv.dtype_x, shape_a(contraction), {}};
    x.filter = {b.data(), c.conv.dtype_w, shape_b(contraction), {}};
    x.operands["bias"] = {bias.data(), DType::f32, {c.conv.k}, {}};
    x.operands["gamma"] = {gamma.data(), DType::f32, {c.conv.k}, {}};
    x.operands["beta"] = {beta.data(), DType::f32, {c.conv.k}, {}};
    x.outputs["y"] = {y.data(), DType::bf16, shape_mn(contraction), {}};
    return x;
  }

  Verdict verdict(const families::Plan::Numerics& numerics) const {
    constexpr int groups = 32;
    const auto images = static_cast<std::size_t>(shape.n), channels = static_cast<std::size_t>(shape.k);
    const Buffer acc(8 * outputs), absolute(8 * outputs), statistics(16 * images * groups),
        range(8 * images * channels), result(sizeof(Verdict));
    launch("unisono_reference", outputs / 8, nullptr, shape, a.address(), b.address(), acc.address(),
           absolute.address());
    launch("unisono_statistics", 256 * images * groups, nullptr, shape, groups, 1e-5, acc.address(), bias.address(),
           statistics.address());
    launch("unisono_range", images * channels, nullptr, shape, std::max(1, numerics.kept_columns), acc.address(),
           bias.address(), range.address());
    Node silu;
    silu.op = Op::silu;
    silu.axes = axes::mn;
    const auto fast = codegen::fast_bound(silu);
    const bool keeps = numerics.kept_columns > 0;
    const BlockCheck check{groups,
                           accumulator_error(c.conv),
                           unit_roundoff(DType::bf16),
                           keeps ? 1.02 * unit_roundoff(DType::bf16) : 0,
                           fast.input + fast.relative,
                           fast.absolute};
    cuda::check(cuda::driver().cuMemsetD8Async(result.address(), 0, result.bytes(), nullptr), "clearing");
    launch("unisono_check_block", striding, nullptr, shape, check, acc.address(), absolute.address(),
           statistics.address(), range.address(), bias.address(), gamma.address(), beta.address(), y.address(),
           result.address());
    wait(nullptr, "the reference of " + c.describe(), 120);
    Verdict v{};
    result.download(&v);
    return v;
  }
};

// Where two results differ: which rows and channels, how many words of each, and the first few values.
std::string described_differences(const Buffer& first, const Buffer& second, std::int64_t channels) {
  std::vector<std::uint16_t> a(first.bytes() / 2), b(a.size());
  first.download(a.data()), second.download(b.data());
  std::map<std::size_t, int> rows, columns;
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const std::size_t row = i / static_cast<std::size_t>(channels), channel = i % static_cast<std::size_t>(channels);
    ++rows[row], ++columns[channel];
    if (++count <= 40)
      text += fmt::format(" ({}, {}): {} {}", row, channel, support::bf16_to_float(a[i]), support::bf16_to_float(b[i]));
  }
  return fmt::format("{} elements differ, of {} rows from {} to {} and {} channels from {} to {}:{}", count,
                     rows.size(), rows.begin()->first, rows.rbegin()->first, columns.size(), columns.begin()->first,
                     columns.rbegin()->first, text);
}

TEST(Block, ElevenShapesInOneLaunchEach) {
  for (const Case& c : block_cases()) {
    SCOPED_TRACE(c.describe());
    Block block(c);
    const Graph graph = graph_of(c);
    const Executable executable = compile(c.conv, graph, c.options);
    SCOPED_TRACE(executable.describe());
    const TestStream stream;
    const Launch launch = executable.bind(block.arguments());
    block.y.poison(stream.get());
    const TestGraph graph_of_launch(stream.get(), [&] { launch.enqueue(stream); });
    EXPECT_EQ(graph_of_launch.nodes(), 1u);
    EXPECT_EQ(graph_of_launch.kernel_nodes(), 1u);
    graph_of_launch.replay(stream.get());
    wait(stream.get(), c.describe());
    const lower::Lowered lowered = lower::lower(c.conv, graph, c.options, device().device).value();
    const Verdict v = block.verdict(lowered.plan().numerics);
    EXPECT_EQ(v.poisoned, 0u);
    EXPECT_EQ(v.wrong, 0u) << "of " << block.outputs << ", the first at " << v.worst_index;
    EXPECT_LE(v.worst, 1.f) << "times the tolerance";
    EXPECT_GT(v.worst, 0.f);
    const Buffer first(block.y.bytes());
    cuda::check(cuda::driver().cuMemcpyAsync(first.address(), block.y.address(), block.y.bytes(), stream.get()),
                "copying");
    block.y.poison(stream.get());
    graph_of_launch.replay(stream.get());
    wait(stream.get(), c.describe());
    EXPECT_EQ(differences(first.address(), block.y.address(), block.y.bytes(), stream.get()), 0u)
        << described_differences(first, block.y, c.conv.k);
    EXPECT_TRUE(block.y.guards_hold());
  }
}

// A difference from replay to replay is a race, however rare it is; other work on the GPU makes it likelier.
TEST(Block, ReplayAfterReplayHasTheSameBits) {
  for (const Case& c : block_cases()) {
    SCOPED_TRACE(c.describe());
    Block block(c);
    const Executable executable = compile(c.conv, graph_of(c), c.options);
    SCOPED_TRACE(executable.describe());
    const TestStream stream;
    const Launch launch = executable.bind(block.arguments());
    const TestGraph graph_of_launch(stream.get(), [&] { launch.enqueue(stream); });
    const Buffer first(block.y.bytes());
    for (int replay = 0; replay < options().replays / 50; ++replay) {
      block.y.poison(stream.get());
      graph_of_launch.replay(stream.get());
      if (replay == 0) {
        wait(stream.get(), c.describe());
        cuda::check(cuda::driver().cuMemcpyAsync(first.address(), block.y.address(), block.y.bytes(), stream.get()),
                    "copying");
        continue;
      }
      if (differences(first.address(), block.y.address(), block.y.bytes(), stream.get()) == 0) continue;
      ADD_FAILURE() << "replay " << replay << ": " << described_differences(first, block.y, c.conv.k);
      break;
    }
  }
}

// Statistics in float64 over the accumulators as float32 holds them, and what an element may be off: the accumulator
// itself may be rounded the other way (a step), its mean to the nearest (half a step) and merged (half a step); and the
// rounding of the output, in the modes that keep values in 16 bits also that of the centred value.
std::string judge_offset(const Outcome& o) {
  const Conv2d& conv = o.c.conv;
  const Extents e = extents(Contraction(conv));
  const bool per_pixel = o.c.text.find("layer_norm") != std::string::npos;
  const std::int64_t groups = per_pixel ? 1 : 16;
  const auto column = [&](const char* name, std::int64_t k) {
    return support::load(o.tensors.at(name).host.data(), k, DType::f32);
  };
  const std::int64_t pixels = per_pixel ? 1 : e.rows_per_image(), images = e.rows() / pixels, width = e.cols / groups;
  const double step = std::ldexp(1.0, std::ilogb(o.c.offset) - 23), u = unit_roundoff(DType::bf16);
  const bool keeps = o.numerics.kept_columns > 0;
  for (std::int64_t image = 0; image < images; ++image)
    for (std::int64_t group = 0; group < groups; ++group) {
      const auto value = [&](std::int64_t i) {
        const std::int64_t k = group * width + i % width;
        const double acc = o.acc.value[static_cast<std::size_t>((image * pixels + i / width) * e.cols + k)];
        return static_cast<double>(
            static_cast<float>(static_cast<double>(static_cast<float>(acc)) + column("bias", k)));
      };
      double mean = 0, variance = 0;
      const std::int64_t count = pixels * width;
      for (std::int64_t i = 0; i < count; ++i) mean += value(i) / static_cast<double>(count);
      for (std::int64_t i = 0; i < count; ++i)
        variance += (value(i) - mean) * (value(i) - mean) / static_cast<double>(count);
      const double rstd = 1 / std::sqrt(variance + 1e-12);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t k = group * width + i % width, at = (image * pixels + i / width) * e.cols + k;
        const double scale = rstd * column("gamma", k), centred = value(i) - mean;
        const double expected = centred * scale + column("beta", k);
        const double actual = support::load(o.tensors.at("y").host.data(), at, DType::bf16);
        // centred by the mean of a unit's channels in a tile: an accumulator is within 5 deviations, biases within 2√3
        const double kept = keeps ? u * (5 + 2 * std::sqrt(3.0)) * o.c.deviation : 0;
        // of a few values the mean moves by a step, too, and the deviation by up to a step
        const double few = per_pixel ? step * (1 + std::abs(centred) * rstd) : 0;
        const double before = std::abs(scale) * (2 * step + kept + few);
        if (!(std::abs(actual - expected) <= before + u * (std::abs(expected) + before)))
          return "element " + std::to_string(at) + " is " + std::to_string(actual) + " instead of " +
                 std::to_string(expected) + "\n";
      }
    }
  return "";
}

TEST(Block, Mean1000Deviation001) {
  const auto cases = offset_cases();
  EXPECT_GE(cases.size(), 6u);
  for (const Case& c : cases) {
    std::string problems;
    Testbed testbed(c);
    const Executable executable = testbed.compile();
    const Outcome outcome = testbed.run(executable, problems);
    EXPECT_EQ(problems + judge_offset(outcome), "") << c.describe() << "\n" << executable.describe();
  }
}

}  // namespace
}  // namespace unisono::gpu
