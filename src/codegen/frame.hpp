#pragma once
/// A kernel's text around what its family writes: the graphs as comments, includes, user functions, the visitors.

#include <string>

#include "codegen/codegen.hpp"
#include "plan/epilogue.hpp"

namespace unisono::codegen {

/// What a family adds.
struct Frame {
  std::string header;   ///< device code: "unisono/sm90/depthwise.cuh"
  std::string config;   ///< the struct `Config`
  std::string kernel;   ///< the class template over Config and Visitor
  std::string minimum;  ///< CTAs on an SM that registers must leave room for, an expression
};

/// Throws as codegen::generate does.
Kernel framed(const plan::Epilogue& epilogue, const Options& options, const Frame& frame);

/// Each line as a comment.
std::string commented(const std::string& text);

/// The sources of the user functions that the epilogue calls: each text once.
std::string functions_text(const plan::Epilogue& epilogue);

/// The tag of an operand type of a contraction, "Bf16"; throws InternalError for one that no matrix instruction takes.
std::string_view operand_tag(DType element);

}  // namespace unisono::codegen
