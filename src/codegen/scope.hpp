#pragma once
/// The body of one generated function: values that are given there, and lines for those that are computed.

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>

#include "codegen/names.hpp"
#include "unisono/graph.hpp"

namespace unisono::codegen {

class Scope {
 public:
  /// How a leaf or a value of elsewhere is spelled here, or "" if it is to be computed. A spelling that is more than a
  /// name gets a line of its own.
  using Given = std::function<std::string(ValueId)>;
  /// Another spelling of a node's expression over these inputs, or "" for the usual one.
  using Instead = std::function<std::string(ValueId, std::span<const std::string>)>;

  Scope(const Graph& graph, const Names& names, bool accurate, Given given, Instead instead = {})
      : g_(graph), names_(names), accurate_(accurate), given_(std::move(given)), instead_(std::move(instead)) {}

  /// Writes lines for all that `values` need, each value once and in the order of the graph.
  void compute(std::span<const ValueId> values);
  /// The text of a computed value, a name or a literal, as type_of(`as`).
  std::string text(ValueId id, DType as) const;
  void line(const std::string& text) { lines_ += "        " + text + "\n"; }
  const std::string& lines() const { return lines_; }

 private:
  const Graph& g_;
  const Names& names_;
  bool accurate_;
  Given given_;
  Instead instead_;
  std::map<ValueId, std::string> texts_;
  std::string lines_;
};

}  // namespace unisono::codegen
