#include <fmt/format.h>

#include <charconv>

#include "ir/infer.hpp"
#include "ir/leaves.hpp"
#include "ir/names.hpp"
#include "ir/op_table.hpp"
#include "ir/parser.hpp"
#include "ir/suggest.hpp"

namespace unisono::ir {

namespace {

struct BinaryOperator {
  std::string_view symbol;
  Op op;
  int power;
};

constexpr int comparison_power = 3;

constexpr std::array<BinaryOperator, 12> binary_operators{{
    {"|", Op::logical_or, 1},
    {"&", Op::logical_and, 2},
    {"<", Op::less, comparison_power},
    {"<=", Op::less_equal, comparison_power},
    {">", Op::greater, comparison_power},
    {">=", Op::greater_equal, comparison_power},
    {"==", Op::equal, comparison_power},
    {"!=", Op::not_equal, comparison_power},
    {"+", Op::add, 4},
    {"-", Op::sub, 4},
    {"*", Op::mul, 5},
    {"/", Op::div, 5},
}};

const BinaryOperator* binary_operator(const Token& token, std::string_view text) {
  if (token.kind != TokenKind::symbol) return nullptr;
  for (const auto& row : binary_operators)
    if (row.symbol == text) return &row;
  return nullptr;
}

}  // namespace

Value Parser::expression(int lowest) {
  Value left = prefix();
  for (;;) {
    const BinaryOperator* row = binary_operator(peek(), text(peek()));
    if (!row || row->power < lowest) return left;
    const Token token = take();
    const Value right = expression(row->power + 1);
    left = node(token, row->op, {left, right});
    const BinaryOperator* next = binary_operator(peek(), text(peek()));
    if (row->power == comparison_power && next && next->power == comparison_power)
      fail(peek(), "comparisons do not chain; write (a < b) & (b < c)");
  }
}

Value Parser::prefix() {
  const bool number_follows = peek(1).kind == TokenKind::number || text(peek(1)) == "inf" || text(peek(1)) == "nan";
  if (at_symbol("-") && number_follows) return constant();
  if (!at_symbol("-") && !at_symbol("!")) return primary();
  const Token token = take();
  const Nesting nesting(*this, token);
  const Value x = prefix();
  return node(token, text(token) == "-" ? Op::neg : Op::logical_not, {x});
}

Value Parser::primary() {
  const Token token = peek();
  if (token.kind == TokenKind::number) return constant();
  if (token.kind == TokenKind::identifier) return at_symbol("(", 1) ? value_of_call() : name();
  if (at_symbol("(")) {
    take();
    const Nesting nesting(*this, token);
    const Value x = expression();
    close(token, ")");
    return x;
  }
  no_value(token);
}

void Parser::no_value(const Token& token) const {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> doubled{
      {{"*", "a power is pow(x, y)"}, {"&", "write '&'"}, {"|", "write '|'"}}};
  const bool follows = at_ > 0 && tokens_[at_ - 1].span.offset + 1 == token.span.offset;
  for (const auto& [symbol, advice] : doubled)
    if (follows && text(token) == symbol && text(tokens_[at_ - 1]) == symbol)
      fail(token, fmt::format("there is no operator '{0}{0}'; {1}", symbol, advice));
  if (text(token) == "+") fail(token, "there is no '+' before a value");
  fail(token, fmt::format("expected a value, found {}", found(token)));
}

Value Parser::name() {
  const Token token = peek();
  const auto word = text(token);
  if (word == "inf" || word == "nan") return constant();
  if (word == "acc" || word == "acc0" || word == "acc1") return accumulator();
  if (at_symbol("[", 1)) return operand_use();
  take();
  if (const auto it = scope_.values.find(word); it != scope_.values.end()) return it->second.value;
  if (const auto it = scope_.operands.find(word); it != scope_.operands.end()) return it->second.value;
  unknown_name(token);
}

Value Parser::accumulator() {
  const Token token = take();
  const auto word = text(token);
  if (at_symbol("[")) fail(peek(), fmt::format("{} takes no axes: it is always [m,n]", word));
  if (word == "acc") return located(token, [&] { return scope_.builder.acc(); });
  return located(token, [&] { return scope_.builder.acc(word == "acc1"); });
}

Value Parser::operand_use() {
  const Token token = take();
  std::string name(text(token));
  located(token, [&] { check_identifier(name, "operand"); });
  if (scope_.values.contains(name))
    fail(token, fmt::format("'{0}' is a value, and only operands take axes; write {0}", name));
  if (functions_.contains(name)) fail(token, fmt::format("'{0}' is a function; call it: {0}(...)", name));
  const auto [axes, rows] = subscript();
  const auto declared = scope_.operands.find(name);
  const bool strided = declared != scope_.operands.end() && declared->second.value.node().attr.strided;
  const Value value = counted(token, located(token, [&, axes = axes, rows = rows] {
                                return scope_.builder.operand(name, axes, {.rows = rows, .strided = strided});
                              }));
  scope_.operands.emplace(std::move(name), Named{value, token.span});
  return value;
}

namespace {

// Axes of operands for groups of columns, written "g4" or "b,g4"
std::optional<Axes> axes_of_groups(std::string_view written) {
  const bool of_image = written.starts_with("b,g");
  if (!of_image && !written.starts_with("g")) return {};
  written.remove_prefix(of_image ? 3 : 1);
  int groups = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), groups);
  const Axes axes{of_image ? RowAxis::b : RowAxis::none, ColAxis::g, groups};
  if (error != std::errc{} || end != written.data() + written.size() || !is_operand_axes(axes)) return {};
  return axes;
}

}  // namespace

