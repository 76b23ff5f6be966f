#pragma once
/// Turns a Network into the peer `onednn_sequence`.

#include "peers/onednn_sequence.hpp"
#include "unisono/network.hpp"

namespace unisono::bench {

/// Appends one primitive an operator. x·sigmoid(x) becomes one activation, and an activation rides on the primitive
/// before it where oneDNN offers that. Throws Unsupported for an operator that the peer does not have.
void append_network(OnednnSequence& sequence, const Network& network, std::int64_t batch);

}  // namespace unisono::bench
