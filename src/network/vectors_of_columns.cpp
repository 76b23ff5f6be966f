/// Vectors (C) that are reshaped to (C,1,1), as one element a channel of an image, become images of one pixel, whose
/// channels lie innermost in memory: views of (C). Of (C,1,1) each element would be a row of its own.

#include "network/dim.hpp"
#include "network/moves.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

class VectorsOfColumns {
 public:
  explicit VectorsOfColumns(const Network& network)
      : in_(network), out_(network), made_(network.tensors.size()), pixel_(network.tensors.size()) {
    out_.operators.clear();
  }

  Network run() {
    for (std::size_t i = 0; i < in_.operators.size(); ++i) {
      Operator op = in_.operators[i];
      if (std::holds_alternative<operators::Reshape>(op.kind)) made_[op.output] = i;
      const bool of_image = std::holds_alternative<operators::Elementwise>(op.kind) && in_[op.output].shape.size() == 4;
      for (TensorId& id : op.inputs)
        if (of_image && is_vector(in_[id], in_[op.output].shape)) id = as_pixel(id, in_[op.output].shape[1]);
      out_.operators.push_back(std::move(op));
    }
    return std::move(out_);
  }

 private:
  // Whether it has one element for each channel of an image of this shape
  static bool is_vector(const NetworkTensor& t, const Shape& image) {
    return !t.is_constant() && t.shape.size() == 3 && t.shape[0].known() && t.shape[0].value() > 1 &&
           t.shape[0] == image[1] && is_one(t.shape[1]) && is_one(t.shape[2]);
  }
  TensorId source_of(TensorId id) const;
  TensorId as_pixel(TensorId id, const Dim& channels);

  const Network& in_;
  Network out_;
  std::vector<std::optional<std::size_t>> made_;  // by tensor of in_: the reshape that makes it
  std::vector<std::optional<TensorId>> pixel_;    // by tensor of in_: its elements as (1,C,1,1)
};

// What it is a reshape of, in the end
TensorId VectorsOfColumns::source_of(TensorId id) const {
  while (made_[id] && may_be_moved(in_, in_.operators[*made_[id]].inputs[0], id))
    id = in_.operators[*made_[id]].inputs[0];
  return id;
}

TensorId VectorsOfColumns::as_pixel(TensorId id, const Dim& channels) {
  if (pixel_[id]) return *pixel_[id];
  const TensorId from = source_of(id);
  if (!(columns(in_[from].shape) == channels)) return id;
  NetworkTensor pixel = in_[id];
  pixel.name += "_pixel", pixel.shape = {Dim(1), channels, Dim(1), Dim(1)};
  const auto to = static_cast<TensorId>(out_.tensors.size());
  operators::Reshape reshape{.shape = {1, channels.value(), 1, 1}, .literal = true};
  out_.operators.push_back({std::move(reshape), pixel.name, {from}, to});
  out_.tensors.push_back(std::move(pixel));
  pixel_[id] = to;
  return to;
}

}  // namespace

Network vectors_of_columns(const Network& network) { return VectorsOfColumns(network).run(); }

}  // namespace unisono::network
