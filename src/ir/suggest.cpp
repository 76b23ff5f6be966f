#include "ir/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace unisono::ir {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 33> synonyms{{
    {"swish", "silu"},
    {"hswish", "hardswish"},
    {"hard_swish", "hardswish"},
    {"hsigmoid", "hardsigmoid"},
    {"hard_sigmoid", "hardsigmoid"},
    {"lrelu", "leaky_relu"},
    {"where", "select"},
    {"maximum", "max"},
    {"minimum", "min"},
    {"average", "mean"},
    {"avg", "mean"},
    {"var", "variance"},
    {"sqr", "square"},
    {"inverse", "reciprocal"},
    {"recip", "reciprocal"},
    {"log_sigmoid", "logsigmoid"},
    {"ln", "log"},
    {"clip", "clamp"},
    {"mad", "fma"},
    {"onehot", "one_hot"},
    {"to", "cast"},
    {"float", "f32"},
    {"float32", "f32"},
    {"fp32", "f32"},
    {"double", "f64"},
    {"float64", "f64"},
    {"half", "f16"},
    {"float16", "f16"},
    {"fp16", "f16"},
    {"bfloat16", "bf16"},
    {"int", "i32"},
    {"int32", "i32"},
    {"boolean", "bool"},
}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

int edit_distance(std::string_view x, std::string_view y, int limit) {
  const auto nx = std::ssize(x), ny = std::ssize(y);
  if (std::abs(nx - ny) > limit) return limit + 1;
  // Three rows of the table of prefixes; only the diagonal band of width 2·limit + 1 can stay within the limit
  const auto width = static_cast<std::size_t>(ny) + 1;
  std::vector<int> before(width, limit + 1), above(width, limit + 1), row(width, limit + 1);
  for (std::ptrdiff_t j = 0; j <= std::min<std::ptrdiff_t>(ny, limit); ++j) above[j] = static_cast<int>(j);
  for (std::ptrdiff_t i = 1; i <= nx; ++i) {
    std::fill(row.begin(), row.end(), limit + 1);
    if (i <= limit) row[0] = static_cast<int>(i);
    for (std::ptrdiff_t j = std::max<std::ptrdiff_t>(1, i - limit); j <= std::min(ny, i + limit); ++j) {
      const bool same = lower(x[i - 1]) == lower(y[j - 1]);
      int best = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(x[i - 1]) == lower(y[j - 2]) && lower(x[i - 2]) == lower(y[j - 1]);
      if (swapped) best = std::min(best, before[j - 2] + 1);
      row[j] = std::min(best, limit + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[ny];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  int limit = std::min(3, std::max(1, static_cast<int>(word.size()) / 3));
  std::string_view best;
  for (const auto candidate : candidates) {
    // A word of one or two letters has many neighbours by chance: a suggestion must keep at least one letter
    if (std::min(word.size(), candidate.size()) < 2 && !(word.size() == 1 && candidate.size() == 1)) continue;
    const int d = edit_distance(word, candidate, limit);
    if (d > limit || static_cast<std::size_t>(d) >= std::max(word.size(), candidate.size())) continue;
    best = candidate;
    limit = d - 1;
    if (limit < 0) break;
  }
  return best;
}

std::string_view known_as(std::string_view foreign) {
  for (const auto& [name, ours] : synonyms)
    if (name == foreign) return ours;
  return {};
}

std::string did_you_mean(std::string_view suggestion) {
  return suggestion.empty() ? std::string() : fmt::format("; did you mean '{}'?", suggestion);
}

}  // namespace unisono::ir
