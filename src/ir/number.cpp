#include "ir/number.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace unisono::ir {

bool same_number(double x, double y) {
  return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y) || (std::isnan(x) && std::isnan(y));
}

bool same_number(const std::optional<double>& x, const std::optional<double>& y) {
  return x.has_value() == y.has_value() && (!x || same_number(*x, *y));
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", value);
  const auto e = s.find('e');  // "1e-05": drop the plus sign and the zeros of the exponent
  if (e != std::string::npos) {
    auto digits = e + 1;
    if (s[digits] == '+')
      s.erase(digits, 1);
    else if (s[digits] == '-')
      ++digits;
    while (digits + 1 < s.size() && s[digits] == '0') s.erase(digits, 1);
  }
  return s;
}

}  // namespace unisono::ir
