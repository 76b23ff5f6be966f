#pragma once
/// The operator for recurrent layers.

#include <cstdint>
#include <vector>

namespace unisono {

/// A function of one value.
struct GateFunction {
  enum class Kind : std::uint8_t {
    affine,  ///< alpha·x + beta
    elu,
    hard_sigmoid,  ///< clamp(alpha·x + beta, 0, 1)
    leaky_relu,
    relu,
    scaled_tanh,  ///< alpha·tanh(beta·x)
    sigmoid,
    softplus,
    softsign,
    tanh,
    thresholded_relu  ///< x where x > alpha, else 0
  };
  Kind kind = Kind::tanh;
  double alpha = 0, beta = 0;
  bool operator==(const GateFunction&) const = default;
};

enum class RecurrentCell : std::uint8_t { rnn, gru, lstm };

/// The number of gates of a cell, of functions per direction, and of states.
constexpr int gates_of(RecurrentCell c) { return c == RecurrentCell::rnn ? 1 : c == RecurrentCell::gru ? 3 : 4; }
constexpr int functions_of(RecurrentCell c) { return c == RecurrentCell::rnn ? 1 : c == RecurrentCell::gru ? 2 : 3; }
constexpr int states_of(RecurrentCell c) { return c == RecurrentCell::lstm ? 2 : 1; }

namespace operators {

/// The steps of an RNN, a GRU (gates z, r, h) or an LSTM (gates i, o, f, c) of G gates and H states, in D directions.
///
/// x (T,N,D·G·H), the contribution of the input and its bias to the gates, weights (D,H,G·H)[, extra][, lengths (N),
/// i32]
/// [, h (N,D·H)][, c (N,D·H)] → (S + T,N,D·H): the state h after the last step, the cell c of an LSTM (S = 2, else 1),
/// then h after each step. `extra` is an LSTM's peepholes of i, o and f, (D,3·H), or, of a GRU with
/// linear_before_reset, the bias within the reset, (D,H). Row n takes lengths[n] steps; the results of later steps are
/// 0. States default to 0.
struct Recurrence {
  RecurrentCell cell = RecurrentCell::lstm;
  bool reverse = false;  ///< whether the first direction is reversed; the second always is
  bool input_forget = false, linear_before_reset = false;
  bool has_extra = false, has_lengths = false, has_h = false, has_c = false;
  double clip = 0;                      ///< limits the input of each gate function to ±clip; 0: no limit
  std::vector<GateFunction> functions;  ///< one set for each direction
  bool operator==(const Recurrence&) const = default;
};

}  // namespace operators

}  // namespace unisono
