/// Convolutions of volumes beside their definition in double.

#include "runtime/cpu/ops/conv3d.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace unisono::cpu {
namespace {

struct Case {
  std::int64_t images, in, out;
  Extents64 extent, taps;
  Volumes v;
};

std::vector<float> random_floats(std::int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = uniform(random);
  return values;
}

class VolumeConvolution {
 public:
  explicit VolumeConvolution(const Case& c) : c_(c) {
    const Volumes& v = c.v;
    x.shape = {c.images, c.in}, y.shape = {c.images, c.out};
    w.shape = v.transposed ? Extents64{c.in, c.out / v.groups} : Extents64{c.out, c.in / v.groups};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t reach = v.dilation[i] * (c.taps[i] - 1) + 1;
      x.shape.push_back(c.extent[i]);
      w.shape.push_back(c.taps[i]);
      y.shape.push_back(v.transposed
                            ? (c.extent[i] - 1) * v.stride[i] + reach - v.before[i] - v.after[i] + v.output_pad[i]
                            : (c.extent[i] + v.before[i] + v.after[i] - reach) / v.stride[i] + 1);
    }
    for (Strided* t : {&x, &w, &y}) t->strides = dense_strides(t->shape);
  }

  // An output element is a sum over the taps of what lies under them; a transposed one scatters instead
  std::vector<double> expected(const std::vector<float>& from, const std::vector<float>& filter,
                               const std::vector<float>& bias) const {
    std::vector<double> sums(static_cast<std::size_t>(count_of(y.shape)));
    const std::int64_t pixels = y.shape[2] * y.shape[3] * y.shape[4];
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = bias.empty() ? 0 : bias[i / static_cast<std::size_t>(pixels) % bias.size()];
    const std::int64_t in = c_.in / c_.v.groups, out = c_.out / c_.v.groups;
    const Extents64 space{c_.images,   c_.v.groups, in,         out,        walked()[2],
                          walked()[3], walked()[4], c_.taps[0], c_.taps[1], c_.taps[2]};
    Extents64 at(space.size(), 0);
    for (std::int64_t i = 0; i < count_of(space); ++i) {
      std::int64_t rest = i;
      for (std::size_t d = space.size(); d-- > 0; rest /= space[d]) at[d] = rest % space[d];
      add_product(at, from, filter, sums);
    }
    return sums;
  }

  Strided x, w, y;

 private:
  // Whose pixels are walked over: those of the result, or those that a transposed convolution scatters
  const Extents64& walked() const { return c_.v.transposed ? x.shape : y.shape; }

  void add_product(const Extents64& at, const std::vector<float>& from, const std::vector<float>& filter,
                   std::vector<double>& sums) const {
    const Volumes& v = c_.v;
    const std::int64_t in = at[1] * (c_.in / v.groups) + at[2], out = at[1] * (c_.out / v.groups) + at[3];
    std::int64_t xi = at[0] * x.strides[0] + in * x.strides[1], yi = at[0] * y.strides[0] + out * y.strides[1];
    std::int64_t wi =
        v.transposed ? in * w.strides[0] + at[3] * w.strides[1] : out * w.strides[0] + at[2] * w.strides[1];
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t here = at[4 + d], tap = at[7 + d];
      const std::int64_t there = here * v.stride[d] + tap * v.dilation[d] - v.before[d];
      const Strided &small = v.transposed ? x : y, &large = v.transposed ? y : x;
      if (there < 0 || there >= large.shape[2 + d]) return;
      (v.transposed ? xi : yi) += here * small.strides[2 + d];
      (v.transposed ? yi : xi) += there * large.strides[2 + d];
      wi += tap * w.strides[2 + d];
    }
    sums[static_cast<std::size_t>(yi)] +=
        static_cast<double>(from[static_cast<std::size_t>(xi)]) * filter[static_cast<std::size_t>(wi)];
  }

  const Case& c_;
};

void expect_right(const Case& c, bool has_bias, bool constant_filter, int runs = 2) {
  std::mt19937_64 random(static_cast<unsigned>(c.in * 1000 + c.out));
  const VolumeConvolution p(c);
  const Conv3d conv(c.v, p.x, p.w, has_bias, p.y, constant_filter);
  const std::vector<float> bias = has_bias ? random_floats(c.out, random) : std::vector<float>{};
  const Parallel backwards = [](std::int64_t count, const auto& body) {  // one by one, the last first
    for (std::int64_t i = count; i-- > 0;) body(i, i + 1);
  };
  const std::vector<float> fixed = random_floats(count_of(p.w.shape), random);
  const AlignedBuffer scratch(conv.scratch_bytes(1));
  std::vector<float> first;
  for (int run = 0; run < runs; ++run) {
    const std::vector<float> x = random_floats(count_of(p.x.shape), random);
    const std::vector<float> w = constant_filter ? fixed : random_floats(count_of(p.w.shape), random);
    std::vector<float> y(static_cast<std::size_t>(count_of(p.y.shape)), NAN), again = y;
    conv.run(x.data(), w.data(), has_bias ? bias.data() : nullptr, y.data(), serial, {scratch.data(), 1});
    conv.run(x.data(), w.data(), has_bias ? bias.data() : nullptr, again.data(), backwards, {scratch.data(), 1});
    EXPECT_EQ(y, again) << "bits do not depend on who computes what";
    const std::vector<double> expected = p.expected(x, w, bias);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 2e-5) << "element " << i;
  }
}

