/// Epilogue graphs by themselves: over a tensor, or over the sums that another kernel left in memory.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/decide/served_graph.hpp"
#include "network/cuda/emit/emission.hpp"
#include "support/checked.hpp"

namespace unisono::network::gpu {

namespace {

using Part = codegen::GraphKernel::Part;
using Kind = codegen::GraphTensor::Kind;

// Whether the kernel makes, or joins, sums over rows of the tensor that the graph stands over
bool sums_source(const Graph& g, const codegen::GraphKernel& kernel) {
  return std::any_of(kernel.tensors.begin(), kernel.tensors.end(), [&](const codegen::GraphTensor& t) {
    return t.kind == Kind::partials && takes_moments(g, t.value);
  });
}

// Parts of an image's rows: a thread has some eight rows, or fewer where that leaves SMs without a block; at most
// `most` CTAs an SM
std::int64_t strips_of(const plan::Device& device, const Extents& space, std::int64_t most) {
  const std::int64_t octets = (space.cols + 7) / 8, lanes = 256 / std::min<std::int64_t>(octets, 256);
  const std::int64_t rows = space.rows_per_image(), images = space.images;
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t filled = up(2 * device.sms, images);
  const std::int64_t wanted = std::max(up(rows, 8 * lanes), std::min(up(rows, lanes), filled));
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most * device.sms / images));
}

// Threads that have a row of the kernel Part::rows: those that have an octet, or all of a CTA's where a warp would go
// round more than four times
std::uint32_t lanes_of_rows(const Extents& space) {
  const auto octets = static_cast<std::uint64_t>((space.cols + 7) / 8);
  return octets > 128 ? 256 : static_cast<std::uint32_t>(std::bit_ceil(std::min<std::uint64_t>(octets, 32)));
}

// CTAs of that kernel: each has some rows at a time, and goes on where there are more than fill the GPU
std::int64_t ctas_of_rows(const plan::Device& device, const Extents& space) {
  const std::int64_t at_a_time = 256 / lanes_of_rows(space);
  return std::clamp<std::int64_t>((space.rows() + at_a_time - 1) / at_a_time, 1, 16 * device.sms);
}

// Results of a reduction: rows and columns of its axes
struct ResultShape {
  std::int64_t rows = 0, columns = 0;
};
ResultShape results_of(const ReduceDomain& d, const Extents& e) {
  return {d.rows ? (d.per_image ? e.images : 1) : e.rows(), d.cols ? d.groups : e.cols};
}

class GraphEmission {
 public:
  GraphEmission(RegionEmission& e, const Region& r, const Extents& space, const std::optional<PitchedTensor>& acc)
      : e_(e), r_(r), space_(space), acc_(acc) {}
  void run(const std::optional<Refusal>& apart);

 private:
  struct Arguments {
    GraphParams fixed{};
    std::vector<Location> locations;
    Touched touched;
  };

  // In f32 where it is stored so
  PitchedTensor tensor_of(TensorId id) const { return e_.in.fused.own_type[id] ? e_.in.tensor(id) : e_.tensor(id); }
  void place_operands();
  const GraphKernelCache::Entry& kernels();
  bool is_merged(const Graph& g, const codegen::GraphKernel& k) const;
  bool knows_images(const codegen::GraphKernel& k) const;
  Extents walked(const codegen::GraphKernel& k) const;
  std::optional<Refusal> not_spared(const Graph& g, const codegen::GraphKernel& k,
                                    const std::optional<Refusal>& apart) const;
  void launch(const codegen::GraphKernel& k, const std::optional<Refusal>& why);
  Arguments arguments(const codegen::GraphKernel& k);
  PlacedTensor place(const codegen::GraphTensor& t, const codegen::GraphKernel& k, std::int64_t strips);
  PlacedTensor& in_scratch(std::map<ValueId, PlacedTensor>& list, ValueId id, std::int64_t bytes, std::int64_t pitch);
  int ctas(const codegen::GraphKernel& k, const Arguments& a) const;

