/// Attention over the pixels of an image is written on its channels first: (N,C,H,W) is reshaped to
/// (N,heads,width,H·W), and back. An image has its channels innermost in memory, so that such a reshape would be a
/// copy. It is written as one of the channels of each pixel, a view, between permutes, which attention reads through.

#include <algorithm>

#include "network/dim.hpp"
#include "network/moves.hpp"
#include "network/regions.hpp"

namespace unisono::network {

namespace {

// Whether `matrices` (N,…,H·W) has the elements of the image (N,C,H,W), the channels among the axes in the middle
bool has_channels_apart(const Shape& image, const Shape& matrices) {
  if (image.size() != 4 || matrices.size() < 4 || !(image[0] == matrices[0])) return false;
  std::int64_t channels = 1;
  for (std::size_t i = 1; i + 1 < matrices.size(); ++i) channels *= matrices[i].value();
  const std::int64_t pixels = image[2].value() * image[3].value();
  return pixels > 1 && matrices.back().value() == pixels && channels == image[1].value();
}

// The axes with the last one moved to the second place, or back
std::vector<int> pixels_second(std::size_t rank) {
  std::vector<int> order{0, static_cast<int>(rank) - 1};
  for (int i = 1; i + 1 < static_cast<int>(rank); ++i) order.push_back(i);
  return order;
}
std::vector<int> pixels_last(std::size_t rank) {
  std::vector<int> order{0};
  for (int i = 2; i < static_cast<int>(rank); ++i) order.push_back(i);
  order.push_back(1);
  return order;
}

}  // namespace

Network with_channels_apart(const Network& network) {
  const std::vector<bool> image = images_among(network);
  Network out = network;
  out.operators.clear();
  for (const Operator& op : network.operators) {
    const bool reshapes = std::holds_alternative<operators::Reshape>(op.kind);
    if (!reshapes || !may_be_moved(network, op.inputs[0], op.output)) {
      out.operators.push_back(op);
      continue;
    }
    const TensorId from = op.inputs[0], to = op.output;
    const Shape x = network[from].shape, y = network[to].shape;
    if (image[from] && !image[to] && has_channels_apart(x, y)) {
      MoveChain chain(out, from, to);
      chain.permute({0, 2, 3, 1});
      std::vector<std::int64_t> apart{y[0].value(), y.back().value()};
      for (std::size_t i = 1; i + 1 < y.size(); ++i) apart.push_back(y[i].value());
      chain.reshape(apart);
      chain.permute(pixels_last(y.size()));
      chain.end(false);
    } else if (image[to] && !image[from] && has_channels_apart(y, x)) {
      MoveChain chain(out, from, to);
      chain.permute(pixels_second(x.size()));
      chain.end(true);
    } else {
      out.operators.push_back(op);
    }
  }
  return out;
}

}  // namespace unisono::network
