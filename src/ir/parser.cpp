#include "ir/parser.hpp"

#include <fmt/format.h>

#include <array>

#include "ir/names.hpp"
#include "ir/op_table.hpp"
#include "ir/suggest.hpp"
#include "unisono/text.hpp"

namespace unisono {

Graph parse(std::string_view text, const std::vector<UserFunction>& functions) {
  return ir::Parser(text, functions).run();
}

namespace ir {

namespace {

std::string_view checked_size(std::string_view text) {
  if (text.size() > largest_text)
    throw UserError(fmt::format("the text has {} bytes; the limit is {}", text.size(), largest_text));
  return text;
}

}  // namespace

std::string stands_alone(std::string_view form) {
  return fmt::format("{0} is a form of a store, no operation: store {0}(y) as p", form);
}

Parser::Parser(std::string_view text, const std::vector<UserFunction>& functions)
    : source_(checked_size(text)), tokens_(tokenize(source_)), defined_(functions) {
  for (const UserFunction& f : functions) {
    scope_.builder.define(f);
    if (f.results == 1)
      functions_.insert(f.name);
    else
      for (int i = 0; i < f.results; ++i) functions_.insert(fmt::format("{}_{}", f.name, i));
  }
}

Graph Parser::run() {
  while (peek().kind != TokenKind::end) {
    if (peek().kind == TokenKind::newline) {
      take();
      continue;
    }
    statement();
    end_of_statement();
  }
  return located(peek(), [&] { return scope_.builder.build(); });
}

void Parser::statement() {
  if (at_symbol("=", 1)) return assignment();
  if (at_word("store")) return store_statement();
  if (at_word("operand")) return operand_declaration();
  if (peek().kind == TokenKind::identifier && at_symbol("(", 1)) return bare_call();
  no_statement(peek());
}

void Parser::no_statement(const Token& first) const {
  constexpr std::string_view expected =
      "expected a statement: NAME = expression, store expression, operand NAME[axes], or a call";
  constexpr std::array<std::string_view, 2> words{"store", "operand"};
  if (first.kind == TokenKind::identifier && peek(1).kind == TokenKind::identifier) {
    const auto meant = nearest(text(first), words);
    if (!meant.empty()) fail(first, fmt::format("no statement begins with '{}'{}", text(first), did_you_mean(meant)));
  }
  if (first.kind == TokenKind::identifier)
    fail(peek(1), fmt::format("expected '=' or '(' after '{}', found {}", text(first), found(peek(1))));
  fail(first, fmt::format("{}; found {}", expected, found(first)));
}

void Parser::end_of_statement() {
  if (ends_statement()) return;
  if (at_word("as")) fail(peek(), "'as NAME' belongs in a store, before ': dtype'");
  fail(peek(), fmt::format("expected an operator or the end of the line, found {}", found(peek())));
}

// The text of a name that is still free
std::string Parser::new_name(const Token& token, std::string_view what) const {
  std::string name(text(token));
  located(token, [&] { check_identifier(name, what); });
  if (const auto it = scope_.values.find(name); it != scope_.values.end())
    fail(token, fmt::format("'{}' was assigned in line {}; a name is assigned once, so choose another", name,
                            source_.place(it->second.place.offset).line));
  if (functions_.contains(name)) fail(token, fmt::format("'{}' is a function; choose another name", name));
  return name;
}

void Parser::assignment() {
  const Token token = take();
  if (token.kind != TokenKind::identifier)
    fail(token, fmt::format("expected a name before '=', found {}", found(token)));
  std::string name = new_name(token, "value");
  take();  // =
  const Value value = expression();
  if (const auto it = scope_.operands.find(name); it != scope_.operands.end())
    fail(token, fmt::format("'{}' is an operand (line {}); choose another name for the value", name,
                            source_.place(it->second.place.offset).line));
  const Node& node = value.node();
  if (info(node.op).op_class != OpClass::leaf && node.name.empty()) value.named(name);
  scope_.values.emplace(std::move(name), Named{value, token.span});
}

// operand NAME[axes] : dtype = default
void Parser::operand_declaration() {
  take();  // operand
  const Token token = identifier("the operand's name");
  std::string name = new_name(token, "operand");
  if (const auto it = scope_.operands.find(name); it != scope_.operands.end())
    fail(token, fmt::format("operand '{}' is already declared in line {}; declare it once, before its first use", name,
                            source_.place(it->second.place.offset).line));
  const auto [axes, rows] = at_symbol("[") ? subscript() : Subscript{};
  OperandOptions options{.rows = rows};
  if (accept(":")) options.storage = dtype();
  if (accept("=")) options.default_value = signed_number("the default");
  if (at_word("strided")) take(), options.strided = true;
  const Value value =
      counted(token, located(token, [&, axes = axes] { return scope_.builder.operand(name, axes, options); }));
  scope_.operands.emplace(std::move(name), Named{value, token.span});
}

// The name that an output gets from its expression, if that is a name alone or an operand with its axes: tokens
// [begin, at_)
std::string_view Parser::name_of_expression(std::size_t begin) const {
  const Token& first = tokens_[begin];
  if (first.kind != TokenKind::identifier || is_reserved(text(first))) return {};
  const auto only_subscript = [&] {
    if (text(tokens_[begin + 1]) != "[") return false;
    const auto end = tokens_.begin() + static_cast<std::ptrdiff_t>(at_);
    return std::find_if(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), end,
                        [&](const Token& t) { return text(t) == "]"; }) == end - 1;
  };
  return at_ == begin + 1 || only_subscript() ? text(first) : std::string_view();
}

// FORM(expression), if that is what stands here
std::optional<FormedValue> Parser::formed_value() {
  for (const StoreForm form : {StoreForm::max_pool_2x2, StoreForm::upsample_2x2}) {
    const bool former = form == StoreForm::upsample_2x2 && at_word("enlarge_2x2");  // its name at first
    if ((!former && !at_word(to_string(form))) || !at_symbol("(", 1)) continue;
    const Token word = take(), open = take();
    const Value image = expression();
    close(open, ")");
    stands_alone_after(word);
    return FormedValue{image, form};
  }
  return std::nullopt;
}

// Nothing of an expression may follow a form of a store
void Parser::stands_alone_after(const Token& form) const {
  if (at_word("as") || at_symbol(":") || ends_statement()) return;
  fail(form, stands_alone(text(form)));
}

bool Parser::ends_statement() const { return peek().kind == TokenKind::newline || peek().kind == TokenKind::end; }

// (as NAME)? (: dtype)?, with the name and dtype that it has otherwise
Parser::StoredAs Parser::stored_as(const Token& start, std::string_view name, DType type) {
  StoredAs as{start, std::string(name), type};
  if (at_word("as")) {
    take();
    as.place = identifier("the output's name");
    as.name = text(as.place);
  }
  if (accept(":")) as.type = dtype();
  return as;
}

// store (expression | FORM(expression)) (as NAME)? (: dtype)?
void Parser::store_statement() {
  const Token start = take();
  const std::size_t begin = at_;
  if (const auto formed = formed_value()) {
    const StoredAs as = stored_as(start, "", formed->value.dtype());
    return located(as.place, [&] { scope_.builder.store(*formed, as.type, as.name); });
  }
  const Value value = expression();
  const StoredAs as = stored_as(start, name_of_expression(begin), value.dtype());
  const StoreOptions options = store_options();
  located(as.place, [&] { scope_.builder.store(value, as.type, as.name, options); });
  check_size(start);
}

// (toward_zero | stochastic(SEED))? strided?
StoreOptions Parser::store_options() {
  StoreOptions options;
  if (at_word("toward_zero")) {
    options.rounding = RoundingMode::toward_zero;
    take();
  } else if (at_word("stochastic")) {
    const Token word = take();
    if (!at_symbol("(")) fail(word, "stochastic rounding needs a seed: stochastic(seed), an i32 scalar");
    const Token open = take();
    options.rounding = RoundingMode::stochastic;
    options.seed = seed();
    close(open, ")");
  }
  if (at_word("strided")) take(), options.strided = true;
  return options;
}

// The name of an i32 scalar, which is declared so if it is new
Value Parser::seed() {
  const Token token = identifier("the seed's name");
  const std::string name(text(token));
  if (at_symbol("[")) {
    const Subscript s = subscript();
    if (!(s.axes == axes::scalar)) fail(token, "the seed is a scalar: stochastic(seed)");
  }
  if (const auto it = scope_.values.find(name); it != scope_.values.end()) return it->second.value;
  if (const auto it = scope_.operands.find(name); it != scope_.operands.end()) return it->second.value;
  const Value value =
      located(token, [&] { return scope_.builder.operand(name, axes::scalar, {.storage = DType::i32}); });
  scope_.operands.emplace(name, Named{value, token.span});
  return value;
}

void Parser::bare_call() {
  const Token token = peek();
  if (call())
    fail(token, fmt::format("the result of '{0}' is not used; assign it (NAME = {0}(...)) or store it", text(token)));
}

}  // namespace ir
}  // namespace unisono
