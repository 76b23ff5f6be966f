#pragma once
/// Tokens of the text form.

#include <cstdint>
#include <vector>

#include "ir/source.hpp"

namespace unisono::ir {

enum class TokenKind : std::uint8_t {
  identifier,
  number,
  symbol,   ///< + - * / < <= > >= == != = & | ! ( ) [ ] , :
  newline,  ///< the end of a statement: a line's end outside parentheses, or ;
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  Span span;
};

/// Splits the text. Blanks, comments and line ends within parentheses are left out; the last token is `end`. Throws
/// UserError for a character that begins no token and for a malformed number.
std::vector<Token> tokenize(const Source& source);

/// The value of a number token: decimal or hexadecimal ("0x1.8p-3"), rounded to nearest. Throws UserError if it is out
/// of the range of f64.
double number_value(const Source& source, const Token& token);

}  // namespace unisono::ir
