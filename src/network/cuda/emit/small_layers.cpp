/// Two layers of a pixel an image, and the pool ahead of them.

#include <fmt/format.h>

#include <algorithm>

#include "network/cuda/emit/emission.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

using Kernel = codegen::SmallLayersKernel;

std::int64_t in_octets(std::int64_t x) { return (x + 7) / 8 * 8; }

class LayersEmission {
 public:
  LayersEmission(RegionEmission& e, const SmallLayersPlan& plan)
      : e_(e), plan_(plan), second_(e.in.region(e.index)), first_(e.in.region(second_.layers->first)) {}

  void run();

 private:
  PlainTensor filter(const Region& r, std::int64_t channels, std::int64_t filters);
  void operands(const Region& r, const std::vector<std::string>& names, std::int64_t columns);
  std::string what() const;

  RegionEmission& e_;
  const SmallLayersPlan& plan_;
  const Region &second_, &first_;
  std::vector<Location> constants_;  // two filters, then operands
};

// (filters, channels), in rows of whole octets
PlainTensor LayersEmission::filter(const Region& r, std::int64_t channels, std::int64_t filters) {
  const Operator& op = e_.in.first(r);
  const Contraction contraction = e_.in.contraction(op);
  const auto* product = std::get_if<Gemm>(&contraction);
  const Conv2d padded{.n = 1, .h = 1, .w = 1, .c = in_octets(channels), .k = filters, .r = 1, .s = 1};
  constants_.push_back(e_.in.constants.packed_filter(op.inputs[1], padded, filters, channels, product != nullptr,
                                                     product != nullptr && product->transpose_b));
  return {nullptr, padded.c};
}

void LayersEmission::operands(const Region& r, const std::vector<std::string>& names, std::int64_t columns) {
  for (const std::string& name : names) {
    const auto o = std::ranges::find(r.operands, name, &RegionOperand::name);
    const auto tensor = operand_tensor(e_.in, *o, e_.in.first(r), columns);
    if (!tensor || tensor->type != DType::f32) throw InternalError("an operand of small layers is not an f32 vector");
    constants_.push_back(tensor->at);
  }
}

std::string LayersEmission::what() const {
  const std::string layers =
      fmt::format("{}, then {}", describe(e_.net(), e_.in.first(first_)), describe(e_.net(), e_.in.first(second_)));
  if (!plan_.pools) return layers;
  return fmt::format("{}, then {}", describe(e_.net(), e_.in.first(e_.in.region(*second_.layers->pool))), layers);
}

void LayersEmission::run() {
  const SmallLayers& l = *second_.layers;
  const TensorId read = plan_.pools ? l.from : l.pooled;
  const Sizes& x = e_.sizes(read);
  const std::int64_t images = x[0], channels = column_count(e_.sizes(e_.in.first(first_).inputs[0])),
                     hidden = extents(e_.in.contraction(e_.in.first(first_))).cols,
                     outputs = extents(e_.in.contraction(e_.in.first(second_))).cols;
  const PitchedTensor from = e_.tensor(read), to = e_.tensor(second_.outputs[0].tensor);
  SmallLayersParams p{};
  p.from.pitch = from.pitch, p.to.pitch = to.pitch;
  p.pixels = plan_.pools ? count32(x[2] * x[3]) : 1;
  p.channels = count32(channels), p.hidden = count32(hidden), p.outputs = count32(outputs);
  p.filters[0] = filter(first_, channels, hidden), p.filters[1] = filter(second_, hidden, outputs);
  operands(first_, plan_.kernel.first, hidden), operands(second_, plan_.kernel.second, outputs);
  const PlacedTensor sums = floats_in_scratch(e_, 4 * images * Kernel::ctas * in_octets(channels), in_octets(channels)),
                     values = floats_in_scratch(e_, 4 * images * in_octets(hidden), in_octets(hidden));
  const auto parameters = [p, constants = constants_, from = from.at, to = to.at, sums = sums.tensor.at,
                           values = values.tensor.at](const Bases& bases) {
    SmallLayersParams q = p;
    q.from.memory = address(from, bases), q.to.memory = address(to, bases);
    q.sums = static_cast<float*>(address(sums, bases)), q.values = static_cast<float*>(address(values, bases));
    for (std::size_t i = 0; i < 2; ++i) q.filters[i].memory = address(constants[i], bases);
    for (std::size_t i = 2; i < constants.size(); ++i)
      q.operands[i - 2] = static_cast<const float*>(address(constants[i], bases));
    return bytes_of(q);
  };
  std::vector<Location> used = constants_;
  used.insert(used.end(), {from.at, to.at, sums.tensor.at, values.tensor.at});
  const cuda::PlainGrid grid{
      .ctas = count32(images * Kernel::ctas),
      .threads = Kernel::threads,
      .shared_bytes = count32(32 * Kernel::threads + 4 * std::max(in_octets(channels), in_octets(hidden))),
      .cluster = Kernel::ctas};
  auto step = std::make_unique<PlainStep>(plan_.kernel.source, plan_.kernel.entry, e_.in.device.arch(), grid,
                                          sizeof(SmallLayersParams), parameters);
  step->flop = 2 * static_cast<double>(images * hidden * (channels + outputs));
  step->bytes = 2 * static_cast<double>(element_count(x) + hidden * (channels + outputs) + images * outputs);
  e_.add(std::move(step), {what(), fmt::format("small layers, {} CTAs an image, {} CTAs", Kernel::ctas, grid.ctas)},
         used, Touched{{all_of(from, x)}, {e_.all_of(second_.outputs[0].tensor), sums.memory, values.memory}});
}

}  // namespace

void emit_small_layers(RegionEmission& e, const SmallLayersPlan& plan) { LayersEmission(e, plan).run(); }

}  // namespace unisono::network::gpu
