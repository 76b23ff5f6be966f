#include "ir/lexer.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

#include "ir/names.hpp"

namespace unisono::ir {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text()) {}

  std::vector<Token> run() {
    while (skip_blanks(), at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ';') {
        add(TokenKind::newline, 1);
      } else if (c == '\n') {
        if (depth_ == 0)
          add(TokenKind::newline, 1);
        else
          ++at_;
      } else if (is_letter(c)) {
        identifier();
      } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
        number();
      } else {
        symbol();
      }
    }
    // The end stands right behind the last word, where a reader looks for what is missing
    at_ = 0;
    for (auto t = tokens_.rbegin(); t != tokens_.rend() && at_ == 0; ++t)
      if (t->kind != TokenKind::newline) at_ = t->span.offset + t->span.length;
    add(TokenKind::end, 0);
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void add(TokenKind kind, std::size_t length) {
    tokens_.push_back({kind, {at_, length}});
    at_ += length;
  }

  template <class Predicate>
  std::size_t run_of(Predicate belongs) const {
    std::size_t n = 0;
    while (at_ + n < text_.size() && belongs(text_[at_ + n])) ++n;
    return n;
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || (c == '\r' && peek(1) == '\n'))
        ++at_;
      else if (c == '#')
        at_ += run_of([](char x) { return x != '\n'; });
      else
        return;
    }
  }

  void identifier() {
    const std::size_t n = run_of([](char x) { return is_letter(x) || is_digit(x); });
    if (n > longest_name)
      source_.fail({at_, n}, fmt::format("a name of {} characters; the limit is {}", n, longest_name));
    add(TokenKind::identifier, n);
  }

  // Takes letters, digits and points that touch, and a sign after an exponent's letter; the value is checked as a whole
  void number() {
    const bool hex = text_[at_] == '0' && (peek(1) == 'x' || peek(1) == 'X');
    std::size_t n = hex ? 2 : 0;
    for (;; ++n) {
      const char c = peek(n);
      const char before = n > 0 ? peek(n - 1) : '\0';
      const bool exponent = hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E';
      if (!is_letter(c) && !is_digit(c) && c != '.' && !((c == '+' || c == '-') && exponent)) break;
    }
    const Token token{TokenKind::number, {at_, n}};
    number_value(source_, token);
    add(TokenKind::number, n);
  }

  void symbol() {
    constexpr std::array<std::string_view, 4> pairs{"<=", ">=", "==", "!="};
    for (const auto pair : pairs)
      if (text_.substr(at_, 2) == pair) return add(TokenKind::symbol, 2);
    const char c = text_[at_];
    if (c == '(' || c == '[') ++depth_;
    if ((c == ')' || c == ']') && depth_ > 0) --depth_;
    if (std::string_view("+-*/<>=&|!()[]{},:").find(c) == std::string_view::npos) unexpected();
    add(TokenKind::symbol, 1);
  }

  [[noreturn]] void unexpected() const {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c >= 0x80) source_.fail({at_, 1}, "only comments may hold characters outside ASCII");
    if (c < 0x20 || c == 0x7f) source_.fail({at_, 1}, fmt::format("unexpected control character 0x{:02x}", c));
    source_.fail({at_, 1}, fmt::format("unexpected character '{}'", static_cast<char>(c)));
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;  // open parentheses and brackets
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const Source& source) { return Lexer(source).run(); }

double number_value(const Source& source, const Token& token) {
  auto digits = source.text(token.span);
  auto format = std::chars_format::general;
  if (digits.size() > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
    digits.remove_prefix(2);
    format = std::chars_format::hex;
  }
  const bool starts_well =
      !digits.empty() && (digits[0] == '.' || std::isxdigit(static_cast<unsigned char>(digits[0])));
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, format);
  if (error == std::errc::result_out_of_range)
    source.fail(token.span, "the number is out of the range of f64, 5e-324 to 1.8e308; write 0 or inf");
  const std::string_view rest(stop, end);  // 2n; no exponent or suffix that lacks something
  const bool names = !rest.empty() && std::isalpha(static_cast<unsigned char>(rest[0])) &&
                     std::string_view("eExXfF").find(rest[0]) == std::string_view::npos;
  if (error == std::errc() && starts_well && names)
    source.fail(token.span, fmt::format("'{}' is a number with letters after it; write {} * {} for a product, or a "
                                        "name that begins with a letter",
                                        source.text(token.span), std::string_view(digits.data(), stop), rest));
  if (!starts_well || error != std::errc() || stop != end)
    source.fail(token.span, "malformed number; expected one such as 2, 0.5, 1e-5 or 0x1.8p-3");
  return value;
}

}  // namespace unisono::ir
