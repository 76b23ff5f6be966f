#pragma once
/// Reads the tables that tables/make_tables.py writes.

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/sources.hpp"

namespace unisono::reference::test {

struct TableCase {
  std::string line;  ///< for messages
  std::map<std::string, std::string> attributes;
  std::vector<double> output;  ///< in NCHW order

  bool has(const std::string& key) const { return attributes.contains(key); }
  const std::string& text(const std::string& key) const { return attributes.at(key); }
  std::vector<double> numbers(const std::string& key) const {
    std::vector<double> r;
    std::istringstream in(text(key));
    for (std::string item; std::getline(in, item, ',');) r.push_back(std::stod(item));
    return r;
  }
  std::int64_t integer(const std::string& key, std::size_t i = 0) const {
    return static_cast<std::int64_t>(numbers(key).at(i));
  }
};

inline std::vector<TableCase> read_table(const std::string& name) {
  std::ifstream file(unisono::test::source_path("tests/unit/reference/tables/") + name);
  if (!file) throw std::runtime_error("cannot open the table " + name);
  std::vector<TableCase> cases;
  for (std::string line; std::getline(file, line);) {
    TableCase c;
    c.line = line;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      c.attributes[word.substr(0, equals)] = word.substr(equals + 1);
    }
    std::getline(file, line);
    std::istringstream values(line);
    for (double v; values >> v;) c.output.push_back(v);
    cases.push_back(std::move(c));
  }
  return cases;
}

/// The image of every case: (37·i + 11 mod 64)/4 − 8.
inline std::vector<float> pattern(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>((37 * i + 11) % 64) / 4 - 8;
  return x;
}

/// (n, c, h, w) → (n, h, w, c)
inline std::vector<double> to_nhwc(const std::vector<double>& x, const std::vector<double>& shape) {
  const auto n = static_cast<std::size_t>(shape[0]), c = static_cast<std::size_t>(shape[1]);
  const auto pixels = static_cast<std::size_t>(shape[2] * shape[3]);
  std::vector<double> y(x.size());
  for (std::size_t b = 0; b < n; ++b)
    for (std::size_t k = 0; k < c; ++k)
      for (std::size_t p = 0; p < pixels; ++p) y.at((b * pixels + p) * c + k) = x.at((b * c + k) * pixels + p);
  return y;
}

}  // namespace unisono::reference::test
