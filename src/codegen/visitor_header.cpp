#include <fmt/format.h>

#include "codegen/codegen.hpp"
#include "codegen/frame.hpp"
#include "codegen/visitor.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

namespace {

constexpr const char* why =
    "the visitor of a kernel of one's own has one element at a time and its row; what needs several is for the kernels "
    "of compile()";

// The first value that needs more than its own element
std::optional<ValueId> beyond_an_element(const plan::Epilogue& e) {
  if (e.norm()) return e.norm()->result;
  for (const plan::Stage& s : e.stages)
    if (const auto all = s.reductions(); !all.empty()) return all.front();
  return std::nullopt;
}

// The stores that the kernel's own memory takes: the visitor's Output, and its Side
std::vector<std::size_t> named_stores(const plan::Epilogue& e) {
  std::vector<std::size_t> named;
  for (const plan::Output& o : e.outputs)
    if (o.path == plan::Output::StorePath::after) named.push_back(o.store);
  return named;
}

std::string about(const plan::Epilogue& e, const std::vector<std::size_t>& named) {
  std::string text;
  for (std::size_t i = 0; i < named.size(); ++i) {
    const Store& store = e.graph.stores[named[i]];
    text += fmt::format("// {}: {} [m,n], {}\n", i == 0 ? "main" : "side", store.name, to_string(store.dtype));
  }
  return text;
}

}  // namespace

plan::Expected<VisitorHeader> visitor_header(const plan::Epilogue& epilogue, std::string_view name,
                                             const Options& options) {
  if (const auto value = beyond_an_element(epilogue)) return plan::refusal_at(epilogue.graph, *value, why);
  if (auto refusal = refuse_operands(epilogue, options)) return *std::move(refusal);
  VisitorWriter writer(epilogue, options);
  const std::string body = writer.text();
  VisitorHeader header{.source = {}, .fields = writer.fields(), .named = named_stores(epilogue)};
  header.source =
      "// An epilogue for the kernel that includes this, one element at a time (unisono/epilogue/element.cuh):\n" +
      commented(print(epilogue.graph)) + about(epilogue, header.named) +
      "#pragma once\n#include <unisono/epilogue/element.cuh>\n#include <unisono/epilogue/math.cuh>\n\n" +
      functions_text(epilogue) +
      fmt::format("namespace unisono::{} {{\n\n{}\nusing Epilogue = {}<Visitor>;\n\n}}  // namespace unisono::{}\n",
                  name, body, epilogue.general() ? "GeneralElementEpilogue" : "PointwiseEpilogue", name);
  return header;
}

}  // namespace unisono::codegen
