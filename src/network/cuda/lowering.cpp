#include "network/cuda/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "network/cuda/parameters.hpp"
#include "network/names.hpp"
#include "network/space.hpp"
#include "passes/passes.hpp"
#include "support/checked.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::size_t scratch_alignment = 256;
constexpr std::int64_t largest_place = std::int64_t{1}
                                       << 29;  // along an axis, or of padding; sums of three fit 32 bits
constexpr std::int64_t most_elements = (std::int64_t{1} << 32) - 1;  // that a kernel counts

bool is_empty(const Sizes& s) { return std::find(s.begin(), s.end(), 0) != s.end(); }

// A tensor outside as images, lines, pixels and channels
Sizes as_image(const Sizes& s) {
  if (s.size() == 4) return {s[0], s[2], s[3], s[1]};
  Sizes image(4 - std::min<std::size_t>(s.size(), 4), 1);
  image.insert(image.end(), s.begin(), s.end());
  return image;
}

}  // namespace

std::uint32_t count32(std::int64_t x) { return support::narrow<std::uint32_t>("a count of a kernel on the GPU", x); }

std::string first_line(const std::string& text) {
  const auto end = text.find('\n');
  if (end == text.npos || end + 1 == text.size()) return text.substr(0, end);
  // "no kernel serves …:" and the first reason
  const auto reason = text.find_first_not_of(' ', end + 1);
  return text.substr(reason, text.find('\n', reason) - reason);
}

std::int64_t border_threads(std::int64_t rows, std::int64_t channels) {
  std::int64_t width = 8;
  while (width < 64 && width < channels) width *= 2;
  const std::int64_t height = 4096 / width;
  return (rows + height - 1) / height * ((channels + width - 1) / width) * 256;
}

Lowering::Lowering(const Problem& problem, Unmerged unmerged)
    : p_(problem), plain_source_(codegen::plain_source(problem.element)), unmerged_(std::move(unmerged)) {
  clean_.assign(net().tensors.size(), false);
}

void Lowering::refuse(const std::string& why) const {
  throw Unsupported(
      fmt::format("{}: {}; compile the network for Device::cpu", op_ ? where(*op_) : "the network's border", why));
}

int Lowering::place32(const char* what, std::int64_t x) const {
  if (x < 0 || x > largest_place)
    refuse(fmt::format("{} {}; plain kernels count places to {}", what, x, largest_place));
  return static_cast<int>(x);
}

Located Lowering::located(TensorId id) const {
  const std::int64_t columns = column_count(sizes(id)), pitch = p_.fused.style.pitch(columns);
  if (is_constant(id)) return {p_.constants.rows(id, columns, pitch), pitch, p_.element};
  if (const auto at = in_scratch_.find(id); at != in_scratch_.end()) return at->second;
  const Memory& m = p_.storage.memory[id];
  return {{Place::Where::arena, m.index + m.offset, {}}, m.row_stride, p_.element};
}

