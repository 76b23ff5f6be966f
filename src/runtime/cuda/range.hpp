#pragma once
/// Named ranges for NVIDIA's profilers (NVTX). Where the toolkit's headers lack NVTX they are nothing.

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define UNISONO_HAS_NVTX 1
#else
#define UNISONO_HAS_NVTX 0
#endif

namespace unisono::cuda {

/// A range of this thread, as long as it lives. Without a profiler it costs some nanoseconds.
class NamedRange {
 public:
#if UNISONO_HAS_NVTX
  explicit NamedRange(const char* name) { nvtxRangePushA(name); }
  ~NamedRange() { nvtxRangePop(); }
#else
  explicit NamedRange(const char*) {}
  ~NamedRange() {}
#endif
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace unisono::cuda
