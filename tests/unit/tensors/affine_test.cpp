// Sums of multiples of variables, against the numbers that they stand for.

#include <gtest/gtest.h>

#include "support/random.hpp"
#include "tensors/affine.hpp"

namespace unisono::tensors {
namespace {

TEST(Affine, DividesWithoutOperationsWhereMultiplesFit) {
  Indices indices;
  const Affine t = indices.variable("t", 8, true);
  const auto [quotient, remainder] = indices.divided(t * 8 + 5, 2);
  EXPECT_EQ(quotient, t * 4 + 2);
  EXPECT_EQ(remainder, Affine{1});
  EXPECT_TRUE(indices.depends_on_lane(quotient));
  EXPECT_FALSE(indices.depends_on_lane(remainder));
}

TEST(Affine, CutsAVariableWhereItsMultiplesFillTheDivisor) {
  Indices indices;
  const auto [quotient, remainder] = indices.divided(indices.variable("n", 12) * 8 + 3, 32);
  EXPECT_EQ(indices.text(quotient), "i1");
  EXPECT_EQ(indices.text(remainder), "8 * i2 + 3");
  EXPECT_EQ(indices.definitions(""), "const int i0 = n;\nconst int i1 = i0 / 4;\nconst int i2 = i0 % 4;\n");
}

TEST(Affine, OneValueIsNoVariable) {
  Indices indices;
  EXPECT_EQ(indices.variable("n", 1), Affine{});
  EXPECT_EQ(indices.range(indices.variable("n", 5) * -2 + 3).least, -5);
}

// Evaluates the lines and sums that a kernel would, of simple forms: "A / n", "A % n" of sums of products
class Evaluated {
 public:
  explicit Evaluated(std::int64_t a, std::int64_t b) : named_{{"a", a}, {"b", b}} {}
  void define(const std::string& lines) {
    for (std::size_t from = 0; from < lines.size();) {
      const std::size_t end = lines.find('\n', from), equals = lines.find(" = ", from);
      const std::string name = lines.substr(from + 10, equals - from - 10);
      named_[name] = quotient(lines.substr(equals + 3, end - equals - 4));
      from = end + 1;
    }
  }
  std::int64_t sum(const std::string& text) const {
    std::int64_t total = 0;
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t end = std::min(text.find(" + ", from), text.size());
      total += product(text.substr(from, end - from));
      from = end + 3;
    }
    return total;
  }

 private:
  std::int64_t quotient(const std::string& text) const {
    const std::size_t at = text.find_last_of("/%");
    if (at == text.npos) return sum(text);
    std::string dividend = text.substr(0, at - 1);
    if (dividend[0] == '(') dividend = dividend.substr(1, dividend.size() - 2);
    const std::int64_t x = sum(dividend), by = std::stoll(text.substr(at + 2));
    EXPECT_GE(x, 0) << text << ": the device rounds towards zero";
    return text[at] == '/' ? x / by : x % by;
  }
  std::int64_t product(const std::string& text) const {
    const std::size_t at = text.find(" * ");
    if (at != text.npos) return std::stoll(text.substr(0, at)) * named_.at(text.substr(at + 3));
    const auto name = named_.find(text);
    return name == named_.end() ? std::stoll(text) : name->second;
  }
  std::map<std::string, std::int64_t> named_;
};

TEST(Affine, RandomDivisionsAgreeWithNumbers) {
  test::Random random{11};
  for (int trial = 0; trial < 500; ++trial) {
    Indices indices;
    const std::int64_t extents[] = {random.between(1, 12), random.between(1, 40)};
    Affine x = indices.variable("a", extents[0]) * random.between(0, 24) + random.between(-20, 40);
    x = x + indices.variable("b", extents[1]) * random.between(0, 9);
    const std::int64_t first = random.between(1, 12), second = random.between(1, 30);
    const auto [high, low] = indices.divided(x, first);
    const auto [more, middle] = indices.divided(high, second);
    for (std::int64_t a = 0; a < extents[0]; ++a)
      for (std::int64_t b = 0; b < extents[1]; ++b) {
        Evaluated values(a, b);
        values.define(indices.definitions(""));
        const std::int64_t number = values.sum(indices.text(x));
        ASSERT_EQ(values.sum(indices.text(high)), floor_divided(number, first)) << indices.text(x) << " by " << first;
        ASSERT_EQ(values.sum(indices.text(low)), number - floor_divided(number, first) * first);
        ASSERT_EQ(values.sum(indices.text(more)), floor_divided(number, first * second));
        ASSERT_EQ(values.sum(indices.text(middle)) + second * values.sum(indices.text(more)),
                  floor_divided(number, first));
      }
  }
}

}  // namespace
}  // namespace unisono::tensors
