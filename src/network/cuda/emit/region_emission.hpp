#pragma once
/// The context in which the launches of one region, or of one tensor at the border, are written down.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "network/cuda/emit/launch_list.hpp"
#include "network/cuda/parameters.hpp"

namespace unisono::network::gpu {

/// Memory that a plain kernel reads and writes.
struct Touched {
  std::vector<Interval> reads, writes;
};

/// A tensor between the launches of a region, and all of its memory.
struct PlacedTensor {
  PitchedTensor tensor;
  Interval memory;
};

/// What a launch of a plain kernel is called.
struct LaunchText {
  std::string what, how = "plain kernel";
};

class RegionEmission {
 public:
  RegionEmission(const PlanningInput& given, const NetworkPlan& decided, LaunchList& list, std::size_t region)
      : in(given), plan(decided), launches(list), index(region) {}

  const PlanningInput& in;
  const NetworkPlan& plan;
  LaunchList& launches;
  const std::size_t index;       ///< the region's; at the border the number of regions
  const Operator* op = nullptr;  ///< whose launches follow; none at the border
  std::string name;              ///< Step::name

  std::map<std::string, PlacedTensor> gathered;  ///< operands that are packed in scratch, by name
  std::map<TensorId, PitchedTensor> in_scratch;  ///< tensors without memory in the arena

  const Network& net() const { return in.net(); }
  const Sizes& sizes(TensorId id) const { return in.sizes(id); }
  TensorId input(std::size_t i = 0) const { return op->inputs[i]; }
  TensorId output() const { return op->output; }
  /// A tensor in the element, which is all that plain kernels know.
  PitchedTensor tensor(TensorId id) const;
  Sizes strides(TensorId id) const { return logical_strides(sizes(id), tensor(id).pitch); }
  Interval all_of(TensorId id) const { return gpu::all_of(tensor(id), sizes(id)); }

  [[noreturn]] void refuse(const std::string& why) const;
  /// A place or distance along an axis, as plain kernels count them: sums of several fit 32 bits. Refuses what does
  /// not.
  int place32(const char* what, std::int64_t x) const;

  void add(std::unique_ptr<Step> step, const std::vector<Location>& used = {});
  /// A grid for so many threads' work, in CTAs of 256.
  cuda::PlainGrid grid(std::int64_t threads) const;
  /// Throws InternalError if the kernel uses memory that it does not say it touches.
  Step& add(std::unique_ptr<PlainStep> step, LaunchText text, const std::vector<Location>& used, Touched touched);
  /// A kernel of plain/plain.cuh over so many threads' work; `fill` completes its parameters with addresses.
  template <class P, class Fill>
  Step& plain(codegen::PlainKernel kernel, std::int64_t threads, const P& fixed, const std::vector<Location>& used,
              Touched touched, LaunchText text, const Fill& fill);

 private:
  double bytes_of(TensorId id) const;
  double bytes_of(const std::string& what);
  double bytes_of_inputs();

  std::optional<double> bytes_of_inputs_;
};

/// So many bytes of f32, in rows of `pitch` elements, until the region's last launch.
PlacedTensor floats_in_scratch(RegionEmission& e, std::int64_t bytes, std::int64_t pitch);

/// The bytes of a plain struct.
template <class P>
std::vector<std::byte> bytes_of(const P& parameters) {
  const auto* first = reinterpret_cast<const std::byte*>(&parameters);
  return {first, first + sizeof(P)};
}

template <class P, class Fill>
Step& RegionEmission::plain(codegen::PlainKernel kernel, std::int64_t threads, const P& fixed,
                            const std::vector<Location>& used, Touched touched, LaunchText text, const Fill& fill) {
  const auto parameters = [fixed, fill](const Bases& bases) {
    P p = fixed;
    fill(p, bases);
    return gpu::bytes_of(p);
  };
  return add(std::make_unique<PlainStep>(launches.plain_source, codegen::plain_entry(kernel), in.device.arch(),
                                         grid(threads), sizeof(P), parameters),
             std::move(text), used, std::move(touched));
}

/// A count of a kernel. Throws UserError for one that does not fit 32 bits.
std::uint32_t count32(std::int64_t x);

constexpr std::int64_t most_elements = (std::int64_t{1} << 32) - 1;  ///< that a kernel counts

}  // namespace unisono::network::gpu
