#pragma once
/// An object of a JSON file, read key by key; errors name the file, the key and what was expected.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace unisono::training {

class ConfigObject {
 public:
  /// `key`: of the object in its file, "" for the whole. Throws UserError for what is no object.
  ConfigObject(const nlohmann::json& json, std::string file, std::string key = {});

  bool has(const std::string& key) const { return json_.contains(key); }
  // Each throws UserError for a value of another kind, and, without a default, for a key that is not there.
  double number(const std::string& key, double low, double high, std::optional<double> otherwise = {});
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> otherwise = {});
  std::string text(const std::string& key, std::optional<std::string> otherwise = {});
  std::string choice(const std::string& key, const std::vector<std::string>& of,
                     std::optional<std::string> otherwise = {});
  bool truth(const std::string& key, bool otherwise);
  /// One text, or a list of them.
  std::vector<std::string> texts(const std::string& key);
  /// An empty one if the key is not there and `required` is false.
  ConfigObject object(const std::string& key, bool required = true);
  std::vector<ConfigObject> objects(const std::string& key);
  std::vector<std::string> keys() const;

  /// Throws UserError for a key that nobody asked for, with those that are near it.
  void finish() const;
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;

 private:
  const nlohmann::json* find(const std::string& key, bool required, const char* expected);
  std::string path_of(const std::string& key) const { return key_.empty() ? key : key_ + "." + key; }

  nlohmann::json json_;
  std::string file_, key_;
  std::set<std::string> asked_;
};

/// Reads and parses a file. Throws UserError with the line and column of what is no JSON.
nlohmann::json read_json(const std::filesystem::path& file);

}  // namespace unisono::training
