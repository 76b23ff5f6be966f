#include "tensors/chain_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/expression.hpp"
#include "tensors/text.hpp"

namespace unisono::tensors {

ChainWriter::ChainWriter(const ChainProgram& program, std::span<const StridedTensor> tensors, const ChainShares& shares)
    : p_(program), tensors_(tensors), shares_(shares) {
  for (const ChainNode& n : p_.nodes) types_.push_back(type_of(n));
}

DType ChainWriter::type_of(const ChainNode& n) const {
  if (n.kind == ChainNode::Kind::tensor) return tensors_[n.tensor].type.value;
  if (n.kind == ChainNode::Kind::number) return DType::f32;
  if (n.kind != ChainNode::Kind::map) return types_[n.operands[0]];
  Values operands;
  for (const std::size_t i : n.operands) operands.push_back({"x", types_[i]});
  std::vector<const NodeValue*> pointers;
  for (const NodeValue& v : operands) pointers.push_back(&v);
  const NodeText made = node_text(n.op, pointers);
  if (made.reports) throw ChainRefusal{"an operator of it may fail"};
  return made.type;
}

void ChainWriter::line(const std::string& text) {
  if (++lines_ > p_.most_lines) throw ChainRefusal{fmt::format("its text has more than {} lines", p_.most_lines)};
  scopes_.back().text += std::string(4 + 4 * scopes_.size(), ' ') + text + "\n";
}

void ChainWriter::open(const std::string& head) {
  scopes_.emplace_back();
  scopes_.back().head = head;
}

void ChainWriter::close(const std::string& tail) {
  const Scope inner = std::move(scopes_.back());
  scopes_.pop_back();
  line(inner.head);
  scopes_.back().text += inner.text;
  line(tail);
}

Place ChainWriter::resolved(Place place) const {
  for (Affine& at : place) at = indices_.resolved(at);
  return place;
}

std::optional<NodeValue> ChainWriter::known(std::size_t node, const Place& of) const {
  const Place place = resolved(of);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto at = scope->values.find({node, place}); at != scope->values.end()) return at->second;
  return std::nullopt;
}

void ChainWriter::know(std::size_t node, const Place& place, NodeValue value) {
  scopes_.back().values.emplace(std::pair{node, resolved(place)}, std::move(value));
}

ChainWriter::Values ChainWriter::values(std::size_t node, const Places& places) {
  const ChainNode& n = p_.nodes[node];
  if (places.empty()) return {};
  switch (n.kind) {
    case ChainNode::Kind::tensor: return loaded(n.tensor, places);
    case ChainNode::Kind::number: return Values(places.size(), {codegen::literal(n.number, DType::f32), DType::f32});
    case ChainNode::Kind::map: return computed(node, places);
    case ChainNode::Kind::join: return joined(node, places);
    case ChainNode::Kind::reduce: {
      Values all;
      for (const Place& place : places) all.push_back(reduced(node, place));
      return all;
    }
    default: return moved(n, places);
  }
}

ChainWriter::Values ChainWriter::moved(const ChainNode& n, const Places& places) {
  Places from;
  for (const Place& place : places) from.push_back(source(n, place));
  return values(n.operands[0], from);
}

Affine ChainWriter::by_digits(const ChainNode& n, Affine left) {
  Affine digit, at{n.begin[0], {}};
  for (std::size_t i = n.parts.size(); i-- > 0; at = at + digit * n.step[i])
    std::tie(left, digit) = indices_.divided(left, n.parts[i]);
  return at;
}

