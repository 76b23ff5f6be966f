#pragma once
/// Shapes of numbers and symbols.

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace unisono {

/// One extent of a shape: a number, or a symbol such as "batch" that becomes a number when the network runs. Operators
/// turn symbols into formulas such as "height/2".
class Dim {
 public:
  Dim() = default;
  template <std::integral T>
  Dim(T extent) : value_(static_cast<std::int64_t>(extent)) {}
  Dim(std::string symbol) : symbol_(std::move(symbol)) {}
  Dim(const char* symbol) : symbol_(symbol) {}

  bool known() const { return symbol_.empty(); }
  std::int64_t value() const { return value_; }  ///< if known
  const std::string& symbol() const { return symbol_; }
  bool operator==(const Dim&) const = default;

 private:
  std::int64_t value_ = 1;
  std::string symbol_;
};

using Shape = std::vector<Dim>;
std::string to_string(const Dim& dim);
std::string to_string(const Shape& shape);  ///< "(batch,3,64,64)"

}  // namespace unisono
