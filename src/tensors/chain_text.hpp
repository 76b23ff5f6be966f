#pragma once
/// The text of a chain of operators.

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tensors/affine.hpp"
#include "tensors/chain.hpp"

namespace unisono::tensors {

/// Axes of a tensor as they lie in memory, the outermost first.
std::vector<int> memory_order(const StridedTensor& x);

/// How threads divide the first result: each has `chunk` neighbouring elements of a line along `axis`, some times over;
/// a team of threads has a line.
struct ChainShares {
  int axis = 0;
  std::int64_t length = 1;  ///< elements of a line
  std::int64_t lines = 1;   ///< how many the result has
  std::vector<int> outer;   ///< the other axes, the outermost first
  std::int64_t chunk = 1, team = 1, times = 1;
};

/// A place in a tensor: its index along each axis.
using Place = std::vector<Affine>;

/// Writes values node by node, those of several places side by side.
class ChainWriter {
 public:
  ChainWriter(const ChainProgram& program, std::span<const StridedTensor> tensors, const ChainShares& shares);
  /// Throws ChainRefusal.
  KernelText text();

 private:
  using Places = std::vector<Place>;
  using Values = std::vector<NodeValue>;
  // Values and words that a block of the text knows. It is written when it ends: a reduction in it stands before it
  struct Scope {
    std::string head, text;
    std::map<std::pair<std::size_t, Place>, NodeValue> values;
    std::map<std::tuple<std::size_t, Affine, int, std::int64_t>, std::string> words;
  };
  // Where a join's element comes from: operand `first` or later ones, as these sums are below these bounds
  struct Choice {
    std::size_t first = 0;
    std::vector<std::pair<Affine, std::int64_t>> below;
    auto operator<=>(const Choice&) const = default;
  };

  void line(const std::string& text);
  void open(const std::string& head);
  void close(const std::string& tail);
  std::string fresh() { return "v" + std::to_string(names_++); }
  Place resolved(Place place) const;
  std::optional<NodeValue> known(std::size_t node, const Place& place) const;
  void know(std::size_t node, const Place& place, NodeValue value);

  Values values(std::size_t node, const Places& places);
  Values moved(const ChainNode& n, const Places& places);
  Affine by_digits(const ChainNode& n, Affine left);
  Affine looked_up(const ChainNode& n, const Affine& at);
  Place source(const ChainNode& n, const Place& place);
  Values computed(std::size_t node, const Places& places);
  Values joined(std::size_t node, const Places& places);
  Choice choice(const ChainNode& n, const Affine& at) const;
  Values chosen(const ChainNode& n, const Choice& choice, const Places& places);
  Places narrowed(Places places, const Choice& choice, std::size_t i, std::int64_t& begin);
  Values part(const ChainNode& n, std::size_t operand, Places places);
  NodeValue reduced(std::size_t node, const Place& place);
  NodeValue folded(const ChainNode& n, const Place& place);
  void require_line(const ChainNode& n, const Place& place) const;
  Values loaded(std::size_t tensor, const Places& places);
  std::string element(std::size_t tensor, const Affine& terms, std::int64_t at,
                      const std::vector<std::int64_t>& wanted);
  bool is_word(std::size_t tensor, const Affine& terms, int width, std::int64_t word,
               const std::vector<std::int64_t>& wanted) const;
  std::int64_t parts(std::size_t time) const;
  Places places_of(std::size_t time, Place place, int axis);
  void store(std::size_t result, const Places& places);
  Place place_in(std::size_t result, const Place& place);
  DType type_of(const ChainNode& n) const;

  const ChainProgram& p_;
  std::span<const StridedTensor> tensors_;
  const ChainShares& shares_;
  Indices indices_;
  std::vector<DType> types_;  // by node
  std::vector<Scope> scopes_{1};
  std::size_t names_ = 0, lines_ = 0;
};

/// Why there is no text.
struct ChainRefusal {
  std::string why;
};

}  // namespace unisono::tensors
