#include "training/config_object.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "ir/suggest.hpp"
#include "media/file.hpp"
#include "support/json_depth.hpp"
#include "unisono/error.hpp"

namespace unisono::training {

using nlohmann::json;

namespace {

// A value in a message, not too long
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

ConfigObject::ConfigObject(const json& value, std::string file, std::string key)
    : json_(value), file_(std::move(file)), key_(std::move(key)) {
  if (!json_.is_object())
    throw UserError(
        fmt::format("{}: {}is {}; expected an object {{…}}", file_, key_.empty() ? "it " : key_ + " ", shown(json_)));
}

void ConfigObject::fail(const std::string& key, const std::string& expected) const {
  const std::string found = json_.contains(key) ? fmt::format("is {}", shown(json_.at(key))) : "is missing";
  throw UserError(fmt::format("{}: {} {}; expected {}", file_, path_of(key), found, expected));
}

const json* ConfigObject::find(const std::string& key, bool required, const char* expected) {
  asked_.insert(key);
  if (json_.contains(key)) return &json_.at(key);
  if (required) fail(key, expected);
  return nullptr;
}

double ConfigObject::number(const std::string& key, double low, double high, std::optional<double> otherwise) {
  const json* value = find(key, !otherwise, "a number");
  if (value == nullptr) return *otherwise;
  const double x = value->is_number() ? value->get<double>() : std::nan("");
  if (!(x >= low && x <= high)) fail(key, fmt::format("a number from {} to {}", low, high));
  return x;
}

std::int64_t ConfigObject::integer(const std::string& key, std::int64_t low, std::int64_t high,
                                   std::optional<std::int64_t> otherwise) {
  const json* value = find(key, !otherwise, "an integer");
  if (value == nullptr) return *otherwise;
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(high));
  if (!fits || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high)
    fail(key, fmt::format("an integer from {} to {}", low, high));
  return value->get<std::int64_t>();
}

std::string ConfigObject::text(const std::string& key, std::optional<std::string> otherwise) {
  const json* value = find(key, !otherwise, "a text");
  if (value == nullptr) return *otherwise;
  if (!value->is_string()) fail(key, "a text");
  return value->get<std::string>();
}

std::string ConfigObject::choice(const std::string& key, const std::vector<std::string>& of,
                                 std::optional<std::string> otherwise) {
  const std::string expected = fmt::format("one of {}", fmt::join(of, ", "));
  const json* value = find(key, !otherwise, expected.c_str());
  if (value == nullptr) return *otherwise;
  if (!value->is_string() || std::find(of.begin(), of.end(), value->get<std::string>()) == of.end())
    fail(key, expected);
  return value->get<std::string>();
}

bool ConfigObject::truth(const std::string& key, bool otherwise) {
  const json* value = find(key, false, "true or false");
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

std::vector<std::string> ConfigObject::texts(const std::string& key) {
  const json* value = find(key, false, "a text, or a list of texts");
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> all;
  if (!value->is_array()) fail(key, "a text, or a list of texts");
  for (const json& one : *value) {
    if (!one.is_string()) fail(key, "a text, or a list of texts");
    all.push_back(one.get<std::string>());
  }
  return all;
}

ConfigObject ConfigObject::object(const std::string& key, bool required) {
  const json* value = find(key, required, "an object {…}");
  return {value == nullptr ? json::object() : *value, file_, path_of(key)};
}

std::vector<ConfigObject> ConfigObject::objects(const std::string& key) {
  const json* value = find(key, false, "a list of objects");
  if (value == nullptr) return {};
  if (!value->is_array()) fail(key, "a list of objects");
  std::vector<ConfigObject> all;
  for (std::size_t i = 0; i < value->size(); ++i)
    all.emplace_back(value->at(i), file_, fmt::format("{}[{}]", path_of(key), i));
  return all;
}

std::vector<std::string> ConfigObject::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : json_.items()) all.push_back(key);
  return all;
}

void ConfigObject::finish() const {
  const std::vector<std::string_view> known(asked_.begin(), asked_.end());
  for (const auto& [key, value] : json_.items())
    if (!asked_.contains(key))
      throw UserError(fmt::format("{}: {} is not known; expected {}{}", file_, path_of(key), fmt::join(asked_, ", "),
                                  ir::did_you_mean(ir::nearest(key, known))));
}

json read_json(const std::filesystem::path& file) {
  const auto bytes = media::read_file(file, {.bytes = 16 << 20});
  try {
    return support::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
  } catch (const json::parse_error& error) {
    const std::string_view text = error.what();  // "[json.exception…] parse error at line 3, column 7: …"
    const std::size_t at = text.find("] ");
    throw UserError(fmt::format("{}: {}", file.string(), text.substr(at == std::string_view::npos ? 0 : at + 2)));
  }
}

}  // namespace unisono::training
