#pragma once
/// What a step of an RNN, a GRU or an LSTM is made of.

#include <optional>
#include <vector>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

enum class CellKind : std::uint8_t { rnn, gru, lstm };

struct Cell {
  CellKind kind;
  std::int64_t gates;     ///< in the order of ONNX: of a GRU z, r, h, of an LSTM i, o, f, c
  std::size_t functions;  ///< for each direction
  int operators;          ///< that a step takes at most
};

/// The function of a gate, with its alpha and beta.
struct GateFunction {
  enum class Kind : std::uint8_t {
    affine,
    elu,
    hard_sigmoid,
    leaky_relu,
    relu,
    scaled_tanh,
    sigmoid,
    softplus,
    softsign,
    tanh,
    thresholded_relu
  };
  Kind kind;
  double alpha, beta;
};

/// Those of all directions: by the attributes, or by default. Alphas and betas are taken in turn by those that have
/// one.
std::vector<GateFunction> gate_functions(const NodeReader& node, const Cell& cell, std::size_t directions);

/// One direction of a layer.
struct Recurrence {
  const NodeReader& node;
  const Cell& cell;
  std::int64_t hidden;
  std::vector<GateFunction> functions;
  double clip;  ///< 0: none
  bool input_forget, linear_before_reset;
  NetworkValue weights;               ///< (H,G·H)
  std::optional<NetworkValue> extra;  ///< (1,3·H): peepholes of an LSTM; (1,H): a GRU's bias within the reset
};

/// (N,H) each; nothing: zeros.
struct RecurrentState {
  std::optional<NetworkValue> h, c;
};

/// The state after a step, of what the input and the biases add to the gates, (N,G·H).
RecurrentState next_state(const Recurrence& r, NetworkValue input, const RecurrentState& before);

}  // namespace unisono::network::onnx_import
