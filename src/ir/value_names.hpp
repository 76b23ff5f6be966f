#pragma once
/// Distinct names for the values of a graph.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// Hands out names that clash with no operand, function, word of the text form or one another. A value keeps the name
/// that it has; if another had it first, it gets a number after it. A value without a name takes that of its store.
class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);

  /// The name of `id`, or "" if nothing suggests one.
  const std::string& suggested(ValueId id) const { return names_[id]; }

  /// A new name: "t0", "t1", …
  std::string next();

 private:
  void suggest(ValueId id, const std::string& name);
  bool is_free(const std::string& name) const;

  const Graph& graph_;
  std::vector<std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, int> copies_;
  int next_ = 0;
};

}  // namespace unisono::ir
