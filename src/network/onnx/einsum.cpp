/// Einsum as transpositions, sums, products and batched matrix products.

#include <algorithm>
#include <cctype>
#include <set>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

// A letter, or of the axes of an ellipsis the place from the end: −1 is the last one
using Label = int;
using Labels = std::vector<Label>;

bool holds(const Labels& labels, Label l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }

// An operand with a label an axis
struct Term {
  NetworkValue value;
  Labels labels;

  std::size_t axis(Label l) const {
    return static_cast<std::size_t>(std::find(labels.begin(), labels.end(), l) - labels.begin());
  }
  const Dim& extent(Label l) const { return value.shape()[axis(l)]; }
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
  bool explicit_result = false;
};

Equation parse_equation(const NodeReader& node) {
  const auto* a = node.attribute("equation");
  if (a == nullptr || a->s().empty() || a->s().size() > 512) node.fail("equation has no text, or more than 512 bytes");
  std::string text;
  for (const char c : a->s())
    if (c != ' ') text += c;
  for (const char c : text)
    if (!std::isalpha(static_cast<unsigned char>(c)) && c != ',' && c != '.' && c != '-' && c != '>')
      node.fail("equation has a byte other than letters, '.', ',', '->' and blanks");
  Equation e;
  if (const auto arrow = text.find("->"); arrow != std::string::npos) {
    e.explicit_result = true;
    e.result = text.substr(arrow + 2);
    text.resize(arrow);
  }
  if ((text + e.result).find_first_of("->") != std::string::npos || e.result.find(',') != std::string::npos)
    node.fail("equation '{}' is no 'operands->result'", a->s());
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    e.operands.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return e;
}

// Labels of a text; its ellipsis stands for `open` axes
Labels read_labels(const NodeReader& node, const std::string& text, std::size_t open) {
  Labels labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.') {
      labels.push_back(text[i]);
      continue;
    }
    if (text.compare(i, 3, "...") != 0 || text.find('.', i + 3) != std::string::npos)
      node.fail("'{}' of the equation has dots other than one ellipsis ('...')", text);
    for (std::size_t k = open; k > 0; --k) labels.push_back(-static_cast<Label>(k));
    i += 2;
  }
  return labels;
}

Term read_term(const NodeReader& node, const std::string& text, NetworkValue x) {
  const bool ellipsis = text.find('.') != std::string::npos;
  const auto letters =
      static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return c != '.'; }));
  const std::size_t rank = x.shape().size();
  if (letters > rank || (!ellipsis && letters != rank))
    node.fail("'{}' of the equation has {} letters for an operand of shape {}", text, letters, to_string(x.shape()));
  return {x, read_labels(node, text, rank - letters)};
}

Term permuted(const NodeReader& node, const Term& t, const Labels& labels) {
  if (t.labels == labels) return t;
  std::vector<int> order;
  for (const Label l : labels) order.push_back(static_cast<int>(t.axis(l)));
  return {transposed(node, t.value, std::move(order)), labels};
}

// A letter that an operand has twice is its diagonal: of the two axes as one, every (extent + 1)-th element
Term diagonals(const NodeReader& node, Term t) {
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    const Label l = t.labels[i];
    const auto again = std::find(t.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, t.labels.end(), l);
    if (again == t.labels.end()) continue;
    const auto j = static_cast<std::size_t>(again - t.labels.begin());
    const Dim n = t.value.shape()[i], m = t.value.shape()[j];
    if (!n.known() || n != m || n.value() > (1 << 24))
      node.fail("the operand has a letter twice, for extents {} and {}; expected the same number", to_string(n),
                to_string(m));
    std::vector<int> order;
    Labels rest;
    Shape shape;
    for (std::size_t k = 0; k < t.labels.size(); ++k)
      if (k != i && k != j) {
        order.push_back(static_cast<int>(k));
        rest.push_back(t.labels[k]);
        shape.push_back(t.value.shape()[k]);
      }
    const auto last = static_cast<int>(rest.size());
    order.insert(order.end(), {static_cast<int>(i), static_cast<int>(j)});
    shape.push_back(n.value() * n.value());
    NetworkValue y = reshape_to(node, transposed(node, t.value, std::move(order)), shape);
    y = node.apply(operators::Slice{{0}, {n.value() * n.value()}, {n.value() + 1}, {last}}, {y});
    rest.push_back(l);
    t = {y, rest};
    i = static_cast<std::size_t>(-1);  // from the first label on again
  }
  return t;
}

