#pragma once
/// Networks: a DAG of tensors and operators, the fuser that cuts it into regions (one contraction and one epilogue
/// graph each), and the executable that runs it with planned memory.
///
///     unisono::NetworkBuilder net;
///     auto x = net.input("image", {"batch", 3, 64, 64});
///     auto w = net.constant("w", {16, 3, 3, 3}, weights);
///     auto h = mish(group_norm(conv2d(x, w, {.pad = 1}), {.groups = 4}));
///     net.output(max_pool(h, {.kernel = 2, .stride = 2}), "y");
///     unisono::NetworkExecutable run = unisono::compile(net.build());
///
/// Shapes are written in the order of ONNX and PyTorch: (N,C,H,W) for images, (K,C/groups,R,S) for filters. Wrong use
/// throws UserError that names the operator, its node and the shapes given and expected.

#include "unisono/network/builder.hpp"
#include "unisono/network/executable.hpp"
#include "unisono/network/graph.hpp"
#include "unisono/network/operators.hpp"
#include "unisono/network/shape.hpp"
#include "unisono/network/tensor_operators.hpp"