Parser::Subscript Parser::subscript() {
  const Token open = take();
  std::string written;
  while (peek().kind == TokenKind::identifier || at_symbol(",")) written += text(take());
  close(open, "]");
  const Span span{open.span.offset, tokens_[at_ - 1].span.offset + 1 - open.span.offset};
  using enum RowCoordinates;
  constexpr std::array<std::string_view, 12> spellings{"",  "b", "m",   "n",   "b,n", "m,n",
                                                       "h", "w", "h,w", "h,n", "w,n", "h,w,n"};
  constexpr std::array<Subscript, 12> meanings{{{axes::scalar},
                                                {axes::b},
                                                {axes::m},
                                                {axes::n},
                                                {axes::bn},
                                                {axes::mn},
                                                {axes::m, h},
                                                {axes::m, w},
                                                {axes::m, hw},
                                                {axes::mn, h},
                                                {axes::mn, w},
                                                {axes::mn, hw}}};
  for (std::size_t i = 0; i < spellings.size(); ++i)
    if (written == spellings[i]) return meanings[i];
  if (const auto groups = axes_of_groups(written)) return {*groups};
  if (written == "n,m" || written == "n,b")
    source_.fail(span, fmt::format("expected the rows before the columns; did you mean '[{},n]'?", written.back()));
  const auto meant = nearest(written, spellings);
  source_.fail(span, fmt::format("unknown axes [{}]{}", excerpt(written),
                                 meant.empty() ? "; expected one of [], [b], [m], [n], [b,n], [m,n], of groups of "
                                                 "columns [g4], [b,g4], or of the coordinates of a pixel "
                                                 "[h], [w], [h,w], [h,n], [w,n], [h,w,n]"
                                               : did_you_mean(fmt::format("[{}]", meant))));
}

Value Parser::constant() {
  const Token token = peek();
  return counted(token, scope_.builder.constant(signed_number("a constant")));
}

double Parser::signed_number(std::string_view what) {
  const bool negative = accept("-");
  const Token token = peek();
  const auto word = text(token);
  double value = 0;
  if (token.kind == TokenKind::number)
    value = number_value(source_, token);
  else if (word == "inf")
    value = std::numeric_limits<double>::infinity();
  else if (word == "nan")
    value = std::numeric_limits<double>::quiet_NaN();
  else
    fail(token, fmt::format("{} must be a number such as 0.5 or -1e-3, found {}", what, found(token)));
  take();
  return negative ? -value : value;
}

DType Parser::dtype() {
  const Token token = identifier("a dtype");
  const auto word = text(token);
  if (const auto t = dtype_from_string(word)) {
    if (!is_supported(*t)) fail(token, fmt::format("{} is reserved: nothing computes in the fp8 types yet", word));
    return *t;
  }
  std::vector<std::string_view> names;
  names.reserve(dtype_count);
  for (int i = 0; i < dtype_count; ++i) names.push_back(to_string(static_cast<DType>(i)));
  auto meant = known_as(word);
  if (std::find(names.begin(), names.end(), meant) == names.end()) meant = nearest(word, names);
  fail(token, fmt::format("unknown dtype '{}'{}", word,
                          meant.empty() ? "; expected f64, f32, tf32, f16, bf16, i32 or bool" : did_you_mean(meant)));
}

Coordinate Parser::coordinate() {
  const Token token = take();
  constexpr std::string_view letters = "mnbhw";  // in the order of enum Coordinate
  const auto word = text(token);
  const auto i = word.size() == 1 ? letters.find(word[0]) : std::string_view::npos;
  if (i == std::string_view::npos)
    fail(token, fmt::format("expected a coordinate: m, n, b, h or w; found {}", found(token)));
  return static_cast<Coordinate>(i);
}

void Parser::unknown_name(const Token& token) const {
  const auto word = text(token);
  if (op_from_name(word) || functions_.contains(word))
    fail(token, fmt::format("'{0}' is a function; call it: {0}(...)", word));
  if (word == "index" || word == "extent") fail(token, fmt::format("{0} needs a coordinate: {0}(m)", word));
  if (is_reserved(word)) fail(token, fmt::format("'{}' is a reserved word, not a value", word));
  std::vector<std::string_view> candidates{"acc", "acc0", "acc1", "inf", "nan"};
  for (const auto& [name, named] : scope_.values) candidates.push_back(name);
  for (const auto& [name, named] : scope_.operands) candidates.push_back(name);
  for (int i = 0; i < op_count; ++i)
    if (const auto called = info(static_cast<Op>(i)).name; op_from_name(called)) candidates.push_back(called);
  const auto meant = nearest(word, candidates);
  fail(token, fmt::format("'{0}' is not defined{1} A scalar operand is written {0}[], or declared: operand {0}", word,
                          meant.empty() ? "." : did_you_mean(meant)));
}

}  // namespace unisono::ir
