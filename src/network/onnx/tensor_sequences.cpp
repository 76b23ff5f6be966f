/// Sequences whose length is known while importing: lists of tensors that no operator of a network sees.

#include <algorithm>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::int64_t most_elements = 4096;

const Sequence& sequence_of(const NodeReader& node) {
  if (const Sequence* s = node.sequence(0)) return *s;
  node.fail("input '{}' is a tensor; expected a sequence", node.proto().input(0));
}

Sequence::Element element_of(const NodeReader& node, int i) {
  const int type = node.type(i);
  if (node.is_integers(i)) return {node.integers(i), type};
  return {node.value(i), type};
}

std::string type_name(int type) { return type == 0 ? "a sequence" : data_type_name(type); }

void check_types(const NodeReader& node, const Sequence& s) {
  if (std::ssize(s.elements) > most_elements)
    node.fail("the sequence has {} tensors; the limit is {}", s.elements.size(), most_elements);
  for (const auto& e : s.elements)
    if (e.type != s.elements[0].type)
      node.fail("the sequence would have tensors of {} and of {}; expected one type", type_name(s.elements[0].type),
                type_name(e.type));
}

// A place from 0 to below `places` in a sequence of `count`, counted from its end if negative
std::size_t position_of(const NodeReader& node, int input, std::int64_t count, std::int64_t places,
                        std::int64_t otherwise) {
  std::int64_t at = otherwise;
  if (node.has(input)) {
    const auto given = node.numbers(input);
    if (given.size() != 1) node.fail("the position has {} elements; expected one", given.size());
    at = given[0];
  }
  if (at < -count || at >= places)
    node.fail("the position is {}; expected {} to {} in a sequence of {} tensors", at, -count, places - 1, count);
  return static_cast<std::size_t>(at < 0 ? at + count : at);
}

void import_empty(const NodeReader& node) { node.result(Sequence{}); }

void import_construct(const NodeReader& node) {
  Sequence s;
  for (int i = 0; i < node.inputs(); ++i) s.elements.push_back(element_of(node, i));
  check_types(node, s);
  node.result(std::move(s));
}

void import_insert(const NodeReader& node) {
  Sequence s = sequence_of(node);
  const auto n = std::ssize(s.elements);
  s.elements.insert(s.elements.begin() + static_cast<std::ptrdiff_t>(position_of(node, 2, n, n + 1, n)),
                    element_of(node, 1));
  check_types(node, s);
  node.result(std::move(s));
}

void import_erase(const NodeReader& node) {
  Sequence s = sequence_of(node);
  const auto n = std::ssize(s.elements);
  if (n == 0) node.fail("the sequence is empty");
  s.elements.erase(s.elements.begin() + static_cast<std::ptrdiff_t>(position_of(node, 1, n, n, n - 1)));
  node.result(std::move(s));
}

void give(const NodeReader& node, const Sequence::Element& e) {
  if (const auto* v = std::get_if<Integers>(&e.value)) return node.result(*v);
  node.result_of_type(std::get<NetworkValue>(e.value), e.type);
}

void import_at(const NodeReader& node) {
  const Sequence& s = sequence_of(node);
  const auto n = std::ssize(s.elements);
  if (n == 0) node.fail("the sequence is empty");
  give(node, s.elements[position_of(node, 1, n, n, 0)]);
}

void import_length(const NodeReader& node) {
  node.result(Integers{.elements = {Dim(std::ssize(sequence_of(node).elements))}, .scalar = true});
}

// The lengths of the parts of an axis; one for each element where no split is given
std::vector<std::int64_t> parts_of(const NodeReader& node, const Dim& extent) {
  const bool given = node.has(1);
  if (given && !node.integers(1).scalar) {
    const auto parts = node.numbers(1);
    std::int64_t all = 0;
    for (const auto p : parts) {
      if (p < 0 || p > (std::int64_t{1} << 31)) node.fail("a part has {} elements", p);
      all += p;
    }
    if (extent.known() && all != extent.value())
      node.fail("the parts have {} elements together, and the axis {}", all, extent.value());
    return parts;
  }
  if (!extent.known())
    node.fail(
        "an axis of {} elements makes a sequence whose length is not known; give the axis a fixed extent, or "
        "split it into parts whose lengths are given",
        to_string(extent));
  const std::int64_t length = given ? node.numbers(1)[0] : 1;
  if (length < 1) node.fail("parts of {} elements; expected 1 or more", length);
  const std::int64_t count = (extent.value() + length - 1) / length;
  if (count > most_elements) node.fail("the sequence has {} tensors; the limit is {}", count, most_elements);
  std::vector<std::int64_t> parts(static_cast<std::size_t>(count), length);
  if (count > 0) parts.back() = extent.value() - length * (count - 1);
  return parts;
}

