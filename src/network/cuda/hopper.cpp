/// Regions of one contraction as one kernel of the tensor cores.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "ir/op_table.hpp"
#include "lower/lower.hpp"
#include "network/cuda/lowering.hpp"
#include "network/names.hpp"
#include "plan/conv_problem.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

class HopperStep final : public Step {
 public:
  lower::Lowered lowered;
  Bound a, b;
  std::vector<Bound> operands, outputs;

  jit::Request request() const override { return lowered.request(); }
  void load(int device_index, jit::Binary binary) override {
    lowered.problem.options.device_index = device_index;
    executable_.emplace(cuda::build(lowered, std::move(binary)));
  }
  std::optional<lower::Problem> problem() const override {
    lower::Problem p = lowered.problem;
    p.epilogue.moments = {};  // plans are measured, and found, as if no moments were stored
    p.apart.clear();          // and with operands that are dense
    return p;
  }
  Launch bind(const Bases& bases) const override {
    Arguments arguments;
    arguments.a = a.view(bases);
    arguments.b = b.view(bases);
    for (const Bound& o : operands) arguments.operands.emplace(o.name, o.view(bases));
    for (const Bound& o : outputs) arguments.outputs.emplace(o.name, o.view(bases));
    return executable_->bind(arguments);
  }

 private:
  std::optional<Executable> executable_;
};

bool reduces(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& x) {
    const auto c = ir::info(x.op).op_class;
    return c == ir::OpClass::reduction || c == ir::OpClass::normalisation || c == ir::OpClass::softmax;
  });
}

Sizes shape_of(const Axes& a, const Contraction& contraction) {
  if (a == axes::mn) return shape_mn(contraction);
  const Extents e = extents(contraction);
  Sizes shape;
  if (a.row != RowAxis::none) shape.push_back(a.row == RowAxis::m ? e.rows() : e.images);
  if (a.col != ColAxis::none) shape.push_back(e.cols);
  return shape;
}

std::int64_t up_to_8(std::int64_t x) { return (x + 7) / 8 * 8; }

std::string not_packed(std::int64_t groups) {
  return fmt::format("its filters are in {} groups, which are not packed for the tensor cores", groups);
}

// Which a kernel without them may serve; not those with sums over several input channels
bool is_depthwise(const Conv2d& c) { return c.groups > 1 && c.groups == c.c; }

// As a single group, of which a filter has one channel
Conv2d one_group(Conv2d c) {
  c.c /= c.groups, c.groups = 1;
  return c;
}

// Names of what is made of a region's output; no store is called like that
Resampled made_of(const Region& r) {
  Resampled made;
  for (const ResampledStore& s : r.resampled)
    (s.pooled ? made.pooled : made.enlarged) = s.pooled ? "/pooled" : "/enlarged";
  made.only_enlarged = r.only_enlarged.has_value();
  return made;
}

// The name of the store of which something is made
std::string source_of(const Region& r) {
  const TensorId from = r.head ? r.head->from : r.resampled[0].from;
  return std::find_if(r.outputs.begin(), r.outputs.end(), [&](const RegionOutput& o) { return o.tensor == from; })
      ->name;
}

// Kernels resample the store that a graph writes last, and store its moments, if they can
void put_last(Graph& g, const std::string& name) {
  const auto at = std::find_if(g.stores.begin(), g.stores.end(), [&](const Store& s) { return s.name == name; });
  std::rotate(at, at + 1, g.stores.end());
}

}  // namespace

Sizes pitched(const Sizes& shape, std::int64_t pitch) {
  if (shape.back() == pitch) return {};
  Sizes strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i-- > 0;) {
    strides[i] = pitch;
    pitch *= shape[i];
  }
  return strides;
}

