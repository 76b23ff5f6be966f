#pragma once
/// The steps of a run as a file for Perfetto (ui.perfetto.dev) and Chrome's about:tracing.

#include <filesystem>
#include <string>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::command {

/// JSON in the trace event format: the steps one after another in one lane, in microseconds from 0 on, with what each
/// computes; a second lane has the time that the device's peaks allow, where it is known. A kernel's step is called by
/// the kernel's number and the tensor that it makes: "3. features".
std::string trace_of(const std::string& model, const std::string& device, const std::vector<StepTime>& profile,
                     const FusionReport& fusion);

/// The same into a file. Throws UserError if it cannot be written.
void write_trace(const std::filesystem::path& file, const std::string& model, const std::string& device,
                 const std::vector<StepTime>& profile, const FusionReport& fusion);

}  // namespace unisono::command
