#include "network/cuda/hazards.hpp"

#include <algorithm>

namespace unisono::network::gpu {

namespace {

bool is_empty(const Interval& x) { return x.width == 0 || x.rows == 0; }

// Whether every interval that overlaps x overlaps y: x lies within y, and overlap() sees it
bool covers(const Interval& y, const Interval& x, std::size_t largest_pitch) {
  if (x.begin == y.begin && x.width == y.width && x.rows == y.rows && (x.rows == 1 || x.pitch == y.pitch)) return true;
  if (x.begin < y.begin || x.end() > y.end()) return false;
  if (y.rows == 1) return x.rows == 1 || y.width > largest_pitch;
  if ((x.rows > 1 && x.pitch != y.pitch) || y.width > y.pitch) return false;
  return (x.begin - y.begin) % y.pitch + x.width <= y.width;
}

// Columns of rows that lie `pitch` bytes apart; 0: anything else
std::size_t family_of(const Interval& x) { return x.rows > 1 && x.width <= x.pitch ? x.pitch : 0; }

// Accesses of one kind to one space of memory, of one family
class Family {
 public:
  explicit Family(std::size_t pitch) : pitch_(pitch) {}

  void expect(const Interval& x) {
    bytes_.push_back({x.begin, x.end()});
    if (pitch_ != 0) columns_.push_back(columns_of(x));
  }
  void begin() {
    by_bytes_ = std::make_unique<IntervalIndex>(bytes_);
    by_columns_ = std::make_unique<IntervalIndex>(columns_);
  }

  void insert(const Interval& x, std::size_t launch) {
    by_bytes_->insert(accesses_.size());
    if (pitch_ != 0) by_columns_->insert(accesses_.size());
    accesses_.push_back({x, launch});
  }

  void find(const Interval& x, std::vector<std::size_t>& found) {
    for (const std::size_t i : meeting(x))
      if (overlap(accesses_[i].interval, x)) found.push_back(accesses_[i].launch);
  }

  // `x` has been written; who wrote it waits for all that met it
  void forget(const Interval& x, std::size_t largest_pitch) {
    for (const std::size_t i : meeting(x)) {
      Interval& old = accesses_[i].interval;
      if (covers(x, old, largest_pitch)) {
        by_bytes_->erase(i);
        if (pitch_ != 0) by_columns_->erase(i);
      } else if (x.rows == 1 && old.rows == 1) {
        const std::size_t end = old.end();
        if (x.begin <= old.begin) {
          old.begin = x.end(), old.width = end - old.begin;
        } else if (x.end() >= end) {
          old.width = x.begin - old.begin;
        }
        by_bytes_->trim(i, {old.begin, old.end()});
      }
    }
  }

 private:
  struct Access {
    Interval interval;
    std::size_t launch;
  };

  IndexRange columns_of(const Interval& x) const { return {x.begin % pitch_, x.begin % pitch_ + x.width}; }

  // All that overlap x, and perhaps others. Slices of one tensor all lie within each other's bytes: where that are
  // many, by their columns, which other tensors of the same pitch share.
  const std::vector<std::size_t>& meeting(const Interval& x) {
    constexpr std::size_t many = 64;
    meeting_.clear();
    by_bytes_->find({x.begin, x.end()}, meeting_, many);
    if (meeting_.size() < many) return meeting_;
    meeting_.clear();
    if (pitch_ == 0 || x.width > pitch_ || (x.rows > 1 && x.pitch != pitch_)) {
      by_bytes_->find({x.begin, x.end()}, meeting_);
      return meeting_;
    }
    // Ranges may pass the end of a row; those there are counted from the row's begin, or on from the one before
    const IndexRange here = columns_of(x);
    by_columns_->find(here, meeting_);
    by_columns_->find({here.begin + pitch_, here.end + pitch_}, meeting_);
    if (here.end > pitch_) by_columns_->find({0, here.end - pitch_}, meeting_);
    return meeting_;
  }

  std::size_t pitch_;
  std::vector<IndexRange> bytes_, columns_;  // all that will come, in their order
  std::unique_ptr<IntervalIndex> by_bytes_, by_columns_;
  std::vector<Access> accesses_;
  std::vector<std::size_t> meeting_;
};

// Accesses of one kind to one space
class Accesses {
 public:
  void expect(const Interval& x) {
    const std::size_t pitch = family_of(x);
    families_.try_emplace(pitch, pitch).first->second.expect(x);
  }
  void begin() {
    for (auto& [pitch, family] : families_) family.begin();
  }
  void insert(const Interval& x, std::size_t launch) { families_.at(family_of(x)).insert(x, launch); }
  void find(const Interval& x, std::vector<std::size_t>& found) {
    for (auto& [pitch, family] : families_) family.find(x, found);
  }
  void forget(const Interval& x, std::size_t largest_pitch) {
    for (auto& [pitch, family] : families_) family.forget(x, largest_pitch);
  }

 private:
  std::map<std::size_t, Family> families_;
};

}  // namespace

struct Hazards::Space {
  Accesses reads, writes;
  std::size_t largest_pitch = 0;
};

Hazards::Hazards(std::span<const Uses> launches) {
  const auto expect = [&](const std::vector<Interval>& list, Accesses Space::*kind) {
    for (const Interval& x : list) {
      if (is_empty(x)) continue;
      auto& space = spaces_[x.space];
      if (!space) space = std::make_unique<Space>();
      ((*space).*kind).expect(x);
      if (x.rows > 1) space->largest_pitch = std::max(space->largest_pitch, x.pitch);
    }
  };
  for (const Uses& u : launches) expect(u.reads, &Space::reads), expect(u.writes, &Space::writes);
  for (auto& [number, space] : spaces_) space->reads.begin(), space->writes.begin();
}

Hazards::~Hazards() = default;

void Hazards::next(const Uses& launch, std::vector<std::size_t>& found) {
  const auto each = [&](const std::vector<Interval>& list, auto&& action) {
    for (const Interval& x : list)
      if (!is_empty(x)) action(x, *spaces_.at(x.space));
  };
  each(launch.reads, [&](const Interval& x, Space& s) { s.writes.find(x, found); });
  each(launch.writes, [&](const Interval& x, Space& s) { s.writes.find(x, found), s.reads.find(x, found); });
  each(launch.writes,
       [&](const Interval& x, Space& s) { s.writes.forget(x, s.largest_pitch), s.reads.forget(x, s.largest_pitch); });
  each(launch.reads, [&](const Interval& x, Space& s) { s.reads.insert(x, launch_); });
  each(launch.writes, [&](const Interval& x, Space& s) { s.writes.insert(x, launch_); });
  ++launch_;
}

}  // namespace unisono::network::gpu
