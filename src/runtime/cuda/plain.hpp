#pragma once
/// Kernels with one plain parameter and no workspace, as launches like any other. No CUDA type stands here.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "families/interface/parameters.hpp"
#include "jit/jit.hpp"
#include "unisono/executable.hpp"

namespace unisono::cuda {

class PlainKernel;

/// Loads the kernel `entry` of a binary, whose one parameter has so many bytes. Throws DeviceError.
std::shared_ptr<const PlainKernel> load_plain(int device_index, const jit::Binary& binary, const std::string& entry,
                                              std::size_t parameter_bytes);

struct PlainGrid {
  std::uint32_t ctas = 1, threads = 256;
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory of a CTA
  std::uint32_t cluster = 1;       ///< CTAs of one, which are resident together; up to 8
};

/// A launch with these parameters, which are copied, and the tensor maps among them, which are encoded. `what` names it
/// in errors. Throws DeviceError for a map that the driver refuses.
Launch bind_plain(std::shared_ptr<const PlainKernel> kernel, PlainGrid grid, std::span<const std::byte> parameters,
                  std::string what, std::span<const families::Parameter::Map> maps = {});

}  // namespace unisono::cuda
