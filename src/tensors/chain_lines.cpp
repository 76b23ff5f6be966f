/// Reductions in chains of operators: along lines of the result, by teams of threads.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tensors/chain_text.hpp"

namespace unisono::tensors {

namespace {

// How a reduction folds a line: the struct of chain.cuh, and what becomes of the result
struct LineFold {
  const char* line;
  const char* finish;
};
LineFold fold_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return {"LineSum", "{x}"};
    case ReduceOp::mean: return {"LineSum", "{x} / {count}.f"};
    case ReduceOp::l1: return {"LineMagnitudes", "{x}"};
    case ReduceOp::l2: return {"LineSquares", "sqrtf({x})"};
    case ReduceOp::sum_square: return {"LineSquares", "{x}"};
    case ReduceOp::log_sum: return {"LineSum", "logf({x})"};
    case ReduceOp::prod: return {"LineProduct", "{x}"};
    case ReduceOp::max: return {"LineLargest", "{x}"};
    case ReduceOp::min: return {"LineSmallest", "{x}"};
    case ReduceOp::log_sum_exp: break;
  }
  throw ChainRefusal{"the logarithm of a sum of exponentials is no fold along a line"};
}

}  // namespace

// The same for all threads of a team, and known outside of all branches
void ChainWriter::require_line(const ChainNode& n, const Place& place) const {
  const ChainNode& operand = p_.nodes[n.operands[0]];
  if (operand.shape[static_cast<std::size_t>(n.axis)] != shares_.length)
    throw ChainRefusal{"it reduces other lines than those of the result"};
  for (std::size_t i = 0; i < place.size(); ++i) {
    const AffineRange range = indices_.range(place[i]);
    if (indices_.depends_on_lane(place[i]) || !indices_.holds_everywhere(place[i]) || range.least < 0 ||
        range.most >= n.shape[i])
      throw ChainRefusal{"it reduces across lines of the result"};
  }
}

NodeValue ChainWriter::reduced(std::size_t node, const Place& of) {
  const Place place = resolved(of);
  if (const auto value = known(node, place)) return *value;
  const ChainNode& n = p_.nodes[node];
  require_line(n, place);
  std::vector<Scope> inner(std::make_move_iterator(scopes_.begin() + 1), std::make_move_iterator(scopes_.end()));
  scopes_.resize(1);
  const NodeValue value = folded(n, place);
  know(node, place, value);
  scopes_.insert(scopes_.end(), std::make_move_iterator(inner.begin()), std::make_move_iterator(inner.end()));
  return value;
}

NodeValue ChainWriter::folded(const ChainNode& n, const Place& place) {
  const LineFold fold = fold_of(n.reduction);
  if (types_[n.operands[0]] != DType::f32) throw ChainRefusal{"it reduces another type than f32"};
  const std::string sum = fresh(), name = fresh();
  line(fmt::format("float {} = {}::start();", sum, fold.line));
  for (std::int64_t time = 0; time < shares_.times; ++time) {
    const bool is_partial = parts(static_cast<std::size_t>(time)) < shares_.team;
    if (is_partial) open(fmt::format("if (n % {} < {}) {{", shares_.team, parts(static_cast<std::size_t>(time))));
    for (const NodeValue& x : values(n.operands[0], places_of(static_cast<std::size_t>(time), place, n.axis)))
      line(fmt::format("{0} = {1}::join({0}, {1}::term({2}));", sum, fold.line, x.name));
    if (is_partial) close("}");
  }
  const std::string whole = fmt::format("over_team<{}, {}>({})", shares_.team, fold.line, sum);
  line(fmt::format("const float {} = {};", name,
                   fmt::format(fmt::runtime(fold.finish), fmt::arg("x", whole), fmt::arg("count", shares_.length))));
  return {name, DType::f32};
}

// Threads of a team that have a chunk when they have had so many
std::int64_t ChainWriter::parts(std::size_t time) const {
  const auto before = static_cast<std::int64_t>(time) * shares_.team;
  return std::min(shares_.team, shares_.length / shares_.chunk - before);
}

// The places of such a chunk, along an axis of a place that is otherwise given
ChainWriter::Places ChainWriter::places_of(std::size_t time, Place place, int axis) {
  const Affine lane = indices_.variable(fmt::format("n % {}", shares_.team), parts(time), true);
  const auto before = static_cast<std::int64_t>(time) * shares_.team;
  Places all;
  for (std::int64_t k = 0; k < shares_.chunk; ++k) {
    place[static_cast<std::size_t>(axis)] = (lane + before) * shares_.chunk + k;
    all.push_back(place);
  }
  return all;
}

}  // namespace unisono::tensors
