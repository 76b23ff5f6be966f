#include "emit/host_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "families/interface/family.hpp"

namespace unisono::emit {
namespace {

// A list of structs of constants; C++ has no empty arrays
std::string list_text(std::string_view type, std::string_view name, const std::vector<std::string>& elements) {
  if (elements.empty()) return fmt::format("constexpr List<{}> {}{{nullptr, 0}};\n", type, name);
  return fmt::format("constexpr {0} {1}_elements[] = {{\n    {2}}};\nconstexpr List<{0}> {1}{{{1}_elements, {3}}};\n",
                     type, name, fmt::join(elements, ",\n    "), elements.size());
}

std::string_view map_type(const Filled::Map& m) {
  return m.shape.element_bytes == 4 ? "CU_TENSOR_MAP_DATA_TYPE_FLOAT32"
         : m.element == DType::f16  ? "CU_TENSOR_MAP_DATA_TYPE_FLOAT16"
                                    : "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16";
}

std::string swizzle_text(int bytes) {
  return bytes == 128 || bytes == 64 || bytes == 32 ? fmt::format("CU_TENSOR_MAP_SWIZZLE_{}B", bytes)
                                                    : "CU_TENSOR_MAP_SWIZZLE_NONE";
}

std::string map_text(const Filled::Map& m) {
  const families::MapShape& s = m.shape;
  return fmt::format("{{{}, {}, {}, {}, {}, {{{}}}, {{{}}}, {{{}}}, {{{}}}, {}, {{{}}}, {{{}}}, {}, {}, {}}}",
                     m.place.argument, m.place.at, m.place.ahead, map_type(m), s.rank, fmt::join(s.extents, ", "),
                     fmt::join(s.strides, ", "), fmt::join(s.box, ", "), fmt::join(s.steps, ", "), s.im2col,
                     fmt::join(s.lower, ", "), fmt::join(s.upper, ", "), s.channels, s.pixels,
                     swizzle_text(s.swizzle_bytes));
}

std::vector<std::string> place_texts(const std::vector<Filled::Place>& places) {
  std::vector<std::string> all;
  for (const Filled::Place& p : places) all.push_back(fmt::format("{{{}, {}, {}}}", p.argument, p.at, p.ahead));
  return all;
}

bool has_workspace(const lower::Lowered& lowered) { return lowered.plan().workspace_bytes > 0; }

std::string tables(const lower::Lowered& lowered, const Filled& filled) {
  std::vector<std::string> words, maps, arguments;
  for (const Filled::Word& w : filled.words) words.push_back(fmt::format("{{{}, {:#x}}}", w.at, w.bits));
  for (const Filled::Map& m : filled.maps) maps.push_back(map_text(m));
  for (const Argument& a : filled.arguments)
    if (a.is_tensor()) arguments.push_back(fmt::format("{{{}, {}}}", a.alignment, a.is_optional));
  if (has_workspace(lowered)) arguments.emplace_back("{256, false}");
  return "// What every launch has in its parameter, then what arguments give\n" + list_text("Word", "words", words) +
         list_text("Place", "addresses", place_texts(filled.addresses)) + list_text("Map", "maps", maps) +
         list_text("Argument", "pointers", arguments);
}

std::string shape_constant(const lower::Lowered& lowered) {
  const families::Plan& p = lowered.plan();
  const families::Capability c = p.family->capability();
  return fmt::format(
      "// CTAs, threads, CTAs of a cluster, bytes of shared memory, whether CTAs wait for one another; the GPU\n"
      "constexpr Shape shape{{{}, {}, {}, {}, {}, {}, {}, {}}};\n",
      p.ctas, p.threads, p.cluster, p.shared_bytes, p.cooperative, c.major, c.minor, !c.and_later);
}

std::string texts(const lower::Lowered& lowered, const Filled& filled) {
  std::vector<std::string> names;
  for (const Argument& a : filled.arguments)
    if (a.is_tensor())
      names.push_back(
          fmt::format("{{\"{0}: null; expected {1} in GPU memory\",\n     \"{0}: its address is not a multiple of {2} "
                      "bytes\",\n     \"{0}: the driver takes no tensor map of it\"}}",
                      a.name, a.is_captured ? "memory" : shape_text(a), a.alignment));
  if (has_workspace(lowered))
    names.push_back(
        fmt::format("{{\"workspace: null; expected {} bytes of GPU memory\",\n     \"workspace: its address is not a "
                    "multiple of 256 bytes\",\n     \"workspace: the driver takes no tensor map of it\"}}",
                    lowered.plan().workspace_bytes));
  return fmt::format("constexpr const char* texts[][3] = {{\n    {}}};\n", fmt::join(names, ",\n    "));
}

std::string run_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name) {
  std::vector<std::string> given;
  for (const Argument& a : filled.arguments)
    if (a.is_tensor()) given.push_back("a->" + a.name);
  if (has_workspace(lowered)) given.emplace_back("a->workspace");
  std::string text = fmt::format(
      "int {0}_run(const struct {0}_arguments* a, void* stream) {{\n"
      "  using namespace unisono::emitted;\n"
      "  static_assert(sizeof(unisono::Conv::Params) == {1}, \"the parameter that is filled here\");\n"
      "  int major = 0;\n"
      "  if (a == nullptr) return kNoArguments;\n"
      "  if (const int fault = checked(shape, major)) return fault;\n"
      "  const void* const given[] = {{{2}}};\n"
      "  if (const int fault = checked(pointers, given)) return fault;\n",
      name, filled.bytes, fmt::join(given, ", "));
  if (has_workspace(lowered))
    text += fmt::format("  if (a->workspace_bytes < {}) return kSmallWorkspace;\n", lowered.plan().workspace_bytes);
  text +=
      fmt::format("  alignas(128) unsigned char parameter[{}] = {{}};\n  fill(words, addresses, given, parameter);\n",
                  filled.bytes);
  for (const Filled::Place& p : filled.numbers)
    text +=
        fmt::format("  memcpy(parameter + {0}, &a->{1}, sizeof a->{1});\n", p.at, filled.arguments[p.argument].name);
  return text + fmt::format(
                    "  if (const int fault = encode(maps, given, parameter)) return fault;\n"
                    "  return enqueue(shape, reinterpret_cast<const void*>(&{}_kernel), major, parameter, "
                    "static_cast<cudaStream_t>(stream));\n"
                    "}}\n\n",
                    name);
}

std::string text_text(const lower::Lowered& lowered, std::string_view name) {
  const families::Capability c = lowered.plan().family->capability();
  return fmt::format(
      "const char* {0}_text(int status) {{\n"
      "  using namespace unisono::emitted;\n"
      "  constexpr int count = int(sizeof texts / sizeof texts[0]);\n"
      "  for (const int kind : {{kNull, kMisaligned, kMap}})\n"
      "    if (status <= kind && status > kind - count) return texts[kind - status][kind / kNull - 1];\n"
      "  switch (status) {{\n"
      "    case 0: return \"the kernel was enqueued\";\n"
      "    case kNoArguments: return \"no arguments were given\";\n"
      "    case kOtherDevice: return \"the current device is not of compute capability {1}.{2}{3}, which the kernel is "
      "for\";\n"
      "    case kNoMaps: return \"the driver has no tensor maps: it is older than CUDA 12.0\";\n"
      "    case kSmallWorkspace: return \"workspace: fewer than {4} bytes\";\n"
      "    default: return status > 0 ? cudaGetErrorString(static_cast<cudaError_t>(status)) : \"unknown\";\n"
      "  }}\n"
      "}}\n\n"
      "size_t {0}_workspace_bytes(void) {{ return {4}; }}\n",
      name, c.major, c.minor, c.and_later ? " or later" : "", lowered.plan().workspace_bytes);
}

}  // namespace

std::string host_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name) {
  return "\n// ---- The host function\n\nnamespace unisono::emitted {\nnamespace {\n\n" + tables(lowered, filled) +
         shape_constant(lowered) + texts(lowered, filled) + "\n}  // namespace\n}  // namespace unisono::emitted\n\n" +
         run_text(lowered, filled, name) + text_text(lowered, name);
}

}  // namespace unisono::emit
