#include "network/cuda/decide/family_kernel.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "families/registry.hpp"
#include "ir/store_forms.hpp"
#include "network/cuda/decide/computed_filters.hpp"
#include "network/cuda/decide/im2col_inputs.hpp"
#include "network/cuda/decide/served_convolution.hpp"
#include "plan/resampling.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

Sizes shape_of(const Axes& a, const Contraction& contraction) {
  if (a == axes::mn) return shape_mn(contraction);
  const Extents e = extents(contraction);
  Sizes shape;
  if (a.row != RowAxis::none) shape.push_back(a.row == RowAxis::m ? e.rows() : e.images);
  if (a.col != ColAxis::none) shape.push_back(e.cols);
  return shape;
}

// A name that no operand and no store of the graph has
std::string free_name(const Graph& g, std::string name) {
  const auto is_taken = [&] {
    return std::ranges::any_of(g.stores, [&](const Store& s) { return s.name == name; }) ||
           std::ranges::any_of(g.nodes, [&](const Node& x) { return x.op == Op::operand && x.attr.name == name; });
  };
  while (is_taken()) name += '_';
  return name;
}

std::string store_of(const Region& r, TensorId id) {
  const auto is_it = [&](const RegionOutput& o) { return o.tensor == id; };
  return std::find_if(r.outputs.begin(), r.outputs.end(), is_it)->name;
}

// Kernels resample the store that a graph writes last, and store its moments, if they can
void put_last(Graph& g, const std::string& name) {
  const auto at = std::find_if(g.stores.begin(), g.stores.end(), [&](const Store& s) { return s.name == name; });
  std::rotate(at, at + 1, g.stores.end());
}

// Answers one question. The parts are filled in one after another; each may refuse, with its reason.
class Choice {
 public:
  Choice(const PlanningInput& in, const NetworkPlan& plan, const KernelQuestion& question)
      : in_(in),
        plan_(plan),
        q_(question),
        r_(question.region),
        op_(question.only ? in.net().operators[*question.only] : in.first(r_)),
        given_(in.contraction(op_)) {}

  KernelChoice run() {
    using Part = std::optional<Refusal> (Choice::*)();
    for (const Part part :
         {&Choice::serve_contraction, &Choice::take_operands, &Choice::take_outputs, &Choice::take_moments,
          &Choice::lower, &Choice::refuse_groups_unserved, &Choice::refuse_slices, &Choice::refuse_order})
      if (auto refusal = (this->*part)()) return {std::nullopt, std::move(refusal)};
    store_moments();
    describe();
    return {std::move(k_), std::nullopt};
  }

 private:
  std::optional<Refusal> serve_contraction();
  std::optional<Refusal> take_image(bool pads);
  std::optional<Refusal> take_operands();
  std::optional<Refusal> take_operand(const RegionOperand& o);
  std::optional<Refusal> take_outputs();
  std::optional<Refusal> take_reduced(const Destination& d, const Axes& axes);
  std::optional<Refusal> take_moments();
  std::optional<Refusal> lower();
  std::optional<Refusal> refuse_groups_unserved();
  std::optional<Refusal> refuse_slices();
  std::optional<Refusal> refuse_order();
  Location filter_of(TensorId filter, const std::optional<ConvTranspose2d>& transposed);
  Gemm padded_product() const;
  std::optional<Refusal> take_computed_filter();
  std::optional<Refusal> take_computed_pair();
  void take_resampled();
  void store_moments();
  void describe();
  // The store of which the kernel makes something beside writing it
  std::string source() const { return store_of(r_, r_.resampled[0].from); }
  bool is_dual() const { return r_.second && !q_.only; }
  bool is_reduced(const std::string& store) const { return q_.beside == Beside::reduced && store == r_.reduced->name; }
  std::string measured_store() const { return store_of(r_, *q_.moments); }
  // The store of plan::main_store(), by its name in the network
  std::string main_store() const {
    const plan::Epilogue& e = k_.lowered.epilogue();
    const auto store = plan::main_store(e);
    if (e.resampled.only_upsampled) return source();  // there under another name
    return store ? e.graph.stores[*store].name : "";
  }
  bool im2col() const { return plan_.im2col_inputs.contains(op_.inputs[0]); }
  // Channels of the image as it lies in memory, without padding
  std::int64_t channels() const {
    const std::int64_t c = column_count(in_.sizes(op_.inputs[0]));
    return im2col() ? c * std::get<Conv2d>(given_).s : c;
  }
  std::int64_t filters() const { return extents(given_).cols; }
  std::optional<PitchedTensor> sums_in_scratch() const {
    return PitchedTensor{{Location::Space::scratch}, in_.fused.style.pitch(filters()), in_.element};
  }

