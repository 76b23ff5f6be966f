#pragma once
/// Minimum cuts of small directed networks.

#include <cstdint>
#include <vector>

namespace unisono::passes {

class Network {
 public:
  static constexpr std::int64_t infinite = std::int64_t{1} << 50;

  explicit Network(int vertices) : first_(static_cast<std::size_t>(vertices), -1) {}
  void connect(int from, int to, std::int64_t capacity);

  /// For each vertex, true if it lies on the side of `sink`; of all minimum cuts the one nearest to the sink. By
  /// augmenting shortest paths (Edmonds and Karp 1972).
  std::vector<bool> sink_side(int source, int sink);

 private:
  struct Edge {
    int to;
    int next;  // edge of the same tail
    std::int64_t residual;
  };
  std::vector<int> shortest_path(int source, int sink) const;

  std::vector<int> first_;
  std::vector<Edge> edges_;  // edge e and its reverse e ^ 1
};

}  // namespace unisono::passes
