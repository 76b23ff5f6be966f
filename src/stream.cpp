#include "unisono/stream.hpp"

#include "runtime/cuda/stream.hpp"

namespace unisono {

bool is_captured(Stream stream, int device_index) { return cuda::is_captured(device_index, stream); }

}  // namespace unisono