  const PlanningInput& in_;
  const NetworkPlan& plan_;
  const KernelQuestion& q_;
  const Region& r_;
  const Operator& op_;
  const Contraction given_;
  Conv2d conv_;              // with padded channels
  Contraction contraction_;  // that the kernel is asked for
  Graph graph_;
  CompileOptions options_;
  lower::Further further_;
  bool filters_wait_ = false;   // constant, and not loaded ahead: may_load_ahead()
  bool upsamples_ = false;      // the kernel stores the measured tensor upsampled as well
  std::set<std::string> made_;  // stores that are pooled or upsampled
  FamilyKernel k_;
};

std::optional<Refusal> Choice::serve_contraction() {
  // a reduction beside it leaves out columns that are padded
  const ServedConvolution served =
      as_served(in_, plan_, op_, q_.beside == Beside::reduced ? r_.graph : q_.graph, q_.form);
  if (!served.conv) return served.refusal;
  conv_ = *served.conv;
  Conv2d asked = conv_;
  asked.products = is_dual() ? 2 : 1;
  contraction_ = asked;
  auto transposed = transposed_form(given_, q_.form);
  if (transposed) {
    transposed->c = conv_.c, transposed->k = conv_.k, transposed->dtype_x = transposed->dtype_w = in_.element;
    contraction_ = *transposed;
  }
  if (const auto* v = std::get_if<Conv3d>(&given_)) {
    Conv3d volume = *v;
    volume.c = conv_.c, volume.k = conv_.k, volume.dtype_x = volume.dtype_w = in_.element;
    contraction_ = volume;
  }
  if (std::holds_alternative<Gemm>(given_)) contraction_ = padded_product();
  graph_ = q_.graph;
  for (Store& s : graph_.stores) s.dtype = is_reduced(s.name) ? in_.tensor(r_.reduced->to).type : in_.element;
  options_.watchdog = in_.watchdog, options_.tuned = in_.tuned, k_.form = q_.form;
  if (im2col()) k_.im2col = conv_;
  if (auto refusal = take_image(served.pads_image)) return refusal;
  k_.filter.type = in_.element, k_.filter.shape = shape_b(contraction_);
  if (!in_.is_constant(op_.inputs[1])) return take_computed_filter();
  k_.filter.at = filter_of(op_.inputs[1], transposed);
  if (is_dual()) {
    const TensorId other = in_.net().operators[*r_.second].inputs[1];
    k_.second = Argument{"", filter_of(other, transposed), in_.element, shape_b(contraction_)};
  }
  return std::nullopt;
}

std::optional<Refusal> Choice::take_image(bool pads) {
  PitchedTensor image = im2col() ? PitchedTensor{{}, conv_.c, in_.element} : image_of(in_, op_, q_.form);
  if (pads) {
    auto padding = padded_image(in_, op_.inputs[0], conv_.c);
    if (!padding) return std::move(padding).refusal();
    k_.padding = *std::move(padding);
    image = {{Location::Space::scratch}, conv_.c, in_.element};
  }
  k_.image = {"", image.at, in_.element, shape_a(contraction_), pitched(shape_a(contraction_), image.pitch)};
  return std::nullopt;
}

