#pragma once
/// Questions about the streams on which executables are enqueued.

#include "unisono/executable.hpp"

namespace unisono {

/// Whether the stream of a GPU is being captured into a CUDA graph, so that what is enqueued becomes nodes of it.
/// `device_index`: as the driver counts. Throws UserError for the legacy default stream while another one is captured,
/// and DeviceError if the GPU's context was reset or this process was forked.
bool is_captured(Stream stream, int device_index = 0);

}  // namespace unisono
