#pragma once
/// What is asked of a compiler, and what is known of a kernel that it made.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::jit {

struct Header {
  std::string_view name, text;  ///< as it stands in an #include
};

struct Request {
  std::string source;
  std::span<const Header> headers;        ///< the text of everything that source may include; must outlive the request
  std::string entry;                      ///< the kernel whose resources are reported
  std::string title;                      ///< for progress, logs and `unisono cache list`
  std::vector<std::string> options = {};  ///< further compiler options, such as -DUNISONO_WATCHDOG
  std::string arch = {};                  ///< that of the device that it will run on; InternalError without
  /// The source is a shared object's: host functions, and the kernels that they launch. It may include CUTLASS, is
  /// compiled by nvcc, and `cubin` of what comes of it is the shared object.
  bool host_library = false;
};

/// What the assembler says of the kernel.
struct Resources {
  int registers = 0;
  std::size_t spill_store_bytes = 0, spill_load_bytes = 0, stack_bytes = 0, static_shared_bytes = 0;
  std::size_t injected_waits = 0;  ///< fences and waits that it added between matrix instructions (wgmma)
};

}  // namespace unisono::jit