// Read ahead of all branches, by threads, too, that have no chunk of the line
Affine ChainWriter::looked_up(const ChainNode& n, const Affine& of) {
  const auto axis = static_cast<std::size_t>(n.axis);
  const Affine at = indices_.resolved(of);
  const AffineRange range = indices_.range(at);
  if (!indices_.holds_everywhere(at) || range.least < 0 || range.most >= n.shape[axis])
    throw ChainRefusal{"it looks up places in a branch"};
  const bool has_idle = parts(static_cast<std::size_t>(shares_.times - 1)) < shares_.team;
  const std::string place = has_idle && indices_.depends_on_lane(at)
                                ? fmt::format("inside({}, {})", indices_.text(at), n.shape[axis])
                                : indices_.text(at);
  const std::string text =
      fmt::format("int(load<{}>(p.tensors[{}], {}))", tag_of(tensors_[n.tensor].type.memory), n.tensor, place);
  return indices_.variable(text, p_.nodes[n.operands[0]].shape[axis], indices_.depends_on_lane(at));
}

// Where the operand's element lies that is the one at this place
Place ChainWriter::source(const ChainNode& n, const Place& place) {
  const Extents& shape = p_.nodes[n.operands[0]].shape;
  Place from(shape.size());
  if (n.kind == ChainNode::Kind::permute) {
    for (std::size_t i = 0; i < place.size(); ++i) from[static_cast<std::size_t>(n.order[i])] = place[i];
  } else if (n.kind == ChainNode::Kind::range) {
    for (std::size_t i = 0; i < place.size(); ++i) from[i] = place[i] * n.step[i] + n.begin[i];
  } else if (n.kind == ChainNode::Kind::pick) {
    from = place;
    Affine& at = from[static_cast<std::size_t>(n.axis)];
    at = n.begin.empty() ? looked_up(n, at) : by_digits(n, at);
  } else if (n.kind == ChainNode::Kind::repeat) {
    const std::size_t more = place.size() - shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i)
      from[i] = shape[i] == n.shape[more + i] ? place[more + i] : indices_.divided(place[more + i], shape[i]).second;
  } else {
    Affine number;
    for (std::size_t i = 0; i < place.size(); ++i) number = number * n.shape[i] + place[i];
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (i > 0)
        std::tie(number, from[i]) = indices_.divided(number, shape[i]);
      else
        from[i] = number;
    }
  }
  return from;
}

// Operands broadcast: axes of extent 1 stand still
ChainWriter::Values ChainWriter::computed(std::size_t node, const Places& places) {
  const ChainNode& n = p_.nodes[node];
  Places missing;
  for (const Place& place : places)
    if (!known(node, place) && std::find(missing.begin(), missing.end(), place) == missing.end())
      missing.push_back(place);
  std::vector<Values> operands;
  for (const std::size_t operand : n.operands) {
    const Extents& shape = p_.nodes[operand].shape;
    Places from;
    for (const Place& place : missing) {
      from.emplace_back(place.end() - static_cast<std::ptrdiff_t>(shape.size()), place.end());
      for (std::size_t i = 0; i < shape.size(); ++i)
        if (shape[i] == 1) from.back()[i] = {};
    }
    operands.push_back(values(operand, from));
  }
  for (std::size_t k = 0; k < missing.size(); ++k) {
    std::vector<const NodeValue*> of;
    for (const Values& v : operands) of.push_back(&v[k]);
    const NodeText made = node_text(n.op, of);
    const std::string name = fresh();
    line(fmt::format("const {} {} = {};", number_of(made.type), name, made.text));
    know(node, missing[k], {name, made.type});
  }
  Values all;
  for (const Place& place : places) all.push_back(*known(node, place));
  return all;
}

// Which operands of a join the element at `at` along its axis may be of
ChainWriter::Choice ChainWriter::choice(const ChainNode& n, const Affine& at) const {
  const AffineRange range = indices_.range(at);
  Choice c;
  std::int64_t end = 0;
  bool is_found = false;
  for (std::size_t i = 0; i < n.operands.size(); ++i) {
    end += p_.nodes[n.operands[i]].shape[static_cast<std::size_t>(n.axis)];
    if (!is_found && range.least >= end && i + 1 < n.operands.size()) continue;
    if (!is_found) c.first = i, is_found = true;
    if (range.most < end || i + 1 == n.operands.size()) break;
    std::int64_t unit = 0;
    for (const auto& term : at.terms) unit = std::gcd(unit, term.second);
    Affine sum;
    for (const auto& [variable, coefficient] : at.terms) sum.terms[variable] = coefficient / unit;
    c.below.emplace_back(std::move(sum), -floor_divided(at.constant - end, unit));
  }
  return c;
}

