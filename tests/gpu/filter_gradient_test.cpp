// Gradients of filters by plans of many kinds, not by the fastest alone: each element beside float64,
// the bits of two runs, and what lies beside the results.

#include "gpu/filter_gradient.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "gpu/device.hpp"
#include "support/float_convert.hpp"

namespace unisono::gpu {
namespace {

struct Gradient {
  const char* name;
  int n, h, w, c, k, r, s;  // c, k: of a group
  Pair stride{1}, dilation{1};
  Margins pad = 0;
  int groups = 1;
  int gap = 0;  // channels of x and g between a pixel's and the next
  DType element = DType::bf16;
  bool f32 = false;
};

int positions(int extent, std::int64_t pads, int taps, std::int64_t dilation, std::int64_t stride) {
  return static_cast<int>((extent + pads - dilation * (taps - 1) - 1) / stride + 1);
}

products::FilterGradientProblem problem_of(const Gradient& c) {
  products::FilterGradientProblem problem{.taps = c.r * c.s, .element = c.element, .f32 = c.f32};
  FilterGradientParams& p = problem.extents;
  p.groups = c.groups, p.filters = c.k, p.channels = c.c, p.taps_w = c.s, p.height = c.h, p.width = c.w;
  p.out_height = positions(c.h, c.pad.top + c.pad.bottom, c.r, c.dilation.h, c.stride.h);
  p.out_width = positions(c.w, c.pad.left + c.pad.right, c.s, c.dilation.w, c.stride.w);
  p.pixels = c.n * p.out_height * p.out_width;
  const auto pitch = [&](int channels) { return (channels + 7) / 8 * 8 + c.gap; };
  p.x_pixel = pitch(c.groups * c.c), p.g_pixel = pitch(c.groups * c.k);
  p.result_tap = c.c, p.result_filter = problem.taps * p.result_tap;
  const auto set = [](int& to, std::int64_t x) { to = static_cast<int>(x); };
  set(p.stride_h, c.stride.h), set(p.stride_w, c.stride.w), set(p.dilation_h, c.dilation.h);
  set(p.dilation_w, c.dilation.w), set(p.pad_h, c.pad.top), set(p.pad_w, c.pad.left);
  return problem;
}

// 16-bit values around 0; those of gaps are NaN, which nothing may meet
std::vector<std::uint16_t> values(std::int64_t pixels, std::int64_t pitch, std::int64_t used, DType element, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> all(static_cast<std::size_t>(pixels * pitch), 0x7fff);
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t j = 0; j < used; ++j)
      all[static_cast<std::size_t>(i * pitch + j)] =
          element == DType::bf16 ? support::float_to_bf16(normal(random)) : support::float_to_f16(normal(random));
  return all;
}

double widened(std::uint16_t word, DType element) {
  return static_cast<double>(element == DType::bf16 ? support::bf16_to_float(word) : support::f16_to_float(word));
}

struct Sum {
  double value = 0, size = 0;
};

Sum sum_of(const FilterGradientParams& p, DType element, const std::vector<std::uint16_t>& x,
           const std::vector<std::uint16_t>& g, int filter, int r, int s, int channel) {
  Sum sum;
  const int first = filter / p.filters * p.channels;
  for (int i = 0; i < p.pixels; ++i) {
    const int image = i / (p.out_height * p.out_width), row = i / p.out_width % p.out_height, column = i % p.out_width;
    const int h = row * p.stride_h - p.pad_h + r * p.dilation_h, w = column * p.stride_w - p.pad_w + s * p.dilation_w;
    if (h < 0 || h >= p.height || w < 0 || w >= p.width) continue;
    const auto pixel = (static_cast<std::int64_t>(image) * p.height + h) * p.width + w;
    const double term = widened(g[static_cast<std::size_t>(i * p.g_pixel + filter)], element) *
                        widened(x[static_cast<std::size_t>(pixel * p.x_pixel + first + channel)], element);
    sum.value += term, sum.size += std::abs(term);
  }
  return sum;
}

class Subject {
 public:
  explicit Subject(const Gradient& c) : problem_(problem_of(c)) {
    const FilterGradientParams& p = problem_.extents;
    x_ = values(static_cast<std::int64_t>(c.n) * c.h * c.w, p.x_pixel, p.groups * p.channels, c.element, 1);
    g_ = values(p.pixels, p.g_pixel, p.groups * p.filters, c.element, 2);
    for (int filter = 0; filter < p.groups * p.filters; ++filter)
      for (int tap = 0; tap < problem_.taps; ++tap)
        for (int channel = 0; channel < p.channels; ++channel)
          sums_.push_back(sum_of(p, c.element, x_, g_, filter, tap / p.taps_w, tap % p.taps_w, channel));
  }
  products::FilterGradientProblem& problem() { return problem_; }

  void agrees(const FilterGradientWay& way) {
    FilterGradientKernels kernels(problem_, way, device().device);
    SCOPED_TRACE(kernels.how());
    kernels.load();
    const std::size_t bytes = problem_.f32 ? 4 : 2;
    Buffer x(x_.size() * 2), g(g_.size() * 2), result(sums_.size() * bytes);
    Buffer partials(static_cast<std::size_t>(std::max<std::int64_t>(kernels.partial_bytes(), 16)));
    x.upload(x_.data()), g.upload(g_.data());
    const auto launches = kernels.bind({x.data(), g.data(), result.data(), partials.data()});
    std::vector<std::byte> before;
    for (int run = 0; run < 2; ++run) {
      result.poison(), partials.poison();
      for (const Launch& l : launches) l.enqueue(nullptr);
      wait(nullptr, kernels.how());
      const std::vector<std::byte> now = result.contents();
      if (run == 0) compare(now, bytes);
      EXPECT_TRUE(run == 0 || now == before) << "other bits in the second run";
      EXPECT_TRUE(result.guards_hold() && partials.guards_hold());
      before = now;
    }
  }

