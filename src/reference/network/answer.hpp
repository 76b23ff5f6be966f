#pragma once
/// What a network gives in float64, how far f32 may be off, and how outputs of an implementation compare with it.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reference/network/evaluate.hpp"

namespace unisono::float64 {

/// How well outputs agree with the reference.
struct NetworkAgreement {
  std::string output;
  std::int64_t elements = 0;
  double largest_error = 0;      ///< absolute; infinite where one is a number and the other is not
  double tolerance = 0;          ///< absolute
  double largest_value = 0;      ///< largest absolute value of the reference
  std::int64_t outside = 0;      ///< elements with an error above the tolerance
  std::int64_t undecided = 0;    ///< integers and bool: elements that rounding alone may change; they are not compared
  std::int64_t unclaimed = 0;    ///< floats: elements that depend on an overflow of f32; they are not compared
  std::int64_t not_numbers = 0;  ///< elements that are NaN in both
  std::int64_t misread = 0;      ///< elements in which the network as imported differs from ONNX's definitions
  double misread_error = 0;      ///< absolute, the largest of that difference
  bool ok() const { return outside == 0 && misread == 0; }
  /// Elements of which a number was compared.
  std::int64_t judged() const { return elements - undecided - unclaimed - not_numbers; }
  /// False if no number of an output that has elements was compared: then nothing is known of it.
  bool compared() const { return elements == 0 || outside > 0 || judged() > 0; }
};

/// Outputs that were evaluated in float64 as their types hold them: f32 has infinities for what is beyond it.
Tensors64 as_held(Tensors64 outputs);

/// Whether every output agrees, and at least one number was compared.
bool is_right(const std::vector<NetworkAgreement>& agreements);

/// Called with each operator's result, which it may change before others read it.
using ResultObserver = std::function<void(Tensor64& result)>;
/// Evaluates all operators for inputs that it knows.
using Evaluation = std::function<Tensors64(const ResultObserver& observer)>;

/// What a network gives for some inputs, and how far rounding alone may move it: outputs of any number of
/// implementations are compared with it.
class NetworkAnswer {
 public:
  /// `exact` evaluates without rounding, `rounded` with what an implementation rounds beside the arithmetic of f32; the
  /// second is evaluated `evaluations` times with each bound once: one may move few elements by less than rounding can.
  NetworkAnswer(const Evaluation& exact, Evaluation rounded, int evaluations = 1);
  /// That of a network, operator by operator. The network is evaluated again later, so it must outlive this.
  NetworkAnswer(const Network& network, const Tensors64& inputs, const TensorObserver& progress = {},
                const Rounding& rounding = {}, int evaluations = 1);

  /// Outputs in logical order.
  std::vector<NetworkAgreement> compare(const Tensors64& outputs) const;

  const Tensors64& expected() const { return expected_; }
  /// The outputs of each evaluation that was disturbed.
  const std::vector<Tensors64>& disturbed() const { return disturbed_; }
  /// One more evaluation with results moved by `factor` times their bounds.
  void evaluate_disturbed(double factor, std::uint64_t seed);
  /// Further evaluations in which decisions (decision.hpp) fall the other way where the evaluations so far, of which
  /// some must be disturbed, move their operands by about the margin: in the first of them all do, then some by chance.
  /// Another one rounds all of f32 to it, so that nearly equal values become equal.
  void evaluate_undecided(int evaluations);

  /// Error of an element of an output: 0 where both are NaN or f32 makes no claim.
  double error_of(const std::string& output, std::size_t element, double actual) const;

 private:
  using Decisions = std::vector<std::vector<double>>;  // margins of the operators that decide, in their order
  /// Which elements of each of those may fall either way.
  std::vector<std::vector<bool>> undecided() const;
  bool is_claimed(const std::string& output, std::size_t element) const;
  NetworkAgreement compare(const std::string& name, const Tensor64& actual) const;
  void compare_exact(NetworkAgreement& a, const Tensor64& actual) const;
  void compare_floats(NetworkAgreement& a, const Tensor64& actual) const;

  Evaluation rounded_;
  Tensors64 expected_;
  Tensors64 limited_;  // as f32 overflows; empty if nothing does
  std::vector<Tensors64> disturbed_;
  std::vector<Decisions> margins_;       // of each evaluation that was disturbed
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
///
/// Where f32 ends there are no claims. Results below its normal range may be flushed to 0. If any result overflows it,
/// the reference is evaluated once more with infinities in their place: an element that this changes to anything but
/// the infinity that f32 holds for its value is not compared. NaN agrees with NaN only.
std::vector<NetworkAgreement> check_network(const Network& network, const Tensors64& inputs, const Tensors64& outputs,
                                            const TensorObserver& progress = {}, const Rounding& rounding = {});

}  // namespace unisono::float64
