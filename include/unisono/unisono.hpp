#pragma once
/// All of Unisono's public interface. Each function says what it throws, or the head of its file does so for all; one
/// of which neither says anything throws nothing but std::bad_alloc. docs/compatibility.md tells what stays the same.

#include "unisono/builder.hpp"
#include "unisono/cancel.hpp"
#include "unisono/contraction.hpp"
#include "unisono/dtype.hpp"
#include "unisono/elements.hpp"
#include "unisono/error.hpp"
#include "unisono/executable.hpp"
#include "unisono/explain.hpp"
#include "unisono/gradients.hpp"
#include "unisono/graph.hpp"
#include "unisono/images.hpp"
#include "unisono/network.hpp"
#include "unisono/onnx.hpp"
#include "unisono/pack.hpp"
#include "unisono/safetensors.hpp"
#include "unisono/stream.hpp"
#include "unisono/tensor.hpp"
#include "unisono/text.hpp"
#include "unisono/tuning.hpp"
#include "unisono/visitor.hpp"
