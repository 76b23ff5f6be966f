#include "network/cuda/dependencies.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "network/cuda/hazards.hpp"

namespace unisono::network::gpu {

namespace {

// More than half of the threads that the GPU holds, or nearly all of its SMs
bool fills(const Uses& u, const Capacity& c) {
  if (u.exclusive) return 8 * u.blocks > 7 * c.sms;
  return 2 * u.blocks * u.threads > c.sms * c.threads;
}

// The pairs of launches that do not fit on the GPU together: of each launch the earlier ones that it has to wait for,
// without those that one of them waits for in any case. Launches of a kind that are never beside one another follow one
// another.
class Sharing {
 public:
  explicit Sharing(const Capacity& capacity)
      : c_(capacity),
        small_(static_cast<std::size_t>(capacity.sms) + 1),
        last_of_(static_cast<std::size_t>(capacity.sms) + 2, none) {}

  void next(const Uses& u, std::vector<std::size_t>& found) {
    if (u.exclusive) {
      contraction(u, found);
    } else {
      add(whole_, found);
      if (fills(u, c_)) add(filling_, found), filling_ = launch_;
      plain_.push_back(launch_);
    }
    if (u.exchanges) add(exchanging_, found), exchanging_ = launch_;
    ++launch_;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  static void add(std::size_t launch, std::vector<std::size_t>& found) {
    if (launch != none) found.push_back(launch);
  }
  static void take(std::vector<std::size_t>& from, std::vector<std::size_t>& found) {
    found.insert(found.end(), from.begin(), from.end());
    from.clear();
  }

  // Two contractions on more than half of the SMs are never beside each other; one on less is beside all
  // others of its kind
  void contraction(const Uses& u, std::vector<std::size_t>& found) {
    const std::int64_t all = c_.sms, blocks = std::clamp<std::int64_t>(u.blocks, 0, all + 1);
    const auto least = static_cast<std::size_t>(all - blocks + 1);  // blocks of those that it does not fit beside
    if (2 * blocks <= all) {
      add(last_of_[least], found);
      small_[static_cast<std::size_t>(blocks)].push_back(launch_);
      return;
    }
    add(last_of_[0], found);
    for (std::size_t b = least; b < small_.size(); ++b) take(small_[b], found);
    std::fill_n(last_of_.begin(), static_cast<std::size_t>(blocks) + 1, launch_);
    if (fills(u, c_)) take(plain_, found), whole_ = launch_;
  }

  const Capacity& c_;
  std::size_t launch_ = 0;
  std::size_t exchanging_ = none, filling_ = none, whole_ = none;  // last; plain and a contraction that fill the GPU
  std::vector<std::size_t> plain_;               // that no contraction which fills the GPU has waited for
  std::vector<std::vector<std::size_t>> small_;  // by blocks: contractions that no larger one has waited for
  std::vector<std::size_t> last_of_;  // by blocks: the last contraction of at least as many, and of over half
};

// Keeps of the launches that one waits for those that no other of them waits for
class Reduction {
 public:
  explicit Reduction(std::size_t launches) : all_before_(launches), seen_(launches, 0) { after_.reserve(launches); }

  // Adds the next launch, given its candidates in any order, some perhaps twice
  void next(std::vector<std::size_t>& candidates) {
    std::sort(candidates.begin(), candidates.end(), std::greater());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    const std::size_t launch = after_.size();
    ++mark_, before_ = 0;
    std::vector<std::size_t> kept;
    for (const std::size_t j : candidates) {
      if (j < before_ || seen_[j] == mark_) continue;
      kept.push_back(j);
      if (j != candidates.back()) visit(j, candidates.back());
    }
    all_before_[launch] = prefix(kept);
    std::reverse(kept.begin(), kept.end());
    after_.push_back(std::move(kept));
  }

  Order result() { return std::move(after_); }

 private:
  // Marks what `from` waits for, down to the launch `lowest`, but for those below before_
  void visit(std::size_t from, std::size_t lowest) {
    std::vector<std::size_t> open{from};
    while (!open.empty() && budget_ > 0) {
      const std::size_t u = open.back();
      open.pop_back();
      before_ = std::max(before_, all_before_[u]);
      for (const std::size_t j : after_[u]) {
        --budget_;
        if (j < lowest || j < before_ || seen_[j] == mark_) continue;
        seen_[j] = mark_;
        open.push_back(j);
      }
    }
  }

  // The launch waits for all launches ahead of this one, and perhaps for more: a long search ends early
  std::size_t prefix(const std::vector<std::size_t>& kept) {
    if (kept.empty()) return 0;
    if (kept.size() == 1) return all_before_[kept[0]] == kept[0] ? kept[0] + 1 : all_before_[kept[0]];
    ++mark_, before_ = 0;
    for (const std::size_t j : kept) before_ = std::max(before_, all_before_[j]);
    for (const std::size_t j : kept) seen_[j] = mark_;
    const std::int64_t left = budget_, most = std::min<std::int64_t>(left, 4096 + 8 * std::ssize(kept));
    budget_ = most;
    for (const std::size_t j : kept) visit(j, before_);
    budget_ = left - (most - budget_);
    std::size_t all = before_;
    while (all < after_.size() && seen_[all] == mark_) ++all;
    return all;
  }

  Order after_;
  std::vector<std::size_t> all_before_;  // by launch: it waits for all launches ahead of this one, and perhaps others
  std::vector<std::uint32_t> seen_;      // by launch: the last search that came by
  std::uint32_t mark_ = 0;
  std::size_t before_ = 0;                       // all launches ahead of this one are waited for
  std::int64_t budget_ = std::int64_t{1} << 27;  // edges that are looked at: beyond, some that others imply are kept
};

}  // namespace

Order dependencies(std::span<const Uses> launches, const Capacity& capacity) {
  Hazards memory(launches);
  Sharing sharing(capacity);
  Reduction reduction(launches.size());
  std::vector<std::size_t> candidates;
  for (const Uses& u : launches) {
    candidates.clear();
    memory.next(u, candidates);
    sharing.next(u, candidates);
    reduction.next(candidates);
  }
  return reduction.result();
}

Order within_segments(Order order, std::span<const std::size_t> cuts) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (; !cuts.empty() && cuts.front() <= i; cuts = cuts.subspan(1)) begin = cuts.front();
    std::erase_if(order[i], [&](std::size_t j) { return j < begin; });
  }
  return order;
}

}  // namespace unisono::network::gpu
