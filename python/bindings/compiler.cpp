/// The compiler of a GPU's kernels: where it is looked for, and whether it is there.

#include "jit/jit.hpp"
#include "jit/nvrtc_library.hpp"
#include "support/cuda_places.hpp"
#include "tensors.hpp"

namespace unisono::python {

void bind_compiler(nb::module_& m) {
  m.def(
      "_add_python_packages", [](const std::string& folder) { support::add_python_packages(folder); },
      nb::arg("folder"), "Adds a folder of Python packages to the places where NVRTC is searched.");
  m.def(
      "_has_nvrtc",
      [] {
        try {
          return !jit::find_nvrtc({}).path.empty();
        } catch (const CompileError&) {
          return false;
        }
      },
      "Whether NVRTC can be found. Loads it only if nothing but the dynamic linker finds it.");
  m.def(
      "_nvrtc", [] { return jit::description_of({}); },
      "Loads NVRTC; returns its version and path. Raises CompileError with the places that were searched.");
}

}  // namespace unisono::python