// The convolution that the kernels compute: channels padded with zeros where nobody sees them. Nothing, and why, for
// what they cannot be asked for.
std::optional<Conv2d> Lowering::as_served(const Operator& op, const Graph& graph, std::string& why) const {
  Contraction problem = contraction_of(op, p_.storage.shapes);
  Conv2d c;
  if (!is_constant(op.inputs[1])) {
    why = "its second operand is no constant";
    return std::nullopt;
  }
  const bool unfolds = unfolded_.contains(op.inputs[0]);
  if (const auto* conv = std::get_if<Conv2d>(&problem)) {
    c = unfolds ? unfolded(*conv) : *conv;
  } else if (const auto* t = std::get_if<ConvTranspose2d>(&problem)) {
    c = {.c = t->c, .k = t->k, .groups = t->groups};
  } else {
    const auto& g = std::get<Gemm>(problem);
    if (g.transpose_a) {
      why = "its first operand is transposed";
      return std::nullopt;
    }
    c = {.n = 1, .h = 1, .w = g.m, .c = g.k, .k = g.n};
  }
  c.dtype_x = c.dtype_w = p_.element;
  if (c.groups == 1 && (unfolds || is_clean(op.inputs[0]))) c.c = up_to_8(c.c);
  if (c.groups == 1 && !reduces(graph)) c.k = up_to_8(c.k);
  if (is_depthwise(c) && std::holds_alternative<Conv2d>(problem) && form_ != Form::phases) return c;
  if (c.groups != 1) {
    why = not_packed(c.groups);
    return std::nullopt;
  }
  if (c.c % 8 != 0 || c.k % 8 != 0) {
    why = fmt::format("{} input and {} output channels, of which multiples of 8 are packed for the tensor cores", c.c,
                      c.k);
    return std::nullopt;
  }
  return c;
}

