#include <fmt/format.h>

#include "ir/parser.hpp"

namespace unisono::ir {

// store head(expression, NAME, channels=NUMBER), then { statements } or (as NAME)? (: dtype)?
void Parser::head_statement(const Token& start) {
  const Token word = take(), open = take();
  if (scope_ != &main_) fail(word, "a head has no head of its own");
  const Value value = expression();
  if (!accept(",")) fail(peek(), fmt::format("expected ', NAME' of the head's filter, found {}", found(peek())));
  const Token filter = identifier("the name of the head's filter");
  if (!accept(",")) fail(peek(), fmt::format("expected ', channels=NUMBER', found {}", found(peek())));
  Head head{.channels = head_channels(), .filter = std::string(text(filter)), .graph = {}};
  close(open, ")");
  if (at_symbol("{")) {
    head.graph = head_graph(take());
    if (!ends_statement()) fail(peek(), "the store within the braces has the head's name and dtype");
    return located(word, [&] { scope_->builder.store_head(value, std::move(head)); });
  }
  stands_alone_after(word);
  const StoredAs as = stored_as(start, "", DType::f32);
  FormedValue formed{value, StoreForm::head, {.channels = head.channels, .filter = head.filter}};
  located(as.place, [&] { scope_->builder.store(std::move(formed), as.type, as.name); });
}

std::int64_t Parser::head_channels() {
  const Token keyword = peek();
  if (!at_word("channels") || !at_symbol("=", 1))
    fail(keyword, fmt::format("expected channels=NUMBER, found {}", found(keyword)));
  take(), take();
  const Token token = peek();
  const double value = number_argument("channels");
  if (!(value >= 1) || value > static_cast<double>(most_head_channels) || value != static_cast<int>(value))
    fail(token, fmt::format("expected a whole number of channels from 1 to {}, found {}", most_head_channels, value));
  return static_cast<std::int64_t>(value);
}

// The statements up to the brace that closes `open`, of which all names are their own
Graph Parser::head_graph(const Token& open) {
  Scope own;
  for (const UserFunction& f : defined_) own.builder.define(f);
  scope_ = &own;
  while (!at_symbol("}")) {
    if (peek().kind == TokenKind::end) close(open, "}");
    if (peek().kind == TokenKind::newline) {
      take();
      continue;
    }
    statement();
    end_of_statement();
  }
  const Token brace = take();
  scope_ = &main_;
  return located(brace, [&] { return own.builder.build(); });
}

}  // namespace unisono::ir
