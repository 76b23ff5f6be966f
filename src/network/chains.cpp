/// Finds chains: several launches of operators on elements, moves and reductions that may be one.
///
/// From an operator that would be launched anyhow, back to what makes its inputs, as long as nothing else reads that,
/// or it is a move, of which a chain may have its own. What is free where it is (views, ranges of columns) is read
/// through. A chain whose kernel is refused is tried again without reductions.

#include "network/chains.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "network/digits.hpp"
#include "network/dim.hpp"
#include "network/positions.hpp"
#include "network/space.hpp"
#include "network/storage.hpp"
#include "support/dtypes.hpp"

namespace unisono::network {

namespace {

constexpr std::size_t longest_chain = 64;    // operators
constexpr std::int64_t most_repeats = 16;    // of what is computed once where it stands
constexpr std::int64_t longest_line = 1024;  // of which one number may be
constexpr std::int64_t most_joined = 16;     // tensors of a concatenation

bool is_reduction(const OperatorKind& k) {
  return std::holds_alternative<operators::Reduce>(k) || std::holds_alternative<operators::Normalisation>(k) ||
         std::holds_alternative<operators::Softmax>(k);
}

bool is_chained_move(const OperatorKind& k) {
  using namespace operators;
  return is_reshape(k) || std::holds_alternative<Transpose>(k) || std::holds_alternative<Slice>(k) ||
         std::holds_alternative<Expand>(k) || std::holds_alternative<Tile>(k) || std::holds_alternative<Concat>(k) ||
         std::holds_alternative<Identity>(k) || std::holds_alternative<Gather>(k);
}

constexpr std::size_t most_stored = 4;

class ChainFinder {
 public:
  explicit ChainFinder(const FusedNetwork& fused)
      : f_(fused),
        n_(fused.network),
        region_(n_.operators.size(), 0),
        used_(n_.operators.size(), false),
        inner_(n_.operators.size(), false),
        maker_(n_.tensors.size()),
        readers_(n_.tensors.size()),
        is_stored_(n_.tensors.size(), false),
        positions_(positions(n_)) {
    for (std::size_t r = 0; r < f_.regions.size(); ++r)
      for (const std::size_t i : f_.regions[r].operators) region_[i] = r;
    for (std::size_t i = 0; i < n_.operators.size(); ++i) {
      maker_[n_.operators[i].output] = i;
      for (const TensorId id : n_.operators[i].inputs) readers_[id].push_back(i);
    }
    for (const TensorId id : n_.outputs) is_stored_[id] = true;
  }

  std::vector<ChainMembers> run() {
    std::vector<ChainMembers> chains;
    for (std::size_t i = n_.operators.size(); i-- > 0;)
      for (const bool reduces : {true, false}) {
        if (used_[i] || !may_end(i)) break;
        ChainMembers chain = grown(i, reduces);
        if (saved(chain) < 1 || !reads_stored(chain) || !is_served(chain)) continue;
        take(chain);
        chains.push_back(std::move(chain));
      }
    return chains;
  }

 private:
  const Region& region(std::size_t i) const { return f_.regions[region_[i]]; }
  bool is_launched(std::size_t i) const { return region(i).kind != RegionReport::Kind::free; }
  bool is_plain(TensorId id) const;
  bool may_be_part(std::size_t i) const;
  bool may_end(std::size_t i) const { return is_launched(i) && may_be_part(i); }
  bool stands_behind(std::size_t reader, const ChainMembers& chain) const;
  std::optional<ChainRole> role(std::size_t i, const ChainMembers& chain) const;
  bool join(std::size_t i, ChainMembers& chain, std::int64_t elements, bool reduces) const;
  ChainMembers grown(std::size_t last, bool reduces) const;
  std::size_t saved(const ChainMembers& chain) const;
  bool reads_stored(const ChainMembers& chain) const;
  void take(const ChainMembers& chain);
  bool is_served(const ChainMembers& chain) const;
  tensors::StridedTensor dense(TensorId id) const;

