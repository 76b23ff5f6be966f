#include "network/dim.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "unisono/error.hpp"

namespace unisono {

std::string to_string(const Dim& dim) { return dim.known() ? std::to_string(dim.value()) : dim.symbol(); }

std::string to_string(const Shape& shape) {
  std::vector<std::string> parts;
  for (const Dim& d : shape) parts.push_back(to_string(d));
  return fmt::format("({})", fmt::join(parts, ","));
}

namespace network {

namespace {

std::string factor_text(const Dim& x) {
  const std::string& s = x.symbol();
  const bool simple = s.find_first_of("+-*/ ") == std::string::npos;
  return simple ? s : "(" + s + ")";
}

// "factor/7" as ("factor", 7); a number of 1 for any other text
std::pair<std::string_view, std::int64_t> quotient(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos || slash == 0 || text.size() - slash > 10) return {text, 1};
  const std::string_view factor = text.substr(0, slash);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + slash + 1, text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) return {text, 1};
  int depth = 0;
  for (std::size_t i = 0; i < factor.size(); ++i) {
    depth += factor[i] == '(' ? 1 : factor[i] == ')' ? -1 : 0;
    const bool outside = depth == 0 && i + 1 < factor.size();  // one pair of brackets around all, or no operator
    if (outside && (factor[0] == '(' || std::string_view("+-*/ ").find(factor[i]) != std::string_view::npos))
      return {text, 1};
  }
  return {factor, number};
}

// "factor*12" by 4 as "factor*3", and by 12 as the factor alone; nothing for any other text
std::optional<Dim> cancelled(const std::string& text, std::int64_t by) {
  const std::size_t star = text.rfind('*');
  if (star == std::string::npos || star == 0 || text.size() - star > 10) return std::nullopt;
  const std::string factor = text.substr(0, star);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + star + 1, text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1 || number % by != 0) return std::nullopt;
  if (factor.find_first_of("+-*/ ()") != std::string::npos) return std::nullopt;  // a symbol alone
  return number == by ? Dim(factor) : formula(fmt::format("{}*{}", factor, number / by));
}

}  // namespace

// A formula as a symbol. Long ones (deep networks over a symbolic image size) are replaced by a hash of their text,
// which keeps "same text, same extent" and bounds memory.
Dim formula(std::string text) {
  if (text.size() <= 48) return Dim(std::move(text));
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Dim(fmt::format("extent_{:016x}", hash));
}

std::optional<Dim> window_count(const Dim& x, std::int64_t pad, std::int64_t span, std::int64_t stride, bool ceil) {
  const std::int64_t room = pad - span;
  if (x.known()) {
    const std::int64_t last = x.value() + room;
    if (last < 0) return std::nullopt;
    return Dim((last + (ceil ? stride - 1 : 0)) / stride + 1);
  }
  // floor((x + room)/stride) + 1 = floor((x + room + stride)/stride)
  const std::int64_t offset = room + stride + (ceil ? stride - 1 : 0);
  if (stride == 1) return affine(x, 1, offset);
  return divided(affine(x, 1, offset), stride);
}

Dim affine(const Dim& x, std::int64_t factor, std::int64_t offset) {
  if (x.known()) {
    std::int64_t r = 0;
    if (__builtin_mul_overflow(x.value(), factor, &r) || __builtin_add_overflow(r, offset, &r))
      throw UserError("an extent is above 2^63; the network asks for too large a tensor");
    return Dim(r);
  }
  std::string text = factor == 1 ? x.symbol() : fmt::format("{}*{}", factor_text(x), factor);
  if (offset != 0) text += fmt::format("{:+}", offset);
  return formula(std::move(text));
}

Dim sum(const Dim& x, const Dim& y) {
  if (x.known() || y.known()) return x.known() ? affine(y, 1, x.value()) : affine(x, 1, y.value());
  return formula(x.symbol() + "+" + y.symbol());
}

Dim divided(const Dim& x, std::int64_t by) {
  if (x.known()) return Dim(x.value() / by);
  if (by == 1) return x;
  if (auto whole = cancelled(x.symbol(), by)) return *whole;
  const auto [inner, before] = quotient(x.symbol());
  std::int64_t whole = by;
  if (before > 1 && !__builtin_mul_overflow(before, by, &whole)) return formula(fmt::format("{}/{}", inner, whole));
  return formula(fmt::format("{}/{}", factor_text(x), by));
}

Dim scaled(const Dim& x, double scale) {
  if (x.known()) return Dim(static_cast<std::int64_t>(std::floor(static_cast<double>(x.value()) * scale)));
  if (scale == 1) return x;
  return formula(fmt::format("{}*{}", factor_text(x), scale));
}

Dim product(std::span<const Dim> dims) {
  std::int64_t known = 1;
  std::vector<std::string> symbols;
  for (const Dim& d : dims) {
    if (d.known()) {
      if (__builtin_mul_overflow(known, d.value(), &known))
        throw UserError("a product of extents is above 2^63; the network asks for too large a tensor");
    } else {
      symbols.push_back(factor_text(d));
    }
  }
  if (symbols.empty()) return Dim(known);
  if (symbols.size() == 1 && known == 1)
    return *std::find_if(dims.begin(), dims.end(), [](const Dim& d) { return !d.known(); });
  std::sort(symbols.begin(), symbols.end());
  return formula(fmt::format("{}{}", fmt::join(symbols, "*"), known == 1 ? "" : fmt::format("*{}", known)));
}

bool may_equal(const Dim& x, const Dim& y) { return !x.known() || !y.known() || x.value() == y.value(); }

std::vector<std::int64_t> values(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (const Dim& d : shape) {
    if (!d.known()) throw InternalError("extent " + d.symbol() + " has no value yet");
    result.push_back(d.value());
  }
  return result;
}

Shape to_shape(const std::vector<std::int64_t>& values) { return Shape(values.begin(), values.end()); }

}  // namespace network

}  // namespace unisono
