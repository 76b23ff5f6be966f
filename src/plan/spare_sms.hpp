#pragma once
/// A GPU of which some SMs are left to others.

#include "plan/device.hpp"

namespace unisono::plan {

/// The device without the SMs that its kernels leave free. Which ones those are is not known: each may belong to
/// another cluster. Throws UserError, in the name of `option`, for a number below 0 or of all SMs.
Device with_spare_sms(Device device, int spare, const char* option);

}  // namespace unisono::plan
