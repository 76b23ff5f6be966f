#include "reference/pooling.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "unisono/error.hpp"
#include "unit/reference/data.hpp"
#include "unit/reference/table.hpp"

namespace unisono::reference::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Pool2d pool_of(const TableCase& c) {
  Pool2d p;
  p.kind = c.text("kind") == "max" ? Pool2d::Kind::max : Pool2d::Kind::average;
  for (std::size_t d = 0; d < 2; ++d) {
    p.kernel[d] = c.integer("kernel", d);
    p.stride[d] = c.integer("stride", d);
    p.dilation[d] = c.integer("dilation", d);
  }
  for (std::size_t d = 0; d < 4; ++d) p.pad[d] = c.integer("pad", d);
  p.ceil_mode = c.integer("ceil") != 0;
  p.count_pad = c.integer("count_pad") != 0;
  p.layout = Layout::nchw;
  return p;
}

TEST(Pooling, AgreesWithOnnxRuntime) {
  const auto cases = read_table("pooling.txt");
  ASSERT_EQ(cases.size(), 30u);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    const auto shape = c.numbers("shape");
    const auto x = pattern(2 * 5 * 7);
    const Pool2d p = pool_of(c);
    EXPECT_THAT(pooled_size(p, 5, 7), ElementsAre(c.integer("out", 2), c.integer("out", 3)));
    const Values y = pool(p, view(x, {1, 2, 5, 7}));
    const auto expected = to_nhwc(c.output, c.numbers("out"));
    ASSERT_EQ(y.value.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(std::abs(y.value[i] - expected[i]), y.bound[i] + 1e-8 * std::abs(expected[i])) << i;
  }
}

TEST(Pooling, LayoutsAgree) {
  std::vector<float> nchw = pattern(3 * 4 * 4);
  const auto nhwc = to_nhwc({nchw.begin(), nchw.end()}, {1, 3, 4, 4});
  Pool2d p{.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 0, 1, 0}};
  const auto a = pool(p, view(nhwc, {1, 4, 4, 3})).value;
  p.layout = Layout::nchw;
  EXPECT_EQ(pool(p, view(nchw, {1, 3, 4, 4})).value, a);
}

TEST(Pooling, MaximumKeepsNaNAndIgnoresPadding) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{-1, -2, nan, -4};
  const Pool2d p{.kernel = {1, 2}, .pad = {0, 1, 0, 0}};
  const auto y = pool(p, view(x, {1, 1, 4, 1}));
  EXPECT_EQ(y.value[0], -1);  // the padding is no zero
  EXPECT_EQ(y.value[1], -1);
  EXPECT_TRUE(std::isnan(y.value[2]));
  EXPECT_TRUE(std::isnan(y.value[3]));
  EXPECT_THAT(y.bound, testing::Each(0));
}

TEST(Pooling, RefusesWhatHasNoMeaning) {
  const std::vector<float> x(16);
  const auto message = [&](const Pool2d& p, std::vector<std::int64_t> shape) -> std::string {
    try {
      pool(p, view(x, std::move(shape)));
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message({.kernel = {5, 1}}, {1, 4, 4, 1}), HasSubstr("5x1 kernel has no output"));
  EXPECT_THAT(message({.kernel = {0, 1}}, {1, 4, 4, 1}), HasSubstr("kernel = 0"));
  EXPECT_THAT(message({.stride = {1, 0}}, {1, 4, 4, 1}), HasSubstr("stride = 0"));
  EXPECT_THAT(message({.pad = {2, 0, 0, 0}}, {1, 4, 4, 1}), HasSubstr("output (0, 0) holds no pixel"));
  EXPECT_THAT(message({}, {4, 4}), HasSubstr("shape (4, 4)"));
}

}  // namespace
}  // namespace unisono::reference::test
