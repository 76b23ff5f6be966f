#pragma once
/// What the options of a network and its GPU say of its tensors in memory.

#include "network/regions.hpp"
#include "plan/device.hpp"
#include "unisono/network.hpp"

namespace unisono::network::gpu {

MemoryStyle memory_style(const plan::Device& device, DType element);

/// Throws UserError for a precision that no kernels have.
void check_precision(const NetworkOptions& options);

/// The device without NetworkOptions::spare_sms.
plan::Device usable_device(const NetworkOptions& options, const plan::Device& device);
/// The same of the GPU of the options. Throws DeviceError where there is none.
plan::Device usable_device(const NetworkOptions& options);

}  // namespace unisono::network::gpu
