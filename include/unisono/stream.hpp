#pragma once
/// Queries about CUDA streams.

#include "unisono/executable.hpp"

namespace unisono {

/// Returns whether the stream is being captured into a CUDA graph. `device_index` is in the driver's numbering. Throws
/// UserError for the legacy default stream while another stream is captured, and DeviceError if the GPU's context was
/// reset or this process was forked.
bool is_captured(Stream stream, int device_index = 0);

}  // namespace unisono
