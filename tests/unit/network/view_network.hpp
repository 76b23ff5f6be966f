#pragma once
/// Random networks for the tests of what may be written over.

#include "cases.hpp"
#include "support/broadcasts.hpp"

namespace unisono::test {

/// Draws networks of tensors of any rank that are broadcast, seen as other shapes and joined, with many chances to
/// write over a tensor.
class ViewNetwork {
 public:
  explicit ViewNetwork(std::uint64_t seed) : r_(seed) {}

  Network draw() {
    for (int i = 0; i < 3; ++i) keep(net_.input("x" + std::to_string(i), dims(space())));
    const int steps = r_.between(6, 18);
    for (int i = 0; i < steps; ++i) step();
    const int outputs = r_.between(1, 3);
    for (int i = 0; i < outputs; ++i) net_.output(i == 0 ? values_.back() : pick(), "y" + std::to_string(i));
    return net_.build();
  }

 private:
  static Shape dims(const Extents64& s) { return Shape(s.begin(), s.end()); }
  static Extents64 shape(NetworkValue v) {
    Extents64 s;
    for (const Dim& d : v.shape()) s.push_back(d.value());
    return s;
  }
  // Extents of which many agree, so that much broadcasts
  Extents64 space() {
    Extents64 s;
    const int rank = r_.below(6);
    for (int i = 0; i < rank; ++i) s.push_back(r_.one_of({1, 1, 4, 4, 2}));
    return s;
  }
  NetworkValue pick() { return r_.chance(0.5) ? values_.back() : r_.one_of(values_); }
  void keep(NetworkValue v) { values_.push_back(v); }

  void step() {
    const NetworkValue v = pick();
    switch (r_.below(8)) {
      case 0: return keep(seen(v));
      case 1: return keep(moved(v));
      case 2: return keep(joined(v));
      case 3: return keep(r_.chance(0.5) ? relu(v) : v * 0.5);
      case 4: return keep(shape(v).empty() ? v + 1 : softmax(v));
      default: return keep(combined(v));
    }
  }
  // By a step of its own, so that an elementwise region over it follows
  NetworkValue moved(NetworkValue v) {
    const std::size_t rank = shape(v).size();
    if (rank == 4 && r_.chance(0.5)) return max_pool(v, {.kernel = 1, .stride = 1});
    std::vector<int> order(rank);
    for (std::size_t i = 0; i < rank; ++i) order[i] = static_cast<int>(i);
    if (rank > 1 && r_.chance(0.5)) std::swap(order[0], order[rank - 1]);
    return rank == 0 ? -v : transpose(v, order);
  }
  // The same elements with another shape: ones put in or left out, axes joined or divided
  NetworkValue seen(NetworkValue v) {
    Extents64 s = shape(v), to;
    if (r_.chance(0.3)) return reshape(v, {element_count(s)});
    for (const std::int64_t d : s)
      if (d != 1 || r_.chance(0.5)) to.push_back(d);
    while (to.size() < 5 && r_.chance(0.6)) to.insert(to.begin() + r_.below(static_cast<int>(to.size()) + 1), 1);
    return reshape(v, to);
  }
  NetworkValue joined(NetworkValue v) {
    const Extents64 s = shape(v);
    if (s.empty() || s.back() > 8 || element_count(s) > 200) return relu(v);
    const int axis = s.size() == 4 ? 1 : static_cast<int>(s.size()) - 1;
    for (std::size_t i = values_.size(); i-- > 0;)
      if (values_[i].id() != v.id() && shape(values_[i]) == s) return concat({v, values_[i]}, axis);
    return concat({v, relu(v)}, axis);
  }
  // With another value that broadcasts, or a constant over a part of its axes
  NetworkValue combined(NetworkValue v) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      const NetworkValue w = r_.one_of(values_);
      if (broadcasts(shape(v), shape(w))) return r_.chance(0.5) ? v * w : w - v;
    }
    Extents64 s = shape(v);
    for (std::int64_t& d : s)
      if (r_.chance(0.5)) d = 1;
    return v + net_.constant("c", dims(s), test::random_elements(r_, element_count(s)));
  }
  static bool broadcasts(const Extents64& x, const Extents64& y) {
    std::int64_t count = 1;
    for (std::size_t i = 1; i <= std::max(x.size(), y.size()); ++i) {
      const std::int64_t a = i <= x.size() ? x[x.size() - i] : 1, b = i <= y.size() ? y[y.size() - i] : 1;
      if (a != b && a != 1 && b != 1) return false;
      count *= std::max(a, b);
    }
    return count <= 4096;
  }

  Random r_;
  NetworkBuilder net_;
  std::vector<NetworkValue> values_;
};

}  // namespace unisono::test
