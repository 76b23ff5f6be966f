/// What the operators' functions see of a node.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "network/onnx/importer.hpp"

namespace coda::network::onnx_import {

NodeReader::NodeReader(Importer& importer, const schema::NodeProto& node) : importer_(importer), node_(node) {
  name_ = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : "";
}

std::int64_t NodeReader::opset() const { return importer_.opset_; }
NetworkBuilder& NodeReader::builder() const { return importer_.builder_; }

void NodeReader::fail_with(const std::string& message) const {
  importer_.fail(fmt::format("{} '{}' (opset {}): {}", op_type(), name_, opset(), message));
}

bool NodeReader::is_integers(int i) const {
  return has(i) && std::holds_alternative<Integers>(importer_.find(node_.input(i), name_));
}

NetworkValue NodeReader::value(int i) const {
  if (!has(i)) fail("input {} is missing", i);
  const Imported& found = importer_.find(node_.input(i), name_);
  if (const auto* v = std::get_if<NetworkValue>(&found)) return *v;
  const auto& integers = std::get<Integers>(found);
  std::vector<float> elements;
  for (const Dim& d : integers.elements) {
    if (!d.known()) fail("input '{}' depends on the symbol {}, which is no number yet", node_.input(i), d.symbol());
    elements.push_back(static_cast<float>(d.value()));
  }
  const Shape shape = integers.scalar ? Shape{} : Shape{elements.size()};
  return make_constant(node_.input(i), shape, std::move(elements));
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

const std::vector<float>* NodeReader::constant(int i) const {
  const auto it = importer_.constants_.find(value(i).id());
  return it == importer_.constants_.end() ? nullptr : it->second.get();
}

const std::vector<float>& NodeReader::needed_constant(int i, std::string_view what) const {
  if (const auto* c = constant(i)) return *c;
  fail("{} '{}' must be a constant", what, node_.input(i));
}

const schema::AttributeProto* NodeReader::attribute(std::string_view name) const {
  for (const auto& a : node_.attribute())
    if (a.name() == name) {
      if (!a.ref_attr_name().empty()) fail("attribute {} refers to a function's attribute", name);
      return &a;
    }
  return nullptr;
}

double NodeReader::real(std::string_view name, double otherwise) const {
  const auto* a = attribute(name);
  if (!a) return otherwise;
  // the shortest decimal that the float stands for: an epsilon written as 1e-5 stays 1e-5
  return std::isfinite(a->f()) ? std::stod(fmt::format("{}", a->f())) : static_cast<double>(a->f());
}

std::int64_t NodeReader::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* a = attribute(name);
  return a ? a->i() : otherwise;
}

std::string NodeReader::text(std::string_view name, std::string_view otherwise) const {
  const auto* a = attribute(name);
  if (!a) return std::string(otherwise);
  const bool word = a->s().size() < 64 && std::all_of(a->s().begin(), a->s().end(), [](char c) {
                      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
                    });
  if (!word) fail("attribute {} is no word of letters, digits and _", name);
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

void NodeReader::result(Imported value) const {
  if (node_.output_size() < 1 || node_.output(0).empty()) fail("has no output");
  if (const auto* v = std::get_if<NetworkValue>(&value); v && importer_.tensor_names_.insert(v->id()).second)
    builder().name_tensor(*v, node_.output(0));
  importer_.define(node_.output(0), std::move(value));
}

NetworkValue NodeReader::apply(OperatorKind kind, const std::vector<NetworkValue>& inputs) const {
  try {
    return builder().apply(std::move(kind), inputs, name_);
  } catch (const UserError& error) {
    fail("{}", error.what());
  }
}

NetworkValue NodeReader::make_constant(std::string_view suffix, Shape shape, std::vector<float> elements) const {
  auto& budget = importer_.elements_;
  budget += elements.size();
  if (budget > importer_.limits_.constant_elements)
    fail("the constants have more elements than the limit of {}", importer_.limits_.constant_elements);
  auto copy = std::make_shared<const std::vector<float>>(elements);
  const NetworkValue v = builder().constant(std::string(suffix), std::move(shape), std::move(elements));
  importer_.constants_[v.id()] = std::move(copy);
  return v;
}

void NodeReader::remember_reshape(NetworkValue shaped, NetworkValue source) const {
  importer_.reshaped_.insert_or_assign(shaped.id(), source);
}

std::optional<NetworkValue> NodeReader::reshaped_from(NetworkValue shaped) const {
  const auto it = importer_.reshaped_.find(shaped.id());
  if (it == importer_.reshaped_.end()) return std::nullopt;
  return it->second;
}

}  // namespace coda::network::onnx_import
