#pragma once
/// Rewrites as rows: a pattern, what replaces it, and a condition.
///
///     const auto x = any(0);
///     Row{"x*sigmoid(x) -> silu(x)", x * sigmoid(x), silu(x)}
///
/// A pattern is a tree of operations over holes. Operands of commutative operations match in either order. A hole that
/// stands several times must match the same value each time.

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/editor.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

class Match;

/// A node of a pattern or of a replacement.
struct Term {
  enum class Kind : std::uint8_t { any, number, exactly, about, computed, operation };
  Kind kind = Kind::any;
  int slot = 0;                               ///< any, number: which hole
  double value = 0;                           ///< exactly, about
  double (*compute)(const Match&) = nullptr;  ///< computed (replacements only)
  Op op{};
  std::vector<std::shared_ptr<const Term>> inputs;
  int attributes = -1;                         ///< operation: slot of its attributes; -1: the defaults
  Attributes (*make)(const Match&) = nullptr;  ///< operation of a replacement: its attributes
  bool shared = false;                         ///< operation of a pattern: may have users outside the pattern
};
using Pattern = std::shared_ptr<const Term>;

/// A hole for any value. `slot` is 0 to 7.
Pattern any(int slot);
/// A hole for a constant.
Pattern number(int slot);
/// The constant `value`, bit for bit.
Pattern exactly(double value);
/// A constant within the rounding of the matched node's dtype of `value`: for √2, 1/√(2π) and the like.
Pattern about(double value);
/// In a replacement: a constant computed from the match.
Pattern computed(double (*compute)(const Match&));
Pattern operation(Op op, std::vector<Pattern> inputs);
/// An operation whose attributes are bound to (pattern) or taken from (replacement) slot 0 to 3.
Pattern with_attributes(int slot, Op op, std::vector<Pattern> inputs);
/// In a replacement: an operation with computed attributes.
Pattern with(Attributes (*make)(const Match&), Op op, std::vector<Pattern> inputs);
/// In a pattern: lets the operation `p` have other users, since the replacement is no dearer for it.
Pattern shared(const Pattern& p);

inline Pattern operator+(const Pattern& x, const Pattern& y) { return operation(Op::add, {x, y}); }
inline Pattern operator-(const Pattern& x, const Pattern& y) { return operation(Op::sub, {x, y}); }
inline Pattern operator*(const Pattern& x, const Pattern& y) { return operation(Op::mul, {x, y}); }
inline Pattern operator/(const Pattern& x, const Pattern& y) { return operation(Op::div, {x, y}); }
inline Pattern operator-(const Pattern& x) { return operation(Op::neg, {x}); }
inline Pattern operator+(double x, const Pattern& y) { return exactly(x) + y; }
inline Pattern operator+(const Pattern& x, double y) { return x + exactly(y); }
inline Pattern operator-(double x, const Pattern& y) { return exactly(x) - y; }
inline Pattern operator-(const Pattern& x, double y) { return x - exactly(y); }
inline Pattern operator*(double x, const Pattern& y) { return exactly(x) * y; }
inline Pattern operator*(const Pattern& x, double y) { return x * exactly(y); }
inline Pattern operator/(double x, const Pattern& y) { return exactly(x) / y; }
inline Pattern operator/(const Pattern& x, double y) { return x / exactly(y); }

#define UNISONO_FUNCTION(NAME, ...) \
  inline Pattern NAME(const Pattern& x) { return operation(Op::NAME, {x}); }
#define UNISONO_FUNCTION_1(...)  // with attributes: by with() and with_attributes()
#define UNISONO_FUNCTION_2(...)
#include "unisono/operations.def"
inline Pattern logical_not(const Pattern& x) { return operation(Op::logical_not, {x}); }
#define UNISONO_PATTERN_BINARY(NAME) \
  inline Pattern NAME(const Pattern& x, const Pattern& y) { return operation(Op::NAME, {x, y}); }