Location Choice::filter_of(TensorId filter, const std::optional<ConvTranspose2d>& transposed) {
  if (transposed)
    return in_.constants.transposed_filter(filter, *transposed, filters(), channels(), q_.form == Form::phases);
  const auto* product = std::get_if<Gemm>(&given_);
  return in_.constants.packed_filter(filter, one_group(conv_), filters(), channels() / conv_.groups, product != nullptr,
                                     product != nullptr && product->transpose_b);
}

Gemm Choice::padded_product() const {
  return {.m = conv_.w,
          .n = conv_.k,
          .k = conv_.c,
          .transpose_b = !reads_columns(in_, plan_, op_, conv_),
          .dtype_a = in_.element,
          .dtype_b = in_.element,
          .products = is_dual() ? 2 : 1};
}

// dual_products() makes pairs of filters that lie as the kernel reads them
std::optional<Refusal> Choice::take_computed_pair() {
  const TensorId other = in_.net().operators[*r_.second].inputs[1];
  for (const TensorId filter : {op_.inputs[1], other}) {
    Operator own = op_;
    own.inputs[1] = filter;
    const auto packing = packing_of(in_, plan_, order_of(in_, own, given_, conv_, false));
    if (!packing || *packing)
      return because(fmt::format("'{}' is one of two filters and not packed", in_.name(filter)));
  }
  k_.second = Argument{"", in_.element_tensor(other).at, in_.element, shape_b(contraction_)};
  return std::nullopt;
}

std::optional<Refusal> Choice::take_computed_filter() {
  const TensorId filter = op_.inputs[1];
  k_.filter.at = in_.element_tensor(filter).at;
  if (is_dual()) return take_computed_pair();
  if (const auto* g = std::get_if<Gemm>(&contraction_); g != nullptr && !g->transpose_b) return std::nullopt;
  auto packing = packing_of(in_, plan_, order_of(in_, op_, given_, conv_, im2col()));
  if (!packing) return std::move(packing).refusal();
  k_.packing = *std::move(packing);
  if (k_.packing) k_.filter.at = {Location::Space::scratch};
  return std::nullopt;
}

std::optional<Refusal> Choice::take_operands() {
  for (const RegionOperand& o : q_.operands)
    if (auto refusal = take_operand(o)) return refusal;
  return std::nullopt;
}

std::optional<Refusal> Choice::take_operand(const RegionOperand& o) {
  auto tensor = o.name == q_.sums ? sums_in_scratch() : operand_tensor(in_, o, op_, conv_.k);
  for (const GatheredOperand& g : q_.gathered)
    if (r_.operands[g.operand].name == o.name) tensor = PitchedTensor{{}, g.packed.pitch, in_.element};
  if (!tensor) throw InternalError(fmt::format("'{}' was not gathered", in_.name(o.tensor)));
  const bool columns = o.axes.col != ColAxis::none;
  const bool slice = columns && tensor->pitch != conv_.k && o.axes.row != RowAxis::none;
  const std::int64_t images = extents(contraction_).images;
  if (slice && !(o.axes == axes::bn && images * tensor->pitch <= std::numeric_limits<std::int32_t>::max()))
    return because(fmt::format("operand '{}' is a slice of a wider tensor", o.name));
  if (slice) further_.apart.insert(o.name);
  if (!columns && o.axes.row != RowAxis::none && tensor->pitch != 1)
    return because(fmt::format("the per-row operand '{}' is not contiguous", o.name));
  options_.storage[o.name] = tensor->type;
  if (o.axes == axes::scalar) options_.device_scalars.insert(o.name);
  const Sizes shape = shape_of(o.axes, contraction_);
  k_.operands.push_back({o.name, tensor->at, tensor->type, shape, slice ? pitched(shape, tensor->pitch) : Sizes{}});
  return std::nullopt;
}

