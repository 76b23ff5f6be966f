#include "command/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include "command/help.hpp"
#include "command/subcommands.hpp"
#include "ir/suggest.hpp"

namespace unisono::command {
namespace {

constexpr const char* overview =
    "Unisono runs a convolution or matrix product and everything after it as one kernel.\n";

constexpr const char* exit_codes =
    "Exit codes: 0 success; 1 a check failed, or an error inside Unisono; 2 wrong usage or input; 3 no kernel serves "
    "the\n"
    "request; 4 a compiler failed; 5 a device failed.\n"
    "\n"
    "Examples:\n"
    "  unisono demo\n"
    "  unisono explain 'y = silu(acc + bias[n]); store y : bf16'\n"
    "  unisono run models/heatmap_unet --image photo.png --out out\n"
    "  unisono doctor --json\n"
    "  unisono cache list\n"
    "  unisono pack models/heatmap_unet --dim batch=1 --out pack\n"
    "  unisono emit 'store relu(acc + bias[n]) as y : bf16' --gemm '4096,4096->4096' --name dense\n"
    "  unisono tune models/heatmap_unet --dim batch=8\n"
    "  unisono train training.json\n";

// Values that CLI11 takes for absent or as another number: an empty text, such as a variable of a shell that is not
// set, and a number below 0 where only others are. A plan may be empty: it fixes nothing
void check_values(CLI::App& app) {
  for (CLI::App* sub : app.get_subcommands({})) check_values(*sub);
  for (CLI::Option* option : app.get_options({})) {
    if (option->get_type_size() == 0 || !option->nonpositional()) continue;
    const bool is_unsigned = option->get_type_name() == "UINT", may_be_empty = option->check_lname("plan");
    const auto fault = [is_unsigned, may_be_empty](const std::string& value) {
      if (value.empty() && may_be_empty) return std::string();
      if (value.empty()) return std::string("expected a value; found an empty text");
      return is_unsigned && value[0] == '-' ? fmt::format("expected 0 or more; found {}", value) : "";
    };
    option->check(fault, "");
  }
}

// What CLI11 says only if nothing required is missing: that an option does not exist
std::optional<std::string> unknown_option(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<const CLI::App*> parsed{&app};
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    for (const CLI::App* sub : parsed[i]->get_subcommands()) parsed.push_back(sub);
    for (const CLI::App* group : parsed[i]->get_subcommands([](const CLI::App* a) { return a->get_name().empty(); }))
      parsed.push_back(group);
  }
  std::vector<std::string> names;
  for (const CLI::App* one : parsed)
    for (const CLI::Option* option : one->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (int i = 1; i < argc; ++i) {
    const std::string_view given = std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (!given.starts_with("--") || std::find(known.begin(), known.end(), given) != known.end()) continue;
    return fmt::format("unknown option '{}'{}", given, ir::did_you_mean(ir::nearest(given, known)));
  }
  return std::nullopt;
}

}  // namespace

std::variant<Arguments, Answer> parse_arguments(int argc, const char* const* argv) {
  CLI::App app(overview, "unisono");
  app.set_version_flag("--version", std::string("unisono ") + UNISONO_VERSION);
  app.require_subcommand(1);
  app.footer(exit_codes);
  app.formatter(std::make_shared<HelpFormatter>());  // subcommands inherit it
  const std::array all{run_subcommand(app),   explain_subcommand(app), doctor_subcommand(app), demo_subcommand(app),
                       cache_subcommand(app), pack_subcommand(app),    emit_subcommand(app),   tune_subcommand(app),
                       train_subcommand(app), bench_subcommand(app)};
  check_values(app);
  // CLI11 would only say that a subcommand is missing
  std::vector<std::string> names;
  for (const auto& sub : all) names.push_back(sub->app().get_name());
  if (argc < 2)
    return Answer{fmt::format("no command was given; expected one of {} (unisono --help)", fmt::join(names, ", ")),
                  true};
  if (argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end())
    return Answer{fmt::format("'{}' is not a command; expected one of {}", argv[1], fmt::join(names, ", ")), true};
  try {
    app.parse(argc, argv);
    return (*std::find_if(all.begin(), all.end(), [](const auto& sub) { return sub->app().parsed(); }))->result();
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, wrong;
    if (app.exit(error, out, wrong) == 0) return Answer{out.str(), false};
    return Answer{unknown_option(app, argc, argv).value_or(wrong.str()), true};
  }
}

}  // namespace unisono::command
