#pragma once
/// Cuts a network into regions: see fuser.cpp. Internal to the fuser's two sources.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "network/regions.hpp"

namespace unisono::network {

inline constexpr const char* of_any_type = "compares, chooses, rounds or converts, or is of another type than f32";

/// Whether the operator computes elements of any type.
inline bool is_map(const OperatorKind& k) { return std::holds_alternative<operators::Map>(k); }

class Fuser {
 public:
  /// `chains`: operators that are one region each (find_chains), by their indices.
  Fuser(Network network, bool fuse, const MemoryStyle& style, const std::vector<std::vector<std::size_t>>& chains = {});
  FusedNetwork run();

 private:
  void index();
  void pair_products();
  void grow(std::size_t seed);
  void join(std::size_t candidate, std::size_t seed, std::set<std::size_t>& candidates);
  void absorb(std::size_t seed);
  std::vector<std::size_t> made_for(std::size_t reader, std::size_t seed) const;
  std::vector<std::size_t> with_conditions(std::size_t candidate, std::size_t seed) const;
  bool joins(std::size_t candidate, std::size_t seed);
  std::optional<Refusal> refusal(std::size_t candidate, std::size_t seed);
  Refusal refused_user(std::size_t user, std::size_t seed);
  std::optional<Refusal> refused_operand(std::size_t candidate, std::size_t input, std::size_t seed) const;
  std::optional<Refusal> refused_beside(const Operator& c, std::size_t seed) const;
  std::optional<Refusal> refused_position(const Operator& c, std::size_t seed) const;
  bool computes_elements(std::size_t unit) const;
  std::optional<Refusal> refused_island(const Operator& c, std::size_t seed) const;
  bool touches_position(const Operator& o) const;
  bool touches_island(const Operator& o) const;
  void note_extent(std::size_t unit);
  bool stands_before(std::size_t unit, std::size_t position) const;
  bool depends_on(std::size_t unit, std::size_t target) const;
  bool is_mapped(std::size_t unit) const;
  bool may_map(std::size_t unit) const;
  bool has_number_types(const Operator& o) const;
  std::vector<std::size_t> unit_order() const;
  Region region(std::size_t unit);
  std::string end_note(const Region& r, const std::vector<TensorId>& stored);
  std::vector<TensorId> stored_tensors(const std::vector<std::size_t>& members) const;
  const Operator& op(std::size_t i) const { return network_.operators[i]; }
  const Shape& shape(std::size_t i) const { return network_[op(i).output].shape; }

  Network network_;
  bool fuse_, maps_;
  std::int64_t dual_multiple_;  // of rows and columns of weights of two products; 0: none are joined
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> producer_;              // by tensor: the operator, or none
  std::vector<std::vector<std::size_t>> users_;    // by tensor
  std::vector<bool> is_output_;                    // by tensor
  std::vector<bool> positions_;                    // by tensor; none where memory has all of f32
  std::vector<std::size_t> unit_;                  // by operator: first operator of its unit
  std::vector<std::vector<std::size_t>> members_;  // by unit, in order
  std::vector<std::size_t> last_;                  // by operator: the last one of all units that begin no later
  std::map<std::size_t, std::size_t> second_;      // by unit: the other product of its matrix
  std::set<std::size_t> chains_;                   // units that are chains
};

}  // namespace unisono::network
