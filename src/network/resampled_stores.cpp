/// Max-pools and upsamplings by 2 that the kernel of the contraction ahead of them may store.

#include <fmt/format.h>

#include <algorithm>

#include "network/regions.hpp"

namespace unisono::network {

namespace {

using RegionKind = RegionReport::Kind;

bool halves(const OperatorKind& kind) {
  const auto* p = std::get_if<operators::Pool2d>(&kind);
  return p != nullptr && !p->average && p->kernel == Pair(2) && p->stride == Pair(2) && p->pad == Margins(0) &&
         p->dilation == Pair(1) && !p->ceil_mode;
}

// By scales of 2, or known sizes; where its pixels come from is seen when sizes are known
bool doubles(const Network& n, const Operator& op) {
  const auto* r = std::get_if<operators::Resize>(&op.kind);
  if (r == nullptr || r->mode != ResizeMode::nearest || op.inputs.size() != 1) return false;
  const Shape &x = n[op.inputs[0]].shape, &y = n[op.output].shape;
  const auto axis = [&](std::size_t i, std::int64_t given, double scale) {
    if (given == 0) return scale == 2;
    return x[i].known() && y[i].known() && y[i].value() == 2 * x[i].value();
  };
  return axis(2, r->height, r->scale_h) && axis(3, r->width, r->scale_w);
}

class Folder {
 public:
  explicit Folder(FusedNetwork& f) : f_(f), n_(f.network) {}
  void run() {
    for (Region& r : f_.regions)
      if (r.kind == RegionKind::single && r.operators.size() == 1) fold(r);
    for (Region& r : f_.regions)
      if (!r.resampled.empty()) find_only(r);
  }

 private:
  void fold(Region& r);
  void find_only(Region& r) const;
  Region* maker(TensorId id) {
    for (Region& r : f_.regions)
      if (r.kind == RegionKind::contraction && is_conv2d(n_.operators[r.operators[0]].kind))
        for (const RegionOutput& o : r.outputs)
          if (o.tensor == id) return &r;
    return nullptr;
  }

  FusedNetwork& f_;
  const Network& n_;
};

// One pool and one upsampling of one output
void Folder::fold(Region& r) {
  const std::size_t index = r.operators[0];
  const Operator& op = n_.operators[index];
  const bool pool = std::holds_alternative<operators::Pool2d>(op.kind);
  if (!pool && !std::holds_alternative<operators::Resize>(op.kind)) return;
  const bool pooled = halves(op.kind);
  if (!pooled && !doubles(n_, op)) {
    r.unfused = because(pool ? "kernels of convolutions store max-pools of 2x2 pixels, without padding"
                             : "kernels of convolutions store what repeats each pixel 2x2 times");
    return;
  }
  const std::string& source = n_[op.inputs[0]].name;
  Region* from = maker(op.inputs[0]);
  r.unfused = because(fmt::format("no kernel of a convolution makes '{}'", source));
  if (from == nullptr) return;
  r.unfused = because(fmt::format("the kernel that makes '{}' stores another like it", source));
  for (const ResampledStore& other : from->resampled)
    if (other.from != op.inputs[0] || other.pooled == pooled) return;
  from->resampled.push_back({.op = index, .from = op.inputs[0], .to = op.output, .pooled = pooled});
  r.kind = RegionKind::free;
  r.unfused.reset();
  r.note = fmt::format("made where '{}' is stored", source);
}

void Folder::find_only(Region& r) const {
  if (r.resampled.size() != 1 || r.resampled[0].pooled) return;
  const ResampledStore& s = r.resampled[0];
  if (std::find(n_.outputs.begin(), n_.outputs.end(), s.from) != n_.outputs.end()) return;
  for (std::size_t i = 0; i < n_.operators.size(); ++i) {
    const auto inputs = data_inputs(n_.operators[i]);
    if (i != s.op && std::find(inputs.begin(), inputs.end(), s.from) != inputs.end() &&
        std::find(r.operators.begin(), r.operators.end(), i) == r.operators.end())
      return;
  }
  r.only_upsampled = s.from;
}

}  // namespace

void fold_resampling(FusedNetwork& fused) { Folder(fused).run(); }

}  // namespace unisono::network
