/// Products of computed tensors by the tensor cores, and attention.

#include <algorithm>

#include "network/attention_extents.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/dim.hpp"
#include "network/strided_copy.hpp"
#include "products/attention.hpp"
#include "products/matrix_product.hpp"
#include "products/sm90_attention.hpp"

namespace unisono::network::gpu {

namespace {

// Matrices that are bound: where they are, and the bytes from there to the first element
struct PlacedMatrix {
  Location at;
  std::int64_t first = 0;
  Interval memory;
};

// Batches that are repeated or have an extent of 1 count as none
void set_batch(BatchSpace& space, std::size_t axis, std::int64_t extent) { space.extents[axis] = count32(extent); }

BatchSpace one_batch() {
  BatchSpace space{};
  std::fill_n(space.extents, kBatchAxes, 1);
  return space;
}

// Operations, and elements of all matrices
struct Work {
  double flop = 0, elements = 0;
};

// The address of the first element
void* first_element(const PlacedMatrix& m, const Bases& bases) {
  return static_cast<std::byte*>(address(m.at, bases)) + m.first;
}

// `parameter`: of a function that says where each matrix begins
template <class P, class Make>
void add_launch_of(RegionEmission& e, const products::Kernel& kernel, const Work& work,
                   const std::vector<PlacedMatrix>& placed, const Make& parameter) {
  std::vector<Location> used;
  Touched touched;
  for (const PlacedMatrix& m : placed) {
    used.push_back(m.at);
    if (!m.at.constant) touched.reads.push_back(m.memory);
  }
  touched.writes.push_back(placed.back().memory);
  const auto parameters = [parameter, placed](const Bases& bases) {
    return parameter([&](std::size_t i) { return first_element(placed[i], bases); });
  };
  auto step = std::make_unique<PlainStep>(kernel.source, kernel.entry, e.in.device.arch(),
                                          cuda::PlainGrid{kernel.ctas, kernel.threads, kernel.shared_bytes}, sizeof(P),
                                          parameters);
  step->flop = work.flop, step->bytes = work.elements * static_cast<double>(size_of(e.in.element));
  e.add(std::move(step), {describe(e.net(), *e.op), kernel.how}, used, std::move(touched));
}

template <class P, class Fill>
void add_launch(RegionEmission& e, const products::Kernel& kernel, const P& fixed, const Work& work,
                const std::vector<PlacedMatrix>& placed, const Fill& fill) {
  add_launch_of<P>(e, kernel, work, placed, [fixed, fill](const auto& at) {
    P p = fixed;
    fill(p, at);
    return PlainParameter(bytes_of(p));
  });
}

// An operand of MatMul as batches of matrices; axes of the result that have an extent of 1 are left out
BatchedMatrix matrix_of(const Sizes& own, const Sizes& strides, const Sizes& result) {
  BatchedMatrix m{};
  const std::size_t rank = own.size(), ahead = result.size() - rank;
  std::size_t axis = 0;
  for (std::size_t i = 0; i + 2 < result.size(); ++i) {
    if (result[i] == 1) continue;
    m.batch[axis++] = i < ahead || own[i - ahead] == 1 ? 0 : strides[i - ahead];
  }
  m.row = strides[rank - 2], m.column = strides[rank - 1];
  return m;
}

// One of a layout's axes in memory
std::int64_t stride_of(const operators::MatrixAxis& axis, const Sizes& strides) {
  return axis.axis < 0 ? 0 : axis.step * strides[static_cast<std::size_t>(axis.axis)];
}

struct LaidOut {
  BatchedMatrix matrix{};
  std::int64_t first = 0;  // elements
};
LaidOut laid_out(const operators::MatrixLayout& layout, const Sizes& strides) {
  LaidOut l;
  const std::size_t batch = layout.axes.size() - 2;
  for (std::size_t i = 0; i < batch; ++i) l.matrix.batch[i] = stride_of(layout.axes[i], strides);
  l.matrix.row = stride_of(layout.axes[batch], strides), l.matrix.column = stride_of(layout.axes[batch + 1], strides);
  for (std::size_t i = 0; i < layout.begin.size(); ++i) l.first += layout.begin[i] * strides[i];
  return l;
}

class AttentionEmission {
 public:
  AttentionEmission(RegionEmission& e, const operators::Attention& attention) : e_(e), a_(attention) {
    std::vector<Shape> shapes;
    for (const TensorId id : e.op->inputs) shapes.push_back(to_shape(e.sizes(id)));
    extents_ = values(attention_extents(a_, shapes));
    problem_.element = e.in.element;
    problem_.masks = static_cast<int>(a_.replaces.size());
  }

  void run();

 private:
  void set_extents();
  BatchedMatrix place(TensorId id, const operators::MatrixLayout& layout);
  void place_mask(std::size_t index);
  void add(const Work& work);
  void add_sm90(const products::Sm90AttentionKernel& attention, const Work& work);

