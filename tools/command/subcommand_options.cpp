#include "command/subcommand_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "bench/between.hpp"
#include "command/convolution.hpp"
#include "command/quantities.hpp"
#include "runtime/cpu/worker_pool.hpp"

namespace unisono::command {
namespace {

/// A number of at least 1, or nothing.
std::optional<std::int64_t> parse_extent(std::string_view text) {
  std::int64_t extent = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
  if (error != std::errc{} || stop != text.data() + text.size() || extent < 1) return std::nullopt;
  return extent;
}

/// "1x3x256x256"; nothing if that is no shape.
std::vector<std::int64_t> parse_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  for (;;) {
    const std::size_t end = text.find('x');
    const auto extent = parse_extent(text.substr(0, end));
    if (!extent) return {};
    shape.push_back(*extent);
    if (end == std::string_view::npos) return shape;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

CLI::App& add_subcommand(CLI::App& parent, const char* name, const char* description, const char* examples) {
  CLI::App* sub = parent.add_subcommand(name, description);
  sub->footer(examples);
  return *sub;
}

void add_json(CLI::App& app, bool& json) { app.add_flag("--json", json, "Print one JSON object instead of text"); }

void add_epilogue_shape(CLI::App& app, std::string& conv, std::string& gemm,
                        std::vector<std::filesystem::path>& functions) {
  app.add_option("--conv", conv, fmt::format("The convolution of an epilogue, {}", convolution_form))
      ->type_name("SHAPE");
  app.add_option("--gemm", gemm, fmt::format("The product of an epilogue, {}", product_form))->type_name("SHAPE");
  app.add_option("--function", functions,
                 "A file with a function in CUDA C++ that the epilogue calls; may be given several times")
      ->allow_extra_args(false)
      ->type_name("FILE");
}

void add_threads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "CPU threads; 0: one per core")
      ->check(bench::between(0, cpu::WorkerPool::most_threads))
      ->capture_default_str();
}

void add_jobs(CLI::App& app, int& jobs) {
  app.add_option("--jobs", jobs, "Parallel compilations; 0: one per core")
      ->check(bench::between(0, 1024))
      ->capture_default_str();
}

void add_assembly(CLI::App& app, std::filesystem::path& file) {
  app.add_option("--asm", file, "With --device cuda: write the kernels' machine code (SASS), by nvdisasm")
      ->type_name("FILE");
}

void add_strict(CLI::App& app, bool& strict) {
  app.add_flag("--strict", strict,
               "Fail if an operator of the model has no kernel on cuda, instead of running it on the host");
}

void add_attention(CLI::App& app, AttentionKernels& attention) {
  static const std::map<std::string, AttentionKernels> all{
      {"auto", AttentionKernels::automatic}, {"own", AttentionKernels::own}, {"cudnn", AttentionKernels::cudnn}};
  app.add_option_function<std::string>(
         "--attention", [&attention](const std::string& name) { attention = all.at(name); },
         "Which kernels compute a model's attention on cuda: own, cudnn (fused kernels of cuDNN 9.8 or later), or auto "
         "(as UNISONO_ATTENTION says, else cuDNN's where there is one and it was measured as faster)")
      ->check(CLI::IsMember({"auto", "own", "cudnn"}));
}

void SymbolOptions::add(CLI::App& app, const std::string& description) {
  app.add_option("--dim", dims_, description)->type_name("NAME=N");
  app.add_option("--shape", shapes_, "Shape of an input of the model, such as image=1x3x256x256")
      ->allow_extra_args(false)
      ->type_name("NAME=AxBxC");
}

std::map<std::string, std::int64_t> SymbolOptions::dims() const {
  std::map<std::string, std::int64_t> dims;
  for (const std::string& text : dims_) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const auto extent = parse_extent(std::string_view(text).substr(std::min(equals + 1, text.size())));
    if (equals == 0 || !extent)
      throw CLI::ValidationError(
          "--dim", "expected NAME=NUMBER with a number of at least 1, such as batch=4; found '" + text + "'");
    const auto [given, is_new] = dims.emplace(text.substr(0, equals), *extent);
    if (!is_new && given->second != *extent)
      throw CLI::ValidationError("--dim",
                                 fmt::format("'{}' is given as {} and as {}", given->first, given->second, *extent));
  }
  return dims;
}

std::map<std::string, std::vector<std::int64_t>> SymbolOptions::shapes() const {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const std::string& text : shapes_) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const auto shape = parse_shape(std::string_view(text).substr(std::min(equals + 1, text.size())));
    if (equals == 0 || shape.empty())
      throw CLI::ValidationError("--shape", "expected NAME=AxBxC, such as image=1x3x256x256; found '" + text + "'");
    if (!shapes.emplace(text.substr(0, equals), shape).second)
      throw CLI::ValidationError("--shape", "'" + text.substr(0, equals) + "' is given twice");
  }
  return shapes;
}

void PrecisionOption::add(CLI::App& app) {
  option_ =
      app.add_option("--precision", text_, "The 16-bit type of a model's tensors between kernels on cuda, bf16 or f16")
          ->check(CLI::IsMember({"bf16", "f16"}))
          ->capture_default_str();
}

void MemoryLimitOption::add(CLI::App& app) {
  app.add_option("--memory-limit", text_,
                 "Memory limit for a model's constants, such as 16G (default: half of the machine's)")
      ->type_name("SIZE");
}

std::optional<std::uint64_t> MemoryLimitOption::bytes() const {
  if (text_.empty()) return std::nullopt;
  const auto bytes = parse_size(text_);
  if (!bytes || *bytes == 0)
    throw CLI::ValidationError("--memory-limit",
                               "expected a number above 0 and K, M, G or T, such as 16G; found '" + text_ + "'");
  return bytes;
}

}  // namespace unisono::command
