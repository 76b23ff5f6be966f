#pragma once
/// Islands: what a model with tensors of 16 bits computes in f32 between its casts (NetworkTensor::keeps_f32). A tensor
/// of an island is stored in f32, unless it holds values of 16 bits, or every reader rounds it to 16 bits first.

#include <functional>
#include <vector>

#include "network/regions.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// The end of an island in the type in which tensors are stored is an Identity, whose result keeps no f32: the two
/// casts that a rounding is in a network would be two copies.
Network with_roundings(Network network, DType element);

/// By tensor: an island's that has more digits than the element, which a reader needs.
std::vector<bool> kept_in_f32(const Network& network, DType element);

/// Writes islands for kernels that can store them. Of the result, NetworkTensor::keeps_f32 says which tensors are
/// stored in f32: those of islands that leave a region and that a reader needs. What reads or makes them computes in
/// f32: products and convolutions that the tensor cores would round become others, and normalisations over columns that
/// are no multiple of 8 are written out. `fused` cuts a network into regions, in which such tensors stand as the
/// result's.
Network with_islands(Network network, DType element, const std::function<FusedNetwork(const Network&)>& fused);

/// Whether kernels over epilogue graphs read and write tensors of this shape in f32.
bool has_octets(const Shape& shape);

/// Whether the region can read and write an island's f32.
bool stores_islands(const Network& network, const Region& region);

/// The same pool as one over any number of axes.
operators::PoolNd pool_nd(const operators::Pool2d& p);

/// A product or convolution that computes in f32, and what else is made for it, in place of one of the tensor cores.
/// Kinds that have none stay as they are. Appends to `tensors`, and to `kept`, by tensor: an island's that has more
/// digits than the element.
std::vector<Operator> written_in_f32(Network& network, std::vector<bool>& kept, const Operator& op);

/// A softmax or normalisation as reductions and maps, a pool or a resize as its form for any number of axes, where one
/// kernel of it reads and writes 16 bits alone.
std::vector<Operator> written_out(Network& network, std::vector<bool>& kept, const Operator& op);

}  // namespace unisono::network
