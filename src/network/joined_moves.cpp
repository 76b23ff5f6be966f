/// Reshapes and permutes that follow one another become at most one permute, of the axes as they lie in memory, between
/// reshapes that are views there. Exporters write `flatten(2).transpose(1, 2)` for the pixels of an image as rows,
/// which an image already is: its channels lie innermost.

#include <algorithm>
#include <numeric>
#include <optional>

#include "network/dim.hpp"
#include "network/element_view.hpp"
#include "network/moves.hpp"
#include "network/shape_limits.hpp"

namespace unisono::network {

namespace {

// What makes one tensor of another, on the axes as they lie in memory
struct Permute {
  bool is_whole = false;              // nothing moves, also along the axes
  std::vector<std::int64_t> extents;  // of the source, cut so that a permute makes the result
  std::vector<int> order;
  bool moves() const { return !std::ranges::is_sorted(order); }
};

constexpr std::size_t most_moves = 64;  // that become one: planning stays linear in longer chains

class JoinedMoves {
 public:
  explicit JoinedMoves(const Network& network)
      : in_(network),
        out_(network),
        source_(network.tensors.size(), none),
        image_(images_among(network)),
        read_(network.tensors.size(), false),
        pending_(network.tensors.size(), false) {
    out_.operators.clear();
  }

  Network run() {
    find_sources();
    for (const Operator& op : in_.operators) {
      if (source_[op.output] != none) {
        pending_[op.output] = true;
        if (read_[op.output]) write(op.output);
        continue;
      }
      out_.operators.push_back(op);
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  void find_sources();
  const Operator& producer(TensorId id) const { return in_.operators[source_[id]]; }
  // The tensor's axes in the order of memory: an image has its channels innermost
  std::vector<int> memory_order(TensorId id) const {
    if (image_[id]) return {0, 2, 3, 1};
    std::vector<int> order(in_[id].shape.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  std::optional<Permute> between(const ElementView& view, TensorId to) const;
  void write(TensorId id);
  bool write_joined(TensorId id);
  void emit(const Permute& permute, TensorId from, TensorId to);
  const Network& in_;
  Network out_;
  std::vector<std::size_t> source_;  // by tensor of in_: the move that makes it
  std::vector<bool> image_;          // by tensor of in_: of rank 4, made or read by what works on images
  std::vector<bool> read_;           // by tensor of in_: wanted by more than moves
  std::vector<bool> pending_;        // by tensor of in_: made by a move that is not written yet
};

void JoinedMoves::find_sources() {
  for (std::size_t i = 0; i < in_.operators.size(); ++i) {
    const Operator& op = in_.operators[i];
    if (joins_moves(in_, op)) {
      source_[op.output] = i;
    } else {
      for (const TensorId id : op.inputs) read_[id] = true;
    }
  }
  for (const TensorId id : in_.outputs) read_[id] = true;
}

// The pieces of the view's axes, cut finely enough that each of the result's axes is some of them; nothing if the view
// leaves elements out or repeats them
std::optional<Permute> JoinedMoves::between(const ElementView& view, TensorId to) const {
  std::vector<ViewPiece> wanted;  // in the order of the result's memory
  for (const int axis : memory_order(to)) {
    const auto& pieces = view.axes[static_cast<std::size_t>(axis)];
    wanted.insert(wanted.end(), pieces.begin(), pieces.end());
  }
  std::vector<int> places(wanted.size());  // of the pieces, in the order of the source's memory
  std::iota(places.begin(), places.end(), 0);
  std::vector<int> rank(in_[view.base].shape.size());  // by axis of the source
  const std::vector<int> order = memory_order(view.base);
  for (std::size_t i = 0; i < order.size(); ++i) rank[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  const auto piece = [&](int place) -> const ViewPiece& { return wanted[static_cast<std::size_t>(place)]; };
  if (std::ranges::any_of(wanted, [](const ViewPiece& p) { return p.axis < 0 || !p.extent.known(); }))
    return std::nullopt;
  std::ranges::sort(places, [&](int a, int b) {
    const ViewPiece &x = piece(a), &y = piece(b);
    return x.axis != y.axis ? rank[static_cast<std::size_t>(x.axis)] < rank[static_cast<std::size_t>(y.axis)]
                            : x.step > y.step;
  });
  // pieces that follow one another in both are one
  Permute result;
  result.is_whole = in_[view.base].shape == in_[to].shape && view.axes == whole_view(to, in_[to].shape).axes;
  std::vector<int> first;  // by axis of the permute's source: its first piece
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t extent = piece(places[i]).extent.value();
    if (i > 0 && places[i] == places[i - 1] + 1) {
      result.extents.back() *= extent;
    } else {
      result.extents.push_back(extent);
      first.push_back(places[i]);
    }
  }
  if (result.extents.size() > largest_rank) return std::nullopt;
  result.order.resize(first.size());
  std::iota(result.order.begin(), result.order.end(), 0);
  std::ranges::sort(result.order, {}, [&](int axis) { return first[static_cast<std::size_t>(axis)]; });
  return result;
}

void JoinedMoves::write(TensorId id) {
  if (!pending_[id]) return;
  pending_[id] = false;
  if (write_joined(id)) return;
  write(producer(id).inputs[0]);
  out_.operators.push_back(producer(id));
}

// From the nearest tensor that is there anyhow and has the elements in this order, or else from where the moves begin.
// Not if that is the operator before, as it is.
bool JoinedMoves::write_joined(TensorId id) {
  std::vector<TensorId> tensors{id};  // from the result back
  while (source_[tensors.back()] != none && tensors.size() <= most_moves)
    tensors.push_back(producer(tensors.back()).inputs[0]);
  const auto is_permuted = [&](TensorId t) {
    return source_[t] != none && std::holds_alternative<operators::Transpose>(producer(t).kind);
  };
  if (tensors.size() < 3 || std::ranges::none_of(tensors, is_permuted)) return false;
  std::optional<std::pair<TensorId, Permute>> best;
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const bool begins = i + 1 == tensors.size();
    if (!begins && !read_[tensors[i]]) continue;
    std::optional<ElementView> view = whole_view(tensors[i], in_[tensors[i]].shape);
    for (std::size_t k = i; view && k-- > 0;) view = through(in_, producer(tensors[k]), *view);
    const std::optional<Permute> permute = view ? between(*view, id) : std::nullopt;
    if (!permute || (permute->moves() && !begins)) continue;
    if (i == 1) return false;
    best = {tensors[i], *permute};
    break;
  }
  if (!best) return false;
  write(best->first);
  emit(best->second, best->first, id);
  return true;
}

void JoinedMoves::emit(const Permute& permute, TensorId from, TensorId to) {
  if (permute.is_whole) {
    out_.operators.push_back({operators::Identity{}, in_[to].name, {from}, to});
    return;
  }
  MoveChain chain(out_, from, to);
  if (image_[from]) chain.permute({0, 2, 3, 1});
  if (permute.moves()) {
    Permute p = permute;
    if (p.extents.size() == 4) {  // no image: the second axis would be innermost in memory
      p.extents.insert(p.extents.begin(), 1);
      for (int& axis : p.order) ++axis;
      p.order.insert(p.order.begin(), 0);
    }
    chain.reshape(p.extents);
    chain.permute(p.order);
  }
  chain.end(image_[to]);
}

}  // namespace

Network joined_moves(const Network& network) { return JoinedMoves(network).run(); }

}  // namespace unisono::network
