#include "libtorch_api.hpp"

#include <dlfcn.h>

namespace unisono::python {

void* loaded_symbol(const char* library, const char* name) {
  void* const loaded = ::dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  return ::dlsym(loaded != nullptr ? loaded : RTLD_DEFAULT, name);
}

std::string load_libtorch() {
#define UNISONO_LIBTORCH_LOAD(result, name, parameters)                                   \
  name = reinterpret_cast<result(*) parameters>(loaded_symbol("libtorch_cpu.so", #name)); \
  if (name == nullptr) return #name;
  UNISONO_LIBTORCH_FUNCTIONS(UNISONO_LIBTORCH_LOAD)
#undef UNISONO_LIBTORCH_LOAD
  return "";
}

}  // namespace unisono::python
