#pragma once
/// Names in generated code.

#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::codegen {

/// Whether it is a word of C++, or a name that compilers define: no identifier.
bool is_word(std::string_view name);

/// Identifiers of C++ for the values of a graph, for its operands and for its stores: those that they have, made legal
/// and distinct from one another, from words of C++ and from what generated code calls its own.
class Names {
 public:
  explicit Names(const Graph& graph);

  /// A value's name: its own, an operand's, or "v12".
  const std::string& of(ValueId id) const { return values_[id]; }
  /// The name of the memory that a store of statistics writes: "mu_memory".
  const std::string& of_store(std::size_t store) const { return stores_[store]; }
  /// The name of the stride from image to image of an operand [b,n]: "temb_pitch".
  const std::string& of_pitch(ValueId id) const { return pitches_[id]; }
  /// The name of a step, or of the vectors (Coordinate::m), of an operand that does not lie as the output does.
  const std::string& of_step(ValueId id, Coordinate c) const { return steps_.at(id)[static_cast<std::size_t>(c)]; }
  /// The same of a strided store.
  const std::string& of_store_step(std::size_t store, Coordinate c) const {
    return store_steps_.at(store)[static_cast<std::size_t>(c)];
  }

 private:
  using Steps = std::array<std::string, 5>;  // by Coordinate
  Steps steps_named(const std::string& name);
  std::string distinct(std::string_view wish);

  std::vector<std::string> values_, stores_, pitches_;
  std::map<ValueId, Steps> steps_;
  std::map<std::size_t, Steps> store_steps_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace unisono::codegen
