/// 1x1 convolutions of few channels that the kernel of the contraction ahead of them may compute as it stores.

#include <fmt/format.h>

#include <algorithm>

#include "ir/op_table.hpp"
#include "network/regions.hpp"

namespace unisono::network {

namespace {

constexpr std::int64_t most_head_channels = 32;  // that a kernel's head has
constexpr std::int64_t widest_block = 128;       // more channels would not be in one of the tiles that serve best

bool is_convolution(const Network& n, const Region& r) {
  if (r.kind != RegionReport::Kind::contraction) return false;
  const OperatorKind& kind = n.operators[r.operators[0]].kind;
  return is_conv2d(kind) || std::holds_alternative<operators::StackedConv3d>(kind);
}

// 1x1, as large as its image, of few channels
bool is_head(const Network& n, const Region& r) {
  if (r.kind != RegionReport::Kind::contraction) return false;
  const Operator& op = n.operators[r.operators[0]];
  const auto* c = std::get_if<operators::Conv2d>(&op.kind);
  if (c == nullptr || c->groups != 1 || !(c->stride == Pair(1)) || !(c->pad == Margins(0))) return false;
  const Shape& filter = n[op.inputs[1]].shape;
  return n[op.inputs[1]].is_constant() && filter[2].known() && filter[2].value() == 1 && filter[3].known() &&
         filter[3].value() == 1 && filter[0].known() && filter[0].value() <= most_head_channels;
}

// Why its epilogue cannot be a head's
std::optional<Refusal> refuse_epilogue(const Network& n, const Region& r) {
  if (r.outputs.size() != 1) return because("it has several results");
  for (const Node& x : r.graph.nodes)
    if (ir::info(x.op).op_class != ir::OpClass::leaf && !ir::is_elementwise(x.op))
      return because(fmt::format("its epilogue has {}", to_string(x.op)));
  for (const RegionOperand& o : r.operands)
    if (!n[o.tensor].is_constant() || !(o.axes == axes::n))
      return because(fmt::format("its epilogue reads '{}'", o.name));
  return std::nullopt;
}

class HeadFolder {
 public:
  explicit HeadFolder(FusedNetwork& f) : f_(f), n_(f.network) {}
  void run() {
    for (std::size_t i = 0; i < f_.regions.size(); ++i)
      if (is_head(n_, f_.regions[i])) fold(i);
  }

 private:
  Region* maker(TensorId id) {
    for (Region& r : f_.regions)
      if (is_convolution(n_, r))
        for (const RegionOutput& o : r.outputs)
          if (o.tensor == id) return &r;
    return nullptr;
  }
  void fold(std::size_t index);
  std::optional<Refusal> refuse(const Region& from, const Region& head) const;
  bool is_read_alone(TensorId id, const Region& from, const Region& head) const;

  FusedNetwork& f_;
  const Network& n_;
};

std::optional<Refusal> HeadFolder::refuse(const Region& from, const Region& head) const {
  if (from.head) return because("it has another head");
  if (!from.resampled.empty()) return because("it stores its result pooled or upsampled");
  if (std::holds_alternative<operators::UpsampledConv2d>(n_.operators[from.operators[0]].kind))
    return because("its own image is upsampled");
  const Dim& channels = n_[n_.operators[from.operators[0]].output].shape[1];
  if (!channels.known() || channels.value() > widest_block)
    return because(fmt::format("it has more than {} channels", widest_block));
  return refuse_epilogue(n_, head);
}

// Whether this operator alone reads the tensor, but for the region that makes it
bool HeadFolder::is_read_alone(TensorId id, const Region& from, const Region& head) const {
  if (std::find(n_.outputs.begin(), n_.outputs.end(), id) != n_.outputs.end()) return false;
  for (std::size_t i = 0; i < n_.operators.size(); ++i) {
    const auto inputs = data_inputs(n_.operators[i]);
    if (i != head.operators[0] && std::find(inputs.begin(), inputs.end(), id) != inputs.end() &&
        std::find(from.operators.begin(), from.operators.end(), i) == from.operators.end())
      return false;
  }
  return true;
}

void HeadFolder::fold(std::size_t index) {
  Region& head = f_.regions[index];
  const TensorId source = n_.operators[head.operators[0]].inputs[0];
  Region* from = maker(source);
  if (from == nullptr || from == &head) return;
  if (const auto refusal = refuse(*from, head)) {
    head.unfused = because(fmt::format("not in the kernel that makes '{}': {}", n_[source].name, refusal->first()));
    return;
  }
  from->head = HeadStore{
      .region = index, .from = source, .to = head.outputs[0].tensor, .only = is_read_alone(source, *from, head)};
  head.kind = RegionReport::Kind::free;
  head.note = fmt::format("computed where '{}' is stored", n_[source].name);
}

}  // namespace

void fold_heads(FusedNetwork& fused) { HeadFolder(fused).run(); }

}  // namespace unisono::network
