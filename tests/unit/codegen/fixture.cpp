#include "fixture.hpp"

#include <sstream>

#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

namespace {
constexpr auto gain_text = "__device__ float gain(float x) {\n    return 2.f * x;\n}";
constexpr auto blend_text = "__device__ float blend(float x, float y) {\n    return 0.25f * x + 0.75f * y;\n}";
constexpr auto odd_text = "__device__ float odd(float x) {\n    return __uint_as_float(__float_as_uint(x) | 1u);\n}";
}  // namespace

Graph graph_of(std::string_view text) {
  using Arguments = std::span<const double>;
  return parse(text, {{"gain", 1, true, gain_text, [](Arguments x) { return 2 * x[0]; }},
                      {"blend", 2, true, blend_text, [](Arguments x) { return 0.25 * x[0] + 0.75 * x[1]; }},
                      {"odd", 1, true, odd_text, [](Arguments x) { return x[0]; }},
                      {"host_only", 1, true, "", [](Arguments x) { return x[0]; }}});
}

plan::Forms forms_of(std::string_view text) {
  return plan::analyse_forms(passes::run_pipeline(graph_of(text)), {.images = 2, .height = 16, .width = 16, .cols = 64},
                             {.channels = 256})
      .value();
}

plan::Epilogue epilogue_of(std::string_view text) { return forms_of(text).list.front(); }

families::sm90_conv::ConvConfig config_of(const plan::Epilogue& epilogue) {
  families::sm90_conv::ConvConfig config;
  if (epilogue.general()) config.statistics = families::sm90_conv::GeneralReductions{};
  if (!epilogue.norm()) return config;
  config.features.store_buffers = 2;
  if (epilogue.normalises_rows())
    config.statistics = families::sm90_conv::RowStatistics{};
  else
    config.statistics =
        families::sm90_conv::ResidentStatistics{.unit = static_cast<int>(epilogue.normalised()->group_channels)};
  return config;
}

Kernel kernel_of(std::string_view text, const Options& options) {
  const plan::Epilogue epilogue = epilogue_of(text);
  return generate(epilogue, config_of(epilogue), options);
}

std::string body_of(const Kernel& kernel, std::string_view head) {
  std::istringstream lines(kernel.source);
  std::string line, body;
  while (std::getline(lines, line) && line.find(" " + std::string(head) + "(") == line.npos) continue;
  if (line.ends_with("{}")) return "";
  while (std::getline(lines, line) && line != "    }") body += line.substr(line.find_first_not_of(' ')) + "\n";
  return body;
}

}  // namespace unisono::codegen