 private:
  void compare(const std::vector<std::byte>& got, std::size_t bytes) const {
    int wrong = 0;
    double worst = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      double value = 0;
      if (bytes == 4) {
        float word = 0;
        std::memcpy(&word, got.data() + 4 * i, 4), value = static_cast<double>(word);
      } else {
        std::uint16_t word = 0;
        std::memcpy(&word, got.data() + 2 * i, 2), value = widened(word, problem_.element);
      }
      const double half_step = bytes == 4 ? 0x1p-24 : problem_.element == DType::bf16 ? 0x1p-8 : 0x1p-11;
      const double bound = half_step * std::abs(sums_[i].value) + 2e-6 * sums_[i].size + 0x1p-24;
      const double error = std::abs(value - sums_[i].value);
      worst = std::max(worst, error / bound);
      if (!(error <= 1.01 * bound)) ++wrong;
    }
    EXPECT_EQ(wrong, 0) << "of " << sums_.size() << "; the worst is " << worst << " times its bound";
  }

  products::FilterGradientProblem problem_;
  std::vector<std::uint16_t> x_, g_;
  std::vector<Sum> sums_;
};

const std::vector<Gradient>& gradients() {
  static const std::vector<Gradient> all{
      {.name = "plain", .n = 2, .h = 16, .w = 24, .c = 64, .k = 64, .r = 3, .s = 3, .pad = 1},
      {.name = "odd extents", .n = 3, .h = 13, .w = 9, .c = 72, .k = 40, .r = 3, .s = 3, .pad = 1},
      {.name = "valid", .n = 1, .h = 11, .w = 20, .c = 136, .k = 80, .r = 3, .s = 3, .f32 = true},
      {.name = "wide margins", .n = 2, .h = 3, .w = 2, .c = 24, .k = 72, .r = 3, .s = 3, .pad = {4, 0, 3, 2}},
      {.name = "stride 2", .n = 2, .h = 15, .w = 18, .c = 72, .k = 136, .r = 3, .s = 3, .stride = 2, .pad = 1},
      {.name = "1x1", .n = 3, .h = 7, .w = 11, .c = 200, .k = 132, .r = 1, .s = 1, .element = DType::f16},
      {.name = "1x1, stride 2", .n = 2, .h = 9, .w = 14, .c = 64, .k = 24, .r = 1, .s = 1, .stride = 2, .f32 = true},
      {.name = "5x5", .n = 2, .h = 10, .w = 9, .c = 40, .k = 64, .r = 5, .s = 5, .pad = 2},
      {.name = "dilated", .n = 2, .h = 12, .w = 10, .c = 64, .k = 8, .r = 3, .s = 2, .dilation = {2, 3}, .pad = 2},
      {.name = "groups", .n = 2, .h = 9, .w = 10, .c = 24, .k = 40, .r = 3, .s = 3, .pad = 1, .groups = 3, .gap = 8},
      {.name = "groups of 1x1", .n = 2, .h = 9, .w = 10, .c = 72, .k = 8, .r = 1, .s = 1, .groups = 2, .f32 = true},
      {.name = "many steps", .n = 3, .h = 20, .w = 21, .c = 8, .k = 16, .r = 3, .s = 3, .pad = 1},
      {.name = "one pixel", .n = 1, .h = 1, .w = 1, .c = 8, .k = 1, .r = 3, .s = 3, .pad = 1},
      {.name = "f16",
       .n = 2,
       .h = 8,
       .w = 17,
       .c = 64,
       .k = 72,
       .r = 3,
       .s = 3,
       .pad = 1,
       .gap = 64,
       .element = DType::f16}};
  return all;
}

// Plans that differ in more than the number of parts: halo tiles all, others every third, beginning at another one in
// each case
std::vector<FilterGradientWay> of_kinds(products::FilterGradientProblem& problem, std::size_t begin) {
  std::vector<FilterGradientWay> chosen;
  std::set<std::string> seen;
  std::size_t others = begin;
  for (const FilterGradientWay& way : filter_gradient_ways(problem, device().device)) {
    const auto kind = std::visit(
        [](const auto& plan) {
          const bool cut = plan.parts > 1;
          if constexpr (requires { plan.halo; })
            return fmt::format("{} {} {} {} {}", plan.halo, plan.groups, plan.slabs, cut, plan.whole > 0);
          else
            return fmt::format("{}x{} {}", plan.rows, plan.columns, cut);
        },
        way);
    if (!seen.insert(kind).second) continue;
    if (kind.starts_with("true") || others++ % 3 == 0) chosen.push_back(way);
  }
  return chosen;
}

class FilterGradientSmall : public testing::TestWithParam<std::size_t> {};

TEST_P(FilterGradientSmall, AgreesByManyKindsOfPlans) {
  const Gradient& c = gradients()[GetParam()];
  Subject subject(c);
  const auto ways = of_kinds(subject.problem(), GetParam());
  const bool by_warpgroups = std::ranges::any_of(ways, [](const auto& way) { return way.index() == 1; });
  EXPECT_EQ(by_warpgroups, device().device.major == 9);
  for (const FilterGradientWay& way : ways) subject.agrees(way);
}

std::string name_of(const testing::TestParamInfo<std::size_t>& info) {
  std::string name = gradients()[info.param].name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Cases, FilterGradientSmall, testing::Range<std::size_t>(0, gradients().size()), name_of);

}  // namespace
}  // namespace unisono::gpu