Place Lowering::scratch(std::size_t bytes) {
  const Place place{Place::Where::scratch, scratch_used_, {}};
  scratch_used_ += (bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
  lowered_.scratch_bytes = std::max(lowered_.scratch_bytes, scratch_used_);
  return place;
}

cuda::PlainGrid Lowering::grid(std::int64_t threads) const {
  if (threads > most_elements) refuse(fmt::format("{} elements; kernels count to {}", threads, most_elements));
  const std::int64_t most = std::int64_t{16} * p_.device.multiprocessors;
  return {count32(std::clamp<std::int64_t>((threads + 255) / 256, 1, most)), 256};
}

// Bytes that a plain kernel's operator reads and writes, in 16 bits; statistics read, and write next to nothing
double Lowering::bytes_of_step(const std::string& what) {
  const auto bytes = [&](TensorId id) {
    return static_cast<double>(element_count(sizes(id))) * static_cast<double>(size_of(p_.element));
  };
  if (op_ == nullptr || what.starts_with("joined")) return 0;
  const Region& r = p_.fused.regions[region_];
  double read = 0, written = 0;
  if (r.kind == RegionReport::Kind::single) {
    if (single_read_.first != region_) {  // a concatenation has a step for every input
      single_read_ = {region_, 0};
      for (const TensorId id : data_inputs(*op_)) single_read_.second += bytes(id);
    }
    read = single_read_.second;
  } else if (r.source) {
    read = bytes(*r.source);
  } else if (!r.outputs.empty()) {
    read = bytes(r.outputs[0].tensor);  // the contraction's sums
  }
  if (what.starts_with("statistics")) return read;
  for (const RegionOperand& o : r.operands) read += bytes(o.tensor);
  for (const RegionOutput& o : r.outputs) written += bytes(o.tensor);
  return read + written;
}

void Lowering::add(std::unique_ptr<Step> step, std::string what, std::string how, std::vector<Place> used) {
  step->name = name_;
  if (step->bytes == 0) step->bytes = bytes_of_step(what);
  step->what = std::move(what);
  step->how = std::move(how);
  for (Place& place : used)
    if (place.constant) step->constants.push_back(std::move(place.constant));
  lowered_.steps.push_back(std::move(step));
  lowered_.region.push_back(region_);
}

void Lowering::add(std::unique_ptr<Step> step) {
  if (step->moments) given_[step->moments->tensor] = *step->moments;
  std::string what = step->what, how = step->how;  // ahead of the move: arguments are evaluated in any order
  add(std::move(step), std::move(what), std::move(how), {});
}

// ---- The border

void Lowering::border(TensorId id, std::size_t position, bool input) {
  op_ = nullptr;
  const NetworkTensor& t = net()[id];
  name_ = fmt::format("{} {}", input ? "input" : "output", t.name);
  if (!is_float(t.dtype) || t.dtype == DType::f64)
    throw Unsupported(
        fmt::format("{} is of {}; networks on a GPU take and give f32, bf16 and f16", name_, to_string(t.dtype)));
  if (sizes(id).size() > 4)
    throw Unsupported(fmt::format("{} has rank {}; at most 4 on a GPU", name_, sizes(id).size()));
  if (is_empty(sizes(id))) return;
  const Sizes s = as_image(sizes(id));
  const Located at = located(id);
  BorderParams fixed{};
  fixed.images = count32(s[0]), fixed.height = count32(s[1]), fixed.width = fixed.columns = count32(s[2]);
  fixed.channels = count32(s[3]);
  fixed.taps = 1, fixed.stride = 1;
  fixed.arena.pitch = at.pitch;
  const std::size_t offset = position * sizeof(CallerTensor);
  if (input) clean_[id] = true;
  plain(input ? codegen::PlainKernel::enter : codegen::PlainKernel::leave, border_threads(s[0] * s[1] * s[2], s[3]),
        fixed, {at.place},
        input ? Touched{{callers()}, {all_of(at, sizes(id))}} : Touched{{all_of(at, sizes(id))}, {caller(position)}},
        "change of layout and type", [at, offset](BorderParams& p, const Bases& bases) {
          p.caller = reinterpret_cast<const CallerTensor*>(bases.callers + offset);
          p.arena.memory = address(at.place, bases);
        });
  // tensors of 16 bits outside, as frameworks have them
  lowered_.steps.back()->bytes = 4 * static_cast<double>(element_count(s));
}

// An input that was to be unfolded, but for which there is no kernel
void Lowering::enter(TensorId id) {
  const auto found = unfolded_.find(id);
  if (found == unfolded_.end()) return;
  const auto [op, name] = std::pair(op_, name_);
  border(id, found->second, true);
  op_ = op, name_ = name;
  unfolded_.erase(found);
}

// ---- Regions

void Lowering::check_types(const Region& r) const {
  for (const std::size_t i : r.operators) {
    const Operator& op = net().operators[i];
    const auto check = [&](TensorId id) {
      if (net()[id].dtype != DType::f32)
        throw Unsupported(
            fmt::format("{}: tensor '{}' is of {}; kernels of a GPU compute f32 networks only; compile "
                        "the network for Device::cpu",
                        where(op), net()[id].name, to_string(net()[id].dtype)));
    };
    for (const TensorId id : data_inputs(op)) check(id);
    check(op.output);
  }
}

void Lowering::region(const Region& r) {
  op_ = &net().operators[r.operators[0]];
  if (r.kind == RegionReport::Kind::free || is_empty(sizes(op_->output))) return;
  name_ = net()[r.outputs[0].tensor].name;
  scratch_used_ = 0;
  check_types(r);
  gather_operands(r);
  switch (r.kind) {
    case RegionReport::Kind::contraction: contraction(r); break;
    case RegionReport::Kind::epilogue: {
      std::optional<Located> acc;
      if (r.source) acc = located(*r.source);
      return graph_steps(r, extents_of(sizes(op_->output)), acc, "");
    }
    default: std::visit(*this, op_->kind);
  }
  if (!r.unfolded.empty()) lowered_.steps.back()->how += ": " + r.unfolded;
}

void Lowering::contraction(const Region& r) {
  form_ = Form::given;
  if (r.head) return with_head(r);
  if (r.resampled.empty()) return kernels(r);
  std::string why = enlarges() ? "its own image is enlarged" : refuse_resampled(r);
  if (why.empty())
    if (auto step = whole(r, Beside::resampled, why)) return add(std::move(step));
  if (r.only_enlarged) {
    const std::int64_t pitch = p_.fused.style.pitch(column_count(sizes(*r.only_enlarged)));
    const auto rows =
        static_cast<std::size_t>(element_count(sizes(*r.only_enlarged)) / column_count(sizes(*r.only_enlarged)));
    in_scratch_[*r.only_enlarged] = {scratch(2 * rows * static_cast<std::size_t>(pitch)), pitch, p_.element};
  }
  kernels(r);
  resample(r, first_line(why));
  in_scratch_.clear();
}

void Lowering::kernels(const Region& r) {
  std::string why, also;
  if (auto step = best_form([&](std::string& w) { return whole(r, Beside::nothing, w); }, why))
    return add(std::move(step));
  const Extents space = extents(contraction_of(*op_, p_.storage.shapes));
  const std::int64_t pitch = (space.cols + 7) / 8 * 8;
  const auto bytes = static_cast<std::size_t>(space.rows() * pitch);
  Located sums{scratch(4 * bytes), pitch, p_.element};
  if (auto step = best_form([&](std::string& w) { return bare(r, sums, w); }, also)) {
    add(std::move(step));
  } else {
    sums.type = DType::f32;
    enter(in(0));
    if (enlarges()) form_ = Form::enlarged, place_enlarged(), enlarge();
    direct(r, sums, first_line(also));
  }
  graph_steps(r, space, sums, first_line(why));
}

void Lowering::direct(const Region& r, const Located& sums, const std::string& why) {
  const Contraction problem = contraction_of(*op_, p_.storage.shapes);
  const Extents space = extents(problem);
  const Located a = image();
  DirectParams d{};
  d.from_pixel = a.pitch, d.from_channel = 1;
  d.to.pitch = sums.pitch;
  d.out_height = count32(space.height), d.out_width = count32(space.width), d.outputs = count32(space.cols);
  const auto convolution = [&](const auto& c) {
    d.images = count32(c.n), d.height = count32(c.h), d.width = count32(c.w);
    d.group_channels = count32(c.c / c.groups), d.group_outputs = count32(c.k / c.groups);
    d.taps_h = place32("filter taps", c.r), d.taps_w = place32("filter taps", c.s);
    d.stride_h = place32("stride", c.stride[0]), d.stride_w = place32("stride", c.stride[1]);
    d.pad_h = place32("pad", c.pad[0]), d.pad_w = place32("pad", c.pad[1]);
    d.dilation_h = place32("dilation", c.dilation[0]), d.dilation_w = place32("dilation", c.dilation[1]);
    place32("filter span", (c.r - 1) * c.dilation[0]), place32("filter span", (c.s - 1) * c.dilation[1]);
    place32("image height", std::max(c.h, space.height)), place32("image width", std::max(c.w, space.width));
  };
  if (const auto* c = std::get_if<Conv2d>(&problem)) convolution(*c);
  if (const auto* c = std::get_if<ConvTranspose2d>(&problem)) convolution(*c), d.transposed = 1;
  if (const auto* g = std::get_if<Gemm>(&problem)) {
    d.images = d.height = 1, d.width = count32(g->m);
    d.out_height = 1, d.out_width = count32(g->m);
    d.group_channels = count32(g->k), d.group_outputs = count32(g->n);
    d.taps_h = d.taps_w = d.stride_h = d.stride_w = d.dilation_h = d.dilation_w = 1;
    if (g->transpose_a) std::swap(d.from_pixel, d.from_channel);
  }
  Place filter;
  Touched touched{{all_of(a, image_sizes())}, {all_of(sums, {space.rows(), space.cols})}};
  if (!is_constant(in(1))) touched.reads.push_back(all_of(in(1)));
  if (is_constant(in(1))) {
    filter = p_.constants.direct_filter(*op_, problem);
    d.filter_output = 1, d.filter_channel = d.outputs, d.filter_tap = i64{d.group_channels} * d.outputs;
  } else {
    if (d.transposed != 0) refuse("its filter is no constant");
    const Located b = located(in(1));
    filter = b.place;
    const auto* g = std::get_if<Gemm>(&problem);
    const bool rows = g == nullptr || g->transpose_b;  // a filter's channels lie together
    d.filter_tap = b.pitch, d.filter_output = rows ? i64{d.taps_h} * d.taps_w * b.pitch : 1;
    d.filter_channel = rows ? 1 : b.pitch;
  }
  plain(codegen::PlainKernel::direct, space.rows() * space.cols, d, {a.place, filter}, touched, describe(net(), *op_),
        [a = a.place, filter, to = sums.place](DirectParams& p, const Bases& bases) {
          p.from = address(a, bases), p.filter = address(filter, bases), p.to.memory = address(to, bases);
        });
  lowered_.steps.back()->how = fmt::format("plain kernel, one sum a thread: {}", why);
  (void)r;
}

// ---- Epilogue graphs by themselves

namespace {

// Results of a reduction: rows and columns of its axes
std::pair<std::int64_t, std::int64_t> results(const ReduceDomain& d, const Extents& e) {
  const std::int64_t rows = d.rows ? (d.per_image ? e.images : 1) : e.rows();
  return {rows, d.cols ? d.groups : e.cols};
}

}  // namespace

// Parts of an image's rows: a thread has some eight rows, or fewer where that leaves multiprocessors without a block;
// at most `most` blocks a multiprocessor.
std::int64_t Lowering::slabs(const Extents& space, std::int64_t most) const {
  const std::int64_t octets = (space.cols + 7) / 8, lanes = 256 / std::min<std::int64_t>(octets, 256);
  const std::int64_t rows = space.rows_per_image(), images = space.images;
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t filled = up(2 * p_.device.multiprocessors, images);
  const std::int64_t wanted = std::max(up(rows, 8 * lanes), std::min(up(rows, lanes), filled));
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most * p_.device.multiprocessors / images));
}

