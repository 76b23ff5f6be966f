/// Gradients of normalisations over groups of channels.

#include "products/norm_gradient.hpp"

#include <fmt/format.h>

#include "codegen/pieces.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {

namespace {

using operators::NormGradient;

products::NormGradientProblem norm_problem(const RegionEmission& e) {
  const Sizes& s = e.sizes(e.input());
  const auto& n = std::get<NormGradient>(e.op->kind);
  const PitchedTensor x = e.in.tensor(e.input()), g = e.in.tensor(e.input(1)), y = e.in.tensor(e.output());
  products::NormGradientProblem problem{.x = x.type, .g = g.type, .y = y.type};
  NormGradientParams& p = problem.extents;
  p.x_pitch = x.pitch, p.g_pitch = g.pitch, p.y_pitch = y.pitch;
  p.images = count32(s[0]), p.pixels = count32(s[2] * s[3]), p.channels = count32(s[1]);
  p.groups = count32(n.groups), p.eps = static_cast<float>(n.eps);
  if (e.op->inputs.size() > 2) p.scale_type = codegen::element_code(e.in.tensor(e.input(2)).type);
  return problem;
}

std::size_t vector_of(const Operator& op) {
  return static_cast<std::size_t>(std::get<NormGradient>(op.kind).of) - 1;  // the first is the input
}

// Whether the result goes straight into the caller's memory (direct_outputs: f32, overlapping no input), so that an
// earlier launch may write it.
bool is_written_ahead(const RegionEmission& e, const Operator& op) {
  return e.in.tensor(op.output).at.space == Location::Space::given;
}

// So many bytes from here on
PlacedTensor placed_bytes(const Location& at, std::int64_t bytes) {
  return {{at, bytes, {}}, interval(at, 1, bytes, bytes)};
}

struct NormEmission {
  RegionEmission& e;
  products::NormGradientProblem problem;
  products::NormGradientKernels kernels;
  PlacedTensor x, g, y, partials, factors, vectors;
  std::optional<PlacedTensor> scale;
  std::vector<std::pair<std::size_t, PlacedTensor>> results;  // written by the last launch

  explicit NormEmission(RegionEmission& emission)
      : e(emission), problem(norm_problem(e)), kernels(products::norm_gradient(problem, e.in.device)) {
    const auto tensor = [&](TensorId id) {
      return PlacedTensor{e.in.tensor(id), gpu::all_of(e.in.tensor(id), e.sizes(id))};
    };
    x = tensor(e.input()), g = tensor(e.input(1)), y = tensor(e.output());
    if (e.op->inputs.size() > 2) scale = tensor(e.input(2));
    partials = placed_bytes(e.launches.scratch(static_cast<std::size_t>(kernels.partial_bytes)), kernels.partial_bytes);
    factors = placed_bytes(e.launches.scratch(static_cast<std::size_t>(kernels.factor_bytes)), kernels.factor_bytes);
    vectors = placed_bytes(e.launches.kept(static_cast<std::size_t>(kernels.vector_bytes)), kernels.vector_bytes);
    e.launches.norm_vectors[e.output()] = vectors.tensor.at;
    for (const Operator& op : e.net().operators) {
      const auto* n = std::get_if<NormGradient>(&op.kind);
      if (n != nullptr && n->of != NormGradient::Of::input && op.inputs[0] == e.output() && is_written_ahead(e, op))
        results.emplace_back(vector_of(op), tensor(op.output));
    }
  }

  void add(const products::Kernel& k, const std::vector<const PlacedTensor*>& reads,
           const std::vector<const PlacedTensor*>& writes) const {
    std::vector<Location> used;
    Touched touched;
    for (const PlacedTensor* t : reads) {
      used.push_back(t->tensor.at);
      if (!t->tensor.at.constant) touched.reads.push_back(t->memory);
    }
    for (const PlacedTensor* t : writes) used.push_back(t->tensor.at), touched.writes.push_back(t->memory);
    const auto parameters = [p = problem.extents, at = addresses()](const Bases& bases) {
      NormGradientParams q = p;
      at(q, bases);
      return bytes_of(q);
    };
    auto step = std::make_unique<PlainStep>(k.source, k.entry, e.in.device.arch(), cuda::PlainGrid{k.ctas, k.threads},
                                            sizeof(NormGradientParams), parameters);
    e.add(std::move(step), {describe(e.net(), *e.op), k.how}, used, std::move(touched));
  }

  std::function<void(NormGradientParams&, const Bases&)> addresses() const {
    return [x = x.tensor.at, g = g.tensor.at, y = y.tensor.at, partials = partials.tensor.at,
            factors = factors.tensor.at, vectors = vectors.tensor.at, results = results,
            scale = scale ? std::optional(scale->tensor.at) : std::nullopt](NormGradientParams& q, const Bases& bases) {
      q.x = address(x, bases), q.g = address(g, bases), q.y = address(y, bases);
      q.partials = address(partials, bases), q.factors = address(factors, bases);
      q.vectors = static_cast<float*>(address(vectors, bases));
      q.scale = scale ? address(*scale, bases) : nullptr;
      for (const auto& [which, t] : results) q.results[which] = static_cast<float*>(address(t.tensor.at, bases));
    };
  }
};

// A vector: the sum over images
void emit_norm_vector(RegionEmission& e) {
  if (is_written_ahead(e, *e.op)) return;
  const auto at = e.launches.norm_vectors.find(e.input());
  if (at == e.launches.norm_vectors.end())
    throw InternalError(fmt::format("'{}' comes before '{}'", e.in.name(e.output()), e.in.name(e.input())));
  const Sizes& s = e.sizes(e.input());
  const std::size_t which = vector_of(*e.op);
  NormVectorParams p{};
  p.images = count32(s[0]), p.channels = count32(s[1]), p.pitch = (p.channels + 7) / 8 * 8;
  const std::int64_t bytes = std::int64_t{4} * p.images * p.pitch;
  Location from = at->second;
  from.offset += which * static_cast<std::size_t>(bytes);
  const PitchedTensor to = e.in.tensor(e.output());
  const products::Kernel k = products::norm_gradient_of_vector(p.channels, to.type);
  const auto parameters = [p, from, to = to.at](const Bases& bases) {
    NormVectorParams q = p;
    q.from = static_cast<const float*>(address(from, bases)), q.y = address(to, bases);
    return bytes_of(q);
  };
  auto step = std::make_unique<PlainStep>(k.source, k.entry, e.in.device.arch(), cuda::PlainGrid{k.ctas, k.threads},
                                          sizeof(NormVectorParams), parameters);
  e.add(std::move(step), {describe(e.net(), *e.op), k.how}, {from, to.at},
        Touched{{interval(from, 1, bytes, bytes)}, {gpu::all_of(to, e.sizes(e.output()))}});
}

}  // namespace

void emit_norm_gradient(RegionEmission& e) {
  if (std::get<NormGradient>(e.op->kind).of != NormGradient::Of::input) return emit_norm_vector(e);
  const NormEmission n(e);
  std::vector<const PlacedTensor*> with_scale{&n.partials, &n.x};
  if (n.scale) with_scale.push_back(&*n.scale);
  n.add(n.kernels.sums, {&n.x, &n.g}, {&n.partials});
  n.add(n.kernels.factors, with_scale, {&n.factors, &n.vectors});
  std::vector<const PlacedTensor*> written{&n.y};
  for (const auto& [which, t] : n.results) written.push_back(&t);
  n.add(n.kernels.input, {&n.x, &n.g, &n.factors, &n.vectors}, written);
}

}  // namespace unisono::network::gpu
