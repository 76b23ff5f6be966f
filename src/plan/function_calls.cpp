#include "plan/function_calls.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/function_forms.hpp"

namespace unisono::plan {

int widest_call(const Epilogue& e) {
  return e.general() ? ir::widest_of(ir::all_call_forms(e.graph), ir::widest_form) : 1;
}

std::string describe_calls(const Epilogue& e, int together, std::string_view where) {
  std::string text;
  for (ValueId id = 0; id < e.graph.nodes.size(); ++id) {
    const Node& x = e.graph[id];
    if (x.op != Op::call || ir::vector_forms(*e.graph.functions.at(x.attr.name)) == 0) continue;
    const ir::VectorForms forms = ir::call_forms(e.graph, id);
    const int width = e.general() ? ir::widest_of(forms, together) : 1;
    text +=
        fmt::format("{}{}: {}", text.empty() ? "functions: " : "; ", x.attr.name,
                    width > 1 ? fmt::format("{} channels a call, fewer where these do not all exist or do not begin "
                                            "at a multiple; {}",
                                            width, where)
                    : x.axes != axes::mn
                        ? fmt::format("one element a call: forms serve values [m,n], this has {}", to_string(x.axes))
                    : forms == 0   ? "one element a call: an integer that it takes varies from channel to channel"
                    : !e.general() ? fmt::format("one element a call: the mode computes elements one by one{}",
                                                 together > 1 ? ", mode=general several" : "")
                                   : fmt::format("one element a call; {}", where));
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace unisono::plan