// Sums over the labels that nothing needs any more
template <class Needed>
Term summed(const NodeReader& node, const Term& t, const Needed& needed) {
  Labels kept;
  std::vector<int> axes;
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    if (needed(t.labels[i])) {
      kept.push_back(t.labels[i]);
    } else {
      axes.push_back(static_cast<int>(i));
    }
  }
  if (axes.empty()) return t;
  return {node.apply(operators::Reduce{ReduceOp::sum, axes, false}, {t.value}), kept};
}

// Without an axis of one element
Term without_axis(const NodeReader& node, const Term& t, Label l) {
  Shape shape = t.value.shape();
  Labels labels = t.labels;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(t.axis(l)));
  std::erase(labels, l);
  return {reshape_to(node, t.value, shape), labels};
}

Labels joined(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Drops an axis of one element from an operand whose label the other one has with a larger extent
void drop_repeated_axes(const NodeReader& node, Term& a, Term& b, const std::set<Label>& kept) {
  const Labels both = a.labels;
  for (const Label l : both) {
    if (!holds(b.labels, l)) continue;
    if (!may_equal(a.extent(l), b.extent(l)) && a.extent(l) != Dim(1) && b.extent(l) != Dim(1))
      node.fail("a letter stands for extents {} and {}", to_string(a.extent(l)), to_string(b.extent(l)));
    if (kept.contains(l) || a.extent(l) == b.extent(l)) continue;
    if (a.extent(l) == Dim(1)) {
      a = without_axis(node, a, l);
    } else if (b.extent(l) == Dim(1)) {
      b = without_axis(node, b, l);
    }
  }
}

// The labels of a product by their part in it
struct ProductLabels {
  Labels batch, rows, columns, inner;
};

// Operands without a common label to sum over: each is repeated along the other's labels
Term elementwise_product(const NodeReader& node, const Term& a, const Term& b, const ProductLabels& labels) {
  const Shape x = a.value.shape(), y = b.value.shape();
  const auto n = static_cast<std::ptrdiff_t>(labels.batch.size());
  Shape left(x.begin(), x.end()), right(y.begin(), y.begin() + n);
  left.insert(left.end(), labels.columns.size(), Dim(1));
  right.insert(right.end(), labels.rows.size(), Dim(1));
  right.insert(right.end(), y.begin() + n, y.end());
  const std::vector<NetworkValue> operands{reshape_to(node, a.value, left), reshape_to(node, b.value, right)};
  const bool f32 = a.value.dtype() == DType::f32 && b.value.dtype() == DType::f32;
  return {f32 ? node.elementwise(Op::mul, operands) : node.map(MapOp::mul, operands),
          joined(joined(labels.batch, labels.rows), labels.columns)};
}

// A batched matrix product
Term contracted(const NodeReader& node, const Term& a, const Term& b, const ProductLabels& labels) {
  const Shape x = a.value.shape(), y = b.value.shape();
  const auto n = static_cast<std::ptrdiff_t>(labels.batch.size()), r = static_cast<std::ptrdiff_t>(labels.rows.size()),
             k = static_cast<std::ptrdiff_t>(labels.inner.size());
  Shape left(x.begin(), x.begin() + n), right(y.begin(), y.begin() + n);
  left.push_back(product(std::span(x).subspan(labels.batch.size(), labels.rows.size())));
  left.push_back(product(std::span(x).last(labels.inner.size())));
  right.push_back(product(std::span(y).subspan(labels.batch.size(), labels.inner.size())));
  right.push_back(product(std::span(y).last(labels.columns.size())));
  const NetworkValue z = matrix_product(node, reshape_to(node, a.value, left), reshape_to(node, b.value, right));
  Shape shape(z.shape().begin(), z.shape().begin() + n);
  shape.insert(shape.end(), x.begin() + n, x.begin() + n + r);
  shape.insert(shape.end(), y.begin() + n + k, y.end());
  return {reshape_to(node, z, shape), joined(joined(labels.batch, labels.rows), labels.columns)};
}

// The product of two operands, summed over the labels that they share and `kept` lacks
Term product_of(const NodeReader& node, Term a, Term b, const std::set<Label>& kept) {
  drop_repeated_axes(node, a, b, kept);
  a = summed(node, a, [&](Label l) { return kept.contains(l) || holds(b.labels, l); });
  b = summed(node, b, [&](Label l) { return kept.contains(l) || holds(a.labels, l); });
  if (a.value.tensor().is_constant()) std::swap(a, b);  // products take weights on the right
  ProductLabels labels;
  for (const Label l : a.labels)
    (!holds(b.labels, l) ? labels.rows : kept.contains(l) ? labels.batch : labels.inner).push_back(l);
  for (const Label l : b.labels)
    if (!holds(a.labels, l)) labels.columns.push_back(l);
  a = permuted(node, a, joined(joined(labels.batch, labels.rows), labels.inner));
  b = permuted(node, b, joined(joined(labels.batch, labels.inner), labels.columns));
  return labels.inner.empty() ? elementwise_product(node, a, b, labels) : contracted(node, a, b, labels);
}

// As written, or the axes of the ellipsis and then the letters that occur once, in order
Labels result_labels(const NodeReader& node, const Equation& e, const std::vector<Term>& terms) {
  std::size_t open = 0;
  std::map<Label, int> uses;
  for (const Term& t : terms)
    for (const Label l : t.labels) {
      ++uses[l];
      if (l < 0) open = std::max(open, static_cast<std::size_t>(-l));
    }
  Labels labels;
  if (e.explicit_result) {
    labels = read_labels(node, e.result, open);
  } else {
    for (const auto& [l, n] : uses)  // those of the ellipsis are negative, and first
      if (l < 0 || n == 1) labels.push_back(l);
  }
  for (const Label l : labels) {
    if (!uses.contains(l)) node.fail("the result has a letter that no operand has");
    if (std::count(labels.begin(), labels.end(), l) > 1) node.fail("the result has a letter twice");
  }
  return labels;
}

void import_einsum(const NodeReader& node) {
  const Equation e = parse_equation(node);
  if (std::ssize(e.operands) != node.inputs() || node.inputs() > 64)
    node.fail("the equation has {} operands, and the node {} inputs", e.operands.size(), node.inputs());
  std::vector<Term> terms;
  for (int i = 0; i < node.inputs(); ++i)
    terms.push_back(read_term(node, e.operands[static_cast<std::size_t>(i)], node.value(i)));
  const Labels result = result_labels(node, e, terms);
  for (Term& t : terms) t = diagonals(node, t);
  Term all = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    std::set<Label> kept(result.begin(), result.end());
    for (std::size_t k = i + 1; k < terms.size(); ++k) kept.insert(terms[k].labels.begin(), terms[k].labels.end());
    all = product_of(node, all, terms[i], kept);
  }
  all = summed(node, all, [&](Label l) { return holds(result, l); });
  node.result(permuted(node, all, result).value);
}

constexpr OperatorRow einsum_table[] = {{"Einsum", 12, import_einsum}};

}  // namespace

std::span<const OperatorRow> einsum_rows() { return einsum_table; }

}  // namespace unisono::network::onnx_import
