#include "passes/min_cut.hpp"

#include <algorithm>

namespace unisono::passes {

void Network::connect(int from, int to, std::int64_t capacity) {
  const auto add = [&](int a, int b, std::int64_t c) {
    edges_.push_back({b, first_[a], c});
    first_[a] = static_cast<int>(edges_.size()) - 1;
  };
  add(from, to, capacity);
  add(to, from, 0);
}

// The edge by which a breadth-first search reached each vertex; -1 if it did not
std::vector<int> Network::shortest_path(int source, int sink) const {
  std::vector<int> by(first_.size(), -1);
  std::vector<int> queue{source};
  for (std::size_t i = 0; i < queue.size() && by[sink] < 0; ++i)
    for (int e = first_[queue[i]]; e >= 0; e = edges_[e].next)
      if (edges_[e].residual > 0 && by[edges_[e].to] < 0 && edges_[e].to != source) {
        by[edges_[e].to] = e;
        queue.push_back(edges_[e].to);
      }
  return by;
}

std::vector<bool> Network::sink_side(int source, int sink) {
  for (auto by = shortest_path(source, sink); by[sink] >= 0; by = shortest_path(source, sink)) {
    std::int64_t flow = infinite;
    for (int v = sink; v != source; v = edges_[by[v] ^ 1].to) flow = std::min(flow, edges_[by[v]].residual);
    for (int v = sink; v != source; v = edges_[by[v] ^ 1].to) {
      edges_[by[v]].residual -= flow;
      edges_[by[v] ^ 1].residual += flow;
    }
  }
  std::vector<bool> reaches(first_.size(), false);
  std::vector<int> queue{sink};
  reaches[sink] = true;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (int e = first_[queue[i]]; e >= 0; e = edges_[e].next)  // e ^ 1 leads here
      if (edges_[e ^ 1].residual > 0 && !reaches[edges_[e].to]) {
        reaches[edges_[e].to] = true;
        queue.push_back(edges_[e].to);
      }
  return reaches;
}

}  // namespace unisono::passes
