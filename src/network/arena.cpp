#include "network/arena.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "network/interval_index.hpp"
#include "support/checked.hpp"

namespace unisono::network {

namespace {

using support::Checked;

constexpr const char* arena_bytes = "bytes of the tensors between the steps of a network";

// Start of the smallest gap between `taken` that holds `bytes`, or the end of the last
std::size_t best_gap(std::vector<IndexRange>& taken, std::size_t bytes) {
  std::sort(taken.begin(), taken.end(), [](const IndexRange& x, const IndexRange& y) { return x.begin < y.begin; });
  std::size_t end = 0, best = 0, best_size = 0;
  for (const IndexRange& r : taken) {
    const std::size_t gap = r.begin > end ? r.begin - end : 0;
    if (gap >= bytes && (best_size == 0 || gap < best_size)) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, r.end);
  }
  return best_size != 0 ? best : end;
}

// The highest byte taken in each step, of ranges of steps
class Skyline {
 public:
  explicit Skyline(std::size_t steps)
      : leaves_(std::bit_ceil(steps + 1)), all_(2 * leaves_, 0), some_(2 * leaves_, 0) {}

  void raise(IndexRange steps, std::size_t to) { raise(1, {0, leaves_}, steps, to); }
  std::size_t over(IndexRange steps) const { return over(1, {0, leaves_}, steps); }

 private:
  static bool apart(IndexRange x, IndexRange y) { return x.end <= y.begin || y.end <= x.begin; }
  static std::size_t middle(IndexRange x) { return x.begin + (x.end - x.begin) / 2; }

  void raise(std::size_t node, IndexRange here, IndexRange steps, std::size_t to) {
    if (apart(here, steps)) return;
    some_[node] = std::max(some_[node], to);
    if (steps.begin <= here.begin && here.end <= steps.end) {
      all_[node] = std::max(all_[node], to);
      return;
    }
    raise(2 * node, {here.begin, middle(here)}, steps, to);
    raise(2 * node + 1, {middle(here), here.end}, steps, to);
  }
  std::size_t over(std::size_t node, IndexRange here, IndexRange steps) const {
    if (apart(here, steps)) return 0;
    if (steps.begin <= here.begin && here.end <= steps.end) return some_[node];
    return std::max({all_[node], over(2 * node, {here.begin, middle(here)}, steps),
                     over(2 * node + 1, {middle(here), here.end}, steps)});
  }

  std::size_t leaves_;
  std::vector<std::size_t> all_, some_;  // by node: what every step below it has at least; what one has
};

ArenaPlan one_after_another(std::span<const Lifetime> buffers, const std::vector<std::size_t>& order) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  for (const std::size_t i : order) {
    if (buffers[i].bytes == 0) continue;
    plan.offsets[i] = plan.bytes;
    plan.bytes = (Checked(arena_bytes, plan.bytes) + arena_size(buffers[i].bytes)).to<std::size_t>();
  }
  return plan;
}

// Pairs of buffers in use at the same time that are looked at, at most. A network of 4,000 tensors that all live at the
// same time has fewer; the smallest tensors of larger ones are put on top of the others, into no gap.
constexpr std::size_t most_pairs = std::size_t{1} << 23;

}  // namespace

namespace {

// The largest first, each in the smallest gap that those in use at the same time leave
class ArenaPlanner {
 public:
  explicit ArenaPlanner(std::span<const Lifetime> buffers)
      : buffers_(buffers), lives_(lives(buffers)), placed_(lives_), skyline_(steps(lives_)) {
    plan_.offsets.assign(buffers.size(), 0);
  }

  ArenaPlan run(const std::vector<std::size_t>& order) && {
    for (const std::size_t i : order)
      if (const std::size_t bytes = arena_size(buffers_[i].bytes); bytes != 0) place(i, bytes);
    return std::move(plan_);
  }

 private:
  static std::vector<IndexRange> lives(std::span<const Lifetime> buffers) {
    std::vector<IndexRange> all;
    for (const Lifetime& b : buffers)
      all.push_back(
          {support::narrow<std::size_t>("a step", b.first), support::narrow<std::size_t>("a step", b.last) + 1});
    return all;
  }
  static std::size_t steps(const std::vector<IndexRange>& lives) {
    std::size_t last = 0;
    for (const IndexRange& life : lives) last = std::max(last, life.end);
    return last;
  }

  void place(std::size_t i, std::size_t bytes) {
    meeting_.clear(), taken_.clear();
    placed_.find(lives_[i], meeting_, most_pairs - pairs_ + 1);
    pairs_ += meeting_.size();
    if (pairs_ <= most_pairs) {
      for (const std::size_t j : meeting_)
        taken_.push_back({plan_.offsets[j], plan_.offsets[j] + arena_size(buffers_[j].bytes)});
      plan_.offsets[i] = best_gap(taken_, bytes);
    } else {
      pairs_ = most_pairs;
      plan_.offsets[i] = skyline_.over(lives_[i]);
    }
    const auto end = (Checked(arena_bytes, plan_.offsets[i]) + bytes).to<std::size_t>();
    plan_.bytes = std::max(plan_.bytes, end);
    placed_.insert(i);
    skyline_.raise(lives_[i], end);
  }

  std::span<const Lifetime> buffers_;
  std::vector<IndexRange> lives_;
  IntervalIndex placed_;
  Skyline skyline_;
  ArenaPlan plan_;
  std::size_t pairs_ = 0;
  std::vector<std::size_t> meeting_;
  std::vector<IndexRange> taken_;
};

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> buffers, bool reuse) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return buffers[x].bytes > buffers[y].bytes; });
  return reuse ? ArenaPlanner(buffers).run(order) : one_after_another(buffers, order);
}

}  // namespace unisono::network
