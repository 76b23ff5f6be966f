#include "command/convolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::command {
namespace {

struct Form {
  const char *option, *expected, *example;
};
constexpr Form convolution{"--conv", convolution_form,
                           "8,64,64,320->320,3x3,pad=1 or 1,17,64,64,96->96,3x3x3,pad=2.1.1.0.1.1"};
constexpr Form product{"--gemm", product_form, "512,1024->4096 or 16,512,64->512,nn"};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// What stands before the arrow and after it, and the numbers in that.
class ShapeText {
 public:
  ShapeText(const Form& form, const std::string& text) : form_(form), text_(text) {
    const std::size_t arrow = text.find("->");
    if (arrow == std::string::npos) refuse(text);
    from = std::string_view(text).substr(0, arrow);
    to = split(std::string_view(text).substr(arrow + 2), ',');
  }

  [[noreturn]] void refuse(std::string_view part) const {
    throw UserError(fmt::format("{} '{}': '{}' is not understood; expected {} such as {}", form_.option, text_, part,
                                form_.expected, form_.example));
  }

  /// What is set by `name` may be set once.
  void once(std::string_view name, std::string_view part) {
    if (!set_.insert(name).second)
      throw UserError(fmt::format("{} '{}': '{}' sets again what was set before", form_.option, text_, part));
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
  std::set<std::string_view> set_;
};

/// Half of what a filter spans; what is too large for a filter is refused by extents().
std::int64_t half_of_reach(std::int64_t taps, std::int64_t dilation) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  return (std::clamp<std::int64_t>(taps, 1, most) - 1) * std::clamp<std::int64_t>(dilation, 1, most) / 2;
}

class ConvolutionParser {
 public:
  explicit ConvolutionParser(const std::string& text) : text_(text), shape_(convolution, text) {
    if (shape_.to.size() < 2) shape_.refuse(text);
  }

  Contraction run() {
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
    if (!padded_) pad_by_half();
    if (!transposed_ && !output_pad_.empty())
      throw UserError(fmt::format("{} '{}': '{}' needs 'transposed'", convolution.option, text_, output_pad_));
    if (of_image_ && (gradient_ || transposed_))
      throw UserError(fmt::format("{} '{}': dgrad is the gradient of a convolution's image; leave out {}",
                                  convolution.option, text_, gradient_ ? "wgrad" : "transposed"));
    const Contraction result = gradient_     ? gradient()
                               : of_image_   ? Contraction(input_gradient(conv_))
                               : transposed_ ? Contraction(transposed())
                                             : Contraction(conv_);
    extents(result);  // legal?
    return result;
  }

 private:
  void pad_by_half() {
    const std::int64_t h = half_of_reach(conv_.r, conv_.dilation[0]), w = half_of_reach(conv_.s, conv_.dilation[1]);
    conv_.pad = {h, w, h, w};
  }

  ConvTranspose2d transposed() const {
    ConvTranspose2d t{.n = conv_.n, .h = conv_.h, .w = conv_.w, .c = conv_.c, .k = conv_.k, .r = conv_.r, .s = conv_.s};
    t.stride = conv_.stride, t.pad = conv_.pad, t.dilation = conv_.dilation, t.groups = conv_.groups;
    t.layout = conv_.layout, t.dtype_x = conv_.dtype_x, t.dtype_w = conv_.dtype_w;
    if (!output_pad_.empty()) t.output_pad = pair(output_pad_.substr(output_pad_.find('=') + 1));
    return t;
  }

  Contraction gradient() const {
    if (transposed_ || conv_.groups != 1 || conv_.layout != Layout::nhwc)
      throw UserError(
          fmt::format("{} '{}': wgrad is the gradient of a convolution NHWC of one group; leave out transposed, groups "
                      "and layout",
                      convolution.option, text_));
    return FilterGradient2d{.n = conv_.n,
                            .h = conv_.h,
                            .w = conv_.w,
                            .c = conv_.c,
                            .k = conv_.k,
                            .r = conv_.r,
                            .s = conv_.s,
                            .stride = conv_.stride,
                            .pad = conv_.pad,
                            .dilation = conv_.dilation,
                            .dtype_y = conv_.dtype_w,
                            .dtype_x = conv_.dtype_x};
  }

  // One number for both directions, or two
  Pair pair(std::string_view value) const {
    if (value.find('x') == std::string_view::npos) return {shape_.number(value), shape_.number(value)};
    const auto both = shape_.numbers(value, 'x', 2);
    return {both[0], both[1]};
  }

  void option(std::string_view part) {
    shape_.once(part.substr(0, part.find('=')), part);
    if (part == "transposed") return static_cast<void>(transposed_ = true);
    if (part == "dgrad") return static_cast<void>(of_image_ = true);
    if (part == "wgrad") return static_cast<void>(gradient_ = true);
    const auto [name, value] = shape_.option(part);
    if (name == "pad") return pad(value);
    if (name == "stride") return static_cast<void>(conv_.stride = pair(value));
    if (name == "dilation") return static_cast<void>(conv_.dilation = pair(value));
    if (name == "groups") return static_cast<void>(conv_.groups = shape_.number(value));
    if (name == "output_pad") return static_cast<void>(output_pad_ = part);
    if (name == "layout" && (value == "nhwc" || value == "nchw"))
      return static_cast<void>(conv_.layout = value == "nchw" ? Layout::nchw : Layout::nhwc);
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

  const std::string& text_;
  ShapeText shape_;
  Conv2d conv_;
  bool padded_ = false, transposed_ = false, gradient_ = false, of_image_ = false;
  std::string_view output_pad_;
};

/// A convolution of volumes: five extents of the image, three of the filter.
class VolumeParser {
 public:
  explicit VolumeParser(const std::string& text) : shape_(convolution, text) {
    if (shape_.to.size() < 2) shape_.refuse(text);
  }

