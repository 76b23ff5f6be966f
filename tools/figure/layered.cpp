#include "figure/layered.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "unisono/error.hpp"

namespace unisono::figure {
namespace {

constexpr std::size_t sweeps = 12;

/// A node, or a bend of an edge that passes through a layer.
struct Item {
  double width = 0, height = 0;
  std::size_t layer = 0;
  bool bend = false;
  double x = 0;                                     // centre
  std::vector<std::size_t> above = {}, below = {};  // neighbours in the next layers
};

class Layering {
 public:
  Layering(const LayeredGraph& graph, const LayeredSpacing& spacing) : graph_(graph), spacing_(spacing) {}

  LayeredLayout run() {
    assign_layers();
    add_bends();
    order();
    for (std::size_t i = 0; i < sweeps; ++i) {
      straighten(i % 2 == 0);
    }
    return result();
  }

 private:
  /// As high as the inputs allow; but a node with no more inputs than outputs stands right above its first user, which
  /// makes no edge longer than it makes another shorter, and keeps layers narrow.
  void assign_layers() {
    const std::size_t count = graph_.nodes.size();
    items_.resize(count);
    std::vector<std::size_t> inputs(count, 0);
    std::vector<std::vector<std::size_t>> outputs(count);
    for (const auto& e : graph_.edges) {
      if (e.from >= e.to || e.to >= count)
        throw InternalError(fmt::format("edge {} -> {} of {} nodes", e.from, e.to, count));
      ++inputs[e.to];
      outputs[e.from].push_back(e.to);
    }
    for (std::size_t i = 0; i < count; ++i) {
      items_[i].width = graph_.nodes[i].width;
      items_[i].height = graph_.nodes[i].height;
      for (const std::size_t to : outputs[i]) items_[to].layer = std::max(items_[to].layer, items_[i].layer + 1);
    }
    for (std::size_t i = count; i-- > 0;) {
      if (outputs[i].empty() || inputs[i] > outputs[i].size()) continue;
      std::size_t lowest = items_[outputs[i][0]].layer;
      for (const std::size_t to : outputs[i]) lowest = std::min(lowest, items_[to].layer);
      items_[i].layer = lowest - 1;
    }
  }

  void add_bends() {
    for (const auto& e : graph_.edges) {
      std::vector<std::size_t> path{e.from};
      for (std::size_t layer = items_[e.from].layer + 1; layer < items_[e.to].layer; ++layer) {
        path.push_back(items_.size());
        items_.push_back({.width = 2, .layer = layer, .bend = true});
      }
      path.push_back(e.to);
      for (std::size_t i = 0; i + 1 < path.size(); ++i) {
        items_[path[i]].below.push_back(path[i + 1]);
        items_[path[i + 1]].above.push_back(path[i]);
      }
      paths_.push_back(std::move(path));
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (layers_.size() <= items_[i].layer) layers_.resize(items_[i].layer + 1);
      layers_[items_[i].layer].push_back(i);
    }
  }

  void order() {
    number();
    std::vector<std::vector<std::size_t>> best = layers_;
    std::size_t fewest = crossings();
    for (std::size_t sweep = 0; sweep < sweeps && fewest > 0; ++sweep) {
      const bool downwards = sweep % 2 == 0;
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        auto& layer = layers_[downwards ? i : layers_.size() - 1 - i];
        std::vector<std::pair<double, std::size_t>> keys;
        for (const std::size_t item : layer) {
          const auto& neighbours = downwards ? items_[item].above : items_[item].below;
          double sum = 0;
          for (const std::size_t n : neighbours) sum += static_cast<double>(rank_[n]);
          const double own = static_cast<double>(rank_[item]);
          keys.emplace_back(neighbours.empty() ? own : sum / static_cast<double>(neighbours.size()), item);
        }
        std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        std::transform(keys.begin(), keys.end(), layer.begin(), [](const auto& key) { return key.second; });
        number();
      }
      if (const std::size_t now = crossings(); now < fewest) {
        fewest = now;
        best = layers_;
      }
    }
    layers_ = std::move(best);
    number();
  }

  void number() {
    rank_.resize(items_.size());
    for (const auto& layer : layers_) {
      for (std::size_t i = 0; i < layer.size(); ++i) rank_[layer[i]] = i;
    }
  }

  std::size_t crossings() const {
    std::size_t count = 0;
    for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
      std::vector<std::size_t> ends;  // ranks below, in the order of the ranks above
      for (const std::size_t item : layers_[l]) {
        const std::size_t first = ends.size();
        for (const std::size_t to : items_[item].below) ends.push_back(rank_[to]);
        std::sort(ends.begin() + static_cast<std::ptrdiff_t>(first), ends.end());
      }
      count += inversions(ends, layers_[l + 1].size());
    }
    return count;
  }

