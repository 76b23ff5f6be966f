#pragma once
/// An executable of the CPU backend.

#include <memory>
#include <string>
#include <vector>

#include "runtime/common/executable_impl.hpp"
#include "runtime/cpu/accumulator.hpp"
#include "runtime/cpu/binding.hpp"
#include "runtime/cpu/epilogue.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/tiling.hpp"
#include "unisono/executable.hpp"

namespace unisono::cpu {

/// Runs a plan over the strips of a tiling: each strip's accumulators are computed into a tile that stays in the
/// L2, and the first stage's program runs over it at once; later stages walk over the kept values.
class TiledExecutable final : public ExecutableImpl, public RegionKernel {
 public:
  /// What executes: where the accumulator comes from (null if the graph does not use it) and how it is called.
  struct Parts {
    std::string title;  ///< "conv2d 1x8x8x16 -> 16, …"
    Plan plan;
    Tiling tiling;
    std::unique_ptr<AccumulatorSource> source;
    std::unique_ptr<AccumulatorSource> second = {};  ///< a dual product's second accumulator, of Arguments::right1
    int bias = -1;                                   ///< value that the source adds; -1: none
    Space space;
    std::vector<std::string> operand_names;  ///< names in the graph before the passes
    int threads = 1;
    const VectorUnit* unit = nullptr;
  };
  explicit TiledExecutable(Parts parts);

  void run(const Arguments& arguments) const override;
  std::string describe() const override;
  std::size_t scratch_bytes() const override;
  std::unique_ptr<BoundRegion> bind_region(const Arguments& arguments, std::byte* scratch) const override;

 private:
  struct Run;
  struct Worker;
  class Bound;
  void plan_memory();
  void find_early_outputs();
  void execute(Run& run) const;
  void compute_columns(Run& run) const;
  bool by_columns() const { return parts_.source && parts_.source->column_parts() > 1; }
  /// The accumulators of the whole space have memory, instead of a tile each worker.
  bool whole_accumulators() const { return parts_.plan.keeps_accumulator || by_columns(); }
  void choose_accumulator_memory(Run& run) const;
  void run_stage(Run& run, std::size_t index) const;
  void run_strip(Run& run, std::size_t stage, std::int64_t index, Worker& worker) const;
  void run_segments(Run& run, std::size_t stage, const Strip& strip, Machine& machine) const;
  std::unique_ptr<Machine> make_machine(const Run& run, std::size_t stage, std::byte* memory) const;
  void bind_outputs(const Run& run, std::size_t stage, Machine& machine, std::byte* groups) const;
  std::int64_t group_rows(const StagePlan& stage) const;
  std::size_t group_buffer(const StagePlan& stage, std::int64_t cols) const;
  std::size_t group_buffers(const StagePlan& stage) const;
  std::string describe_stage(std::size_t index) const;

  Parts parts_;
  std::vector<std::size_t> kept_offset_;
  std::vector<std::vector<std::size_t>> partial_offset_;  // by stage and accumulation
  std::vector<bool> early_output_;  // by store: written before the accumulator is read for the last time in its block
  std::size_t source_offset_ = 0, second_offset_ = 0, accumulator_offset_ = 0, second_tile_offset_ = 0,
              workers_offset_ = 0, run_bytes_ = 0;
  std::size_t registers_offset_ = 0, segments_offset_ = 0, groups_offset_ = 0, source_scratch_offset_ = 0,
              worker_bytes_ = 0;
};

}  // namespace unisono::cpu
