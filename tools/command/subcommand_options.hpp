#pragma once
/// Options that several subcommands have, and values that CLI11 does not parse by itself.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "command/arguments.hpp"

namespace unisono::command {

/// A subcommand with examples at the end of its help.
CLI::App& add_subcommand(CLI::App& parent, const char* name, const char* description, const char* examples);

/// --json.
void add_json(CLI::App& app, bool& json);

/// --conv, --gemm and --function.
void add_epilogue_shape(CLI::App& app, std::string& conv, std::string& gemm,
                        std::vector<std::filesystem::path>& functions);

/// --threads.
void add_threads(CLI::App& app, int& threads);
/// --jobs.
void add_jobs(CLI::App& app, int& jobs);

/// --dim and --shape: extents of a model's symbols. The values throw CLI::ValidationError.
class SymbolOptions {
 public:
  void add(CLI::App& app, const std::string& description);
  std::map<std::string, std::int64_t> dims() const;
  std::map<std::string, std::vector<std::int64_t>> shapes() const;

 private:
  std::vector<std::string> dims_, shapes_;
};

/// --strict.
/// --asm.
void add_assembly(CLI::App& app, std::filesystem::path& file);
void add_strict(CLI::App& app, bool& strict);
/// --attention.
void add_attention(CLI::App& app, AttentionKernels& attention);

/// --precision.
class PrecisionOption {
 public:
  void add(CLI::App& app);
  DType value() const { return text_ == "f16" ? DType::f16 : DType::bf16; }
  bool is_given() const { return option_->count() > 0; }

 private:
  std::string text_ = "bf16";
  CLI::Option* option_ = nullptr;
};

/// --memory-limit. The value throws CLI::ValidationError.
class MemoryLimitOption {
 public:
  void add(CLI::App& app);
  std::optional<std::uint64_t> bytes() const;

 private:
  std::string text_;
};

}  // namespace unisono::command