  const FusedNetwork& f_;
  const Network& n_;
  std::vector<std::size_t> region_;                // by operator
  std::vector<bool> used_, inner_;                 // by operator: in a chain; and not its last one
  std::vector<std::optional<std::size_t>> maker_;  // by tensor
  std::vector<std::vector<std::size_t>> readers_;  // by tensor
  std::vector<bool> is_stored_, positions_;        // by tensor: read beside chains, too
};

// Whether it is f32 of the model's that lies in 16 bits, or bool, with extents that are known
bool ChainFinder::is_plain(TensorId id) const {
  const NetworkTensor& t = n_[id];
  const auto is_known = [](const Dim& d) { return d.known() && d.value() > 0; };
  if (!std::ranges::all_of(t.shape, is_known)) return false;
  if (t.is_constant()) return t.dtype == DType::f32 || t.dtype == DType::boolean;
  if (t.dtype == DType::boolean) return true;
  return t.dtype == DType::f32 && !t.keeps_f32 && !f_.own_type[id] && !f_.exact[id] && !positions_[id];
}

bool ChainFinder::may_be_part(std::size_t i) const {
  const Operator& op = n_.operators[i];
  if (region(i).kind == RegionReport::Kind::contraction || op.inputs.empty()) return false;
  if (const auto* m = std::get_if<operators::Map>(&op.kind); m != nullptr && m->op == MapOp::cast) return false;
  const bool is_kind = std::holds_alternative<operators::Elementwise>(op.kind) ||
                       std::holds_alternative<operators::Map>(op.kind) || is_reduction(op.kind) ||
                       is_chained_move(op.kind);
  if (!is_kind || std::ssize(op.inputs) > most_joined) return false;
  // one number of everything is part of the kernel that makes the elements, if there is one
  if (std::holds_alternative<operators::Reduce>(op.kind) && is_plain(op.output) &&
      element_count(values(n_[op.output].shape)) == 1)
    return false;
  if (const auto* g = std::get_if<operators::Gather>(&op.kind)) {
    const Shape& from = n_[op.inputs[0]].shape;
    const Dim& extent = from[static_cast<std::size_t>(g->axis)];
    if (!extent.known() || !is_table(n_[op.inputs[1]], extent.value())) return false;
  }
  const auto inputs = values_of(op);
  return is_plain(op.output) && std::ranges::all_of(inputs, [&](TensorId id) { return is_plain(id); });
}

// Whether the reader of something that the chain stores, and all that it is moved to, stands behind the chain's end. Of
// a move that the chain has a copy of, the chain's own operators read the copy; moves copied, too, read the original,
// too
bool ChainFinder::stands_behind(std::size_t reader, const ChainMembers& chain) const {
  const Operator& op = n_.operators[reader];
  if (reader > chain.rbegin()->first) return true;
  if (!is_chained_move(op.kind) || std::holds_alternative<operators::Concat>(op.kind)) return false;
  const bool is_copied = chain.contains(reader);
  return std::ranges::all_of(readers_[op.output], [&](std::size_t r) {
    const auto member = chain.find(r);
    if (member == chain.end()) return stands_behind(r, chain);
    return is_copied && (member->second != ChainRole::copied || stands_behind(r, chain));
  });
}

// What an operator would be in the chain. What it makes is stored if others read it behind the chain's end, so that
// nothing that the chain reads is made of it; of as many elements as the end's
std::optional<ChainRole> ChainFinder::role(std::size_t i, const ChainMembers& chain) const {
  const Operator& op = n_.operators[i];
  const std::size_t last = chain.rbegin()->first;
  bool is_inner = !is_stored_[op.output], is_behind = true;
  for (const std::size_t r : readers_[op.output]) {
    const auto reader = chain.find(r);
    const bool is_here = reader != chain.end() && reader->second != ChainRole::copied;
    is_inner = is_inner && is_here;
    is_behind = is_behind && (is_here || stands_behind(r, chain));
  }
  if (!used_[i] && is_inner) return ChainRole::inner;
  if (is_chained_move(op.kind))
    return std::holds_alternative<operators::Concat>(op.kind) ? std::nullopt : std::optional(ChainRole::copied);
  const auto stored = std::ranges::count_if(chain, [](const auto& m) { return m.second == ChainRole::stored; });
  const bool is_as_large =
      element_count(values(n_[op.output].shape)) == element_count(values(n_[n_.operators[last].output].shape));
  const bool fits = !used_[i] && is_behind && is_as_large && std::cmp_less(stored, most_stored);
  return fits ? std::optional(ChainRole::stored) : std::nullopt;
}

// Takes an operator in; whether anything changed
bool ChainFinder::join(std::size_t i, ChainMembers& chain, std::int64_t elements, bool reduces) const {
  const Operator& op = n_.operators[i];
  if (!may_be_part(i) || (!reduces && is_reduction(op.kind))) return false;
  const auto role = this->role(i, chain);
  const auto known = chain.find(i);
  if (!role || (known != chain.end() && (known->second == *role || known->second == ChainRole::inner))) return false;
  const std::int64_t own =
      std::max(element_count(values(n_[op.inputs[0]].shape)), element_count(values(n_[op.output].shape)));
  const Shape& made = n_[op.output].shape;
  const bool is_of_line = !made.empty() && is_one(made[column_axis(made.size())]);
  const std::int64_t repeats = is_of_line ? longest_line : most_repeats;
  if (!is_chained_move(op.kind) && own * repeats < elements) return false;
  chain[i] = *role;
  return true;
}

ChainMembers ChainFinder::grown(std::size_t last, bool reduces) const {
  if (!reduces && is_reduction(n_.operators[last].kind)) return {};
  ChainMembers chain{{last, ChainRole::stored}};
  const std::int64_t elements = element_count(values(n_[n_.operators[last].output].shape));
  for (bool more = true; more;) {
    more = false;
    const ChainMembers before = chain;
    for (auto m = before.rbegin(); m != before.rend(); ++m)
      for (const TensorId id : values_of(n_.operators[m->first]))
        if (chain.size() < longest_chain && maker_[id]) more = join(*maker_[id], chain, elements, reduces) || more;
  }
  return chain;
}

// Launches less: those of regions that are in the chain, but for its own
std::size_t ChainFinder::saved(const ChainMembers& chain) const {
  std::set<std::size_t> regions;
  const auto is_own = [&](std::size_t m) { return chain.contains(m) && chain.at(m) != ChainRole::copied; };
  for (const auto& [i, role] : chain)
    if (is_launched(i) && std::ranges::all_of(region(i).operators, is_own)) regions.insert(region_[i]);
  return regions.empty() ? 0 : regions.size() - 1;
}

// Whether what the chain's own moves read is in it, too, or stored
bool ChainFinder::reads_stored(const ChainMembers& chain) const {
  for (const auto& [m, role] : chain)
    for (const TensorId id : values_of(n_.operators[m]))
      if (maker_[id] && !chain.contains(*maker_[id]) && inner_[*maker_[id]]) return false;
  return true;
}

void ChainFinder::take(const ChainMembers& chain) {
  for (const auto& [m, role] : chain) {
    used_[m] = used_[m] || role != ChainRole::copied;
    inner_[m] = inner_[m] || role == ChainRole::inner;
    for (const TensorId id : values_of(n_.operators[m]))
      if (role == ChainRole::copied && maker_[id] && !chain.contains(*maker_[id])) is_stored_[id] = true;
  }
}

tensors::StridedTensor ChainFinder::dense(TensorId id) const {
  const DType value = n_[id].dtype;
  const bool is_element = value == DType::f32 && !n_[id].is_constant();
  const std::vector<std::int64_t> sizes = values(n_[id].shape);
  return {{value, is_element ? f_.style.element : value},
          sizes,
          logical_strides(sizes, f_.pitch(id, column_count(sizes))),
          0,
          16};
}

bool ChainFinder::is_served(const ChainMembers& chain) const {
  std::vector<std::size_t> members;
  std::vector<TensorId> results;
  for (const auto& [m, role] : chain) {
    members.push_back(m);
    if (role == ChainRole::stored) results.insert(results.begin(), n_.operators[m].output);
  }
  const auto made = chain_of(n_, members, results);
  if (!made) return false;
  std::vector<tensors::StridedTensor> all;
  for (const TensorId id : made->inputs) all.push_back(dense(id));
  for (const TensorId id : results) all.push_back(dense(id));
  return tensors::chain(made->program, all).has_value();
}

}  // namespace

Chained find_chains(const FusedNetwork& fused) { return with_copies(fused.network, ChainFinder(fused).run()); }

}  // namespace unisono::network
