// The text form: what is read prints as a text that reads back as the same graph.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace {

const std::vector<unisono::UserFunction>& functions() {
  static const std::vector<unisono::UserFunction> f{
      {.name = "warp", .arity = 2, .returns_value = true, .cuda_source = "x", .cpu = {}},
      {.name = "probe", .arity = 1, .returns_value = false, .cuda_source = "x", .cpu = {}}};
  return f;
}

unisono::Graph parse_any(std::string_view text, bool& readable) {
  try {
    readable = true;
    return unisono::parse(text, functions());
  } catch (const unisono::UserError&) {
    readable = false;
    return {};
  }
}

}  // namespace

// What is printed must be readable: an error of the second parse is a finding, as is any InternalError
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  bool readable = false;
  const unisono::Graph graph = parse_any({reinterpret_cast<const char*>(data), size}, readable);
  if (!readable) return 0;
  unisono::verify(graph);
  const std::string text = unisono::print(graph);
  const unisono::Graph again = unisono::parse(text, functions());
  if (!unisono::structurally_equal(graph, again)) std::abort();
  if (unisono::print(again) != text) std::abort();
  if (unisono::to_dot(graph).empty()) std::abort();
  return 0;
}
