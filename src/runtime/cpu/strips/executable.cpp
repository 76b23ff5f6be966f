#include "runtime/cpu/strips/executable.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "coda/error.hpp"
#include "ir/op_table.hpp"
#include "passes/partition.hpp"
#include "passes/passes.hpp"
#include "runtime/cpu/epilogue.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/strips/program.hpp"
#include "runtime/cpu/worker_pool.hpp"

namespace coda::cpu {

namespace {

// Groups must divide the columns; only the problem knows how many there are
void check_groups(const Graph& graph, const Extents& e) {
  for (const Node& x : graph.nodes) {
    const bool grouped = ir::is_reduction(x.op) && x.attr.domain.groups > 1;
    if (grouped && e.cols % x.attr.domain.groups != 0)
      throw UserError(
          fmt::format("groups={}: {} columns do not divide into that many equal groups", x.attr.domain.groups, e.cols));
    if (x.axes.col == ColAxis::g && e.cols % x.axes.groups != 0)
      throw UserError(
          fmt::format("groups={}: {} columns do not divide into that many equal groups", x.axes.groups, e.cols));
  }
}

class CpuExecutable final : public ExecutableImpl {
 public:
  CpuExecutable(Graph graph, Operands operands, const Tiling& tiling, int threads,
                std::unique_ptr<AccumulatorSource> source, bool has_a, bool a_in_place)
      : graph_(std::move(graph)),
        operands_(std::move(operands)),
        tiling_(tiling),
        threads_(threads),
        source_(std::move(source)),
        has_a_(has_a),
        unit_(vector_unit()) {
    const auto stages = passes::partition(graph_);
    operands_.in_place_allowed = stages.stages.size() == 1;
    a_in_place_ = a_in_place && operands_.in_place_allowed;
    make_program(program_, graph_, stages, tiling_, operands_, unit_);
  }

  void run(const Arguments& arguments) const override {
    if (has_a_) source_->check(arguments);
    const Bindings bindings = bind(operands_, arguments, has_a_, a_in_place_);
    const auto memory = ScratchPool::shared().borrow(run_bytes() + static_cast<std::size_t>(threads_) * worker_bytes());
    const Memory m = lay_out(memory.data());
    if (uses_acc()) source_->prepare(arguments, m.source);
    for (std::size_t s = 0; s < program_.stages.size(); ++s) run_stage(s, arguments, bindings, m);
  }

  std::string describe() const override {
    std::string text = fmt::format("cpu: {}\n", source_->describe());
    text +=
        fmt::format("  epilogue: {} stage{}, {} instructions, blocks of {} rows, strips of {}x{} pixels, {} thread{}\n",
                    program_.stages.size(), program_.stages.size() == 1 ? "" : "s", unit_.name, program_.block_rows,
                    tiling_.strip_height(), tiling_.extents().width, threads_, threads_ == 1 ? "" : "s");
    for (std::size_t s = 0; s < program_.stages.size(); ++s)
      text += fmt::format("  stage {}: {} instructions a block, {} a strip, {} reductions over rows\n", s,
                          program_.stages[s].per_block.size(), program_.stages[s].per_strip.size(),
                          program_.stages[s].reductions.size());
    if (program_.kept_bytes) text += fmt::format("  kept between stages: {} KiB\n", program_.kept_bytes >> 10);
    return text;
  }

 private:
  struct Memory {
    std::byte *source, *kept, *reduced, *partial, *workers;
  };

  bool uses_acc() const {
    return std::any_of(program_.stages.begin(), program_.stages.end(), [](const auto& s) { return s.reads_acc; });
  }
  std::size_t acc_bytes() const {
    return aligned_size(static_cast<std::size_t>(tiling_.strip_rows() * program_.extents.cols + 16) * sizeof(float));
  }
  std::size_t worker_bytes() const {
    return acc_bytes() + aligned_size(source_->worker_scratch()) + aligned_size(program_.register_bytes);
  }
  std::size_t run_bytes() const {
    return aligned_size(source_->run_scratch()) + aligned_size(program_.kept_bytes + 64) +
           aligned_size(program_.reduced_bytes) + aligned_size(program_.partial_bytes);
  }
  Memory lay_out(std::byte* at) const {
    Memory m{};
    m.source = at;
    m.kept = m.source + aligned_size(source_->run_scratch());
    m.reduced = m.kept + aligned_size(program_.kept_bytes + 64);
    m.partial = m.reduced + aligned_size(program_.reduced_bytes);
    m.workers = m.partial + aligned_size(program_.partial_bytes);
    return m;
  }

  Frame frame(const Bindings& bindings, const Memory& m, int worker) const {
    Frame f;
    f.bindings = &bindings;
    f.kept = m.kept;
    f.reduced = m.reduced;
    f.partial = m.partial;
    f.registers = m.workers + static_cast<std::size_t>(worker) * worker_bytes() + acc_bytes() +
                  aligned_size(source_->worker_scratch());
    return f;
  }

