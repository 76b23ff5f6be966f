#pragma once
/// All of Unisono's public interface.

#include "unisono/builder.hpp"
#include "unisono/cancel.hpp"
#include "unisono/contraction.hpp"
#include "unisono/dtype.hpp"
#include "unisono/error.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"
#include "unisono/onnx.hpp"
#include "unisono/safetensors.hpp"
#include "unisono/tensor.hpp"
#include "unisono/text.hpp"
