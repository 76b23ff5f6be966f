#include "command/convolution.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <vector>

#include "coda/error.hpp"

namespace coda::command {
namespace {

constexpr const char* expected =
    "expected N,H,W,C->K,RxS[,pad=P][,stride=S][,dilation=D][,dtype=T] such as 8,64,64,320->320,3x3,pad=1";

[[noreturn]] void refuse(const std::string& text, std::string_view part) {
  throw UserError(fmt::format("--conv '{}': '{}' is not understood; {}", text, part, expected));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Conv2d run() {
    const std::size_t arrow = text_.find("->");
    if (arrow == std::string::npos) refuse(text_, text_);
    const auto image = numbers(std::string_view(text_).substr(0, arrow), ',', 4);
    const auto rest = split(std::string_view(text_).substr(arrow + 2), ',');
    if (rest.size() < 2) refuse(text_, std::string_view(text_).substr(arrow));
    const auto taps = numbers(rest[1], 'x', 2);
    conv_ = {.n = image[0],
             .h = image[1],
             .w = image[2],
             .c = image[3],
             .k = number(rest[0]),
             .r = taps[0],
             .s = taps[1],
             .dtype_x = DType::bf16,
             .dtype_w = DType::bf16};
    for (std::size_t i = 2; i < rest.size(); ++i) option(rest[i]);
    if (!padded_) {
      const std::int64_t h = (conv_.r - 1) * conv_.dilation[0], w = (conv_.s - 1) * conv_.dilation[1];
      conv_.pad = {h / 2, w / 2, h / 2, w / 2};
    }
    extents(Contraction(conv_));  // legal?
    return conv_;
  }

 private:
  std::int64_t number(std::string_view part) const {
    std::int64_t value = 0;
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, value);
    if (error != std::errc{} || stop != end || part.empty()) refuse(text_, part);
    return value;
  }

  std::vector<std::int64_t> numbers(std::string_view part, char separator, std::size_t count) const {
    std::vector<std::int64_t> values;
    for (const std::string_view x : split(part, separator)) values.push_back(number(x));
    if (values.size() != count) refuse(text_, part);
    return values;
  }

  // One number for both directions, or two
  std::array<std::int64_t, 2> pair(std::string_view value) const {
    if (value.find('x') == std::string_view::npos) return {number(value), number(value)};
    const auto both = numbers(value, 'x', 2);
    return {both[0], both[1]};
  }

  void option(std::string_view part) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) refuse(text_, part);
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "pad") return pad(value);
    if (name == "stride") return static_cast<void>(conv_.stride = pair(value));
    if (name == "dilation") return static_cast<void>(conv_.dilation = pair(value));
    if (name != "dtype") refuse(text_, part);
    const auto type = dtype_from_string(value);
    if (!type) refuse(text_, part);
    conv_.dtype_x = conv_.dtype_w = *type;
  }

  void pad(std::string_view value) {
    padded_ = true;
    if (value.find('.') == std::string_view::npos) {
      const auto [h, w] = pair(value);
      conv_.pad = {h, w, h, w};
    } else {
      const auto all = numbers(value, '.', 4);
      conv_.pad = {all[0], all[1], all[2], all[3]};
    }
  }

  const std::string& text_;
  Conv2d conv_;
  bool padded_ = false;
};

}  // namespace

Conv2d parse_convolution(const std::string& text) { return Parser(text).run(); }

}  // namespace coda::command
