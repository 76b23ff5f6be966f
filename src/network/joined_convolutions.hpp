#pragma once
/// Convolutions that are added up.

#include "unisono/network/graph.hpp"

namespace unisono::network {

/// Convolutions of one image with constant filters whose results are added, and read by nothing else, become one
/// convolution with the sum of the filters, where one filter's window holds the others': networks that are trained with
/// several branches side by side are exported so. The other summands are then added to it, in their order.
Network join_convolutions(const Network& network);

}  // namespace unisono::network