  RegionEmission& e_;
  const operators::Attention& a_;
  std::vector<std::int64_t> extents_;
  products::AttentionProblem problem_;
  std::vector<PlacedMatrix> placed_;
};

void AttentionEmission::set_extents() {
  AttentionParams& p = problem_.extents;
  const std::size_t batch = extents_.size() - 4;
  p.batches = one_batch();
  for (std::size_t i = 0; i < batch; ++i) set_batch(p.batches, i, extents_[i]);
  p.queries = count32(extents_[batch]), p.keys = count32(extents_[batch + 1]);
  p.width = count32(extents_[batch + 2]), p.value_width = count32(extents_[batch + 3]);
  p.scale = static_cast<float>(a_.scale * 1.4426950408889634);
  p.guard = static_cast<u32>(a_.guard);
}

BatchedMatrix AttentionEmission::place(TensorId id, const operators::MatrixLayout& layout) {
  const PitchedTensor tensor = e_.in.fused.own_type[id] ? e_.in.tensor(id) : e_.tensor(id);
  const Sizes& sizes = e_.sizes(id);
  const LaidOut l = laid_out(layout, logical_strides(sizes, tensor.pitch));
  placed_.push_back({tensor.at, l.first * static_cast<std::int64_t>(size_of(tensor.type)), all_of(tensor, sizes)});
  return l.matrix;
}

// Constants are read in f32, and what lies in memory so
void AttentionEmission::place_mask(std::size_t index) {
  AttentionMask& mask = problem_.extents.masks[index];
  const TensorId id = e_.input(3 + index);
  const operators::MatrixLayout& layout = a_.operands[3 + index];
  mask.replaces = a_.replaces[index] ? 1 : 0;
  mask.is_f32 = e_.in.is_constant(id) || e_.in.fused.own_type[id] ? 1 : 0;
  if (!e_.in.is_constant(id)) {
    mask.values = place(id, layout);
    return;
  }
  const LaidOut l = laid_out(layout, row_major_strides(e_.sizes(id)));
  mask.values = l.matrix;
  placed_.push_back({e_.in.constants.in_order(id), l.first * static_cast<std::int64_t>(sizeof(float)), {}});
}

void AttentionEmission::run() {
  set_extents();
  AttentionParams& p = problem_.extents;
  p.q = place(e_.input(0), a_.operands[0]);
  problem_.q_first = placed_.back().first;
  p.k = place(e_.input(1), a_.operands[1]);
  problem_.k_first = placed_.back().first;
  p.v = place(e_.input(2), a_.operands[2]);
  problem_.v_first = placed_.back().first;
  for (std::size_t i = 0; i < a_.replaces.size(); ++i) place_mask(i);
  p.y = place(e_.output(), a_.result);
  const double batch = products::count(p.batches), widths = double{1} * p.width + p.value_width;
  const Work work{2 * batch * p.queries * p.keys * widths, batch * widths * (double{1} * p.queries + p.keys)};
  if (const auto tiles = products::sm90_attention_tiles(problem_, e_.in.device))
    add_sm90(products::sm90_attention(problem_, *tiles), work);
  else
    add(work);
}

void AttentionEmission::add(const Work& work) {
  const products::Kernel kernel = products::attention(problem_, e_.in.device);
  const std::size_t masks = a_.replaces.size();
  add_launch(e_, kernel, problem_.extents, work, placed_, [masks](AttentionParams& q, const auto& at) {
    q.q.memory = at(0), q.k.memory = at(1), q.v.memory = at(2);
    for (std::size_t i = 0; i < masks; ++i) q.masks[i].values.memory = at(3 + i);
    q.y.memory = at(3 + masks);
  });
}

void AttentionEmission::add_sm90(const products::Sm90AttentionKernel& attention, const Work& work) {
  const auto parameter = [fixed = attention.parameters, maps = attention.maps,
                          element = problem_.element](const auto& at) {
    Sm90AttentionParams p = fixed;
    p.y.memory = at(3);
    PlainParameter made(bytes_of(p));
    constexpr std::array<const char*, 3> what{"the queries", "the keys", "the values"};
    for (std::size_t i = 0; i < 3; ++i) {
      families::MapShape shape{.rank = 4, .swizzle_bytes = 128};
      std::ranges::copy(maps[i].extents, shape.extents.begin());
      std::ranges::copy(maps[i].strides, shape.strides.begin());
      std::ranges::copy(maps[i].box, shape.box.begin());
      const auto offset = reinterpret_cast<const std::byte*>(&p.maps[i]) - reinterpret_cast<const std::byte*>(&p);
      made.maps.push_back({static_cast<std::size_t>(offset), shape, at(i), element, what[i]});
    }
    return made;
  };
  add_launch_of<Sm90AttentionParams>(e_, attention.kernel, work, placed_, parameter);
}

}  // namespace

void emit_attention(RegionEmission& e, const operators::Attention& attention) { AttentionEmission(e, attention).run(); }

void emit_product(RegionEmission& e) {
  const TensorId a = e.input(0), b = e.input(1), c = e.output();
  const Sizes& result = e.sizes(c);
  products::MatrixProduct product{.element = e.in.element};
  MatrixProductParams& p = product.extents;
  p.batches = one_batch();
  std::size_t axis = 0;
  for (std::size_t i = 0; i + 2 < result.size(); ++i)
    if (result[i] != 1) set_batch(p.batches, axis++, result[i]);
  p.rows = count32(result[result.size() - 2]), p.columns = count32(result.back());
  p.depth = count32(e.sizes(a).back());
  p.a = matrix_of(e.sizes(a), e.strides(a), result), p.b = matrix_of(e.sizes(b), e.strides(b), result);
  p.c = matrix_of(result, e.strides(c), result);
  const products::Kernel kernel = products::matrix_product(product);
  std::vector<PlacedMatrix> placed;
  for (const TensorId id : {a, b, c}) placed.push_back({e.tensor(id).at, 0, e.all_of(id)});
  const double batch = products::count(p.batches), rows = p.rows, columns = p.columns, depth = p.depth;
  const Work work{2 * batch * rows * columns * depth, batch * (rows * depth + depth * columns + rows * columns)};
  add_launch(e, kernel, p, work, placed, [](MatrixProductParams& q, const auto& at) {
    q.a.memory = at(0), q.b.memory = at(1), q.c.memory = at(2);
  });
}

}  // namespace unisono::network::gpu
