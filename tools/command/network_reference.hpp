#pragma once
/// The float64 reference of a whole network, operator by operator: no fuser, no passes, no backend takes part.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "unisono/network.hpp"
#include "unisono/tensor.hpp"

namespace unisono::command {

/// A tensor in float64, row-major in the order of its logical shape (images: (N,C,H,W)).
struct Tensor64 {
  std::vector<std::int64_t> shape;
  std::vector<double> value;
  std::vector<double> bound;  ///< how far an implementation in f32 may be off, for inputs that are exact
  DType dtype = DType::f32;   ///< dtype of the network's tensor
};

using Tensors64 = std::map<std::string, Tensor64>;

/// The elements of a dense tensor of any dtype in float64. Throws Unsupported, which names the tensor, for an integer
/// beyond 2^53, which no f64 is.
std::vector<double> as_float64(const ConstTensorView& tensor, const std::string& name);

/// Called after each operator with its result, which it may change before others read it.
using TensorObserver = std::function<void(const Operator& op, Tensor64& result)>;

/// What an implementation rounds beside the arithmetic of f32.
struct Rounding {
  DType tensors = DType::f32;      ///< type of inputs, of constants that are no vectors, and of stored tensors
  std::set<std::string> stored{};  ///< names of tensors that operators make
  std::set<std::string> exact{};   ///< names of tensors that are not rounded, inputs among them
  std::set<std::string> summed{};  ///< constants: filters of which taps may be added before they are rounded
  bool fast = false;               ///< elementwise functions in their forms for 16-bit outputs: docs/numerics.md
};

/// That of a network compiled with these options: what its regions write, but where that has 32 bits and so has every
/// reader, and what a normalisation reads, which may wait in 16 bits.
Rounding rounding_of(const NetworkExecutable& network, const NetworkOptions& options);

/// Outputs of the network by name. With a rounding, bounds of results grow by what it may do to them, and weights of
/// contractions are rounded. Throws UserError for a missing input or a wrong shape.
Tensors64 evaluate_network(const Network& network, const Tensors64& inputs, const TensorObserver& observer = {},
                           const Rounding& rounding = {});

/// How well outputs agree with the reference.
struct NetworkAgreement {
  std::string output;
  std::int64_t elements = 0;
  double largest_error = 0;    ///< absolute; infinite where one is a number and the other is not
  double tolerance = 0;        ///< absolute
  double largest_value = 0;    ///< largest absolute value of the reference
  std::int64_t outside = 0;    ///< elements with an error above the tolerance
  std::int64_t undecided = 0;  ///< integers and bool: elements that rounding alone may change; they are not compared
  bool ok() const { return outside == 0; }
  /// False if every element was left out: then nothing is known of the output.
  bool compared() const { return elements == 0 || undecided < elements; }
};

/// What a network gives for some inputs, and how far rounding alone may move it: outputs of any number of
/// implementations are compared with it.
class NetworkAnswer {
 public:
  /// `evaluations` with each bound once: one may move few elements by less than rounding can.
  NetworkAnswer(const Network& network, const Tensors64& inputs, const TensorObserver& progress = {},
                const Rounding& rounding = {}, int evaluations = 1);

  /// Outputs in logical order.
  std::vector<NetworkAgreement> compare(const Tensors64& outputs) const;

  const Tensors64& expected() const { return expected_; }
  /// The outputs of each evaluation that was disturbed.
  const std::vector<Tensors64>& disturbed() const { return disturbed_; }
  /// One more evaluation with results moved by `factor` times their bounds.
  void evaluate_disturbed(const Network& network, const Tensors64& inputs, const TensorObserver& progress,
                          const Rounding& rounding, double factor, std::uint64_t seed);

 private:
  Tensors64 expected_;
  std::vector<Tensors64> disturbed_;
  std::map<std::string, double> moved_;  // by output: the most that an evaluation with each bound once moved it by
};

/// Compares outputs (in logical order) with the reference.
///
/// The tolerance of an output is derived, not chosen: the reference is evaluated once more with the result of every
/// operator moved, each element by its own error bound with a random sign, as if each were computed as badly as f32
/// allows. What this does to the output, at its worst, times four, is the tolerance. Integers and bool must be equal,
/// except where one of five such evaluations (four of them with errors four times as large) gives another value: there
/// a comparison upstream is too close to call in f32. With a rounding, inputs, weights and stored tensors are moved by
/// that as well; the reference itself is never rounded.
std::vector<NetworkAgreement> check_network(const Network& network, const Tensors64& inputs, const Tensors64& outputs,
                                            const TensorObserver& progress = {}, const Rounding& rounding = {});

}  // namespace unisono::command
