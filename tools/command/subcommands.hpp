#pragma once
/// The subcommands of the command line: each declares its options, and says what the user made of them.

#include <CLI/CLI.hpp>
#include <memory>

#include "command/arguments.hpp"

namespace unisono::command {

/// Its members are what CLI11 writes to, so it stays where it is until the command line is parsed.
class Subcommand {
 public:
  explicit Subcommand(CLI::App& app) : app_(&app) {}
  virtual ~Subcommand() = default;
  Subcommand(const Subcommand&) = delete;
  Subcommand& operator=(const Subcommand&) = delete;

  const CLI::App& app() const { return *app_; }
  /// What the options say, after parsing. Throws CLI::ValidationError.
  virtual Arguments result() = 0;

 protected:
  CLI::App* app_;  ///< belongs to its parent
};

std::unique_ptr<Subcommand> run_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> explain_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> doctor_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> demo_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> cache_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> pack_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> emit_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> tune_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> train_subcommand(CLI::App& parent);
std::unique_ptr<Subcommand> bench_subcommand(CLI::App& parent);

}  // namespace unisono::command