  Contraction run() {
    const auto image = shape_.numbers(shape_.from, ',', 5), taps = shape_.numbers(shape_.to[1], 'x', 3);
    conv_ = {.n = image[0],
             .d = image[1],
             .h = image[2],
             .w = image[3],
             .c = image[4],
             .k = shape_.number(shape_.to[0]),
             .t = taps[0],
             .r = taps[1],
             .s = taps[2],
             .dtype_x = DType::bf16,
             .dtype_w = DType::bf16};
    for (std::size_t i = 2; i < shape_.to.size(); ++i) option(shape_.to[i]);
    for (std::size_t i = 0; i < 3 && !padded_; ++i)
      conv_.before[i] = conv_.after[i] = half_of_reach(taps[i], conv_.dilation[i]);
    extents(Contraction(conv_));  // legal?
    return conv_;
  }

 private:
  // One number for all directions, or three
  Triple triple(std::string_view value) const {
    if (value.find('x') == std::string_view::npos) return shape_.number(value);
    const auto all = shape_.numbers(value, 'x', 3);
    return {all[0], all[1], all[2]};
  }

  void option(std::string_view part) {
    shape_.once(part.substr(0, part.find('=')), part);
    const auto [name, value] = shape_.option(part);
    if (name == "pad") return pad(value);
    if (name == "stride") return static_cast<void>(conv_.stride = triple(value));
    if (name == "dilation") return static_cast<void>(conv_.dilation = triple(value));
    if (name == "groups") return static_cast<void>(conv_.groups = shape_.number(value));
    if (name != "dtype") shape_.refuse(part);
    conv_.dtype_x = conv_.dtype_w = shape_.dtype(part, value);
  }

  void pad(std::string_view value) {
    padded_ = true;
    if (value.find('.') == std::string_view::npos) return static_cast<void>(conv_.before = conv_.after = triple(value));
    const auto all = shape_.numbers(value, '.', 6);
    conv_.before = {all[0], all[1], all[2]}, conv_.after = {all[3], all[4], all[5]};
  }

  ShapeText shape_;
  Conv3d conv_;
  bool padded_ = false;
};

}  // namespace

Contraction parse_convolution(const std::string& text) {
  const std::string_view image = std::string_view(text).substr(0, text.find("->"));
  return std::ranges::count(image, ',') == 4 ? VolumeParser(text).run() : ConvolutionParser(text).run();
}

Gemm parse_product(const std::string& text) {
  ShapeText shape(product, text);
  const auto a = split(shape.from, ',');
  if (a.size() != 2 && a.size() != 3) shape.refuse(shape.from);
  const auto rows = split(a[a.size() - 2], '+');
  Gemm result{.batch = a.size() == 3 ? shape.number(a[0]) : 1,
              .n = shape.number(shape.to[0]),
              .k = shape.number(a.back()),
              .transpose_b = true,
              .dtype_a = DType::bf16,
              .dtype_b = DType::bf16};
  for (const std::string_view group : rows) {
    const std::int64_t m = shape.number(group);
    if (rows.size() > 1) result.group_rows.push_back(m);
    if (__builtin_add_overflow(result.m, m, &result.m)) shape.refuse(shape.from);
  }
  for (std::size_t i = 1; i < shape.to.size(); ++i) {
    const std::string_view part = shape.to[i];
    const auto letter = [](char c) { return c == 'n' || c == 't'; };
    if (part.size() == 2 && letter(part[0]) && letter(part[1])) {
      shape.once("layout", part);
      result.transpose_a = part[0] == 't', result.transpose_b = part[1] == 't';
      continue;
    }
    const auto [name, value] = shape.option(part);
    if (name != "dtype") shape.refuse(part);
    shape.once(name, part);
    result.dtype_a = result.dtype_b = shape.dtype(part, value);
  }
  extents(Contraction(result));  // legal?
  return result;
}

Contraction with_products(Contraction contraction, const Graph& graph) {
  if (auto* product = std::get_if<Gemm>(&contraction)) product->products = product_count(graph);
  if (auto* conv = std::get_if<Conv2d>(&contraction)) conv->products = product_count(graph);
  return contraction;
}

Contraction parse_contraction(const std::string& conv, const std::string& gemm, const std::string& what) {
  if (!conv.empty() && !gemm.empty())
    throw UserError(fmt::format("--conv '{}' and --gemm '{}' are both given; expected one of them", conv, gemm));
  if (conv.empty() && gemm.empty())
    throw UserError(
        fmt::format("{} one convolution or product: give its shape, such as --conv '8,64,64,320->320,3x3' "
                    "or --gemm '512,1024->4096'",
                    what));
  return gemm.empty() ? parse_convolution(conv) : Contraction(parse_product(gemm));
}

}  // namespace unisono::command