std::optional<Refusal> Choice::take_outputs() {
  const bool alone = q_.beside == Beside::resampled && r_.only_upsampled;
  for (std::size_t i = 0; i < q_.outputs.size(); ++i) {
    const Destination& d = q_.outputs[i];
    const Axes& axes = graph_[graph_.stores[i].value].axes;
    if (is_reduced(d.name)) {
      if (auto refusal = take_reduced(d, axes)) return refusal;
      continue;
    }
    if (!(axes == axes::mn)) return because(fmt::format("it stores '{}', which has axes {}", d.name, to_string(axes)));
    if (alone && d.tensor == r_.only_upsampled) continue;
    const Sizes shape = shape_mn(contraction_);
    k_.outputs.push_back({d.name, d.to.at, in_.element, shape, pitched(shape, d.to.pitch)});
  }
  if (q_.beside == Beside::resampled) {
    put_last(graph_, source());
    take_resampled();
  }
  return std::nullopt;
}

std::optional<Refusal> Choice::take_reduced(const Destination& d, const Axes& axes) {
  const Sizes shape = shape_of(axes, contraction_);
  if (axes.col == ColAxis::n && d.to.pitch != conv_.k)
    return because(fmt::format("what it reduces to, '{}', is a slice of a wider tensor", in_.name(*d.tensor)));
  k_.outputs.push_back({d.name, d.to.at, d.to.type, shape});
  return std::nullopt;
}

// The source, which stands last, is a store of the graph no more if only the upsampled one is read
void Choice::take_resampled() {
  const Store of = graph_.stores.back();
  if (r_.only_upsampled) graph_.stores.pop_back();
  for (const ResampledStore& s : r_.resampled) {
    const StoreForm form = s.pooled ? StoreForm::max_pool_2x2 : StoreForm::upsample_2x2;
    const std::string name = free_name(graph_, s.pooled ? "pooled" : "upsampled");
    graph_.stores.push_back({of.value, of.dtype, name, form});
    made_.insert(name), upsamples_ = upsamples_ || !s.pooled;
    const Sizes shape = ir::shape_of(form, contraction_);
    const PitchedTensor to = in_.element_tensor(s.to);
    k_.outputs.push_back({name, to.at, in_.element, shape, pitched(shape, to.pitch)});
  }
}

std::optional<Refusal> Choice::take_moments() {
  if (!q_.moments) return std::nullopt;
  if (q_.beside == Beside::nothing) put_last(graph_, measured_store());
  if (conv_.k != filters()) return because(fmt::format("statistics: its output channels are padded to {}", conv_.k));
  further_.moments = {"/moments", plan_.wanted_moments.at(*q_.moments)};
  return std::nullopt;
}

// When a kernel may load its filters ahead of the launches before it. Constants are the network's own memory, which is
// filled before any launch and which no launch writes. CTAs that wait for one another (they exchange statistics, or
// parts of sums) all have to be resident before one of them can end: loads of those that start early compete with what
// the launch ahead still has to do, and nothing ends sooner. Measured where launches normalise: 1 % slower.
bool is_constant_filter(const PlanningInput& in, const Location& filter) {
  return in.filters_ahead && filter.space == Location::Space::constant;
}
bool may_load_ahead(const families::Plan& plan) { return !plan.cooperative; }

std::optional<Refusal> Choice::lower() {
  further_.filters_ahead = is_constant_filter(in_, k_.filter.at);
  auto problem = lower::analyse(contraction_, graph_, options_, further_);
  if (!problem) return std::move(problem).refusal();
  auto chosen = lower::choose(*problem, in_.device);
  if (!chosen) return std::move(chosen).refusal();
  filters_wait_ = further_.filters_ahead && !may_load_ahead(*chosen->plan);
  if (filters_wait_) problem->filters_ahead = false;
  auto lowered = lower::lower(*std::move(problem), *std::move(chosen), in_.device);
  if (!lowered) return std::move(lowered).refusal();
  k_.lowered = *std::move(lowered);
  if (q_.moments && main_store() != measured_store())
    return because(fmt::format("statistics: its kernel writes '{}' second", in_.name(*q_.moments)));
  return std::nullopt;
}

