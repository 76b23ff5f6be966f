#pragma once
/// All of Coda's public interface.

#include "coda/builder.hpp"
#include "coda/cancel.hpp"
#include "coda/contraction.hpp"
#include "coda/dtype.hpp"
#include "coda/error.hpp"
#include "coda/executable.hpp"
#include "coda/graph.hpp"
#include "coda/network.hpp"
#include "coda/onnx.hpp"
#include "coda/safetensors.hpp"
#include "coda/tensor.hpp"
#include "coda/text.hpp"
