// libtorch_api.hpp against PyTorch's own headers, when it is compiled: part of no library.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include "libtorch_api.hpp"

namespace unisono::python {

#define UNISONO_LIBTORCH_SAME(result, name, parameters) \
  static_assert(std::is_same_v<result(*) parameters, decltype(&::name)>, #name);
UNISONO_LIBTORCH_FUNCTIONS(UNISONO_LIBTORCH_SAME)
static_assert(std::is_same_v<StableIValue, ::StableIValue>);
static_assert(AOTI_TORCH_SUCCESS == 0);
static_assert(TORCH_ABI_VERSION >= stable_version);

}  // namespace unisono::python
