#pragma once
/// From the regions of a network to the launches of a GPU, for one set of input shapes.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "network/contraction.hpp"
#include "network/cuda/constants.hpp"
#include "network/cuda/step.hpp"
#include "network/operand_view.hpp"
#include "network/regions.hpp"
#include "network/storage.hpp"
#include "plan/conv.hpp"

namespace unisono::network::gpu {

/// What is lowered, and for which GPU. Everything must outlive the lowering.
struct Problem {
  const FusedNetwork& fused;
  const StoragePlan& storage;
  const plan::Device& device;
  DeviceConstants& constants;
  DType element = DType::bf16;
  int device_index = 0;
  bool tuned = true;  ///< NetworkOptions::tuned
};

struct Lowered {
  std::vector<std::unique_ptr<Step>> steps;  ///< in order
  std::vector<std::size_t> region;           ///< by step: index of its region, or the number of regions at the border
  Order after;                               ///< by step: those that it waits for
  std::size_t scratch_bytes = 0;             ///< of what lives as long as the kernels of one region
  std::size_t kept_bytes = 0;                ///< of what one region's kernels leave to another's, beside tensors
};

/// Throws Unsupported, with the operator's node and why, for what no kernel serves.
Lowered lower(const Problem& problem);

/// A tensor in memory: rows of pixels `pitch` elements apart.
struct Located {
  Place place;
  std::int64_t pitch = 0;
  DType type{};
};

/// Memory that a plain kernel reads and writes.
struct Touched {
  std::vector<Interval> reads, writes;
};

/// A store of a graph and where it goes.
struct Destination {
  std::string name;
  Located to;
};

/// An argument of an executable.
struct Bound {
  std::string name;
  Place place;
  DType type{};
  Sizes shape, strides = {};

  TensorView view(const Bases& bases) const { return {address(place, bases), type, shape, strides}; }
  double bytes() const { return static_cast<double>(element_count(shape)) * static_cast<double>(size_of(type)); }
  Interval memory() const {
    const std::int64_t columns = shape.empty() ? 1 : shape.back(), rows = element_count(shape) / columns;
    const std::int64_t pitch = strides.empty() ? columns : strides[strides.size() - 2];
    const auto size = static_cast<std::int64_t>(size_of(type));
    return interval(place, rows, columns * size, pitch * size);
  }
};

/// Strides of a tensor whose pixels lie `pitch` elements apart; empty if they lie together.
Sizes pitched(const Sizes& shape, std::int64_t pitch);

/// What a contraction's kernel makes of an output beside storing it: nothing, Region::resampled, Region::head.
enum class Beside : std::uint8_t { nothing, resampled, head };

/// A region's head, as its contraction's kernel computes it.
struct HeadArguments {
  Head head;
  std::vector<Bound> operands;  ///< the filter and the columns
  Bound result;
  std::string about;
  double flop = 0;
};

class Lowering {
 public:
  /// By region: why it does not merge its producers' moments, as far as that is known.
  using Unmerged = std::map<std::size_t, std::string>;
  explicit Lowering(const Problem& problem, Unmerged unmerged = {});
  Lowered run();
  const Unmerged& unmerged() const { return unmerged_; }
  /// Kernels store moments that nobody reads, as another producer of the same tensor turned out to have none: lower
  /// once more, with unmerged().
  bool stores_moments_in_vain() const { return newly_unmerged_; }

  // Operators that run by themselves; see single.cpp
  void operator()(const operators::Pool2d& p);
  void operator()(const operators::GlobalAveragePool&);
  void operator()(const operators::Resize& r);
  void operator()(const operators::Concat& c);
  void operator()(const operators::Pad& p);
  void operator()(const operators::Reshape&) { reshape(); }
  void operator()(const operators::Flatten&) { reshape(); }
  void operator()(const operators::ReshapeLike&) { reshape(); }
  void operator()(const operators::Transpose& t);
  void operator()(const operators::Expand&);
  void operator()(const operators::Identity&);
  void operator()(const operators::Slice& s);
  void operator()(const auto&) { refuse("no kernel of a GPU serves it"); }

 private:
  /// A copy between strided tensors, in elements; see CopyParams. Extents are those of the target.
  struct Copy {
    Sizes extents, source, before;
    Located from, to;
    Sizes from_strides, to_strides;
    std::int64_t from_offset = 0, to_offset = 0;
    double value = 0;
    std::optional<TensorId> read = {};     ///< that `from` lies in, if not the operator's first input
    std::optional<Interval> written = {};  ///< if not the operator's output
  };