  RegionEmission& e_;
  const Region& r_;
  const Extents& space_;
  const std::optional<PitchedTensor>& acc_;
  std::map<std::string, PlacedTensor> operands_;
  std::map<ValueId, PlacedTensor> reduced_, partials_;
};

void GraphEmission::place_operands() {
  for (const RegionOperand& o : r_.operands) {
    const auto gathered = e_.gathered.find(o.name);
    if (gathered != e_.gathered.end())
      operands_[o.name] = gathered->second;
    else
      operands_[o.name] = {*operand_tensor(e_.in, o, *e_.op, space_.cols),
                           all_of(tensor_of(o.tensor), e_.sizes(o.tensor))};
  }
}

const GraphKernelCache::Entry& GraphEmission::kernels() {
  return e_.in.graph_kernels.of(r_.graph, storage_of(e_.in, r_, acc_ ? acc_->type : e_.in.element)).value();
}

// Whether producers' moments stand in for the kernel
bool GraphEmission::is_merged(const Graph& g, const codegen::GraphKernel& k) const {
  if (r_.kind != RegionReport::Kind::epilogue || !sums_source(g, k)) return false;
  const auto& statistics = e_.plan.regions[e_.index].statistics;
  return statistics && !statistics->refusal;
}

// Why no other kernel spares this one: its statistics could have come from producers, or its elements have been in the
// contraction's kernel (`apart`). Nothing for what is always a kernel of its own
std::optional<Refusal> GraphEmission::not_spared(const Graph& g, const codegen::GraphKernel& k,
                                                 const std::optional<Refusal>& apart) const {
  if (r_.kind != RegionReport::Kind::epilogue || !sums_source(g, k)) return apart;
  const auto& statistics = e_.plan.regions[e_.index].statistics;
  return statistics ? statistics->refusal : plan::because("its statistics belong to other values");
}

void GraphEmission::run(const std::optional<Refusal>& apart) {
  if (space_.rows() > most_elements)
    e_.refuse(fmt::format("{} rows; kernels count to {}", space_.rows(), most_elements));
  place_operands();
  const auto& [optimised, kernels] = this->kernels();
  for (const codegen::GraphKernel& k : kernels) {
    if (!is_merged(optimised, k))
      launch(k, not_spared(optimised, k, apart));
    else if (k.part == Part::join)
      emit_joined_moments(e_, r_, optimised, k, space_, reduced_);
  }
}

PlacedTensor& GraphEmission::in_scratch(std::map<ValueId, PlacedTensor>& list, ValueId id, std::int64_t bytes,
                                        std::int64_t pitch) {
  if (const auto found = list.find(id); found != list.end()) return found->second;
  return list.emplace(id, floats_in_scratch(e_, bytes, pitch)).first->second;
}

// A tensor of the kernel, which has so many strips
PlacedTensor GraphEmission::place(const codegen::GraphTensor& t, const codegen::GraphKernel& k, std::int64_t strips) {
  const ResultShape results = results_of(k.domain, space_);
  switch (t.kind) {
    case Kind::accumulator: return {*acc_, all_of(*acc_, {space_.rows(), space_.cols})};
    case Kind::operand: return operands_.at(t.name);
    case Kind::store: {
      const auto named = [&](const RegionOutput& o) { return o.name == t.name; };
      const TensorId id = std::find_if(r_.outputs.begin(), r_.outputs.end(), named)->tensor;
      return {tensor_of(id), all_of(tensor_of(id), e_.sizes(id))};
    }
    case Kind::reduction: return in_scratch(reduced_, t.value, results.rows * results.columns * 4, results.columns);
    case Kind::partials: break;
  }
  const std::int64_t count = space_.images * strips * results.columns * k.state_floats;
  return in_scratch(partials_, t.value, 4 * count, results.columns);
}

