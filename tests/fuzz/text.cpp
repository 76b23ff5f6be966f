// The text form: what is read prints as a text that reads back as the same graph.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "coda/error.hpp"
#include "coda/text.hpp"

namespace {

const std::vector<coda::UserFunction>& functions() {
  static const std::vector<coda::UserFunction> f{
      {.name = "warp", .arity = 2, .returns_value = true, .cuda_source = "x", .cpu = {}},
      {.name = "probe", .arity = 1, .returns_value = false, .cuda_source = "x", .cpu = {}}};
  return f;
}

coda::Graph parse_any(std::string_view text, bool& readable) {
  try {
    readable = true;
    return coda::parse(text, functions());
  } catch (const coda::UserError&) {
    readable = false;
    return {};
  }
}

}  // namespace

// What is printed must be readable: an error of the second parse is a finding, as is any InternalError
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  bool readable = false;
  const coda::Graph graph = parse_any({reinterpret_cast<const char*>(data), size}, readable);
  if (!readable) return 0;
  coda::verify(graph);
  const std::string text = coda::print(graph);
  const coda::Graph again = coda::parse(text, functions());
  if (!coda::structurally_equal(graph, again)) std::abort();
  if (coda::print(again) != text) std::abort();
  if (coda::to_dot(graph).empty()) std::abort();
  return 0;
}