  void run_stage(std::size_t index, const Arguments& arguments, const Bindings& bindings, const Memory& m) const {
    const StageProgram& stage = program_.stages[index];
    if (!stage.per_block.empty() || (index == 0 && program_.kept_acc >= 0)) {
      WorkerPool::shared().for_each(threads_, tiling_.strips(), [&](std::int64_t strip, int worker) {
        run_strip(index, tiling_.strip(strip), arguments, frame(bindings, m, worker), m, worker);
      });
    }
    for (const std::size_t r : stage.reductions)
      merge_reduction(graph_, program_, program_.reductions[r], tiling_, m.partial, m.reduced);
    if (stage.finish.empty()) return;
    Frame f = frame(bindings, m, 0);
    for (std::int64_t image = 0; image < program_.extents.images; ++image) {
      f.image = image;
      f.first_row = image * program_.extents.rows_per_image();
      f.rows = 1;
      for (const Instruction& i : stage.finish) i(f);
    }
  }

  // Accumulators of the strip, in scratch or where they are kept
  float* accumulate(std::size_t index, const Strip& strip, const Arguments& arguments, const Memory& m,
                    int worker) const {
    const StageProgram& stage = program_.stages[index];
    const Extents& e = program_.extents;
    if (!stage.reads_acc) return nullptr;
    const std::int64_t row = strip.image * e.rows_per_image() + strip.first * e.width;
    if (const float* all = source_->in_memory(arguments)) return const_cast<float*>(all) + row * e.cols;
    std::byte* mine = m.workers + static_cast<std::size_t>(worker) * worker_bytes();
    auto* acc = reinterpret_cast<float*>(mine);
    if (program_.kept_acc >= 0)
      acc = reinterpret_cast<float*>(m.kept + program_.kept[static_cast<std::size_t>(program_.kept_acc)].offset) +
            row * e.cols;
    source_->compute(arguments, strip, acc, m.source, mine + acc_bytes());
    return acc;
  }

  void run_strip(std::size_t index, const Strip& strip, const Arguments& arguments, Frame f, const Memory& m,
                 int worker) const {
    const StageProgram& stage = program_.stages[index];
    const Extents& e = program_.extents;
    float* acc = accumulate(index, strip, arguments, m, worker);
    f.image = strip.image;
    const std::int64_t strip_row = strip.image * e.rows_per_image() + strip.first * e.width;
    f.first_row = strip_row;
    f.rows = 1;
    f.acc = acc;
    for (const Instruction& i : stage.per_strip) i(f);
    const std::int64_t segment_height = tiling_.segment_height();
    for (std::int64_t h = 0; h < strip.height; h += segment_height) {
      const std::int64_t rows = std::min(segment_height, strip.height - h) * e.width;
      f.segment = strip.image * tiling_.segments_per_image() + (strip.first + h) / segment_height;
      for (std::int64_t r = 0; r < rows; r += program_.block_rows) {
        f.row_in_segment = r;
        f.rows = std::min(program_.block_rows, rows - r);
        f.first_row = strip_row + h * e.width + r;
        f.acc = acc ? acc + (h * e.width + r) * e.cols : nullptr;
        for (const Instruction& i : stage.per_block) i(f);
      }
    }
  }

  Graph graph_;
  Operands operands_;
  Tiling tiling_;
  int threads_;
  std::unique_ptr<AccumulatorSource> source_;
  bool has_a_, a_in_place_ = false;
  const VectorUnit& unit_;
  Program program_;
};

int thread_count(const CompileOptions& options) {
  if (options.threads < 0 || options.threads > WorkerPool::most_threads)
    throw UserError(
        fmt::format("threads is {}; expected 0 (one a core) to {}", options.threads, WorkerPool::most_threads));
  return options.threads == 0 ? available_cores() : options.threads;
}

}  // namespace

std::shared_ptr<const ExecutableImpl> make_executable(const Contraction& contraction, const Graph& graph,
                                                      const Graph& written, const CompileOptions& options) {
  const Extents e = extents(contraction);
  check_groups(graph, e);
  const int threads = thread_count(options);
  const Tiling tiling(e, threads);
  const bool matrix = std::holds_alternative<Gemm>(contraction);
  const Layout layout = std::visit(
      [](const auto& c) {
        if constexpr (requires { c.layout; })
          return c.layout;
        else
          return Layout::nhwc;
      },
      contraction);
  Operands operands = make_operands(graph, written, e, shape_mn(contraction), layout, matrix, options);
  return std::make_shared<CpuExecutable>(graph, std::move(operands), tiling, threads,
                                         contraction_source(contraction, tiling, options), true, false);
}

Executable compile_epilogue(const Extents& space, const Graph& graph, const CompileOptions& options) {
  verify(graph);
  Graph lowered = passes::run_pipeline(graph);
  check_groups(lowered, space);
  const int threads = thread_count(options);
  const Tiling tiling(space, threads);
  const bool reads_acc =
      std::any_of(lowered.nodes.begin(), lowered.nodes.end(), [](const Node& x) { return x.op == Op::acc; });
  Operands operands = make_operands(lowered, graph, space, {space.images, space.height, space.width, space.cols},
                                    Layout::nhwc, false, options);
  return Executable(std::make_shared<CpuExecutable>(std::move(lowered), std::move(operands), tiling, threads,
                                                    tensor_source(space), reads_acc, true));
}

}  // namespace coda::cpu
