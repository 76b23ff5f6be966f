#include "families/cutlass_evt/topology.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace unisono::families::cutlass_evt {
namespace {

// Visitors that cost nothing to stand twice: registers that are there already
bool may_stand_twice(VisitorKind kind) {
  return kind == VisitorKind::accumulator || kind == VisitorKind::accumulator1 || kind == VisitorKind::source ||
         kind == VisitorKind::scalar;
}

class Shaper {
 public:
  explicit Shaper(const std::vector<Visitor>& list)
      : list_(list), users_(list.size()), meets_(list.size(), static_cast<int>(list.size()) - 1) {
    for (int at = 0; at < count(); ++at)
      for (const auto* read : {&list_[at].inputs, &list_[at].after})
        for (const int in : *read) users_[in].push_back(at);
    for (int at = count() - 2; at >= 0; --at) {
      int meet = users_[at].front();
      for (const int user : users_[at]) meet = common(meet, user);
      meets_[at] = meet;
    }
  }

  Tree shape(int root) const {
    const std::set<int> below = computed_from(root);
    std::set<int> flat{root}, items;
    for (const int in : list_[root].after) items.insert(in);
    // Between where a value branches and where its users meet, visitors are items, as they read one by its number; what
    // branches and meets among those belongs to the same topological visitor
    for (std::size_t before = 0; before != flat.size() + items.size();) {
      before = flat.size() + items.size();
      for (const int at : below) {
        const bool branches = users_[at].size() > 1 && !may_stand_twice(list_[at].kind);
        if (at == root || !(branches || items.contains(at)) || !flat.contains(meets_[at])) continue;
        items.insert(at);
        for (const int between : reached_from(at, meets_[at])) flat.insert(between), items.insert(between);
      }
    }
    if (items.empty()) {
      Tree tree{.visitor = root};
      for (const int in : list_[root].inputs) tree.children.push_back(shape(in));
      return tree;
    }
    return topological(root, flat, std::move(items));
  }

 private:
  int count() const { return static_cast<int>(list_.size()); }

  // Where the ways of two visitors to D meet; what stands behind them has been placed
  int common(int x, int y) const {
    while (x != y) (x < y ? x : y) = meets_[std::min(x, y)];
    return x;
  }

  std::set<int> computed_from(int root) const {
    std::set<int> all;
    const auto add = [&](auto&& self, int at) -> void {
      if (!all.insert(at).second) return;
      for (const auto* read : {&list_[at].inputs, &list_[at].after})
        for (const int in : *read) self(self, in);
    };
    add(add, root);
    return all;
  }

  // Visitors that read `from`, directly or not, ahead of `until`, where all of them meet
  std::set<int> reached_from(int from, int until) const {
    std::set<int> all;
    const auto add = [&](auto&& self, int at) -> void {
      for (const int user : users_[at])
        if (user != until && all.insert(user).second) self(self, user);
    };
    add(add, from);
    return all;
  }

  Tree topological(int root, const std::set<int>& flat, std::set<int> items) const {
    // What they read besides is an item too, a tree of its own
    for (const int at : flat)
      for (const int in : list_[at].inputs) items.insert(in);
    Tree tree{.visitor = root};
    std::vector<int> order(items.begin(), items.end());  // inputs stand ahead of what reads them
    order.push_back(root);
    const auto number = [&](int at) { return static_cast<int>(std::ranges::find(order, at) - order.begin()); };
    for (const int at : order) {
      std::vector<int> reads;
      if (flat.contains(at)) {
        tree.items.push_back({.visitor = at});
        for (const int in : list_[at].inputs) reads.push_back(number(in));
      } else {
        tree.items.push_back(shape(at));
      }
      tree.edges.push_back(std::move(reads));
    }
    return tree;
  }

  const std::vector<Visitor>& list_;
  std::vector<std::vector<int>> users_;
  std::vector<int> meets_;  // where all ways of a visitor to D meet first
};

}  // namespace

Tree tree_of(const Visitors& visitors) {
  return Shaper(visitors.list).shape(static_cast<int>(visitors.list.size()) - 1);
}

}  // namespace unisono::families::cutlass_evt
