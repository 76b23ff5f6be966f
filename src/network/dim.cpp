#include "network/dim.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
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

// Whether one pair of brackets is around all of a text
bool in_brackets(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return i > 0 && i + 1 == text.size();
  }
  return false;
}

// "factor/7" as ("factor", 7), of a factor in brackets or without an operator; a number of 1 for any other text
std::pair<std::string_view, std::int64_t> divisor_of(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos || slash == 0 || text.size() - slash > 10) return {text, 1};
  const std::string_view factor = text.substr(0, slash);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + slash + 1, text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) return {text, 1};
  if (!in_brackets(factor) && factor.find_first_of("+-*/ ()") != factor.npos) return {text, 1};
  return {factor, number};
}

// A product: what its text names, and the number among them
struct Factors {
  std::vector<std::string> names;
  std::int64_t number = 1;
};

// The text ahead of the first '*' outside of brackets, which is taken from `text` with it
std::string_view next_factor(std::string_view& text) {
  std::size_t end = 0;
  for (int depth = 0; end < text.size() && (depth > 0 || text[end] != '*'); ++end)
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::string_view without_brackets(std::string_view text) {
  return in_brackets(text) ? text.substr(1, text.size() - 2) : text;
}

// Whether `text` is a product of names, numbers and formulas in brackets, all of which go to f ("a*0.5", rounded down,
// is none)
bool take_factors(std::string_view text, Factors& f) {
  if (text.empty()) return false;
  while (!text.empty()) {
    const std::string_view part = next_factor(text);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error == std::errc{} && end == part.data() + part.size() && part[0] != '-') {
      if (number < 1 || __builtin_mul_overflow(f.number, number, &f.number)) return false;
    } else if (in_brackets(part)) {
      Factors inner;
      if (take_factors(without_brackets(part), inner)) {
        f.names.insert(f.names.end(), inner.names.begin(), inner.names.end());
        if (__builtin_mul_overflow(f.number, inner.number, &f.number)) return false;
      } else {
        f.names.emplace_back(part);
      }
    } else if (part.empty() || part.find_first_of("+-/() .") != part.npos || (part[0] >= '0' && part[0] <= '9')) {
      return false;
    } else {
      f.names.emplace_back(part);
    }
  }
  return true;
}

constexpr std::size_t longest_product = 256;  // names that a model gives to extents may be longer

// "a*(b+1)*12" as {"a", "(b+1)"} and 12; nothing if the text is not a product, or its number is above 2^63
std::optional<Factors> factors_of(std::string_view text) {
  if (text.size() > longest_product) return std::nullopt;
  Factors found;
  return take_factors(text, found) && !found.names.empty() ? std::optional(std::move(found)) : std::nullopt;
}

std::optional<Factors> factors_of_extent(const Dim& x) {
  if (!x.known()) return factors_of(x.symbol());
  return x.value() > 0 ? std::optional(Factors{{}, x.value()}) : std::nullopt;
}

Dim multiplied(std::vector<std::string> names, std::int64_t number) {
  if (names.empty()) return Dim(number);
  if (names.size() == 1 && number == 1) return formula(std::string(without_brackets(names[0])));
  std::sort(names.begin(), names.end());
  return formula(fmt::format("{}{}", fmt::join(names, "*"), number == 1 ? "" : fmt::format("*{}", number)));
}

// x·factor where x is a product of names; nothing for any other formula, and above 2^63
std::optional<Dim> gathered(const Dim& x, std::int64_t factor) {
  auto found = factors_of(x.symbol());
  if (!found || factor < 1 || __builtin_mul_overflow(found->number, factor, &found->number)) return std::nullopt;
  return multiplied(std::move(found->names), found->number);
}

// "a+3" as ("a", 3), "a-3" as ("a", -3); a number of 0 for any other text
std::pair<std::string_view, std::int64_t> offset_of(std::string_view text) {
  const std::size_t sign = text.find_last_of("+-");
  if (sign == text.npos || sign == 0 || text.size() - sign > 18) return {text, 0};
  const char before = text[sign - 1];
  if (before == 'e' || std::string_view("+-*/( ").find(before) != std::string_view::npos) return {text, 0};  // 1e-05
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + sign + 1, text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {text, 0};
  return {text.substr(0, sign), text[sign] == '+' ? number : -number};
}

// text + offset, where the text ends with a number or is a quotient: (a+1)/2 + 3 is (a+7)/2. Quotients stay as they are
// where what is divided could be negative for a positive a: ONNX rounds towards zero there.
std::optional<Dim> with_offset(std::string_view text, std::int64_t offset) {
  const auto [base, before] = offset_of(text);
  if (__builtin_add_overflow(offset, before, &offset)) return std::nullopt;
  const auto [quotient, by] = divisor_of(base);
  const std::string_view inner = without_brackets(quotient);
  const auto [plain, inside] = offset_of(inner);
  std::int64_t all = 0;
  if (by > 1 && plain.find('-') == plain.npos && inside >= -1 && !__builtin_mul_overflow(offset, by, &all) &&
      !__builtin_add_overflow(all, inside, &all) && all >= -1)
    return divided(affine(Dim(std::string(plain)), 1, all), by);
  if (before == 0) return std::nullopt;
  return offset == 0 ? formula(std::string(base)) : formula(fmt::format("{}{:+}", base, offset));
}

}  // namespace

