#include "families/interface/override.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ir/suggest.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

std::optional<int> number(std::string_view text, int largest) {
  int x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size() || x < 1 || x > largest) return std::nullopt;
  return x;
}

// None for what is no value
std::vector<int> read_numbers(const PlanField::Numbers& n, std::string_view value) {
  std::vector<int> list;
  for (std::size_t begin = 0, end = 0; end != value.npos; begin = end + 1) {
    end = value.find(n.separator, begin);
    const auto x = number(value.substr(begin, end - begin), n.largest);
    if (!x) return {};
    list.push_back(*x);
  }
  return list.size() < n.least || list.size() > n.most ? std::vector<int>{} : list;
}

}  // namespace

std::string_view as_now(const PlanField& field, std::string_view value) {
  const auto found = std::ranges::find(field.former, value, &PlanField::Former::before);
  return found == field.former.end() ? value : found->now;
}

bool is_value(const PlanField& field, std::string_view value) {
  if (!field.words.empty()) return std::ranges::find(field.words, value) != field.words.end();
  return field.numbers.largest == 0 || !read_numbers(field.numbers, value).empty();
}

void refuse_value(const PlanField& field, std::string_view value) {
  const int largest = field.numbers.largest;
  throw UserError(fmt::format("plan override: {}={}: expected {}{}{}", field.name, value, field.form,
                              largest == 0 ? "" : fmt::format("; numbers of 1 to {}", largest),
                              ir::did_you_mean(ir::nearest(value, field.words))));
}

std::vector<int> numbers_of(const PlanField& field, std::string_view value) {
  auto list = read_numbers(field.numbers, value);
  if (list.empty()) refuse_value(field, value);
  return list;
}

std::size_t word_of(const PlanField& field, std::string_view value) {
  const auto found = std::ranges::find(field.words, value);
  if (found == field.words.end()) refuse_value(field, value);
  return static_cast<std::size_t>(found - field.words.begin());
}

}  // namespace unisono::plan
