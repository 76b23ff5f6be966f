#pragma once
/// The subcommands. Each prints its result to standard output, and returns the exit code; errors are thrown.

#include "command/arguments.hpp"

namespace unisono::command {

int run(const RunOptions& options);
int explain(const ExplainOptions& options);
int doctor(const DoctorOptions& options);
int demo(const DemoOptions& options);
int cache(const CacheOptions& options);
int pack(const PackOptions& options);
int emit(const EmitOptions& options);
int tune(const TuneOptions& options);
int train(const TrainOptions& options);

}  // namespace unisono::command
