#include "media/npy_header.hpp"

#include <fmt/format.h>

#include <charconv>

#include "unisono/error.hpp"

namespace unisono::media {
namespace {

constexpr std::size_t max_rank = 32;  // as NumPy's

/// A recursive-descent parser over the header's text.
class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  NpyHeader run() {
    NpyHeader header;
    bool seen[3] = {false, false, false};  // descr, fortran_order, shape
    expect('{', "a dictionary");
    while (!accept('}')) {
      const std::string key = quoted("a key in quotes");
      expect(':', "':' after the key");
      const int field = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (field < 0) fail("one of the keys 'descr', 'fortran_order' and 'shape'");
      if (seen[field]) fail("each key once");
      seen[field] = true;
      if (field == 0) header.descr = quoted("one element type such as '<f4' (structured types are not supported)");
      if (field == 1) header.fortran_order = boolean();
      if (field == 2) header.shape = tuple();
      if (!accept(',')) {
        expect('}', "',' or '}'");
        break;
      }
    }
    blanks();
    if (at_ != text_.size()) fail("nothing after the dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) fail("the keys 'descr', 'fortran_order' and 'shape'");
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    std::string found;
    for (const char c : text_.substr(std::min(at_, text_.size()), 20)) found += c >= ' ' && c <= '~' ? c : '?';
    throw UserError(fmt::format("'{}': damaged .npy header: expected {} at character {}, found {}", name_, expected,
                                at_, found.empty() ? "the end" : "'" + found + "'"));
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, std::string_view what) {
    if (!accept(c)) fail(what);
  }
  bool accept_word(std::string_view word) {
    blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string quoted(std::string_view what) {
    blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail(what);
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a closing quote");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail("True or False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> shape;
    expect('(', "a shape such as (3, 4)");
    while (!accept(')')) {
      if (shape.size() == max_rank) fail("at most 32 extents");
      blanks();
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc{} || extent < 0) fail("an extent of 0 to 2^63 - 1");
      at_ = static_cast<std::size_t>(end - text_.data());
      accept('L');  // written by Python 2
      shape.push_back(extent);
      if (!accept(',')) {
        expect(')', "',' or ')'");
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::string_view name) { return Parser(text, name).run(); }

std::string print_npy_header(const NpyHeader& header) {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}{}), }}", header.descr,
                     header.fortran_order ? "True" : "False", fmt::join(header.shape, ", "),
                     header.shape.size() == 1 ? "," : "");
}

}  // namespace unisono::media
