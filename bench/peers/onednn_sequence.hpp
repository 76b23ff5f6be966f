#pragma once
/// The peer `onednn_sequence`: one plain oneDNN primitive an operator, in sequence, each over all threads, with the
/// memory formats that the primitives ask for and weights reordered ahead.
///
/// oneDNN 3.2 has no group normalisation, so it is made of the primitives there are: layer_normalization over each
/// (image, group) of the NCHW tensor, then one binary primitive that scales, shifts and activates by post-operations.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace unisono::bench {

/// A tensor of the sequence, NCHW logically.
using TensorId = std::size_t;

enum class Activation { none, silu, mish, relu, sigmoid };

class OnednnSequence {
 public:
  OnednnSequence();
  ~OnednnSequence();
  OnednnSequence(const OnednnSequence&) = delete;
  OnednnSequence& operator=(const OnednnSequence&) = delete;

  /// The input, f32 NCHW, dense.
  TensorId input(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w);

  struct Convolution {
    std::int64_t k = 0, r = 1, s = 1, stride = 1, pad = 0;
    std::span<const float> weights;            ///< (K, C, R, S)
    std::span<const float> bias;               ///< (K), may be empty
    Activation activation = Activation::none;  ///< as a post-operation
  };
  TensorId convolution(TensorId x, const Convolution& c);
  /// Scale and shift are (C); the activation rides on the last pass.
  TensorId group_norm(TensorId x, std::int64_t groups, float eps, std::span<const float> scale,
                      std::span<const float> shift, Activation activation);
  TensorId max_pool(TensorId x, std::int64_t window);
  TensorId upsample_nearest(TensorId x, std::int64_t factor);
  TensorId concat(const std::vector<TensorId>& xs);
  /// Marks the output: it is delivered as dense f32 NCHW.
  void output(TensorId x);

  void write_input(std::span<const float> values);
  void run();
  std::vector<float> read_output() const;
  /// Names of the implementations, one line a primitive.
  std::string describe() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono::bench
