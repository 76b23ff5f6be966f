/// What the operators' functions see of a node.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>

#include "network/onnx/folding.hpp"
#include "network/onnx/importer.hpp"
#include "network/shape_limits.hpp"
#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::network::onnx_import {

namespace {
constexpr std::int64_t most_types = 1000;  // TensorProto's types, known or not
}

NodeReader::NodeReader(Importer& importer, const schema::NodeProto& node, int place)
    : importer_(importer), node_(node) {
  const auto output = std::ranges::find_if_not(node.output(), &std::string::empty);
  name_ = importer.scope_.prefix + (!node.name().empty()            ? node.name()
                                    : output != node.output().end() ? *output
                                                                    : fmt::format("node {}", place));
}

std::int64_t NodeReader::opset() const { return importer_.scope_.opset; }
NetworkBuilder& NodeReader::builder() const { return importer_.builder_; }

std::string NodeReader::description() const {
  return fmt::format("{}: {} '{}' (opset {})", importer_.file_, op_type(), name_, opset());
}

void NodeReader::fail_with(const std::string& message) const {
  throw NodeError(op_type(), name_, message, fmt::format("{}: {}", description(), message));
}

void NodeReader::ask_memory(std::uint64_t bytes) const { importer_.budget_.check_computed(bytes, description()); }

NetworkValue NodeReader::stored_constant(const schema::TensorProto& tensor) const {
  if (tensor.data_location() != 0) fail("its data are in another file; only initializers' may be");
  const NetworkValue v = importer_.import_tensor(tensor, name_);
  importer_.tensor_names_.erase(v.id());  // it is called as the node's output
  return v;
}

bool NodeReader::has(int i) const {
  return i < node_.input_size() && !node_.input(i).empty() && !importer_.scope_.absent.contains(node_.input(i));
}

int NodeReader::known_type(int i) const { return has(i) ? importer_.type_of(node_.input(i)) : 0; }

bool NodeReader::is_integers(int i) const {
  return has(i) && std::holds_alternative<Integers>(importer_.find(node_.input(i), name_));
}

NetworkValue NodeReader::value(int i) const {
  if (!has(i)) fail("input {} is missing", i);
  const Imported& found = importer_.find(node_.input(i), name_);
  if (const auto* v = std::get_if<NetworkValue>(&found)) return *v;
  if (const auto* s = std::get_if<Sequence>(&found))
    fail("input '{}' is a sequence of {} tensors; expected a tensor", node_.input(i), s->elements.size());
  return importer_.materialised(std::get<Integers>(found), node_.input(i), name_);
}

const Sequence* NodeReader::sequence(int i) const {
  if (!has(i)) fail("input {} is missing", i);
  return std::get_if<Sequence>(&importer_.find(node_.input(i), name_));
}

NetworkValue NodeReader::value(const Sequence::Element& element) const {
  if (const auto* v = std::get_if<NetworkValue>(&element.value)) return *v;
  return importer_.materialised(std::get<Integers>(element.value), "element", name_);
}

int NodeReader::type(int i) const {
  if (!has(i)) fail("input {} is missing", i);
  importer_.find(node_.input(i), name_);
  return importer_.type_of(node_.input(i));
}

bool NodeReader::is_empty(int i) const {
  if (!has(i)) return true;
  const Imported& found = importer_.find(node_.input(i), name_);
  if (const auto* v = std::get_if<Integers>(&found)) return v->elements.empty() && !v->scalar;
  const Shape shape = value(i).shape();
  return std::find(shape.begin(), shape.end(), Dim(0)) != shape.end();
}

Integers NodeReader::integers(int i) const {
  if (!has(i)) fail("input {} is missing", i);
  const Imported& found = importer_.find(node_.input(i), name_);
  if (const auto* v = std::get_if<Integers>(&found)) return *v;
  fail("input '{}' must be integers that follow from shapes and constants alone", node_.input(i));
}

std::vector<std::int64_t> NodeReader::numbers(int i) const {
  std::vector<std::int64_t> result;
  for (const Dim& d : integers(i).elements) {
    if (!d.known()) fail("input '{}' depends on the symbol {}; it must be numbers", node_.input(i), d.symbol());
    result.push_back(d.value());
  }
  return result;
}

std::vector<NetworkValue> NodeReader::values(int count) const {
  std::vector<NetworkValue> all;
  all.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all.push_back(value(i));
  return all;
}

