#pragma once
/// Which families of kernels there are, the best first.

#include <cstdint>
#include <vector>

#include "families/interface/family.hpp"

namespace unisono::families {

/// In the order in which they are asked.
std::vector<const Family*> registry();

/// Adds a family for as long as this lives, ahead of the built-in ones or behind them. Not for use beside other
/// threads.
class Registration {
 public:
  enum class Rank : std::uint8_t { first, last };
  explicit Registration(const Family& family, Rank rank = Rank::last);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const Family& family_;
};

}  // namespace unisono::families
