#pragma once
/// Where lanes have the elements of a general epilogue: two neighbouring channels in registers, as the matrix
/// instruction leaves them, or eight from shared memory (kernels/unisono/epilogue/general_shared.cuh).

#include <optional>
#include <string>

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// A thread has these in shared memory: eight elements with their columns, operands and results, beside results that
/// wait to be staged.
inline constexpr int shared_element_registers = 64;

/// Whether lanes take them from shared memory: as the caller says, else where a function has a form of more than two
/// elements and nothing is against it.
bool chooses_shared(const ConvConfig& config, const sm90::ConvProblem& problem, const sm90::FixedFields& fixed);

/// Why a kernel of this configuration cannot; nothing: it does not, or it can.
std::optional<plan::Refusal> refuse_in_shared(const ConvConfig& config, const sm90::ConvProblem& problem);

/// How functions with vector forms are called; empty where there are none.
std::string describe_functions(const ConvConfig& config, const plan::Epilogue& epilogue);

}  // namespace unisono::families::sm90_conv