const std::vector<float>* NodeReader::constant(int i) const { return value(i).tensor().constant.get(); }

double NodeReader::needed_scalar(int i, std::string_view what) const {
  const NetworkTensor t = value(i).tensor();
  if (!t.is_constant()) fail("{} '{}' must be a constant", what, node_.input(i));
  const std::size_t n = t.elements().size() / size_of(t.dtype);
  if (n != 1) fail("{} has {} elements; expected a scalar", what, n);
  return cpu::with_type(t.dtype, [&]<class T>() {
    T x;
    std::memcpy(&x, t.elements().data(), sizeof(T));
    const auto number = static_cast<double>(x);
    if (static_cast<long double>(number) != static_cast<long double>(x)) fail("{} is too large a number", what);
    return number;
  });
}

const std::vector<float>& NodeReader::needed_constant(int i, std::string_view what) const {
  if (const auto* c = constant(i)) return *c;
  fail("{} '{}' must be a constant", what, node_.input(i));
}

const schema::AttributeProto* NodeReader::attribute(std::string_view name) const {
  for (const auto& a : node_.attribute())
    if (a.name() == name) return importer_.resolved(a, *this);
  return nullptr;
}

double NodeReader::real(std::string_view name, double otherwise) const {
  const auto* a = attribute(name);
  if (!a) return otherwise;
  if (!std::isfinite(a->f())) return static_cast<double>(a->f());
  // the shortest decimal that the float stands for: an epsilon written as 1e-5 stays 1e-5
  char digits[32];
  double x = 0;
  const auto end = std::to_chars(digits, digits + sizeof(digits), a->f()).ptr;
  std::from_chars(digits, end, x);
  return x;
}

std::int64_t NodeReader::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* a = attribute(name);
  return a ? a->i() : otherwise;
}

int NodeReader::type_attribute(std::string_view name, int otherwise) const {
  const std::int64_t type = integer(name, otherwise);
  if (type < 0 || type > most_types) fail("{} is {}, which is not a data type", name, type);
  return static_cast<int>(type);
}

std::string NodeReader::text(std::string_view name, std::string_view otherwise) const {
  const auto* a = attribute(name);
  if (!a) return std::string(otherwise);
  const bool word = a->s().size() < 64 && std::all_of(a->s().begin(), a->s().end(), [](char c) {
                      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
                    });
  if (!word) fail("attribute {} is not a word; expected letters, digits and _", name);
  return a->s();
}

std::optional<std::vector<std::int64_t>> NodeReader::list(std::string_view name) const {
  const auto* a = attribute(name);
  if (!a) return std::nullopt;
  return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
}

int NodeReader::axis(std::int64_t axis, std::size_t rank) const {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) fail("axis is {}; expected {} to {}", axis, -r, r - 1);
  return static_cast<int>(axis < 0 ? axis + r : axis);
}

void NodeReader::result(Imported value, int output) const {
  if (output == 0 && (node_.output_size() < 1 || node_.output(0).empty())) fail("has no output");
  if (!wants(output)) return;
  int type = 0;
  const auto* v = std::get_if<NetworkValue>(&value);
  const auto place = static_cast<std::size_t>(output);
  const int expected = place < output_types_.size() ? output_types_[place] : 0;
  if (v != nullptr && v->dtype() == DType::f32 && expected != 0) {
    type = is_short_float(expected) ? expected : 0;
  } else if (v != nullptr && v->dtype() == DType::f32) {
    for (int i = 0; type == 0 && i < inputs(); ++i)
      if (has(i) && is_short_float(importer_.type_of(node_.input(i)))) type = importer_.type_of(node_.input(i));
  }
  name_and_define(std::move(value), output, type);
}

void NodeReader::result_of_type(Imported value, int type) const {
  if (!wants(0)) fail("has no output");
  name_and_define(std::move(value), 0, is_short_float(type) ? type : 0);
}

void NodeReader::name_and_define(Imported value, int output, int type) const {
  if (const auto* v = std::get_if<NetworkValue>(&value); v && importer_.tensor_names_.insert(v->id()).second)
    builder().name_tensor(*v, importer_.scope_.prefix + node_.output(output));
  importer_.define(node_.output(output), std::move(value), type);
}