ChainWriter::Values ChainWriter::part(const ChainNode& n, std::size_t operand, Places places) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < operand; ++i) begin += p_.nodes[n.operands[i]].shape[static_cast<std::size_t>(n.axis)];
  for (Place& place : places) {
    Affine& at = place[static_cast<std::size_t>(n.axis)];
    at = at + -begin;
  }
  return values(n.operands[operand], places);
}

ChainWriter::Values ChainWriter::joined(std::size_t node, const Places& places) {
  const ChainNode& n = p_.nodes[node];
  std::map<Choice, Places> groups;
  for (const Place& place : places)
    if (!known(node, place)) {
      Places& group = groups[choice(n, place[static_cast<std::size_t>(n.axis)])];
      if (std::find(group.begin(), group.end(), place) == group.end()) group.push_back(place);
    }
  for (const auto& [choice, group] : groups) {
    const Values made = choice.below.empty() ? part(n, choice.first, group) : chosen(n, choice, group);
    for (std::size_t k = 0; k < group.size(); ++k) know(node, group[k], made[k]);
  }
  Values all;
  for (const Place& place : places) all.push_back(*known(node, place));
  return all;
}

// The places in branch i of a choice, where the one variable that it asks for is at least `begin`
ChainWriter::Places ChainWriter::narrowed(Places places, const Choice& choice, std::size_t i, std::int64_t& begin) {
  const Affine& sum = choice.below[std::min(i, choice.below.size() - 1)].first;
  if (sum.terms.size() != 1 || sum.terms.begin()->second != 1) return places;
  const int variable = sum.terms.begin()->first;
  const std::int64_t extent = indices_.extent(variable);
  const std::int64_t end =
      i < choice.below.size() ? std::clamp<std::int64_t>(choice.below[i].second, 0, extent) : extent;
  if (begin >= end) return places;  // the branch is never taken
  const Affine small = indices_.narrowed(variable, begin, end);
  begin = end;
  for (Place& place : places)
    for (Affine& at : place)
      if (const auto term = at.terms.find(variable); term != at.terms.end()) {
        const std::int64_t coefficient = term->second;
        at.terms.erase(term);
        at = at + small * coefficient;
      }
  return places;
}

// The operands of the choice in branches, which are the same for all of these places
ChainWriter::Values ChainWriter::chosen(const ChainNode& n, const Choice& choice, const Places& places) {
  Values all;
  const DType type = types_[n.operands[0]];
  for (std::size_t k = 0; k < places.size(); ++k) {
    all.push_back({fresh(), type});
    line(fmt::format("{} {};", number_of(type), all.back().name));
  }
  scopes_.emplace_back();  // reductions in a branch stand before all of them
  std::int64_t begin = 0;
  for (std::size_t i = 0; i <= choice.below.size(); ++i) {
    const std::string condition =
        i == choice.below.size()
            ? ""
            : fmt::format("if ({} < {}) ", indices_.text(choice.below[i].first), choice.below[i].second);
    open(fmt::format("{}{}{{", i == 0 ? "" : "else ", condition));
    const Values made = part(n, choice.first + i, narrowed(places, choice, i, begin));
    for (std::size_t k = 0; k < places.size(); ++k) line(fmt::format("{} = {};", all[k].name, made[k].name));
    close("}");
  }
  const Scope branches = std::move(scopes_.back());
  scopes_.pop_back();
  scopes_.back().text += branches.text;
  return all;
}

}  // namespace unisono::tensors