  /// Pairs that stand in falling order, by a binary indexed tree over `values`.
  static std::size_t inversions(const std::vector<std::size_t>& sequence, std::size_t values) {
    std::vector<std::size_t> tree(values + 1, 0);
    std::size_t count = 0, seen = 0;
    for (const std::size_t value : sequence) {
      std::size_t not_above = 0;
      for (std::size_t i = value + 1; i > 0; i &= i - 1) not_above += tree[i];
      count += seen++ - not_above;
      for (std::size_t i = value + 1; i < tree.size(); i += i & (~i + 1)) ++tree[i];
    }
    return count;
  }

  /// Moves each item towards the middle of its neighbours, layer after layer.
  void straighten(bool downwards) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const auto& layer = layers_[downwards ? i : layers_.size() - 1 - i];
      std::vector<double> wish, weight;
      for (const std::size_t item : layer) {
        const auto& neighbours = downwards ? items_[item].above : items_[item].below;
        double sum = 0;
        for (const std::size_t n : neighbours) sum += items_[n].x;
        wish.push_back(neighbours.empty() ? items_[item].x : sum / static_cast<double>(neighbours.size()));
        weight.push_back(neighbours.empty() ? 0.05 : items_[item].bend ? 4.0 : 1.0);
      }
      place(layer, wish, weight);
    }
  }

  /// The x that minimise Σ weight·(x − wish)² with all distances kept: with the distances subtracted, x must not fall,
  /// which is isotonic regression.
  void place(const std::vector<std::size_t>& layer, const std::vector<double>& wish,
             const std::vector<double>& weight) {
    struct Block {
      double mean, weight;
      std::size_t count;
    };
    std::vector<Block> blocks;
    std::vector<double> offset(layer.size(), 0);
    for (std::size_t i = 0; i < layer.size(); ++i) {
      if (i > 0)
        offset[i] = offset[i - 1] + (items_[layer[i - 1]].width + items_[layer[i]].width) / 2 + spacing_.across;
      blocks.push_back({wish[i] - offset[i], weight[i], 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean > blocks.back().mean) {
        const Block last = blocks.back();
        blocks.pop_back();
        Block& merged = blocks.back();
        merged.mean = (merged.mean * merged.weight + last.mean * last.weight) / (merged.weight + last.weight);
        merged.weight += last.weight;
        merged.count += last.count;
      }
    }
    std::size_t i = 0;
    for (const Block& block : blocks) {
      for (std::size_t j = 0; j < block.count; ++j, ++i) items_[layer[i]].x = block.mean + offset[i];
    }
  }

  LayeredLayout result() {
    LayeredLayout layout;
    double left = 0, right = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      left = i == 0 ? items_[i].x - items_[i].width / 2 : std::min(left, items_[i].x - items_[i].width / 2);
      right = i == 0 ? items_[i].x + items_[i].width / 2 : std::max(right, items_[i].x + items_[i].width / 2);
    }
    std::vector<double> top(layers_.size()), height(layers_.size(), 0);
    double y = 0;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      for (const std::size_t item : layers_[l]) height[l] = std::max(height[l], items_[item].height);
      top[l] = y;
      y += height[l] + spacing_.down;
    }
    layout.width = right - left;
    layout.height = layers_.empty() ? 0 : y - spacing_.down;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Item& item = items_[i];
      layout.nodes.push_back({item.x - item.width / 2 - left, top[item.layer] + (height[item.layer] - item.height) / 2,
                              item.width, item.height});
    }
    for (const auto& path : paths_) {
      std::vector<Point> points{{items_[path.front()].x - left, layout.nodes[path.front()].bottom()}};
      for (std::size_t i = 1; i + 1 < path.size(); ++i) {
        const Item& bend = items_[path[i]];
        points.push_back({bend.x - left, top[bend.layer]});
        points.push_back({bend.x - left, top[bend.layer] + height[bend.layer]});
      }
      points.push_back({items_[path.back()].x - left, layout.nodes[path.back()].y});
      layout.edges.push_back(std::move(points));
    }
    return layout;
  }

  const LayeredGraph& graph_;
  const LayeredSpacing& spacing_;
  std::vector<Item> items_;
  std::vector<std::vector<std::size_t>> layers_;  // items in order
  std::vector<std::vector<std::size_t>> paths_;   // by edge: the items that it passes through
  std::vector<std::size_t> rank_;                 // by item: its place within its layer
};

}  // namespace

LayeredLayout lay_out(const LayeredGraph& graph, const LayeredSpacing& spacing) {
  return Layering(graph, spacing).run();
}

}  // namespace unisono::figure
