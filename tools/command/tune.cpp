// `unisono tune`: the fastest plans for this GPU, found by trying, and kept.
#include <fmt/format.h>

#include <filesystem>

#include "command/commands.hpp"
#include "command/json.hpp"
#include "command/kernel_subjects.hpp"
#include "command/output.hpp"
#include "command/progress.hpp"
#include "media/file.hpp"
#include "network/cuda/run/plan.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/environment.hpp"
#include "tuner/tuner.hpp"
#include "tuning/database.hpp"
#include "unisono/error.hpp"
#include "unisono/tuning.hpp"

namespace unisono::command {
namespace {

constexpr std::int64_t most_text = 64 << 20;

std::filesystem::path database_of(const TuneOptions& options) {
  if (!options.database.empty()) return options.database;
  if (const auto file = support::tuning_file()) return *file;
  throw UserError(
      "UNISONO_TUNING is off, or neither XDG_CACHE_HOME nor HOME is set: give the file with --database FILE");
}

int import_rows(const TuneOptions& options) {
  const auto bytes = options.import_from == "-" ? media::read_standard_input({.bytes = most_text})
                                                : media::read_file(options.import_from, {.bytes = most_text});
  const auto rows =
      tuning::parse_rows({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options.import_from.string());
  tuning::Database(database_of(options), tuning::Database::Access::write).put(rows);
  print(options.json ? dump(nlohmann::json{{"imported", rows.size()}, {"database", database_of(options).string()}})
                     : fmt::format("{} plans are now in {}\n", rows.size(), database_of(options).string()));
  return 0;
}

int export_rows(const TuneOptions& options) {
  const std::filesystem::path file = database_of(options);
  const auto rows = tuning::Database(file, tuning::Database::Access::read).rows();
  const std::string text = tuning::to_text(rows);
  if (options.export_to == "-") {
    print(text);
    return 0;
  }
  media::write_file(options.export_to, text);
  print(options.json
            ? dump(nlohmann::json{{"exported", rows.size()}, {"file", options.export_to.string()}})
            : fmt::format("{} plans of {} are now in {}\n", rows.size(), file.string(), options.export_to.string()));
  return 0;
}

std::vector<lower::Problem> problems_of(const TuneOptions& options) {
  const plan::Device device = cuda::open_device(options.device_index);
  std::vector<lower::Problem> problems;
  const KernelVisitor visitor{
      .network =
          [&](const Network& network, NetworkOptions given, const Shapes& shapes) {
            given.device_index = options.device_index;
            for (auto& p : network::gpu::tuning_problems(network, given, shapes, device))
              problems.push_back(std::move(p));
          },
      .kernel = [&](const Contraction& contraction, const Graph& graph,
                    const std::string&) { problems.push_back(lower::analyse(contraction, graph, {}).value()); }};
  const KernelSubjects subjects{options.dims, options.shapes,   options.precision, options.conv, options.gemm,
                                "",           options.functions};
  for (const std::string& s : options.subjects) visit_subject(s, subjects, visitor);
  return problems;
}

std::string left_text(const TuningProgress& p) {
  const std::string left = p.seconds_left < 0 ? "" : fmt::format(", about {:.0f} s left", p.seconds_left);
  return fmt::format(" ({} of {} plans, {} of {} problems done{})", p.timed, p.kernels, p.finished, p.problems, left);
}

nlohmann::json to_json(const TuningReport& report) {
  nlohmann::json problems = nlohmann::json::array();
  for (const TunedProblem& p : report.problems)
    problems.push_back({{"problem", p.problem},
                        {"epilogue", p.epilogue},
                        {"uses", p.uses},
                        {"plan", p.plan},
                        {"us", p.us},
                        {"before_us", p.before_us},
                        {"predicted_us", p.predicted_us},
                        {"timed", p.timed},
                        {"known", p.known},
                        {"rejected", p.rejected},
                        {"error", p.error}});
  return {{"device", report.device},
          {"database", report.database.string()},
          {"seconds", report.seconds},
          {"problems", problems}};
}

std::string to_text(const TuningReport& report) {
  std::string text;
  std::size_t timed = 0, kept = 0, known = 0;
  for (const TunedProblem& p : report.problems) {
    timed += p.timed, known += p.known ? 1 : 0, kept += !p.known && p.error.empty() ? 1 : 0;
    text += fmt::format("{} [{}]{}\n", p.problem, p.epilogue, p.uses > 1 ? fmt::format(", {} times", p.uses) : "");
    if (!p.error.empty()) {
      text += fmt::format("  nothing kept: {}\n", p.error);
    } else {
      const std::string gain = p.known ? "known"
                               : p.before_us > 0
                                   ? fmt::format("{:+.1f} % of {:.2f} us", 100 * (p.us / p.before_us - 1), p.before_us)
                                   : "";
      text += fmt::format("  {:9.2f} us  {:>22}  {}\n", p.us, gain, p.plan);
    }
    for (const std::string& r : p.rejected) text += fmt::format("  rejected: {}\n", r);
  }
  return text + fmt::format("{}: {} plans of {} problems timed in {:.1f} s; {} kept, {} known before, in {}\n",
                            report.device, timed, report.problems.size(), report.seconds, kept, known,
                            report.database.string());
}

}  // namespace

int tune(const TuneOptions& options) {
  if (!options.import_from.empty()) return import_rows(options);
  if (!options.export_to.empty()) return export_rows(options);
  Progress progress;
  progress.step("planning");
  const std::vector<lower::Problem> problems = problems_of(options);
  progress.step("tuning");
  TuningOptions tuning;
  tuning.device_index = options.device_index;
  tuning.candidates = options.candidates;
  tuning.seconds = options.seconds;
  tuning.threads = options.jobs;
  tuning.again = options.again;
  tuning.database = database_of(options);
  tuning.rotating_bytes = options.rotate;
  tuning.progress = [&](const TuningProgress& p) { progress.part(left_text(p)); };
  const TuningReport report = tuner::tune(problems, tuning);
  progress.finish();
  print(options.json ? dump(to_json(report)) : to_text(report));
  const auto failed = [](const TunedProblem& p) { return !p.rejected.empty(); };
  return std::any_of(report.problems.begin(), report.problems.end(), failed) ? 1 : 0;
}

}  // namespace unisono::command
