#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/attribute_values.hpp"
#include "ir/op_table.hpp"
#include "ir/parser.hpp"
#include "ir/rounding.hpp"
#include "ir/store_forms.hpp"
#include "ir/suggest.hpp"

namespace unisono::ir {

/// The arguments of a call to a built-in operation, as they are read.
struct CallArguments {
  Token name;
  const OpInfo& row;
  std::vector<std::string_view> keywords;  // that the operation takes
  std::vector<std::string_view> given{};   // keywords and parameters so far
  std::vector<Value> inputs{};
  std::size_t numbers = 0;  // positional parameters so far
  std::optional<Value> scale{}, shift{};
  Attributes attr;
  std::vector<NumberOrValue> attributes{};  // those of a function, in the order of its parameters

  bool has(std::string_view keyword) const { return std::find(given.begin(), given.end(), keyword) != given.end(); }
};

namespace {

// `max` and `min` name a reduction too; which one is meant is known when all arguments are read
std::optional<Op> reduction_of_that_name(Op op) {
  if (op == Op::max) return Op::reduce_max;
  if (op == Op::min) return Op::reduce_min;
  return std::nullopt;
}

std::vector<std::string_view> keywords_of(Op op) {
  std::vector<std::string_view> words;
  if (is_reduction(op) || op == Op::softmax || reduction_of_that_name(op)) words = {"over", "per", "groups"};
  if (op == Op::group_norm) words = {"groups"};
  if (is_normalisation(op)) words.push_back("scale");
  if (is_normalisation(op) && op != Op::rms_norm) words.push_back("shift");
  for (const Parameter& p : info(op).parameters) words.push_back(p.name);
  return words;
}

// Attributes where no argument says otherwise
Attributes defaults_of(Op op) {
  Attributes a;
  for (const Parameter& p : info(op).parameters) a.*p.field = p.fallback;
  if (is_normalisation(op)) a.domain = normalisation_domain(op, 1);
  if (is_reduction(op) || reduction_of_that_name(op)) a.domain = over_all;
  if (op == Op::softmax) a.domain = over_n;
  return a;
}

std::string list_of(const std::vector<std::string_view>& words) { return fmt::format("{}=", fmt::join(words, "=, ")); }

}  // namespace

Value Parser::value_of_call() {
  const Token token = peek();
  const auto value = call();
  if (!value) fail(token, fmt::format("'{}' returns nothing; call it on its own line", text(token)));
  return *value;
}

std::optional<Value> Parser::call() {
  const Token name = take();
  const Nesting nesting(*this, name);
  const auto word = text(name);
  if (functions_.contains(word) || rounding_function_named(word)) return user_call(name);
  if (word == "cast") return cast_call(name);
  if (word == "index" || word == "extent") return coordinate_call(name);
  if (const auto op = op_from_name(word)) return operation_call(name, *op);
  unknown_operation(name);
}

void Parser::unknown_operation(const Token& name) const {
  const auto word = text(name);
  if (scope_.values.contains(word) || scope_.operands.contains(word) || word.starts_with("acc"))
    fail(name, fmt::format("'{}' is a value and cannot be called; is an operator missing?", word));
  if (is_store_form(word)) fail(name, stands_alone(word));
  std::vector<std::string_view> candidates{"index", "extent"};
  for (int i = 0; i < op_count; ++i)
    if (const auto op = static_cast<Op>(i); info(op).op_class != OpClass::leaf && op != Op::call)
      candidates.push_back(info(op).name);
  candidates.insert(candidates.end(), functions_.begin(), functions_.end());
  auto meant = known_as(word);
  if (!op_from_name(meant)) meant = nearest(word, candidates);
  fail(name, fmt::format("there is no operation '{}'{}", word, did_you_mean(meant)));
}

Value Parser::cast_call(const Token& name) {
  const Token open = take();
  const Value x = expression();
  if (!accept(",")) fail(peek(), fmt::format("expected ', dtype' as in cast(x, bf16), found {}", found(peek())));
  const DType t = dtype();
  close(open, ")");
  return node(name, Op::cast, {x}, {}, t);
}

Value Parser::coordinate_call(const Token& name) {
  const Token open = take();
  const Coordinate c = coordinate();
  close(open, ")");
  return text(name) == "index" ? scope_.builder.index(c) : scope_.builder.extent(c);
}

std::optional<Value> Parser::user_call(const Token& name) {
  const Token open = take();
  std::vector<Value> inputs;
  while (!at_symbol(")")) {
    inputs.push_back(expression());
    if (!accept(",")) break;
  }
  close(open, ")");
  const auto value = located(name, [&] { return scope_.builder.call(std::string(text(name)), inputs); });
  check_size(name);
  return value;
}

Value Parser::operation_call(const Token& name, Op op) {
  CallArguments arguments{.name = name, .row = info(op), .keywords = keywords_of(op), .attr = defaults_of(op)};
  if (is_elementwise(op))
    for (const Parameter& p : info(op).parameters) arguments.attributes.emplace_back(p.fallback);
  const Token open = take();
  while (!at_symbol(")")) {
    if (peek().kind == TokenKind::identifier && at_symbol("=", 1))
      keyword_argument(arguments);
    else
      positional_argument(arguments);
    if (!accept(",")) break;
  }
  close(open, ")");

  auto& a = arguments;
  if (op == Op::group_norm && !a.has("groups")) fail(name, "group_norm needs groups=, such as groups=32");
  if (const auto reduction = reduction_of_that_name(op)) {
    if (a.inputs.size() == 1)
      op = *reduction;
    else if (!a.given.empty())
      fail(name, fmt::format("{0}(x, y) takes no {1}=; the reduction is {0}(x, {1}=...)", text(name), a.given.front()));
    else
      a.attr.domain = {};
  }
  if (is_normalisation(op)) {
    a.attr.has_scale = a.scale.has_value();
    a.attr.has_shift = a.shift.has_value();
    if (a.inputs.empty()) fail(name, fmt::format("{0} needs a value: {0}(x)", text(name)));
    if (a.scale) a.inputs.push_back(*a.scale);
    if (a.shift) a.inputs.push_back(*a.shift);
  }
  if (a.attributes.empty() || a.inputs.empty()) return node(name, op, a.inputs, a.attr);
  return counted(name, located(name, [&] { return with_attributes(op, a.inputs[0], a.attributes); }));
}

void Parser::too_many_arguments(const Token& token, const CallArguments& a, std::size_t expected) const {
  const auto keywords = a.keywords.empty() ? "" : fmt::format("; by keyword it takes {}", list_of(a.keywords));
  fail(token,
       fmt::format("{} takes {} positional argument{}{}", text(a.name), expected, expected == 1 ? "" : "s", keywords));
}

void Parser::positional_argument(CallArguments& a) {
  const Token token = peek();
  if (!a.given.empty() && a.numbers == 0) fail(token, "a positional argument cannot follow a keyword");
  const std::size_t values = a.row.arity < 0 ? 1 : static_cast<std::size_t>(a.row.arity);
  if (a.inputs.size() < values) {
    a.inputs.push_back(expression());
    return;
  }
  const auto numbers = a.row.arity < 0 ? std::span<const Parameter>() : a.row.parameters;
  if (a.numbers >= numbers.size()) too_many_arguments(token, a, values + numbers.size());
  const Parameter& parameter = numbers[a.numbers++];
  attribute_argument(a, parameter);
  a.given.push_back(parameter.name);
}

void Parser::unknown_keyword(const Token& token, const CallArguments& a) const {
  const auto word = text(token);
  if (a.keywords.empty()) fail(token, fmt::format("{} takes no keywords", text(a.name)));
  const auto meant = nearest(word, a.keywords);
  fail(token, fmt::format("{} takes no '{}'{} It takes {}", text(a.name), word,
                          meant.empty() ? "." : did_you_mean(meant), list_of(a.keywords)));
}

void Parser::keyword_argument(CallArguments& a) {
  const Token token = take();
  const auto word = text(token);
  take();  // =
  if (std::find(a.keywords.begin(), a.keywords.end(), word) == a.keywords.end()) unknown_keyword(token, a);
  if (a.has(word)) fail(token, fmt::format("{} is given twice", word));
  a.given.push_back(word);
  a.numbers = 0;
  if (word == "over") return over_argument(a.attr.domain);
  if (word == "groups") {
    a.attr.domain.groups = groups_argument();
  } else if (word == "per") {
    const Token axis = take();
    if (text(axis) != "b") fail(axis, fmt::format("expected per=b (one result an image), found {}", found(axis)));
    a.attr.domain.per_image = true;
  } else if (word == "scale" || word == "shift") {
    (word == "scale" ? a.scale : a.shift) = expression();
  } else {
    for (const Parameter& p : a.row.parameters)
      if (p.name == word) attribute_argument(a, p);
  }
}

// Functions take a number or a value, normalisations a number
void Parser::attribute_argument(CallArguments& a, const Parameter& parameter) {
  if (a.attributes.empty()) {
    a.attr.*parameter.field = number_argument(parameter.name);
    return;
  }
  NumberOrValue& attribute = a.attributes[static_cast<std::size_t>(&parameter - a.row.parameters.data())];
  if (number_alone())
    attribute = signed_number(parameter.name);
  else
    attribute = expression();
}

// Whether a number is all of the argument that begins here
bool Parser::number_alone() const {
  const std::size_t sign = at_symbol("-") ? 1 : 0;
  const Token& number = peek(sign);
  const bool is_number = number.kind == TokenKind::number || text(number) == "inf" || text(number) == "nan";
  return is_number && (at_symbol(",", sign + 1) || at_symbol(")", sign + 1));
}

double Parser::number_argument(std::string_view name) {
  const double value = signed_number(name);
  if (!at_symbol(",") && !at_symbol(")")) fail(peek(), fmt::format("{} must be one number, not an expression", name));
  return value;
}

// over=m, over=n, over=(m,n) or over=all
void Parser::over_argument(ReduceDomain& domain) {
  domain.rows = domain.cols = false;
  const Token open = peek();
  const bool list = accept("(");
  do {
    const Token token = take();
    const auto word = text(token);
    if (word == "b") fail(token, "rows run over all images: for one result an image write over=m, per=b");
    if (word != "m" && word != "n" && (word != "all" || list))
      fail(token, fmt::format("expected over=m, over=n, over=(m,n) or over=all, found {}", found(token)));
    bool& axis = word == "n" ? domain.cols : domain.rows;
    if (axis) fail(token, fmt::format("{} is given twice", word));
    axis = true;
    if (word == "all") domain.cols = true;
  } while (list && accept(","));
  if (list) close(open, ")");
}

int Parser::groups_argument() {
  const Token token = peek();
  const double value = number_argument("groups");
  if (!(value >= 1) || value > most_groups || value != static_cast<int>(value))
    fail(token, fmt::format("expected a whole number of groups from 1 to {}, found {}", most_groups, value));
  return static_cast<int>(value);
}

}  // namespace unisono::ir
