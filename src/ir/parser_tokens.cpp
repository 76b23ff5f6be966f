#include <fmt/format.h>

#include "ir/op_table.hpp"
#include "ir/parser.hpp"

namespace unisono::ir {

Token Parser::take() {
  const Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::at_symbol(std::string_view symbol, std::size_t ahead) const {
  const Token& token = peek(ahead);
  return token.kind == TokenKind::symbol && text(token) == symbol;
}

bool Parser::at_word(std::string_view word) const {
  return peek().kind == TokenKind::identifier && text(peek()) == word;
}

bool Parser::accept(std::string_view symbol) {
  const bool there = at_symbol(symbol);
  if (there) take();
  return there;
}

// The bracket that closes `open`
void Parser::close(const Token& open, std::string_view symbol) {
  if (accept(symbol)) return;
  const auto place = source_.place(open.span.offset);
  fail(peek(), fmt::format("expected '{}' to close the '{}' of line {}, column {}; found {}", symbol, text(open),
                           place.line, place.column, found(peek())));
}

Token Parser::identifier(std::string_view what) {
  if (peek().kind != TokenKind::identifier) fail(peek(), fmt::format("expected {}, found {}", what, found(peek())));
  return take();
}

std::string Parser::found(const Token& token) const {
  if (token.kind == TokenKind::end) return "the end of the text";
  if (token.kind == TokenKind::newline) return text(token) == ";" ? "';'" : "the end of the line";
  return fmt::format("'{}'", excerpt(text(token)));
}

Parser::Nesting::Nesting(Parser& parser, const Token& token) : depth_(parser.depth_) {
  if (depth_ >= deepest_nesting)
    parser.fail(token, fmt::format("nested deeper than {} levels; name the inner values", deepest_nesting));
  ++depth_;
}

void Parser::check_size(const Token& token) const {
  if (scope_.builder.size() > most_nodes) fail(token, fmt::format("the text has more than {} nodes", most_nodes));
}

Value Parser::counted(const Token& token, Value value) const {
  check_size(token);
  return value;
}

Value Parser::node(const Token& token, Op op, const std::vector<Value>& inputs, Attributes attr,
                   std::optional<DType> requested) {
  return counted(token, located(token, [&] { return scope_.builder.node(op, inputs, std::move(attr), requested); }));
}

}  // namespace unisono::ir
