/// Sequences of tensors as ONNX defines them.

#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

const std::vector<Tensor64>& sequence_of(const Call& call, std::size_t i) {
  if (!call.value(i).sequence) call.fail("the input is not a sequence");
  return *call.value(i).sequence;
}

std::size_t place_in(const Call& call, std::size_t input, std::int64_t length, bool end_too) {
  if (!call.has(input)) return static_cast<std::size_t>(end_too ? length : length - 1);
  const std::int64_t given = call.numbers(input).at(0), i = given < 0 ? given + length : given;
  if (i < 0 || i >= length + (end_too ? 1 : 0))
    call.fail("position " + std::to_string(given) + " is outside the sequence");
  return static_cast<std::size_t>(i);
}

void define_sequence_empty(Call& call) { call.result_sequence({}, 0); }

void define_sequence_construct(Call& call) {
  std::vector<Tensor64> all;
  for (const Tensor64* x : call.all()) all.push_back(in_shape(*x, x->shape));
  call.result_sequence(std::move(all), 0);
}

void define_sequence_at(Call& call) {
  const auto& all = sequence_of(call, 0);
  const Tensor64& x = all.at(place_in(call, 1, std::ssize(all), false));
  call.result(in_shape(x, x.shape));
}

void define_sequence_insert(Call& call) {
  std::vector<Tensor64> all = sequence_of(call, 0);
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(place_in(call, 2, std::ssize(all), true)), call.in(1));
  call.result_sequence(std::move(all), 1);
}

void define_sequence_erase(Call& call) {
  std::vector<Tensor64> all = sequence_of(call, 0);
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(place_in(call, 1, std::ssize(all), false)));
  call.result_sequence(std::move(all), 0);
}

void define_sequence_length(Call& call) { call.result(integers_tensor({}, {std::ssize(sequence_of(call, 0))})); }

// Joined along an axis, or along a new one
void define_concat_from_sequence(Call& call) {
  const auto& all = sequence_of(call, 0);
  const bool stack = call.integer("new_axis", 0) != 0;
  const std::size_t axis = call.axis(call.integer("axis", 0), all.at(0).shape.size() + (stack ? 1 : 0));
  std::vector<Tensor64> parts;
  for (const Tensor64& x : all) {
    Extents64 shape = x.shape;
    if (stack) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    parts.push_back(in_shape(x, shape));
  }
  Extents64 shape = parts[0].shape;
  shape[axis] = 0;
  for (const Tensor64& x : parts) shape[axis] += x.shape[axis];
  Tensor64 y = empty_tensor(shape);
  y.dtype = parts[0].dtype;
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 at) {
    std::size_t part = 0;
    while (at[axis] >= parts[part].shape[axis]) at[axis] -= parts[part++].shape[axis];
    y.value[to++] = parts[part].value[place(parts[part].shape, at)];
  });
  call.result(std::move(y));
}

// Pieces of one length, of given lengths, or, without any, of length 1, whose axis keepdims = 0 drops
void define_split_to_sequence(Call& call) {
  const Tensor64& x = call.in(0);
  const std::size_t axis = call.axis(call.integer("axis", 0), x.shape.size());
  std::vector<std::int64_t> lengths;
  const bool one = !call.has(1) || call.in(1).shape.empty();
  const std::int64_t length = one && call.has(1) ? call.numbers(1).at(0) : 1;
  if (!one) lengths = call.numbers(1);
  for (std::int64_t begin = 0; one && begin < x.shape[axis]; begin += length)
    lengths.push_back(std::min(length, x.shape[axis] - begin));
  std::vector<Tensor64> parts;
  std::int64_t begin = 0;
  for (const std::int64_t n : lengths) {
    Extents64 shape = x.shape;
    shape[axis] = n;
    Tensor64 part = picked(x, shape, [&](Extents64 at) {
      at[axis] += begin;
      return at;
    });
    if (!call.has(1) && call.integer("keepdims", 1) == 0)
      part.shape.erase(part.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    parts.push_back(std::move(part));
    begin += n;
  }
  call.result_sequence(std::move(parts), 0);
}

constexpr OnnxDefinition sequence_table[] = {{"ConcatFromSequence", define_concat_from_sequence},
                                             {"SequenceAt", define_sequence_at},
                                             {"SequenceConstruct", define_sequence_construct},
                                             {"SequenceEmpty", define_sequence_empty},
                                             {"SequenceErase", define_sequence_erase},
                                             {"SequenceInsert", define_sequence_insert},
                                             {"SequenceLength", define_sequence_length},
                                             {"SplitToSequence", define_split_to_sequence}};

}  // namespace

std::span<const OnnxDefinition> sequence_definitions() { return sequence_table; }

}  // namespace unisono::float64
