#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "coda/error.hpp"
#include "support/float_convert.hpp"
#include "unit/reference/data.hpp"

namespace coda::reference::test {
namespace {

using Shape = std::vector<std::int64_t>;
using testing::HasSubstr;

// A dense four-dimensional array with bounds checks, for definitions written by index
struct Array4 {
  Shape shape;
  std::vector<float> data;
  float& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return data.at(static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d));
  }
};

[[maybe_unused]] Array4 random_array(const Shape& shape, unsigned seed) {
  return {shape, random_integers(static_cast<std::size_t>(element_count(shape)), seed)};
}

[[maybe_unused]] Array4 permuted(Array4& x, const std::array<int, 4>& order) {
  Array4 y{{x.shape[order[0]], x.shape[order[1]], x.shape[order[2]], x.shape[order[3]]}, {}};
  y.data.resize(x.data.size());
  Shape i(4);
  for (i[0] = 0; i[0] < x.shape[0]; ++i[0])
    for (i[1] = 0; i[1] < x.shape[1]; ++i[1])
      for (i[2] = 0; i[2] < x.shape[2]; ++i[2])
        for (i[3] = 0; i[3] < x.shape[3]; ++i[3])
          y.at(i[order[0]], i[order[1]], i[order[2]], i[order[3]]) = x.at(i[0], i[1], i[2], i[3]);
  return y;
}

std::vector<double> contracted(const Contraction& c, const std::vector<float>& a, const std::vector<float>& b) {
  return contract(c, view(a, shape_a(c)), view(b, shape_b(c))).value;
}

// acc (batch, m, n) written as the sum of outer products
TEST(Gemm, AllTransposesAgreeWithOuterProducts) {
  const std::int64_t batch = 2, m = 5, n = 11, k = 7;
  const auto a = random_integers(batch * m * k, 1), b = random_integers(batch * k * n, 2);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      std::vector<double> expected(batch * m * n, 0);
      for (std::int64_t z = 0; z < batch; ++z)
        for (std::int64_t l = 0; l < k; ++l)
          for (std::int64_t j = 0; j < n; ++j)
            for (std::int64_t i = 0; i < m; ++i) {
              const float x = a[z * m * k + (ta ? l * m + i : i * k + l)];
              const float y = b[z * k * n + (tb ? j * k + l : l * n + j)];
              expected[(z * m + i) * n + j] += x * y;
            }
      const Gemm g{.batch = batch, .m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb};
      EXPECT_EQ(contracted(g, a, b), expected) << ta << tb;
    }
  }
}

}  // namespace
}  // namespace coda::reference::test