std::unique_ptr<Step> Lowering::hopper(const Region& r, const Graph& graph, const std::vector<RegionOperand>& operands,
                                       const std::vector<Destination>& outputs, Beside beside,
                                       std::optional<TensorId> measured) {
  std::string why;
  const bool resampled = beside == Beside::resampled, has_head = beside == Beside::head;
  const auto conv = as_served(*op_, graph, why);
  if (!conv) throw Unsupported(why);
  auto step = std::make_unique<HopperStep>();
  const Contraction given = contraction_of(*op_, p_.storage.shapes);
  const auto* product = std::get_if<Gemm>(&given);
  const bool unfolds = unfolded_.contains(in(0));
  std::int64_t channels = column_count(sizes(in(0)));
  if (unfolds) channels *= std::get<Conv2d>(given).s;
  Contraction problem = *conv;
  auto transposed = this->transposed();
  if (transposed) {
    transposed->c = conv->c, transposed->k = conv->k, transposed->dtype_x = transposed->dtype_w = p_.element;
    problem = *transposed;
  }
  if (product)
    problem = Gemm{
        .m = conv->w, .n = conv->k, .k = conv->c, .transpose_b = true, .dtype_a = p_.element, .dtype_b = p_.element};
  Graph written = graph;
  for (Store& s : written.stores) s.dtype = p_.element;
  const Resampled made = resampled ? made_of(r) : Resampled{};
  CompileOptions options;
  options.tuned = p_.tuned;
  options.resampled = made;
  const std::int64_t filters = extents(given).cols;
  const Located image = unfolds ? Located{{}, conv->c, p_.element} : this->image();
  step->a = {"", image.place, p_.element, shape_a(problem), pitched(shape_a(problem), image.pitch)};
  step->b = {"",
             transposed ? p_.constants.transposed_filter(in(1), *transposed, filters, channels, form_ == Form::phases)
                        : p_.constants.packed_filter(in(1), one_group(*conv), filters, conv->groups == 1 ? channels : 1,
                                                     product != nullptr, product != nullptr && product->transpose_b),
             p_.element, shape_b(problem)};
  std::set<std::string> images_apart;
  for (const RegionOperand& o : operands) {
    const Located at = operand(o, *op_, conv->k);
    const bool columns = o.axes.col != ColAxis::none;
    const bool slice = columns && at.pitch != conv->k && o.axes.row != RowAxis::none;
    const std::int64_t images = extents(problem).images;
    if (slice && !(o.axes == axes::bn && images * at.pitch <= std::numeric_limits<std::int32_t>::max()))
      throw Unsupported(fmt::format("operand '{}' is a slice of a wider tensor", o.name));
    if (slice) images_apart.insert(o.name);
    if (!columns && o.axes.row != RowAxis::none && at.pitch != 1)
      throw Unsupported(fmt::format("operand '{}' has a number a row, which do not lie together", o.name));
    options.storage[o.name] = at.type;
    if (o.axes == axes::scalar) options.device_scalars.insert(o.name);
    const Sizes shape = shape_of(o.axes, problem);
    step->operands.push_back({o.name, at.place, at.type, shape, slice ? pitched(shape, at.pitch) : Sizes{}});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!(written[written.stores[i].value].axes == axes::mn))
      throw Unsupported(fmt::format("it stores '{}', which has axes {}", outputs[i].name,
                                    to_string(written[written.stores[i].value].axes)));
    if (made.only_enlarged && r.outputs[i].tensor == *r.only_enlarged) continue;
    step->outputs.push_back({outputs[i].name, outputs[i].to.place, p_.element, shape_mn(problem),
                             pitched(shape_mn(problem), outputs[i].to.pitch)});
  }
  if (resampled || has_head) put_last(written, source_of(r));
  HeadArguments head;
  if (has_head) {
    head = head_of(r, problem);
    options.head = head.head;
    for (const Bound& o : head.operands) options.storage[o.name] = o.type, step->operands.push_back(o);
    step->outputs.push_back(head.result);
  }
  if (resampled) {
    for (const ResampledStore& s : r.resampled) {
      Sizes shape = shape_mn(problem);
      for (const std::size_t axis : {1u, 2u}) shape[axis] = s.pooled ? shape[axis] / 2 : shape[axis] * 2;
      const Located to = located(s.to);
      step->outputs.push_back(
          {s.pooled ? made.pooled : made.enlarged, to.place, p_.element, shape, pitched(shape, to.pitch)});
    }
  }
  std::string measured_store;
  for (const RegionOutput& o : r.outputs)
    if (measured && o.tensor == *measured) measured_store = o.name;
  if (measured && !resampled && !has_head) put_last(written, measured_store);
  if (measured && conv->k != filters)
    throw Unsupported(fmt::format("moments: its output channels are padded to {}", conv->k));
  lower::Further further;
  further.apart = images_apart;
  if (measured) further.moments.name = "/moments", further.moments.channels = measured_.at(*measured);
  step->lowered = lower::lower(lower::analyse(problem, written, options, further), p_.device);
  const plan::Epilogue& epilogue = step->lowered.problem.epilogue;
  const plan::ConvPlan& plan = step->lowered.plan();
  if (measured && epilogue.graph.stores[*plan::main_store(epilogue)].name != measured_store)
    throw Unsupported(fmt::format("moments: its kernel writes '{}' second", net()[*measured].name));
  if (conv->groups != 1 && !plan.config.depthwise)
    throw Unsupported(
        fmt::format("{}, nor computed without: {}", not_packed(conv->groups),
                    plan::why_not_depthwise(plan::make_problem(step->lowered.problem.task, epilogue, p_.device))));
  const auto apart = [](const Bound& x) { return !x.strides.empty(); };
  const bool plain_stores = plan.config.stores != plan::Stores::copy_engine;
  if ((plan.config.gather && apart(step->a)) ||
      (plain_stores && std::any_of(step->outputs.begin(), step->outputs.end(), apart)))
    throw Unsupported("without the copy engine its kernel takes no slices of concatenations");
  // only the store that the copy engine writes, and what is made of it, may be one
  const auto by_map = plan::main_store(epilogue);
  const std::string main = by_map ? epilogue.graph.stores[*by_map].name : "";
  for (const Bound& o : step->outputs)
    if (apart(o) && o.name != main && o.name != made.pooled && o.name != made.enlarged && o.name != head.result.name)
      throw Unsupported(fmt::format("its kernel does not write '{}' into a slice of a concatenation", o.name));
  if ((resampled || has_head) && main != source_of(r))
    throw Unsupported(
        fmt::format("its kernel writes '{}' second, and makes something of the first only", source_of(r)));
  if (measured) {
    const Sizes shape = plan::moments_shape(plan, conv->k);
    const auto bytes = static_cast<std::size_t>(element_count(shape)) * sizeof(float);
    step->moments = GivenMoments{.tensor = *measured,
                                 .place = kept(*measured, bytes),
                                 .slots = shape[1],
                                 .unit = plan.config.moments,
                                 .bytes = static_cast<std::int64_t>(bytes),
                                 .enlarged = !made.enlarged.empty()};
    step->outputs.push_back({"/moments", step->moments->place, DType::f32, shape});
  }
  step->predicted_us = plan.predicted_us;
  step->what = describe(net(), *op_);
  step->flop = flop(given) + head.flop;
  for (const Bound* x : {&step->a, &step->b}) step->bytes += x->bytes();
  for (const auto* list : {&step->operands, &step->outputs})
    for (const Bound& x : *list)
      if (!head.head.only || x.name != main) step->bytes += x.bytes();
  step->how = plan::describe(plan);
  if (const tuning::Chosen& chosen = step->lowered.chosen; chosen.origin != tuning::Origin::cost_model)
    step->how += fmt::format(" ({})", tuning::to_string(chosen));
  if (conv->c != channels) step->how += fmt::format(", input channels padded with zeros to {}", conv->c);
  if (conv->k != filters) step->how += fmt::format(", output channels padded to {}", conv->k);
  if (resampled)
    for (const ResampledStore& s : r.resampled)
      step->how += fmt::format(", stores '{}' {}", net()[s.to].name,
                               s.pooled          ? "too"
                               : r.only_enlarged ? "alone"
                                                 : "too");
  step->how += head.about;
  if (measured) step->how += fmt::format(", moments of '{}'", net()[*measured].name);
  for (const Bound& x : step->operands)
    if (x.place.constant) step->constants.push_back(x.place.constant);
  for (const Bound* x : {&step->a, &step->b})
    if (x->place.constant) step->constants.push_back(x->place.constant);
  if (unfolds) step->a.place = unfold(std::get<Conv2d>(given), *conv);
  step->uses = {.exchanges = plan.cooperative,
                .exclusive = !plan.config.depthwise.has_value(),
                .blocks = plan.blocks,
                .threads = plan.threads};
  step->uses.reads = {step->a.memory(), step->b.memory()};
  for (const Bound& x : step->operands) step->uses.reads.push_back(x.memory());
  for (const Bound& x : step->outputs) step->uses.writes.push_back(x.memory());
  return step;
}

std::unique_ptr<Step> Lowering::whole(const Region& r, Beside beside, std::string& why) {
  std::vector<Destination> outputs;
  for (const RegionOutput& o : r.outputs) outputs.push_back({o.name, located(o.tensor)});
  if (const auto measured = measured_output(r); measured && beside == Beside::head) {
    unmeasured_[*measured] = "moments: a head is computed of it";
  } else if (measured) {
    try {
      return hopper(r, r.graph, r.operands, outputs, beside, measured);
    } catch (const Unsupported& error) {
      unmeasured_[*measured] = first_line(error.what());
    }
  }
  try {
    return hopper(r, r.graph, r.operands, outputs, beside);
  } catch (const Unsupported& error) {
    why = error.what();
    return nullptr;
  }
}

std::unique_ptr<Step> Lowering::bare(const Region& r, const Located& sums, std::string& why) {
  GraphBuilder g;
  g.store(g.acc(), p_.element, "sums");
  try {
    return hopper(r, g.build(), {}, {{"sums", sums}});
  } catch (const Unsupported& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace unisono::network::gpu
