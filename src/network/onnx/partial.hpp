#pragma once
/// The supported part of an ONNX model, for `unisono explain`.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unisono/network.hpp"
#include "unisono/onnx.hpp"

namespace unisono::network {

/// A node that is not part of the network. Texts are printable, whatever the file has.
struct LeftOut {
  std::string op_type;  ///< with its domain, unless that is ONNX's own
  std::string name;     ///< the node's, its first result's or "node 3", after the names of the calls around it
  std::string reason;
  std::vector<std::string> unknown;  ///< results of which neither the file nor the caller knows the shape
};

struct PartialNetwork {
  Network network;
  std::vector<LeftOut> left_out;
};

/// As load_onnx(), without the nodes that cannot be imported, of the graph and of the functions that it calls: those of
/// an operator that is not supported, or with an attribute, type or input that is not. What they read is an output of
/// the network. What they make is an input if other nodes read it and its shape is known: by `shapes` (of f32), or the
/// file's value_info. Nodes that read a tensor of unknown shape are left out too. Throws as load_onnx() if nothing is
/// left, and for what is wrong with the file as a whole.
PartialNetwork load_onnx_partly(const std::string& path, const OnnxOptions& options,
                                const std::map<std::string, std::vector<std::int64_t>>& shapes);

}  // namespace unisono::network