const Extents64 ones{1, 1, 1}, zeros{0, 0, 0};

TEST(Conv3d, ComputesWhatItsDefinitionSays) {
  const std::vector<Case> cases{
      {2, 5, 7, {4, 5, 6}, {3, 3, 3}, {ones, ones, ones, ones, zeros, 1, false}},
      {1, 16, 70, {3, 7, 5}, {1, 2, 3}, {{1, 2, 3}, ones, {0, 1, 2}, {0, 0, 1}, zeros, 1, false}},
      {1, 3, 33, {6, 6, 7}, {3, 2, 2}, {ones, {2, 3, 1}, {2, 0, 0}, {1, 2, 0}, zeros, 1, false}},
      {2, 12, 8, {3, 4, 5}, {3, 3, 1}, {ones, ones, {1, 1, 0}, {1, 1, 0}, zeros, 4, false}},
      {1, 40, 40, {2, 3, 4}, {3, 3, 3}, {ones, ones, ones, ones, zeros, 40, false}},
      {1, 80, 160, {2, 3, 2}, {1, 1, 1}, {ones, ones, zeros, zeros, zeros, 2, false}},
      {1, 1, 1, {1, 1, 1}, {1, 1, 1}, {ones, ones, zeros, zeros, zeros, 1, false}},
      {1, 1, 40, {5, 1, 1}, {5, 1, 1}, {ones, ones, zeros, zeros, zeros, 1, false}},
      {2, 48, 40, {3, 2, 3}, {3, 3, 3}, {ones, ones, ones, ones, zeros, 1, false}},  // sums in three parts
  };
  for (const Case& c : cases)
    for (const bool constant : {false, true}) expect_right(c, c.in % 2 == 0, constant);
}

TEST(Conv3d, TransposedComputesWhatItsDefinitionSays) {
  const std::vector<Case> cases{
      {2, 5, 7, {3, 4, 2}, {2, 2, 2}, {{2, 2, 2}, ones, zeros, zeros, zeros, 1, true}},
      {1, 16, 40, {2, 3, 3}, {3, 3, 3}, {{2, 1, 2}, ones, ones, {1, 1, 0}, {1, 0, 0}, 1, true}},
      {1, 6, 9, {3, 2, 2}, {2, 3, 2}, {ones, {2, 1, 1}, {0, 1, 0}, zeros, zeros, 3, true}},
      {2, 32, 36, {2, 3, 2}, {3, 3, 3}, {{1, 2, 1}, ones, ones, ones, zeros, 1, true}},  // sums in two parts
  };
  for (const Case& c : cases)
    for (const bool constant : {false, true}) expect_right(c, c.in % 2 == 0, constant);
}

std::int64_t tasks_of(const Case& c) {
  const VolumeConvolution p(c);
  const Conv3d conv(c.v, p.x, p.w, false, p.y, false);
  std::vector<float> x(static_cast<std::size_t>(count_of(p.x.shape))), w(static_cast<std::size_t>(count_of(p.w.shape))),
      y(static_cast<std::size_t>(count_of(p.y.shape)));
  std::int64_t last = 0;  // the convolution itself is the last loop
  const Parallel counted = [&last](std::int64_t count, const auto& body) {
    last = count;
    body(0, count);
  };
  const AlignedBuffer scratch(conv.scratch_bytes(1));
  conv.run(x.data(), w.data(), nullptr, y.data(), counted, {scratch.data(), 1});
  return last;
}

TEST(Conv3d, FewChannelsOfALargeVolumeAreCutByDepth) {
  const std::vector<Case> cases{
      {1, 3, 30, {10, 16, 16}, {3, 1, 1}, {ones, ones, ones, {1, 0, 0}, zeros, 1, false}},
      {2, 3, 33, {17, 12, 16}, {3, 1, 1}, {{2, 1, 1}, ones, {2, 0, 0}, {3, 0, 0}, zeros, 1, false}},
      {1, 32, 16, {8, 12, 24}, {2, 3, 2}, {ones, {2, 1, 1}, {2, 1, 0}, {0, 1, 1}, zeros, 1, false}},  // in two sums
      {1, 4, 24, {8, 14, 14}, {3, 1, 1}, {ones, ones, {1, 0, 0}, {1, 0, 0}, zeros, 2, false}},
      {1, 3, 16, {4, 9, 9}, {2, 2, 2}, {{2, 2, 2}, ones, zeros, zeros, zeros, 1, true}},
      {1, 3, 16, {4, 9, 9}, {2, 2, 2}, {{3, 2, 2}, {2, 1, 1}, zeros, zeros, zeros, 1, true}},
  };
  for (const Case& c : cases) {
    EXPECT_GT(tasks_of(c), (c.out + 31) / 32 * c.images) << c.in << " channels";
    expect_right(c, c.in % 2 == 0, c.v.transposed, 1);
  }
}

TEST(Conv3d, RangesOfDepthThatAreNotApartStayWhole) {
  const std::vector<Case> cases{
      // a range of padding alone
      {1, 2, 32, {2, 20, 20}, {1, 1, 1}, {ones, ones, {3, 0, 0}, {3, 0, 0}, zeros, 1, false}},
      // output slices that get two input slices each
      {1, 2, 16, {6, 12, 12}, {3, 2, 2}, {{2, 2, 2}, ones, zeros, zeros, zeros, 1, true}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(tasks_of(c), 1) << c.in << " channels";
    expect_right(c, true, true);
  }
}

}  // namespace
}  // namespace unisono::cpu
