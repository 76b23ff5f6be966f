#include "command/convolution.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::command {
namespace {

struct Form {
  const char *option, *expected;
};
constexpr Form convolution_form{
    "--conv", "N,H,W,C->K,RxS[,pad=P][,stride=S][,dilation=D][,groups=G][,dtype=T] such as 8,64,64,320->320,3x3,pad=1"};
constexpr Form product_form{"--gemm", "M,K->N[,dtype=T] such as 512,1024->4096"};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// What stands ahead of the arrow and behind it, and the numbers in that
class Shape {
 public:
  Shape(const Form& form, const std::string& text) : form_(form), text_(text) {
    const std::size_t arrow = text.find("->");
    if (arrow == std::string::npos) refuse(text);
    from = std::string_view(text).substr(0, arrow);
    to = split(std::string_view(text).substr(arrow + 2), ',');
  }

  [[noreturn]] void refuse(std::string_view part) const {
    throw UserError(
        fmt::format("{} '{}': '{}' is not understood; expected {}", form_.option, text_, part, form_.expected));
  }

  std::int64_t number(std::string_view part) const {
    std::int64_t value = 0;
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, value);
    if (error != std::errc{} || stop != end || part.empty()) refuse(part);
    return value;
  }

  std::vector<std::int64_t> numbers(std::string_view part, char separator, std::size_t count) const {
    std::vector<std::int64_t> values;
    for (const std::string_view x : split(part, separator)) values.push_back(number(x));
    if (values.size() != count) refuse(part);
    return values;
  }

  // "name=value"
  std::pair<std::string_view, std::string_view> option(std::string_view part) const {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) refuse(part);
    return {part.substr(0, equals), part.substr(equals + 1)};
  }

  DType dtype(std::string_view part, std::string_view value) const {
    const auto type = dtype_from_string(value);
    if (!type) refuse(part);
    return *type;
  }

  std::string_view from;
  std::vector<std::string_view> to;

 private:
  const Form& form_;
  const std::string& text_;
};

class ConvolutionParser {
 public:
  explicit ConvolutionParser(const std::string& text) : shape_(convolution_form, text) {
    if (shape_.to.size() < 2) shape_.refuse(text);
  }

  Conv2d run() {
    const auto image = shape_.numbers(shape_.from, ',', 4), taps = shape_.numbers(shape_.to[1], 'x', 2);
    conv_ = {.n = image[0],
             .h = image[1],
             .w = image[2],
             .c = image[3],
             .k = shape_.number(shape_.to[0]),
             .r = taps[0],
             .s = taps[1],
             .dtype_x = DType::bf16,
             .dtype_w = DType::bf16};
    for (std::size_t i = 2; i < shape_.to.size(); ++i) option(shape_.to[i]);
    if (!padded_) {
      const std::int64_t h = (conv_.r - 1) * conv_.dilation[0], w = (conv_.s - 1) * conv_.dilation[1];
      conv_.pad = {h / 2, w / 2, h / 2, w / 2};
    }
    extents(Contraction(conv_));  // legal?
    return conv_;
  }

 private:
  // One number for both directions, or two
  std::array<std::int64_t, 2> pair(std::string_view value) const {
    if (value.find('x') == std::string_view::npos) return {shape_.number(value), shape_.number(value)};
    const auto both = shape_.numbers(value, 'x', 2);
    return {both[0], both[1]};
  }

  void option(std::string_view part) {
    const auto [name, value] = shape_.option(part);
    if (name == "pad") return pad(value);
    if (name == "stride") return static_cast<void>(conv_.stride = pair(value));
    if (name == "dilation") return static_cast<void>(conv_.dilation = pair(value));
    if (name == "groups") return static_cast<void>(conv_.groups = shape_.number(value));
    if (name != "dtype") shape_.refuse(part);
    conv_.dtype_x = conv_.dtype_w = shape_.dtype(part, value);
  }

  void pad(std::string_view value) {
    padded_ = true;
    if (value.find('.') == std::string_view::npos) {
      const auto [h, w] = pair(value);
      conv_.pad = {h, w, h, w};
    } else {
      const auto all = shape_.numbers(value, '.', 4);
      conv_.pad = {all[0], all[1], all[2], all[3]};
    }
  }

  Shape shape_;
  Conv2d conv_;
  bool padded_ = false;
};

}  // namespace

Conv2d parse_convolution(const std::string& text) { return ConvolutionParser(text).run(); }

Gemm parse_product(const std::string& text) {
  const Shape shape(product_form, text);
  const auto a = shape.numbers(shape.from, ',', 2);
  Gemm product{.m = a[0],
               .n = shape.number(shape.to[0]),
               .k = a[1],
               .transpose_b = true,
               .dtype_a = DType::bf16,
               .dtype_b = DType::bf16};
  for (std::size_t i = 1; i < shape.to.size(); ++i) {
    const auto [name, value] = shape.option(shape.to[i]);
    if (name != "dtype") shape.refuse(shape.to[i]);
    product.dtype_a = product.dtype_b = shape.dtype(shape.to[i], value);
  }
  extents(Contraction(product));  // legal?
  return product;
}

}  // namespace unisono::command
