#include "network/cuda/run/style.hpp"

#include <fmt/format.h>

#include "families/registry.hpp"
#include "plan/spare_sms.hpp"
#include "products/attention.hpp"
#include "products/kernel.hpp"
#include "products/norm_gradient.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

// Elements of 16 bits, pixels 16 bytes apart: what TMA takes. A pixel of one to sixteen channels is a poor box for it,
// which takes about as long as one of 64
MemoryStyle memory_style(const plan::Device& device, DType element) {
  return {.element_bytes = 2,
          .element = element,
          .column_multiple = 8,
          .slices_beside = false,
          .in_place = false,
          .repeats = false,
          .resampled_stores = true,
          .reductions = true,
          .small_layers = device.has_clusters(),
          .maps = true,
          .chains = support::host_operators().empty(),  // those that are named run there one by one
          .upsamples = true,
          .volumes = !products::refuse_device(device),
          .column_ranges = true,
          .dual_products = families::multiplies_two(device),
          .widest_head = products::widest_head(device),
          .norm_gradients = support::host_operators().empty() ? std::int64_t{kNormGroupChannels} : 0,
          .im2col_channels = 16,
          .kept_bytes = std::size_t{256} << 10};
}

void check_precision(const NetworkOptions& options) {
  if (options.precision != DType::bf16 && options.precision != DType::f16)
    throw UserError(fmt::format("NetworkOptions::precision is {}; expected bf16 or f16", to_string(options.precision)));
}

plan::Device usable_device(const NetworkOptions& options, const plan::Device& device) {
  return plan::with_spare_sms(device, options.spare_sms, "NetworkOptions::spare_sms");
}
plan::Device usable_device(const NetworkOptions& options) {
  return usable_device(options, cuda::open_device(options.device_index));
}

}  // namespace unisono::network::gpu
