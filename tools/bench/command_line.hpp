#pragma once
/// The options on a command line; <CLI/CLI.hpp> comes first.

#include "bench/bench.hpp"

namespace CLI {
class App;
}

namespace unisono::bench {

/// Adds arguments and options to a (sub)command; `options` must outlive the parsing.
void add_options(CLI::App& app, Options& options);

}  // namespace unisono::bench