// Whether a value of the kernel is one of an image
bool GraphEmission::knows_images(const codegen::GraphKernel& k) const {
  return std::ranges::any_of(k.tensors, [&](const codegen::GraphTensor& t) {
    if (t.kind == Kind::reduction || t.kind == Kind::partials) return true;
    return t.kind == Kind::operand && std::ranges::any_of(r_.operands, [&](const RegionOperand& o) {
             return o.name == t.name && o.axes.row == RowAxis::b;
           });
  });
}

// The rows of all images as those of one, where the kernel need not tell images apart: the rows of a matrix are images
// of a row each
Extents GraphEmission::walked(const codegen::GraphKernel& k) const {
  if (k.part != Part::elements || knows_images(k)) return space_;
  return {.images = 1, .height = space_.rows(), .width = 1, .cols = space_.cols};
}

GraphEmission::Arguments GraphEmission::arguments(const codegen::GraphKernel& k) {
  Arguments a;
  const Extents space = walked(k);
  a.fixed.images = count32(space.images), a.fixed.pixels = count32(space.rows_per_image());
  a.fixed.columns = count32(space.cols);
  a.fixed.strips = k.part == Part::rows ? lanes_of_rows(space)
                                        : count32(strips_of(e_.in.device, space, k.part == Part::elements ? 16 : 4));
  for (std::size_t i = 0; i < k.tensors.size(); ++i) {
    const codegen::GraphTensor& t = k.tensors[i];
    const PlacedTensor x = place(t, k, a.fixed.strips);
    const bool is_read = t.kind == Kind::accumulator || t.kind == Kind::operand;
    (is_read ? a.touched.reads : a.touched.writes).push_back(x.memory);
    a.fixed.tensors[i].pitch = x.tensor.pitch;
    a.locations.push_back(x.tensor.at);
  }
  return a;
}

int GraphEmission::ctas(const codegen::GraphKernel& k, const Arguments& a) const {
  const auto [rows, columns] = results_of(k.domain, space_);
  support::Checked ctas("CTAs", walked(k).images);
  ctas *= a.fixed.strips;
  if (k.part == Part::results) ctas = support::Checked("CTAs", rows) * columns;
  if (k.part == Part::rows) ctas = support::Checked("CTAs", ctas_of_rows(e_.in.device, space_));
  if (k.part == Part::join) ctas = (support::Checked("CTAs", rows) * columns).divided_up(k.threads / 32);
  support::Narrowing to;
  const int number = to.as<int>(ctas);
  if (to.beyond()) e_.refuse(fmt::format("the launch for '{}': {}", e_.name, *to.beyond()));
  return number;
}

void GraphEmission::launch(const codegen::GraphKernel& k, const std::optional<Refusal>& why) {
  Arguments a = arguments(k);
  const cuda::PlainGrid grid{count32(ctas(k, a)), count32(k.threads)};
  const char* part = k.part == Part::join   ? "joined statistics"
                     : k.reduces()          ? "statistics"
                     : k.part == Part::rows ? "rows"
                                            : "elements";
  const auto parameters = [fixed = a.fixed, locations = a.locations](const Bases& bases) {
    GraphParams p = fixed;
    for (std::size_t i = 0; i < locations.size(); ++i) p.tensors[i].memory = address(locations[i], bases);
    return bytes_of(p);
  };
  e_.add(std::make_unique<PlainStep>(k.source, k.entry, e_.in.device.arch(), grid, sizeof(GraphParams), parameters),
         {fmt::format("{} of {}", part, describe(e_.net(), *e_.op)),
          why ? fmt::format("plain kernel over the tensor: {}", why->first()) : "plain kernel over the tensor"},
         a.locations, std::move(a.touched));
}

}  // namespace

void emit_graph(RegionEmission& e, const Region& r, const Extents& space, const std::optional<PitchedTensor>& acc,
                const std::optional<Refusal>& apart) {
  GraphEmission(e, r, space, acc).run(apart);
}

}  // namespace unisono::network::gpu
