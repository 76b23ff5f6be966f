// `unisono emit`: a kernel as source that somebody else's build compiles.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/names.hpp"
#include "command/commands.hpp"
#include "command/kernel_subjects.hpp"
#include "command/output.hpp"
#include "emit/emit.hpp"
#include "families/override.hpp"
#include "ir/names.hpp"
#include "lower/lower.hpp"
#include "media/file.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

// What is planned for: a GPU of the plan's architecture, where its code runs nowhere else
plan::Device device_of(const std::string& plan) {
  const auto fields = parse_plan(plan).fields;
  const auto arch = fields.find("arch");
  if (arch == fields.end()) return {};
  if (arch->second == "sm100a") return {.name = "a GPU of sm_100", .major = 10};
  if (arch->second == "sm120") return {.name = "a GPU of sm_120", .major = 12, .shared_bytes = 101376};
  return {};
}

families::Standalone files_of(const Contraction& contraction, const Graph& graph, const std::string& plan,
                              const EmitOptions& given) {
  CompileOptions options;
  options.device = Device::cuda;
  options.plan = plan;
  return emit::files(lower::lower(contraction, graph, options, given.gpu ? *given.gpu : device_of(plan)).value(),
                     given.name)
      .value();
}

constexpr std::string_view mark = "Written by `unisono emit`";  // in the first line of each file

// Only what was emitted before is written over
void check_absent(const std::filesystem::path& file) {
  const auto text = support::read_file(file);
  if (text && text->substr(0, text->find('\n')).find(mark) == std::string::npos)
    throw UserError(fmt::format("{} exists and was not written by emit; remove it, or choose another --name or --out",
                                file.string()));
}

// NAME.h is found ahead of the header that it is named as, where its folder is one of the compiler's
constexpr std::array headers{
    "alloca",         "assert",   "complex",   "ctype",   "cuda",    "cuda_bf16", "cuda_fp16", "cuda_runtime",
    "dirent",         "dlfcn",    "elf",       "endian",  "errno",   "fcntl",     "features",  "fenv",
    "float",          "inttypes", "iso646",    "limits",  "link",    "locale",    "malloc",    "math",
    "math_constants", "memory",   "poll",      "pthread", "sched",   "semaphore", "setjmp",    "signal",
    "stdalign",       "stdarg",   "stdatomic", "stdbool", "stddef",  "stdint",    "stdio",     "stdlib",
    "stdnoreturn",    "string",   "strings",   "tgmath",  "threads", "time",      "uchar",     "unistd",
    "values",         "wchar",    "wctype"};

void check_name(const std::string& name) {
  ir::check_identifier(name, "--name: the kernel's");
  if (codegen::is_word(name)) throw UserError(fmt::format("--name: '{}' is a word of C++", name));
  if (std::ranges::find(headers, name) != headers.end())
    throw UserError(fmt::format("--name: {0}.h would hide a header that compilers include, <{0}.h>", name));
}

}  // namespace

int emit(const EmitOptions& options) {
  check_name(options.name);
  std::vector<families::Standalone> kernels;
  const KernelVisitor visitor{
      .network =
          [&](const Network&, const NetworkOptions&, const Shapes&) {
            throw UserError("emit writes the kernel of one epilogue, and " + options.subject + " is a model");
          },
      .kernel =
          [&](const Contraction& contraction, const Graph& graph, const std::string& plan) {
            if (kernels.empty())
              kernels.push_back(files_of(contraction, graph, plan, options));
            else
              throw UserError("emit writes the kernel of one epilogue, and " + options.subject + " has several cases");
          }};
  visit_subject(options.subject, {{}, {}, DType::bf16, options.conv, options.gemm, options.plan, options.functions},
                visitor);
  media::make_folder(options.out);
  const auto source = options.out / (options.name + ".cu"), header = options.out / (options.name + ".h");
  check_absent(source), check_absent(header);
  media::WrittenFiles files;
  files.write(source, kernels.front().source), files.write(header, kernels.front().header);
  files.commit();
  print(fmt::format("{}\n{}\n", source.string(), header.string()));
  return 0;
}

}  // namespace unisono::command