// Networks have the same graphs many times
const Lowering::GraphKernels& Lowering::kernels_of(const Graph& graph, const codegen::GraphStorage& storage) {
  std::string key = fmt::format("{} {}\n{}", to_string(storage.element), to_string(storage.accumulator), print(graph));
  for (const auto& [name, type] : storage.operands) key += fmt::format("{} {}\n", name, to_string(type));
  const auto [found, is_new] = graph_kernels_.try_emplace(std::move(key));
  if (!is_new) return found->second;
  try {
    found->second.optimised = passes::run_pipeline(graph);
    found->second.kernels = codegen::graph_kernels(found->second.optimised, storage);
  } catch (const Unsupported& error) {
    graph_kernels_.erase(found);
    refuse(error.what());
  }
  return found->second;
}

void Lowering::graph_steps(const Region& r, const Extents& space, const std::optional<Located>& acc,
                           const std::string& why) {
  using Kind = codegen::GraphTensor::Kind;
  if (space.rows() > most_elements) refuse(fmt::format("{} rows; kernels count to {}", space.rows(), most_elements));
  codegen::GraphStorage storage{.element = p_.element, .accumulator = acc ? acc->type : p_.element};
  std::map<std::string, Located> operands, stores;
  std::map<std::string, Interval> memory;  // of operands and stores
  for (const RegionOperand& o : r.operands) {
    const Located at = operand(o, *op_, space.cols);
    storage.operands[o.name] = at.type;
    operands[o.name] = at;
    memory[o.name] = operand_memory(o);
  }
  for (const RegionOutput& o : r.outputs) {
    stores[o.name] = located(o.tensor);
    memory["store " + o.name] = all_of(o.tensor);
  }
  const auto& [optimised, kernels] = kernels_of(r.graph, storage);
  using Part = codegen::GraphKernel::Part;
  std::map<ValueId, Located> reduced, partials;
  std::map<ValueId, Interval> results_memory, partials_memory;  // written, as far as anyone else is concerned
  for (const codegen::GraphKernel& k : kernels) {
    std::string how = why;
    if (r.kind == RegionReport::Kind::epilogue && sums_source(optimised, k)) {
      how = refuse_merging();
      if (how.empty()) {
        if (k.part == Part::join) join_moments(r, optimised, k, space, reduced, results_memory);
        continue;
      }
    }
    GraphParams fixed{};
    fixed.images = count32(space.images), fixed.pixels = count32(space.rows_per_image()),
    fixed.columns = count32(space.cols);
    fixed.slabs = count32(slabs(space, k.part == Part::elements ? 16 : 4));
    const auto [rows, columns] = results(k.domain, space);
    std::vector<Place> places;
    Touched touched;
    for (std::size_t i = 0; i < k.tensors.size(); ++i) {
      const codegen::GraphTensor& t = k.tensors[i];
      Located at;
      switch (t.kind) {
        case Kind::accumulator:
          at = *acc;
          touched.reads.push_back(all_of(at, {space.rows(), space.cols}));
          break;
        case Kind::operand:
          at = operands.at(t.name);
          touched.reads.push_back(memory.at(t.name));
          break;
        case Kind::store:
          at = stores.at(t.name);
          touched.writes.push_back(memory.at("store " + t.name));
          break;
        case Kind::reduction:
          if (!reduced.contains(t.value)) {
            const std::int64_t bytes = rows * columns * 4;
            reduced[t.value] = {scratch(static_cast<std::size_t>(bytes)), columns, DType::f32};
            results_memory[t.value] = interval(reduced[t.value].place, 1, bytes, bytes);
          }
          at = reduced.at(t.value);
          touched.writes.push_back(results_memory.at(t.value));
          break;
        case Kind::partials:
          if (!partials.contains(t.value)) {
            const std::int64_t count = space.images * fixed.slabs * columns * k.state_floats;
            partials[t.value] = {scratch(static_cast<std::size_t>(count) * 4), columns, DType::f32};
            partials_memory[t.value] = interval(partials[t.value].place, 1, 4 * count, 4 * count);
          }
          at = partials.at(t.value);
          touched.writes.push_back(partials_memory.at(t.value));
      }
      fixed.tensors[i].pitch = at.pitch;
      places.push_back(at.place);
    }
    std::int64_t blocks = space.images * fixed.slabs;
    if (k.part == Part::results) blocks = rows * columns;
    if (k.part == Part::join) blocks = (rows * columns + k.threads / 32 - 1) / (k.threads / 32);
    if (blocks > std::numeric_limits<std::int32_t>::max())
      refuse(fmt::format("{} blocks for '{}'; a launch has at most {}", blocks, name_,
                         std::numeric_limits<std::int32_t>::max()));
    const cuda::PlainGrid shape{count32(blocks), count32(k.threads)};
    const std::string part = k.part == Part::join ? "joined statistics" : k.reduces() ? "statistics" : "elements";
    add(std::make_unique<PlainStep>(k.source, k.entry, shape, sizeof(GraphParams),
                                    [fixed, places](const Bases& bases) {
                                      GraphParams p = fixed;
                                      for (std::size_t i = 0; i < places.size(); ++i)
                                        p.tensors[i].memory = address(places[i], bases);
                                      return bytes_of(p);
                                    }),
        fmt::format("{} of {}", part, describe(net(), *op_)),
        fmt::format("plain kernel over the tensor{}{}", how.empty() ? "" : ": ", how), places, touched);
  }
}

Lowered Lowering::run() {
  const auto& n = net();
  region_ = p_.fused.regions.size();
  find_unfolded();
  find_measured();
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    if (!p_.storage.memory[n.inputs[i]].unused && !unfolded_.contains(n.inputs[i])) border(n.inputs[i], i, true);
  for (std::size_t i = 0; i < p_.fused.regions.size(); ++i) {
    region_ = i;
    region(p_.fused.regions[i]);
  }
  region_ = p_.fused.regions.size();
  for (std::size_t i = 0; i < n.outputs.size(); ++i) border(n.outputs[i], n.inputs.size() + i, false);
  find_branches();
  return std::move(lowered_);
}

Lowered lower(const Problem& problem) {
  Lowering::Unmerged unmerged;
  for (;;) {
    Lowering lowering(problem, unmerged);
    Lowered lowered = lowering.run();
    if (!lowering.stores_moments_in_vain()) return lowered;
    unmerged = lowering.unmerged();
  }
}

}  // namespace unisono::network::gpu
