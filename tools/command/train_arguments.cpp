/// train: a network, by a file that says all of it.

#include "command/subcommand_options.hpp"
#include "command/subcommands.hpp"

namespace unisono::command {
namespace {

constexpr const char* train_examples =
    "Examples:\n"
    "  unisono train training.json --html training.html\n"
    "  unisono train training.json --resume\n";

class TrainSubcommand : public Subcommand {
 public:
  explicit TrainSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "train", "Train a network as a file says", train_examples)) {
    add_json(*app_, options_.json);
    app_->add_option("config", options_.config, "A JSON file: model, data, loss, optimiser (docs/training.md)")
        ->required()
        ->type_name("CONFIG.json");
    app_->add_option("--html", options_.html, "Write a page at the end: the launches of a step with times, and losses")
        ->type_name("FILE");
    app_->add_flag("--resume", options_.resume, "Continue from the checkpoint in the training's folder");
  }
  Arguments result() override { return options_; }

 private:
  TrainOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> train_subcommand(CLI::App& parent) { return std::make_unique<TrainSubcommand>(parent); }

}  // namespace unisono::command
