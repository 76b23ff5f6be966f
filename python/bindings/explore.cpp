/// Pages to explore what was compiled. Without UNISONO_EXPLORE, the library of pages was not built.

#include "options.hpp"
#include "tensors.hpp"
#ifdef UNISONO_EXPLORE
#include "explore/texts.hpp"
#endif

namespace unisono::python {

#ifdef UNISONO_EXPLORE
void bind_explore(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "_explore_kernel",
      [](const Graph& graph, const std::optional<Contraction>& contraction, const nb::kwargs& keywords) {
        const CompileOptions options = compile_options_of(keywords);
        nb::gil_scoped_release unlocked;
        return explore::kernel_text(graph, contraction, options);
      },
      "graph"_a, "contraction"_a.none(), "options"_a,
      "What a page to explore shows of an epilogue, as JSON; with a contraction, of the kernel for a GPU.");
  m.def("_explore_page", &explore::page_text, "data"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Places the boxes of a page, and returns it as HTML.");
}
#else
void bind_explore(nb::module_&) {}
#endif

}  // namespace unisono::python
