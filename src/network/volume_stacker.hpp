#pragma once
/// The pass stacked_volumes(): see stacked_volumes.cpp.

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "network/regions.hpp"

namespace unisono::network {

inline bool is_number_of_pixels(const Dim& d) { return d.known() && d.value() > 0; }

// (N,C,…), whose extents but the first are numbers
inline bool has_pixels(const Shape& s) {
  return s.size() >= 3 && std::all_of(s.begin() + 1, s.end(), is_number_of_pixels);
}

inline bool is_volume(const Shape& s) { return s.size() == 5 && has_pixels(s); }

inline Shape stacked_shape(const Shape& s) { return {s[0], s[1], Dim(s[2].value() * s[3].value()), s[4]}; }

class VolumeStacker {
 public:
  explicit VolumeStacker(const Network& network)
      : in_(network),
        out_(network),
        stacked_(network.tensors.size()),
        frames_(network.tensors.size()),
        turned_(network.tensors.size()),
        pending_(network.tensors.size(), false) {
    out_.operators.clear();
  }

  Network run() {
    for (const Operator& op : in_.operators)
      if (!rewrite(op)) keep(op);
    for (const TensorId id : in_.outputs) write(id);
    return std::move(out_);
  }

 private:
  bool rewrite(const Operator& op);
  bool convolve(const Operator& op, const operators::Conv3d& c);
  bool reshape(const Operator& op);
  bool normalise(const Operator& op);
  bool elementwise(const Operator& op);
  bool concatenate(const Operator& op, const operators::Concat& c);
  bool slice(const Operator& op, const operators::Slice& s);
  bool take_frames(const Operator& op, std::int64_t first, std::int64_t count);
  bool gather(const Operator& op, const operators::Gather& g);
  bool transpose(const Operator& op, const operators::Transpose& t);
  bool reshape_frames(const Operator& op);
  bool note_shape(const Operator& op);
  TensorId known_image(TensorId id);
  void keep(Operator op);
  void write(TensorId id);

  TensorId add(const NetworkTensor& like, Shape shape, std::string_view suffix);
  TensorId reshaped(TensorId id, Shape shape, std::string_view suffix);
  TensorId stack(TensorId id);
  TensorId with_channels(TensorId image, std::int64_t channels);
  TensorId filter_of(TensorId id, std::int64_t channels);
  bool convolve_row_taps(const Operator& op, const operators::Conv3d& c);
  TensorId row_taps(TensorId volume, const operators::Conv3d& c, std::int64_t filter, std::int64_t taps,
                    std::int64_t columns);
  std::optional<TensorId> operand(TensorId id, const Shape& space, const Shape& image);
  const Shape* image_of(const Operator& op) const;
  void emit(const Operator& of, OperatorKind kind, std::vector<TensorId> inputs, Shape shape);
  void become(TensorId id, TensorId image) { stacked_[id] = image, pending_[id] = true; }

  const Network& in_;
  Network out_;
  std::vector<std::optional<TensorId>> stacked_;  // by tensor of in_: the image with its elements
  // By tensor (N,T,C,H,W): the images (N·T,C,H,W), or the image (N,C,T·H,W), with its elements
  std::vector<std::optional<TensorId>> frames_, turned_;
  std::vector<bool> pending_;  // by tensor of in_: no operator of out_ has written it yet
};

}  // namespace unisono::network
