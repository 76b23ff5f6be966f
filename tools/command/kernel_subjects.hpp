#pragma once
/// What `unisono pack` and `unisono tune` are told to work on: models, files of cases, epilogues for a shape.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "command/model.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"

namespace unisono::command {

struct KernelSubjects {
  std::map<std::string, std::int64_t> dims;                 ///< for models
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< shapes of models' inputs, see dims_of
  DType precision = DType::bf16;                            ///< for models
  std::string conv, gemm, plan;                             ///< for epilogues, as in ExplainOptions
  std::vector<std::filesystem::path> functions = {};        ///< for epilogues, see read_function
};

struct KernelVisitor {
  /// A model for these input shapes.
  std::function<void(const Network&, const NetworkOptions&, const Shapes&)> network;
  /// A contraction with an epilogue; CompileOptions::plan.
  std::function<void(const Contraction&, const Graph&, const std::string& plan)> kernel;
};

/// Calls one of the two, or `kernel` once a case. Throws UserError for a subject that is none, and for options that do
/// not go with it.
void visit_subject(const std::string& subject, const KernelSubjects& options, const KernelVisitor& visitor);

}  // namespace unisono::command
