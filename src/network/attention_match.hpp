#pragma once
/// What attention looks like in a network: the products, what stands between them, and the views around (internal).

#include <cstddef>
#include <optional>
#include <vector>

#include "network/element_view.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// What is added to scores, or chosen in their place, in the shape in which that happens.
struct ScoreMask {
  TensorId values = 0;                     ///< f32: what is added, or of a choice the number that is chosen
  std::optional<TensorId> condition = {};  ///< a choice: where it is true (or, if `hides`, false) scores stay
  bool hides = false;
  Shape shape = {};
};

/// Two products with a softmax between.
struct AttentionMatch {
  const Operator *scores = nullptr, *result = nullptr;  ///< the MatMuls
  double scale = 1;
  std::vector<ScoreMask> masks;
  operators::Attention::Guard guard = operators::Attention::Guard::none;
};

/// Who makes and who reads the elements of the tensors of a network, as far as its outputs need that.
class TensorUses {
 public:
  explicit TensorUses(const Network& network);

  const Operator* producer(TensorId id) const { return producer_[id]; }
  const std::vector<const Operator*>& readers(TensorId id) const { return readers_[id]; }
  bool is_output(TensorId id) const { return output_[id]; }
  /// The only operator that reads it, once; none if it is an output.
  const Operator* only_reader(TensorId id) const;

 private:
  std::vector<const Operator*> producer_;
  std::vector<std::vector<const Operator*>> readers_;
  std::vector<bool> output_;
};

/// The value of a constant of one element.
std::optional<float> constant_number(const NetworkTensor& t);

/// What stands around the softmax if it is that of attention.
std::optional<AttentionMatch> match_attention(const Network& network, const TensorUses& uses, const Operator& softmax);

}  // namespace unisono::network
