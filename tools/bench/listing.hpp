#pragma once
/// What `unisono bench` does without a GPU.

#include <string>
#include <vector>

#include "bench/bench.hpp"
#include "bench/cases.hpp"

namespace unisono::bench {

/// The suites of all files, with the cases that --only keeps. Throws UserError.
std::vector<Suite> read_suites(const Options& options);

/// Prints them as JSON. Returns the exit code.
int list(const std::vector<Suite>& suites);

/// Writes to standard output. Throws UserError if it cannot be written.
void print(const std::string& text);

}  // namespace unisono::bench
