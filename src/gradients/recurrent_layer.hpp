#pragma once
/// Inputs, shapes and gates of recurrent layers, as their gradients need them.

#include <optional>
#include <vector>

#include "gradients/derivative.hpp"
#include "gradients/gates.hpp"

namespace unisono::autodiff {

/// `condition` ? a : b by element.
NetworkValue chosen(NetworkValue condition, NetworkValue a, NetworkValue b);
/// Step i of a tensor of steps.
NetworkValue step_at(NetworkValue x, std::int64_t i);
NetworkValue joined_steps(const std::vector<NetworkValue>& steps);

/// Tensors of steps are (T,D,N,·), in the order in which each direction takes its steps.
class RecurrentLayer {
 public:
  RecurrentLayer(const operators::Recurrence& how, const Use& use);

  /// (A,N,D·K) → (A,D,N,K), and back.
  NetworkValue apart(NetworkValue x) const;
  NetworkValue together(NetworkValue x) const;
  /// From the order of the sequence to that of the steps, and back.
  NetworkValue in_order(NetworkValue x) const;
  /// (1,D,N,H): a state that is given as (N,D·H), or 0.
  NetworkValue initial(std::size_t input) const;
  /// (T,D,N,H): h ahead of each step, from h after it.
  NetworkValue before(NetworkValue first, NetworkValue states) const;
  /// (…,K·H) → (…,count·H), from the gate i on.
  NetworkValue part(NetworkValue x, std::int64_t i, std::int64_t count = 1) const;
  /// (1,D,1,H): `extra` as it broadcasts over steps and rows.
  NetworkValue extra_part(std::int64_t i) const;
  NetworkValue when_active(NetworkValue x, double otherwise) const;
  /// Function f of each direction.
  Gate gate(std::size_t f, NetworkValue x, bool clips = true) const;
  /// Factors (T,D,N,H) of the gates' gradients, an absent one 0, as (T,D,N,K,H); 0 in steps that a row does not take.
  NetworkValue stacked(const std::vector<std::optional<NetworkValue>>& factors) const;
  /// A state's gradient (A,D,N,H) times such factors: (A,D,N,K·H).
  NetworkValue spread(NetworkValue gradient, NetworkValue factors) const;
  /// (T,D,N,K) → (D,T·N,K).
  NetworkValue as_matrices(NetworkValue x) const;

  std::int64_t steps = 0, rows = 0, directions = 0, hidden = 0;
  std::size_t extra = 0, lengths = 0, h = 0, c = 0;  ///< inputs; 0: not given
  std::optional<NetworkValue> active;                ///< (T,D,N,1): whether the row takes the step; none: all do

 private:
  NetworkValue active_steps() const;

  const operators::Recurrence& how_;
  NetworkBuilder& net_;
  const std::vector<NetworkValue>& in_;
};

}  // namespace unisono::autodiff