UNISONO_PATTERN_BINARY(min)
UNISONO_PATTERN_BINARY(max)
UNISONO_PATTERN_BINARY(pow)
UNISONO_PATTERN_BINARY(less)
UNISONO_PATTERN_BINARY(less_equal)
UNISONO_PATTERN_BINARY(greater)
UNISONO_PATTERN_BINARY(greater_equal)
UNISONO_PATTERN_BINARY(equal)
UNISONO_PATTERN_BINARY(not_equal)
UNISONO_PATTERN_BINARY(logical_and)
UNISONO_PATTERN_BINARY(logical_or)
#undef UNISONO_PATTERN_BINARY
inline Pattern fma(const Pattern& x, const Pattern& y, const Pattern& z) { return operation(Op::fma, {x, y, z}); }
inline Pattern select(const Pattern& c, const Pattern& x, const Pattern& y) { return operation(Op::select, {c, x, y}); }

/// What a pattern matched.
class Match {
 public:
  Match(const Editor& graph, ValueId root) : graph_(&graph), root_(root) {
    values_.fill(none);
    attributes_.fill(none);
  }

  const Editor& graph() const { return *graph_; }
  ValueId root() const { return root_; }
  const Node& root_node() const { return (*graph_)[root_]; }
  DType dtype() const { return root_node().dtype; }
  ValueId value(int slot) const { return values_[static_cast<std::size_t>(slot)]; }
  const Node& node(int slot) const { return (*graph_)[value(slot)]; }
  /// The constant in a hole made by number().
  double number(int slot) const { return node(slot).attr.value; }
  const Attributes& attributes(int slot) const { return (*graph_)[attributes_[static_cast<std::size_t>(slot)]].attr; }

 private:
  friend class Matcher;
  static constexpr ValueId none = ~ValueId{0};
  struct Inner {
    ValueId id;
    bool shared;
  };

  const Editor* graph_;
  ValueId root_;
  std::array<ValueId, 8> values_{};
  std::array<ValueId, 4> attributes_{};  // the node that has them
  std::vector<Inner> inner_;             // operations matched below the root
};

/// Which dtypes a row may rewrite. All floating-point operations that a row matches must have the dtype of the root, so
/// that no rounding is moved or dropped.
enum class Dtypes : std::uint8_t {
  wide,  ///< f32 and f64: the nodes of the shorter types round, so that regrouping them would change what was asked for
  floats,  ///< every floating-point type: the row gives the same bits in each
  any,     ///< integers and bool too
};

struct Row {
  std::string_view name;  ///< "pattern -> replacement", for docs and logs
  Pattern from;
  Pattern to;
  Dtypes dtypes = Dtypes::wide;
  bool (*condition)(const Match&) = nullptr;
};

/// The first way in which `row` matches at `root` with its condition, or nothing. Values matched inside the pattern
/// must not be needed elsewhere, unless marked as shared: they would be computed twice.
std::optional<Match> match(const Editor& graph, ValueId root, const Row& row);

/// Adds the nodes of the replacement. Nothing if it is not legal here, as with a slope that is not finite: what was
/// added till then is for roll_back().
std::optional<ValueId> instantiate(Editor& graph, const Pattern& pattern, const Match& match);

/// Rows by the operation at their root.
class RowTable {
 public:
  /// The rows of all groups, in that order.
  RowTable(std::initializer_list<std::vector<Row>> groups);
  explicit RowTable(std::vector<Row> rows) : RowTable({std::move(rows)}) {}
  std::span<const Row> rows() const { return rows_; }
  std::span<const Row* const> rows_for(Op op) const { return by_op_[static_cast<std::size_t>(op)]; }

 private:
  std::vector<Row> rows_;
  std::vector<std::vector<const Row*>> by_op_;
};

using RowObserver = std::function<void(const Row& row)>;

/// Replaces matches until no row fires; `observer` hears of each that does. A row fires only if its replacement has the
/// type of what it replaces. Returns true if the graph changed. Throws InternalError if the rows do not come to an end.
bool apply(const RowTable& table, Editor& graph, const RowObserver& observer = {});

}  // namespace unisono::passes