// Known integers in parts stay known: the extents of a shape
Sequence split_integers(const NodeReader& node, const Integers& x) {
  (void)node.axis(node.integer("axis", 0), 1);
  const bool keep = node.has(1) || node.integer("keepdims", 1) != 0;
  Sequence s;
  auto from = x.elements.begin();
  for (const std::int64_t length : parts_of(node, Dim(std::ssize(x.elements)))) {
    s.elements.push_back(
        {Integers{.elements = {from, from + length}, .scalar = !keep, .dtype = x.dtype}, node.type(0)});
    from += length;
  }
  return s;
}

void split_to_sequence(const NodeReader& node) {
  if (node.is_integers(0) && !node.integers(0).scalar) return node.result(split_integers(node, node.integers(0)));
  const NetworkValue x = node.value(0);
  const int axis = node.axis(node.integer("axis", 0), x.shape().size());
  const auto a = static_cast<std::size_t>(axis);
  const bool keep = node.has(1) || node.integer("keepdims", 1) != 0;
  const auto parts = parts_of(node, x.shape()[a]);
  if (std::ssize(parts) > most_elements)
    node.fail("the sequence has {} tensors; the limit is {}", parts.size(), most_elements);
  Sequence s;
  std::int64_t begin = 0;
  for (const std::int64_t length : parts) {
    NetworkValue part = node.apply(operators::Slice{{begin}, {begin + length}, {1}, {axis}}, {x});
    if (!keep) {
      Shape without = part.shape();
      without.erase(without.begin() + axis);
      part = reshape_to(node, part, without);
    }
    s.elements.push_back({part, node.type(0)});
    begin += length;
  }
  node.result(std::move(s));
}

// Known integers side by side stay known: the parts of a shape
std::optional<Integers> joined_integers(const NodeReader& node, const Sequence& s, std::int64_t axis, bool stacked) {
  Integers all;
  for (const auto& e : s.elements) {
    const auto* v = std::get_if<Integers>(&e.value);
    if (v == nullptr || v->scalar != stacked) return std::nullopt;
    all.dtype = v->dtype;
    all.elements.insert(all.elements.end(), v->elements.begin(), v->elements.end());
  }
  if (std::ssize(all.elements) > most_elements) return std::nullopt;
  (void)node.axis(axis, 1);
  return all;
}

void concat_from_sequence(const NodeReader& node) {
  const Sequence& s = sequence_of(node);
  if (s.elements.empty()) node.fail("the sequence is empty; expected one tensor or more");
  give(node, joined(node, s, node.integer("axis", 0), node.integer("new_axis", 0) != 0));
}

constexpr OperatorRow tensor_sequence_table[] = {{"ConcatFromSequence", 11, concat_from_sequence},
                                                 {"SequenceAt", 11, import_at},
                                                 {"SequenceConstruct", 11, import_construct},
                                                 {"SequenceEmpty", 11, import_empty},
                                                 {"SequenceErase", 11, import_erase},
                                                 {"SequenceInsert", 11, import_insert},
                                                 {"SequenceLength", 11, import_length},
                                                 {"SplitToSequence", 11, split_to_sequence}};

}  // namespace

Sequence::Element joined(const NodeReader& node, const Sequence& s, std::int64_t axis, bool stacked) {
  const int type = s.elements.at(0).type;
  if (auto known = joined_integers(node, s, axis, stacked)) return {std::move(*known), type};
  std::vector<NetworkValue> parts;
  for (const auto& e : s.elements) parts.push_back(node.value(e));
  const std::size_t rank = parts[0].shape().size() + (stacked ? 1 : 0);
  const int along = node.axis(axis, rank);
  for (NetworkValue& part : parts) {
    if (!stacked) continue;
    Shape with = part.shape();
    if (with.size() + 1 != rank)
      node.fail("the tensors have shapes {} and {}; expected one rank", to_string(parts[0].shape()), to_string(with));
    with.insert(with.begin() + along, Dim(1));
    part = reshape_to(node, part, with);
  }
  return {parts.size() == 1 ? parts[0] : node.apply(operators::Concat{.axis = along}, parts), type};
}

std::span<const OperatorRow> tensor_sequence_rows() { return tensor_sequence_table; }

}  // namespace unisono::network::onnx_import