std::optional<Refusal> Choice::refuse_groups_unserved() {
  const families::Plan& plan = k_.lowered.plan();
  if (conv_.groups == 1 || plan.made_for_groups) return std::nullopt;
  const lower::Problem& p = k_.lowered.problem;
  const auto refusal = families::refused_ahead_of(*plan.family, {p.task, p.forms, in_.device});
  return because(fmt::format("{}, nor computed without them ({})", refuse_groups(conv_.groups).first(),
                             refusal ? fmt::format("{}", fmt::join(refusal->reasons, "; ")) : families::title(plan)));
}

// Only the main store, and what is made of it, may be a slice of a wider tensor
std::optional<Refusal> Choice::refuse_slices() {
  const families::Plan& plan = k_.lowered.plan();
  const auto is_apart = [](const Argument& x) { return x.is_apart(); };
  if ((!plan.pitched_image && k_.image.is_apart()) ||
      (!plan.pitched_output && std::any_of(k_.outputs.begin(), k_.outputs.end(), is_apart)))
    return because(fmt::format("the kernel ({}) takes no slices of concatenations", families::title(plan)));
  std::set<std::string> may = made_;
  may.insert(main_store());
  for (const Argument& o : k_.outputs)
    if (o.is_apart() && !may.contains(o.name))
      return because(fmt::format("its kernel does not write '{}' into a slice of a concatenation", o.name));
  return std::nullopt;
}

std::optional<Refusal> Choice::refuse_order() {
  if (q_.beside != Beside::resampled || main_store() == source()) return std::nullopt;
  return because(fmt::format("its kernel writes '{}' second, and makes something of the first only", source()));
}

void Choice::store_moments() {
  if (!q_.moments) return;
  const Sizes shape = families::moments_shape(k_.lowered.plan(), conv_.k);
  k_.moments = TensorMoments{.tensor = *q_.moments,
                             .slots = shape[1],
                             .unit = k_.lowered.plan().moments.unit,
                             .bytes = element_count(shape) * static_cast<std::int64_t>(sizeof(float)),
                             .upsampled = upsamples_};
  Argument& moments = k_.outputs.emplace_back();
  moments.name = "/moments", moments.at.space = Location::Space::kept;
  moments.type = DType::f32, moments.shape = shape;
}

void Choice::describe() {
  k_.flop = flop(given_) * (k_.second ? 2 : 1);
  for (const Argument* x : {&k_.image, &k_.filter}) k_.bytes += x->bytes();
  if (k_.second) k_.bytes += k_.second->bytes();
  for (const auto* list : {&k_.operands, &k_.outputs})
    for (const Argument& x : *list) k_.bytes += x.bytes();
  k_.how = families::describe(k_.lowered.plan());
  if (const tuning::Chosen& chosen = k_.lowered.chosen; chosen.origin != tuning::Origin::cost_model)
    k_.how += fmt::format(" ({})", tuning::to_string(chosen));
  if (!in_.is_constant(op_.inputs[1])) k_.how += ", of a filter that is no constant";
  if (filters_wait_) k_.how += ", filters not ahead (its CTAs wait for one another)";
  if (k_.padding)
    k_.how += fmt::format(", of an image that is padded with zeros to {} channels", conv_.c);
  else if (conv_.c != channels())
    k_.how += fmt::format(", input channels padded with zeros to {}", conv_.c);
  if (conv_.k != filters()) k_.how += fmt::format(", output channels padded to {}", conv_.k);
  if (q_.beside == Beside::resampled)
    for (const ResampledStore& s : r_.resampled)
      k_.how += fmt::format(", stores '{}' {}", in_.name(s.to), !s.pooled && r_.only_upsampled ? "alone" : "too");
  if (q_.beside == Beside::reduced)
    k_.how += fmt::format(", reduces '{}' to '{}'", in_.name(r_.reduced->from), in_.name(r_.reduced->to));
  if (q_.moments) k_.how += fmt::format(", statistics of '{}'", in_.name(*q_.moments));
}

}  // namespace

KernelChoice choose_kernel(const PlanningInput& in, const NetworkPlan& plan, const KernelQuestion& question) {
  return Choice(in, plan, question).run();
}

}  // namespace unisono::network::gpu