constexpr std::string_view hashed = "extent_";

// A formula as a symbol. Long ones (deep networks over a symbolic image size) are replaced by a hash of their text,
// which keeps "same text, same extent" and bounds memory.
Dim formula(std::string text) {
  if (text.size() <= 48) return Dim(std::move(text));
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Dim(fmt::format("{}{:016x}", hashed, hash));
}

std::int64_t least(const Dim& x) {
  if (x.known()) return x.value();
  const auto [base, offset] = offset_of(x.symbol());
  // quotients may be 0, hashes and ranges of an axis anything, and what is subtracted bounds nothing
  if (base.find_first_of("-[.") != base.npos || base.starts_with(hashed)) return 0;
  const std::int64_t of_base = base.find('/') == base.npos ? 1 : 0;
  return std::max<std::int64_t>(of_base + offset, 0);
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
      throw UserError("an extent is above 2^63; the network has a tensor that is too large");
    return Dim(r);
  }
  if (offset == 0) {
    if (factor == 1) return x;
    if (auto whole = gathered(x, factor)) return *whole;
  }
  if (factor == 1)
    if (auto moved = with_offset(x.symbol(), offset)) return *moved;
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
  if (auto whole = whole_quotient(x, Dim(by))) return *whole;
  const auto [inner, before] = divisor_of(x.symbol());
  std::int64_t whole = by;
  if (before > 1 && !__builtin_mul_overflow(before, by, &whole)) return formula(fmt::format("{}/{}", inner, whole));
  return formula(fmt::format("{}/{}", factor_text(x), by));
}

std::optional<Dim> whole_quotient(const Dim& x, const Dim& y) {
  auto above = factors_of_extent(x), below = factors_of_extent(y);
  if (!above || !below || above->number % below->number != 0) return std::nullopt;
  for (const std::string& name : below->names) {
    const auto same = std::find(above->names.begin(), above->names.end(), name);
    if (same == above->names.end()) return std::nullopt;
    above->names.erase(same);
  }
  return multiplied(std::move(above->names), above->number / below->number);
}

Dim quotient(const Dim& x, const Dim& y) {
  if (auto whole = whole_quotient(x, y)) return *whole;
  if (y.known() && y.value() > 0) return divided(x, y.value());
  const auto text = [](const Dim& d) { return d.known() ? to_string(d) : factor_text(d); };
  return formula(fmt::format("{}/{}", text(x), text(y)));
}

Dim scaled(const Dim& x, double scale) {
  if (x.known()) return Dim(static_cast<std::int64_t>(std::floor(static_cast<double>(x.value()) * scale)));
  if (scale == 1) return x;
  return formula(fmt::format("{}*{}", factor_text(x), scale));
}

Dim product(std::span<const Dim> dims) {
  std::int64_t known = 1;
  std::vector<std::string> symbols;
  const auto times = [&](std::int64_t number) {
    if (__builtin_mul_overflow(known, number, &known))
      throw UserError("a product of extents is above 2^63; the network has a tensor that is too large");
  };
  for (const Dim& d : dims) {
    if (d.known()) {
      times(d.value());
    } else if (auto found = factors_of(d.symbol())) {
      times(found->number);
      symbols.insert(symbols.end(), found->names.begin(), found->names.end());
    } else {
      symbols.push_back(factor_text(d));
    }
  }
  if (symbols.empty()) return Dim(known);
  if (known == 1 && std::count_if(dims.begin(), dims.end(), [](const Dim& d) { return !d.known(); }) == 1)
    return *std::find_if(dims.begin(), dims.end(), [](const Dim& d) { return !d.known(); });
  return multiplied(std::move(symbols), known);
}

namespace {

// The names of "a|b"; none of a formula
std::set<std::string_view> alternatives(std::string_view text) {
  if (text.find_first_of("+-*/ ()[].") != text.npos || text.starts_with(hashed)) return {};
  std::set<std::string_view> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    names.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

Dim broadcast(const Dim& x, const Dim& y) {
  if (is_one(x) || (!x.known() && y.known() && !is_one(y))) return y;
  if (x.known() || y.known()) return x;
  auto names = alternatives(x.symbol());
  const auto others = alternatives(y.symbol());
  if (names.empty() || others.empty()) return x;
  names.insert(others.begin(), others.end());
  return formula(fmt::format("{}", fmt::join(names, "|")));
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
