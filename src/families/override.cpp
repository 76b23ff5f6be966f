#include "families/override.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "families/list.hpp"
#include "ir/suggest.hpp"
#include "unisono/error.hpp"

namespace unisono::families {
namespace {

/// Every family's, with what each says of it.
struct KnownField {
  std::string_view name;
  std::vector<const plan::PlanField*> of;
};

std::vector<KnownField> known_fields() {
  static const plan::PlanField family{.name = "family", .form = "the name of a family of kernels"};
  std::vector<KnownField> all{{family.name, {&family}}};
  for (const Family* f : registry())
    for (const plan::PlanField& field : f->fields()) {
      auto found = std::ranges::find(all, field.name, &KnownField::name);
      if (found == all.end()) found = all.insert(all.end(), {field.name, {}});
      found->of.push_back(&field);
    }
  return all;
}

std::vector<std::string_view> names(const std::vector<KnownField>& all) {
  std::vector<std::string_view> list;
  for (const KnownField& field : all) list.push_back(field.name);
  return list;
}

std::string near_miss(std::string_view word, const std::vector<KnownField>& all) {
  return ir::did_you_mean(ir::nearest(word, names(all)));
}

/// The value as it is written now, of the first family that has it.
std::string_view checked(const std::vector<KnownField>& all, std::string_view name, std::string_view value) {
  const auto known = std::ranges::find(all, name, &KnownField::name);
  if (known == all.end())
    throw UserError(fmt::format("plan override: unknown field '{}'; known are {}{}", name, fmt::join(names(all), ", "),
                                near_miss(name, all)));
  for (const plan::PlanField* field : known->of)
    if (const std::string_view now = as_now(*field, value); is_value(*field, now)) return now;
  refuse_value(*known->of.front(), value);
}

}  // namespace

bool has_fields(const Family& family, const PlanOverride& fixed) {
  return std::ranges::all_of(fixed.fields, [&](const auto& given) {
    return std::ranges::any_of(family.fields(), [&](const plan::PlanField& field) {
      return field.name == given.first && is_value(field, as_now(field, given.second));
    });
  });
}

void check_override(const PlanOverride& fixed) {
  const auto known = known_fields();
  for (const auto& [name, value] : fixed.fields) checked(known, name, value);
  PlanOverride own = fixed;
  own.fields.erase("family");
  for (const Family* f : registry())
    if (has_fields(*f, own)) f->check(own);
}

PlanOverride fixed_by(const std::string& text, const PlanOverride& by_key) {
  PlanOverride all = parse_plan(text);
  for (const auto& [key, value] : by_key.fields)
    if (const auto [there, added] = all.fields.emplace(key, value); !added)
      throw UserError(fmt::format(
          "CompileOptions::plan says {}={} and CompileOptions::plan_override {}; fix each field in one of them", key,
          there->second, value));
  check_override(all);
  return all;
}

}  // namespace unisono::families

namespace unisono {

PlanOverride parse_plan(const std::string& text) {
  const auto known = families::known_fields();
  PlanOverride result;
  const char* blank = " \t\n,";
  for (std::size_t begin = text.find_first_not_of(blank); begin != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(blank, begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw UserError(fmt::format("plan override: '{}': expected FIELD=VALUE; fields are {}{}", word,
                                  fmt::join(families::names(known), ", "), families::near_miss(word, known)));
    const std::string name = word.substr(0, equals);
    const std::string_view value = families::checked(known, name, std::string_view(word).substr(equals + 1));
    if (!result.fields.emplace(name, value).second)
      throw UserError(fmt::format("plan override: '{}' is given twice", name));
    begin = text.find_first_not_of(blank, end);
  }
  return result;
}

std::string to_string(const PlanOverride& fixed) {
  const auto known = families::known_fields();
  for (const auto& [name, value] : fixed.fields) families::checked(known, name, value);
  std::string text;
  for (const families::KnownField& field : known)
    if (const auto found = fixed.fields.find(std::string(field.name)); found != fixed.fields.end())
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", found->first, found->second);
  return text;
}

}  // namespace unisono
