/// doctor, demo, cache and bench: the machine, and what is kept on it.

#include "bench/command_line.hpp"
#include "command/quantities.hpp"
#include "command/subcommand_options.hpp"
#include "command/subcommands.hpp"

namespace unisono::command {
namespace {

constexpr const char* doctor_examples =
    "Examples:\n"
    "  unisono doctor\n"
    "  unisono doctor --json\n";

constexpr const char* demo_examples =
    "Examples:\n"
    "  unisono demo\n"
    "  unisono demo --model models/heatmap_unet --out out --threads 2\n";

constexpr const char* cache_examples =
    "Examples:\n"
    "  unisono cache list\n"
    "  unisono cache verify\n"
    "  unisono cache prune --older-than 30d --max-size 1G\n"
    "  unisono cache prune --all --json\n"
    "  ls $(unisono cache path)\n";

constexpr const char* bench_examples =
    "Examples:\n"
    "  unisono bench bench/cases/block.txt --json block.json\n"
    "  unisono bench bench/cases/block.txt --only 8,64,64 --plans 20\n"
    "  unisono bench bench/cases/conv.txt bench/cases/block.txt --precompile\n";

class DoctorSubcommand : public Subcommand {
 public:
  explicit DoctorSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "doctor",
                                  "Show what this machine has, and which backend would be used, and why",
                                  doctor_examples)) {
    add_json(*app_, options_.json);
  }
  Arguments result() override { return options_; }

 private:
  DoctorOptions options_;
};

class DemoSubcommand : public Subcommand {
 public:
  explicit DemoSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "demo", "Find handwritten digits in photographs, and draw what was found",
                                  demo_examples)) {
    add_json(*app_, options_.json);
    app_->add_option("--model", options_.model, "The folder of the model, with held-out scenes")->capture_default_str();
    app_->add_option("--out", options_.out, "The folder for demo.png")->capture_default_str();
    app_->add_option("--device", device_, "cpu, cuda, or auto: cuda if there is a supported GPU")
        ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
        ->capture_default_str();
    add_threads(*app_, options_.threads);
  }
  Arguments result() override {
    options_.device = device_ == "cpu" ? DeviceChoice::cpu : device_ == "cuda" ? DeviceChoice::cuda : DeviceChoice::any;
    return options_;
  }

 private:
  DemoOptions options_;
  std::string device_ = "auto";
};

class CacheSubcommand : public Subcommand {
 public:
  explicit CacheSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "cache", "List, verify or prune the compiled kernels that are kept on disk",
                                  cache_examples)) {
    add_json(*app_, options_.json);
    app_->add_option("--folder", options_.folder, "The folder, such as a pack (default: that of `unisono cache path`)");
    app_->require_subcommand(1);
    add_action("list", "List the entries, last used first: size, registers, spills, last use",
               CacheOptions::Action::list);
    add_action("verify", "Compare every file with its hash; exit code 1 if one differs", CacheOptions::Action::verify);
    add_action("path", "Print the folder", CacheOptions::Action::path);
    CLI::App* prune = add_action("prune",
                                 "Remove broken entries, leftovers of killed processes, and what the "
                                 "options say",
                                 CacheOptions::Action::prune);
    prune->add_option("--older-than", older_than_, "Remove entries that were not used for this long: 90m, 12h, 30d, 8w")
        ->type_name("TIME");
    prune
        ->add_option("--max-size", max_size_,
                     "Remove the longest unused entries until the rest is at most this large: 500M, 2G")
        ->type_name("SIZE");
    prune->add_flag("--all", options_.all, "Remove all entries");
  }

  Arguments result() override {
    if (!older_than_.empty() && !(options_.older_than = parse_duration(older_than_)))
      throw CLI::ValidationError("--older-than",
                                 "expected a number and s, m, h, d or w, such as 30d; found '" + older_than_ + "'");
    if (!max_size_.empty() && !(options_.max_bytes = parse_size(max_size_)))
      throw CLI::ValidationError("--max-size",
                                 "expected a number and K, M, G or T, such as 500M; found '" + max_size_ + "'");
    return options_;
  }

 private:
  CLI::App* add_action(const char* name, const char* description, CacheOptions::Action action) {
    CLI::App* sub = app_->add_subcommand(name, description);
    sub->fallthrough();
    sub->footer(cache_examples);
    sub->callback([this, action] { options_.action = action; });
    return sub;
  }

  CacheOptions options_;
  std::string older_than_, max_size_;
};

class BenchSubcommand : public Subcommand {
 public:
  explicit BenchSubcommand(CLI::App& parent)
      : Subcommand(*parent.add_subcommand(
            "bench", "Time kernels on a GPU against cuDNN, and compare results with the reference")) {
    app_->footer(bench_examples);
    bench::add_options(*app_, options_);
  }
  Arguments result() override { return options_; }

 private:
  bench::Options options_;
};

}  // namespace

std::unique_ptr<Subcommand> doctor_subcommand(CLI::App& parent) { return std::make_unique<DoctorSubcommand>(parent); }
std::unique_ptr<Subcommand> demo_subcommand(CLI::App& parent) { return std::make_unique<DemoSubcommand>(parent); }
std::unique_ptr<Subcommand> cache_subcommand(CLI::App& parent) { return std::make_unique<CacheSubcommand>(parent); }
std::unique_ptr<Subcommand> bench_subcommand(CLI::App& parent) { return std::make_unique<BenchSubcommand>(parent); }

}  // namespace unisono::command
