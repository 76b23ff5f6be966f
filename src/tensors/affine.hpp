#pragma once
/// Places of elements as kernels' text computes them: sums of multiples of variables, divided as reshapes ask.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace unisono::tensors {

/// x/by, rounded down; `by` is above 0.
std::int64_t floor_divided(std::int64_t x, std::int64_t by);

/// constant + the sum of coefficient·variable. Variables are counted by Indices; no coefficient is 0.
struct Affine {
  std::int64_t constant = 0;
  std::map<int, std::int64_t> terms = {};

  bool operator==(const Affine&) const = default;
  auto operator<=>(const Affine&) const = default;
};

Affine operator+(Affine x, const Affine& y);
Affine operator+(Affine x, std::int64_t y);
Affine operator*(Affine x, std::int64_t by);

/// The least and the largest value.
struct AffineRange {
  std::int64_t least = 0, most = 0;
};

/// The variables of one kernel's text, each of which has values from 0 to below its extent.
class Indices {
 public:
  /// A variable that is this expression; asked for again, it is the same one. `of_lane`: it is not the same for all
  /// threads of a team.
  Affine variable(const std::string& text, std::int64_t extent, bool of_lane = false);
  /// The variable where it is known to be from `begin` to below `end`: a sum of a smaller one, and a constant.
  Affine narrowed(int variable, std::int64_t begin, std::int64_t end);
  /// The same sum with such variables put back.
  Affine resolved(const Affine& x) const;
  /// Whether it is a number of its range everywhere, and not only where a variable was narrowed.
  bool holds_everywhere(const Affine& x) const;
  std::int64_t extent(int variable) const { return variables_[static_cast<std::size_t>(variable)].extent; }
  /// Quotient, rounded down, and remainder, which is never negative.
  std::pair<Affine, Affine> divided(Affine x, std::int64_t by);

  AffineRange range(const Affine& x) const;
  bool depends_on_lane(const Affine& x) const;
  std::string text(const Affine& x) const;
  /// Lines that define the variables, in order.
  std::string definitions(const std::string& indent) const;

 private:
  struct Variable {
    std::string text;
    std::int64_t extent = 1;
    bool of_lane = false;
    bool is_narrowed = false;  // or computed of one that is
    Affine sum = {};           // narrowed itself: what it is, of others
  };
  Affine added(Variable v);
  bool split(Affine& x, std::int64_t by);
  std::string name(int variable) const { return "i" + std::to_string(variable); }

  std::vector<Variable> variables_;
  std::map<std::pair<std::string, std::int64_t>, int> known_;
};

}  // namespace unisono::tensors
