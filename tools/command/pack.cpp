// `coda pack`: kernels compiled ahead, as a folder that machines without a compiler read.
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "bench/cases.hpp"
#include "coda/error.hpp"
#include "coda/text.hpp"
#include "command/commands.hpp"
#include "command/convolution.hpp"
#include "command/json.hpp"
#include "command/model.hpp"
#include "command/output.hpp"
#include "command/progress.hpp"
#include "command/quantities.hpp"
#include "command/subject.hpp"
#include "compile.hpp"
#include "jit/maintenance.hpp"
#include "network/cuda/plan.hpp"
#include "passes/passes.hpp"

namespace coda::command {
namespace {

using Requests = std::vector<jit::Request>;

jit::Request request_of(const Contraction& contraction, const Graph& graph, const std::string& plan) {
  CompileOptions options;
  options.device = Device::cuda;
  options.plan = plan;
  const ConvKernel k = conv_kernel(contraction, passes::run_pipeline(graph), plan::Device{}, options);
  return request(k.kernel, k.plan, contraction);
}

Requests of_model(const PackOptions& options, const std::string& subject) {
  const Model model = load_model(subject);
  NetworkOptions network;
  network.device = Device::cuda;
  network.precision = options.precision;
  return network::gpu::requests(model.network, network, input_shapes(model.network, options.dims), plan::Device{});
}

/// A file of the benchmark's cases: epilogues, and the shapes that each is wanted for.
Requests of_suite(const std::string& text, const std::string& source) {
  Requests all;
  for (const bench::Case& c : bench::parse_suite(text, source).cases)
    all.push_back(request_of(c.contraction(), c.graph, c.plan));
  return all;
}

Requests of_epilogue(const PackOptions& options, const std::string& text, const std::string& source) {
  if (options.conv.empty() == options.gemm.empty())
    throw UserError(
        "an epilogue's text is packed for one convolution or product: give its shape, such as "
        "--conv '8,64,64,320->320,3x3' or --gemm '512,1024->4096'");
  const Contraction contraction =
      options.gemm.empty() ? Contraction(parse_convolution(options.conv)) : Contraction(parse_product(options.gemm));
  return {request_of(contraction, parse_text(text, source), options.plan)};
}

Requests requests_of(const PackOptions& options, const std::string& subject) {
  const bool shaped = !options.conv.empty() || !options.gemm.empty() || !options.plan.empty();
  if (is_model(subject)) {
    if (shaped) throw UserError("--conv, --gemm and --plan are for an epilogue's text, and " + subject + " is a model");
    return of_model(options, subject);
  }
  if (!options.dims.empty()) throw UserError("--dim is for models, and '" + subject + "' is none");
  const auto [text, source] = find_text(subject);
  const bool is_suite = text.starts_with("suite ") || text.find("\nsuite ") != std::string::npos;
  if (is_suite && shaped)
    throw UserError("--conv, --gemm and --plan are for an epilogue's text; the cases in " + source + " say theirs");
  return is_suite ? of_suite(text, source) : of_epilogue(options, text, source);
}

/// Folders that only a cache needs.
void remove_workshops(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tmp", "broken", "failed"}) std::filesystem::remove_all(folder / name, ignored);
}

}  // namespace

int pack(const PackOptions& options) {
  Progress progress;
  progress.step("planning");
  Requests requests;
  for (const std::string& subject : options.subjects)
    for (jit::Request& r : requests_of(options, subject)) requests.push_back(std::move(r));
  jit::Settings settings;
  settings.cache = std::filesystem::absolute(options.out);
  settings.jobs = options.jobs;
  settings.installed_packs = false;
  progress.step(fmt::format("compiling into {}", options.out.string()));
  const auto binaries = jit::Jit(settings).compile(
      requests, [&](std::size_t done, std::size_t total, const std::string&) { progress.done(done, total); });
  remove_workshops(settings.cache);
  const auto entries = jit::verify_entries(settings.cache);
  progress.finish();
  std::size_t compiled = 0, bytes = 0;
  for (const jit::Binary& b : binaries) compiled += b.cached ? 0 : 1;
  for (const jit::Listed& e : entries) {
    if (!e.problem.empty())
      throw UserError(fmt::format("{} is broken: {}; `coda cache prune --folder {}` removes it, then pack again",
                                  e.folder.string(), e.problem, settings.cache.string()));
    bytes += e.bytes;
  }
  if (options.json) {
    print(dump(nlohmann::json{{"folder", settings.cache.string()},
                              {"requested", requests.size()},
                              {"compiled", compiled},
                              {"entries", entries.size()},
                              {"bytes", bytes}}));
    return 0;
  }
  print(fmt::format("{} kernels asked for, {} compiled; {} in the pack, {}, in {}\n", requests.size(), compiled,
                    entries.size(), size_text(bytes), settings.cache.string()));
  print(fmt::format("CODA_PACKS={} lets programs use it; cmake -DCODA_PACK={} installs it with the library\n",
                    settings.cache.string(), settings.cache.string()));
  return 0;
}

}  // namespace coda::command