// What is made of a stored constant for the first time is bounded by the file's size, as that is: a transposed or
// converted weight. All else that is computed from constants is not.
NetworkValue NodeReader::apply(OperatorKind kind, const std::vector<NetworkValue>& inputs) const {
  Importer& importer = importer_;
  const auto take = [&](std::uint64_t work, std::uint64_t bytes) {
    for (const NetworkValue& v : inputs)
      if (importer.stored_.contains(v.id()) && bytes <= 2 * v.tensor().elements().size()) {
        importer.stored_.erase(v.id());
        return importer.budget_.take_stored(work, bytes, description());
      }
    importer.budget_.take_computed(work, std::max(bytes, work * sizeof(float)), description());
  };
  try {
    const bool is_kept = std::ranges::any_of(
        node_.output(), [&](const std::string& name) { return importer.made_of_parameters_.contains(name); });
    if (!is_kept || !leads_to_parameters(kind, inputs))
      if (auto t = folded(builder().so_far(), kind, inputs, name_, take)) return builder().constant(std::move(*t));
    return builder().apply(std::move(kind), inputs, name_);
  } catch (const UserError& error) {
    const std::string_view text = error.what();
    if (text.starts_with(importer_.file_)) throw;
    fail("{}", text);
  }
}

NetworkValue NodeReader::cast(NetworkValue x, DType to) const {
  return x.dtype() == to ? x : apply(operators::Map{MapOp::cast, to}, {x});
}

NetworkValue NodeReader::number_like(NetworkValue x, double number) const {
  const DType t = x.dtype();
  if (t == DType::f32) return make_constant("number", {}, {static_cast<float>(number)});
  return cpu::with_type(t, [&]<class T>() {
    const T element = static_cast<T>(number);
    std::vector<std::byte> bytes(sizeof(T));
    std::memcpy(bytes.data(), &element, sizeof(T));
    return make_constant("number", {}, t, std::move(bytes));
  });
}

NetworkValue NodeReader::make_constant(std::string_view suffix, Shape shape, DType dtype,
                                       std::vector<std::byte> elements) const {
  importer_.budget_.take_computed(elements.size() / size_of(dtype), elements.size(), description());
  check_size(shape, description());
  return builder().constant(std::string(suffix), std::move(shape), dtype, std::move(elements));
}

NetworkValue NodeReader::make_constant(std::string_view suffix, Shape shape, std::vector<float> elements) const {
  std::vector<std::byte> bytes(elements.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return make_constant(suffix, std::move(shape), DType::f32, std::move(bytes));
}

void NodeReader::remember_reshape(NetworkValue shaped, NetworkValue source) const {
  importer_.reshaped_.insert_or_assign(shaped.id(), source);
}

std::optional<NetworkValue> NodeReader::reshaped_from(NetworkValue shaped) const {
  const auto it = importer_.reshaped_.find(shaped.id());
  if (it == importer_.reshaped_.end()) return std::nullopt;
  return it->second;
}

void NodeReader::remember_cast(NetworkValue cast, const Integers& integers) const {
  importer_.cast_.insert_or_assign(cast.id(), integers);
}

std::optional<Integers> NodeReader::cast_from(int i) const {
  if (!has(i)) return std::nullopt;
  const auto* v = std::get_if<NetworkValue>(&importer_.find(node_.input(i), name_));
  const auto it = v == nullptr ? importer_.cast_.end() : importer_.cast_.find(v->id());
  if (it == importer_.cast_.end()) return std::nullopt;
  return it->second;
}

std::optional<NodeReader::Computed> NodeReader::arithmetic_of(const Dim& symbol) const {
  const auto it = symbol.known() ? importer_.arithmetic_.end() : importer_.arithmetic_.find(symbol.symbol());
  if (it == importer_.arithmetic_.end()) return std::nullopt;
  return Computed{it->second.op, it->second.x, it->second.y};
}

std::optional<Dim> NodeReader::other_summand(const Dim& sum, const Dim& part) const {
  const auto c = arithmetic_of(sum);
  if (!c || c->op != MapOp::add) return std::nullopt;
  if (c->x == part) return c->y;
  return c->y == part ? std::optional(c->x) : std::nullopt;
}

bool NodeReader::remember_arithmetic(const Dim& result, MapOp op, const Dim& x, const Dim& y) const {
  return importer_.remember(result, op, x, y);
}

}  // namespace unisono::network::onnx_import