  // lowering.cpp
  void find_branches();
  void border(TensorId id, std::size_t position, bool input);
  void enter(TensorId id);
  void region(const Region& r);
  void check_types(const Region& r) const;
  void contraction(const Region& r);
  void kernels(const Region& r);
  void direct(const Region& r, const Located& sums, const std::string& why);
  void graph_steps(const Region& r, const Extents& space, const std::optional<Located>& acc, const std::string& why);
  // phases.cpp
  using Make = std::function<std::unique_ptr<Step>(std::string& why)>;
  /// The contraction's kernel; of a convolution of an enlarged image the one that is predicted to be faster, by phases
  /// or behind a kernel that enlarges.
  std::unique_ptr<Step> best_form(const Make& make, std::string& why);
  bool enlarges() const;
  /// The transposed convolution that the kernels compute, if they compute one.
  std::optional<ConvTranspose2d> transposed() const;
  Located image() const;
  Sizes image_sizes() const;
  void place_enlarged();
  void enlarge();
  double enlarging_us() const;
  // hopper.cpp
  std::unique_ptr<Step> whole(const Region& r, Beside beside, std::string& why);
  std::unique_ptr<Step> bare(const Region& r, const Located& sums, std::string& why);
  std::unique_ptr<Step> hopper(const Region& r, const Graph& graph, const std::vector<RegionOperand>& operands,
                               const std::vector<Destination>& outputs, Beside beside = Beside::nothing,
                               std::optional<TensorId> measured = std::nullopt);
  std::optional<Conv2d> as_served(const Operator& op, const Graph& graph, std::string& why) const;
  void find_unfolded();
  Place unfold(const Conv2d& given, const Conv2d& unfolded);
  // resampled.cpp
  /// Why the sizes do not allow a kernel to store what is made of its output; empty: they do.
  std::string refuse_resampled(const Region& r) const;
  /// What is made of a region's output, by kernels of their own.
  void resample(const Region& r, const std::string& why);
  // heads.cpp
  HeadArguments head_of(const Region& r, const Contraction& main);
  void with_head(const Region& r);
  // moments.cpp
  /// A part of a tensor's channels, and the output of a contraction whose moments are its own.
  struct Piece {
    TensorId tensor, measured;
    std::int64_t first = 0, channels = 0;
    bool enlarged = false;  ///< each pixel of `measured` four times
  };
  std::string find_parts(TensorId id, std::int64_t first, std::vector<Piece>& parts) const;
  void find_measured();
  /// The output of a region of which moments are to be stored, if there is one.
  std::optional<TensorId> measured_output(const Region& r) const;
  Place kept(TensorId id, std::size_t bytes);
  std::string refuse_merging();
  /// In place of a kernel that joins states: results of reductions over the source, from its parts' moments.
  void join_moments(const Region& r, const Graph& graph, const codegen::GraphKernel& kernel, const Extents& space,
                    std::map<ValueId, Located>& results, std::map<ValueId, Interval>& memory);
  // single.cpp
  void resize(const operators::Resize& r, const Sizes& x, const Sizes& y, const Located& from, const Located& to);
  void reshape();
  void copy(Copy c);
  void pool(const Sizes& kernel, const Sizes& stride, const Sizes& pad, const Sizes& dilation, bool average,
            bool count_pad);

  [[noreturn]] void refuse(const std::string& why) const;
  /// A place or distance along an axis, as plain kernels count them: sums of several fit 32 bits. Refuses what does
  /// not.
  int place32(const char* what, std::int64_t x) const;
  const Network& net() const { return p_.fused.network; }
  const Sizes& sizes(TensorId id) const { return p_.storage.shapes[id]; }
  Sizes strides(TensorId id) const { return logical_strides(sizes(id), located(id).pitch); }
  TensorId in(std::size_t i) const { return op_->inputs[i]; }
  TensorId out() const { return op_->output; }
  bool is_constant(TensorId id) const { return net()[id].is_constant(); }
  /// Whether what lies between the last column and the pitch is zero.
  bool is_clean(TensorId id) const { return clean_[id] || column_count(sizes(id)) % 8 == 0; }
  Located located(TensorId id) const;
  // operands.cpp
  /// An operand of the graph of a region that begins with `first`; constants that are no full tensors are f32, with
  /// rows of `padded_columns`.
  Located operand(const RegionOperand& o, const Operator& first, std::int64_t padded_columns) const;
  Interval operand_memory(const RegionOperand& o) const;
  OperandView view(const RegionOperand& o, const Operator& first, const Sizes& along) const;
  void gather_operands(const Region& r);
  Place scratch(std::size_t bytes);
  /// Bytes of a tensor of these sizes; rows end where an octet of columns does.
  Interval all_of(const Located& at, const Sizes& sizes) const;
  Interval all_of(TensorId id) const { return all_of(located(id), sizes(id)); }
  /// The caller's tensors. Any of them may be read where any is, for all that is known; each is written by itself.
  Interval callers() const;
  Interval caller(std::size_t position) const;
  cuda::PlainGrid grid(std::int64_t threads) const;
  std::int64_t slabs(const Extents& space, std::int64_t most) const;
  /// A kernel of plain.cuh over so many threads' work.
  template <class P, class Fill>
  void plain(codegen::PlainKernel kernel, std::int64_t threads, const P& fixed, std::vector<Place> used,
             Touched touched, std::string what, const Fill& fill);
  double bytes_of_step(const std::string& what);
  void add(std::unique_ptr<Step> step);  // that says what it is
  void add(std::unique_ptr<Step> step, std::string what, std::string how, std::vector<Place> used);
  void add(std::unique_ptr<PlainStep> step, std::string what, std::string how, std::vector<Place> used,
           Touched touched);

