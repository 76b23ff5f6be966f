#pragma once
/// From text to a kernel's source.

#include <string>
#include <string_view>

#include "codegen/codegen.hpp"
#include "families/sm90_conv/generate.hpp"
#include "families/sm90_depthwise/generate.hpp"

namespace unisono::codegen {

/// As written; functions `gain` (one argument) and `blend` (two) have CUDA text, `host_only` (one) has none.
Graph graph_of(std::string_view text);

/// After the passes: all forms, and the first.
plan::Forms forms_of(std::string_view text);
plan::Epilogue epilogue_of(std::string_view text);

/// 128x128 tiles for that epilogue: resident if it normalises, rows over the channels of a pixel.
families::sm90_conv::ConvConfig config_of(const plan::Epilogue& epilogue);

Kernel kernel_of(std::string_view text, const Options& options = {});

/// The lines between "head(" and the closing brace of that function, without indentation.
std::string body_of(const Kernel& kernel, std::string_view head);

}  // namespace unisono::codegen
