/// The compiler of a GPU's kernels: where it is looked for, and whether it is there.

#include "jit/jit.hpp"
#include "jit/nvrtc_library.hpp"
#include "support/cuda_places.hpp"
#include "tensors.hpp"

namespace unisono::python {

void bind_compiler(nb::module_& m) {
  m.def(
      "_add_python_packages", [](const std::string& folder) { support::add_python_packages(folder); },
      nb::arg("folder"), "A folder of Python packages, among which NVIDIA's may be.");
  m.def(
      "_has_nvrtc",
      [] {
        try {
          return !jit::find_nvrtc({}).path.empty();
        } catch (const CompileError&) {
          return false;
        }
      },
      "Whether NVRTC is somewhere. Nothing is loaded, unless only the dynamic linker finds it.");
  m.def(
      "_nvrtc", [] { return jit::description_of({}); },
      "NVRTC's version and path. Loads it. Raises CompileError with the places that were searched.");
}

}  // namespace unisono::python
