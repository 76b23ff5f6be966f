#pragma once
/// The text under the parser's eyes: offsets to lines and columns, and errors that show the place.

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono::ir {

/// Part of a text, in bytes.
struct Span {
  std::size_t offset = 0;
  std::size_t length = 0;
};

/// `text`, or its beginning and "..." if it is too long for a message.
std::string excerpt(std::string_view text);

class Source {
 public:
  /// `text` must outlive this.
  explicit Source(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  std::string_view text(Span span) const { return text_.substr(span.offset, span.length); }

  struct Position {
    std::size_t line = 1;    ///< from 1
    std::size_t column = 1;  ///< from 1, in characters (UTF-8)
  };
  Position place(std::size_t offset) const;

  /// Throws UserError: "line 2, column 5: <message>", the line, and carets under the part of `span` on it. Of a long
  /// line only the neighbourhood is shown.
  [[noreturn]] void fail(Span span, std::string_view message) const;

 private:
  std::string_view text_;
};

}  // namespace unisono::ir