  const Problem& p_;
  Lowered lowered_;
  std::string plain_source_;
  std::vector<bool> clean_;  // by tensor
  std::map<TensorId, std::size_t>
      unfolded_;                             // inputs that only a convolution reads that takes them unfolded: positions
  std::map<TensorId, Located> in_scratch_;   // tensors without memory in the arena, while a region is lowered
  std::map<std::string, Located> gathered_;  // by operand of the region at hand
  std::map<std::string, std::int64_t> gathered_bytes_;      // in scratch
  std::map<std::size_t, std::vector<Piece>> parts_;         // by region that normalises: of its source
  std::map<TensorId, std::int64_t> measured_;               // channels of which moments are wanted together
  std::map<TensorId, GivenMoments> given_;                  // that are stored
  std::map<TensorId, std::string> unmeasured_;              // why not
  std::map<TensorId, std::pair<Place, std::size_t>> kept_;  // places of moments, their bytes
  Unmerged unmerged_;
  bool newly_unmerged_ = false;
  /// How a convolution of an enlarged image is computed: as if it had its own, by phases, of the enlarged image.
  enum class Form : std::uint8_t { given, phases, enlarged };
  Form form_ = Form::given;
  std::optional<Located> enlarged_;
  const Operator* op_ = nullptr;  // of the region at hand, its first
  std::size_t region_ = 0;
  std::pair<std::size_t, double> single_read_{static_cast<std::size_t>(-1), 0};  // region, bytes that it reads

  struct GraphKernels {
    Graph optimised;
    std::vector<codegen::GraphKernel> kernels;
  };
  const GraphKernels& kernels_of(const Graph& graph, const codegen::GraphStorage& storage);
  std::map<std::string, GraphKernels> graph_kernels_;  // by the text of graph and storage
  std::string name_;
  std::size_t scratch_used_ = 0;
};

/// Whether the kernel makes, or joins, sums over rows of the tensor that the graph stands over, of which moments will
/// do.
bool sums_source(const Graph& optimised, const codegen::GraphKernel& kernel);

/// The bytes of a plain struct.
template <class P>
std::vector<std::byte> bytes_of(const P& parameters) {
  const auto* first = reinterpret_cast<const std::byte*>(&parameters);
  return {first, first + sizeof(P)};
}

template <class P, class Fill>
void Lowering::plain(codegen::PlainKernel kernel, std::int64_t threads, const P& fixed, std::vector<Place> used,
                     Touched touched, std::string what, const Fill& fill) {
  add(std::make_unique<PlainStep>(plain_source_, codegen::plain_entry(kernel), grid(threads), sizeof(P),
                                  [fixed, fill](const Bases& bases) {
                                    P parameters = fixed;
                                    fill(parameters, bases);
                                    return bytes_of(parameters);
                                  }),
      std::move(what), "plain kernel", std::move(used), std::move(touched));
}

std::uint32_t count32(std::int64_t x);
/// Threads of the kernels at the border: enough for a tile or an octet a thread (kernels/unisono/plain.cuh).
std::int64_t border_threads(std::int64_t rows, std::int64_t channels);

/// The first reason in an error's text.
std::string first_line(const std::string& text);

/// The same sums from an image whose channels are all taps of a line: one tap a line, channels (s, c).
Conv2d unfolded(const Conv2d& c);

}  // namespace unisono::network::gpu
