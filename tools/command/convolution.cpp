#include "command/convolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

/// What a convolution of `Rank` axes has: extents N,…,C of the image, a number or one an axis for moves, twice as many
/// for margins before and after.
template <std::size_t Rank>
class ConvolutionText {
 public:
  using Axes = std::array<std::int64_t, Rank>;

  explicit ConvolutionText(const std::string& text) : shape(convolution, text), text_(text) {
    if (shape.to.size() < 2) shape.refuse(text);
    image = shape.numbers(shape.from, ',', Rank + 2);
    taps = shape.numbers(shape.to[1], 'x', Rank);
    channels = shape.number(shape.to[0]);
    for (std::size_t i = 2; i < shape.to.size(); ++i) option(shape.to[i]);
    for (std::size_t i = 0; i < Rank && !padded_; ++i) before[i] = after[i] = half_of_reach(taps[i], dilation[i]);
  }

  bool has(std::string_view word) const { return std::ranges::find(words_, word) != words_.end(); }

  template <class... T>
  [[noreturn]] void refuse(fmt::format_string<T...> format, T&&... args) const {
    throw UserError(
        fmt::format("{} '{}': {}", convolution.option, text_, fmt::format(format, std::forward<T>(args)...)));
  }

  ShapeText shape;
  std::vector<std::int64_t> image, taps;
  std::int64_t channels = 0, groups = 1;
  Axes stride = all(1), dilation = all(1), before{}, after{}, output_pad{};
  std::string_view output_pad_text = {};
  Layout layout = Layout::nhwc;
  DType dtype = DType::bf16;

 private:
  static Axes all(std::int64_t value) {
    Axes axes{};
    axes.fill(value);
    return axes;
  }

  // One number for all axes, or one each
  Axes axes(std::string_view value) const {
    if (value.find('x') == std::string_view::npos) return all(shape.number(value));
    const auto numbers = shape.numbers(value, 'x', Rank);
    Axes each{};
    std::ranges::copy(numbers, each.begin());
    return each;
  }

  void option(std::string_view part) {
    shape.once(part.substr(0, part.find('=')), part);
    if (Rank == 2 && (part == "transposed" || part == "dgrad" || part == "wgrad")) return words_.push_back(part);
    const auto [name, value] = shape.option(part);
    if (name == "pad") return pad(value);
    if (name == "stride") return static_cast<void>(stride = axes(value));
    if (name == "dilation") return static_cast<void>(dilation = axes(value));
    if (name == "groups") return static_cast<void>(groups = shape.number(value));
    if (name == "dtype") return static_cast<void>(dtype = shape.dtype(part, value));
    if (Rank != 2) shape.refuse(part);
    if (name == "output_pad") return static_cast<void>(output_pad = axes(value), output_pad_text = part);
    if (name != "layout" || (value != "nhwc" && value != "nchw")) shape.refuse(part);
    layout = value == "nchw" ? Layout::nchw : Layout::nhwc;
  }

  void pad(std::string_view value) {
    padded_ = true;
    if (value.find('.') == std::string_view::npos) return static_cast<void>(before = after = axes(value));
    const auto numbers = shape.numbers(value, '.', 2 * Rank);
    std::copy_n(numbers.begin(), Rank, before.begin());
    std::copy_n(numbers.begin() + Rank, Rank, after.begin());
  }

  const std::string& text_;
  std::vector<std::string_view> words_;
  bool padded_ = false;
};

ConvTranspose2d transposed(const Conv2d& conv, Pair output_pad) {
  ConvTranspose2d t{.n = conv.n, .h = conv.h, .w = conv.w, .c = conv.c, .k = conv.k, .r = conv.r, .s = conv.s};
  t.stride = conv.stride, t.pad = conv.pad, t.dilation = conv.dilation, t.groups = conv.groups;
  t.layout = conv.layout, t.dtype_x = conv.dtype_x, t.dtype_w = conv.dtype_w, t.output_pad = output_pad;
  return t;
}

FilterGradient2d filter_gradient(const Conv2d& conv) {
  return {.n = conv.n,
          .h = conv.h,
          .w = conv.w,
          .c = conv.c,
          .k = conv.k,
          .r = conv.r,
          .s = conv.s,
          .stride = conv.stride,
          .pad = conv.pad,
          .dilation = conv.dilation,
          .dtype_y = conv.dtype_w,
          .dtype_x = conv.dtype_x};
}

Contraction convolution_of(const ConvolutionText<2>& t) {
  const bool turned = t.has("transposed"), of_image = t.has("dgrad"), of_filter = t.has("wgrad");
  const Conv2d conv{.n = t.image[0],
                    .h = t.image[1],
                    .w = t.image[2],
                    .c = t.image[3],
                    .k = t.channels,
                    .r = t.taps[0],
                    .s = t.taps[1],
                    .stride = {t.stride[0], t.stride[1]},
                    .pad = {t.before[0], t.before[1], t.after[0], t.after[1]},
                    .dilation = {t.dilation[0], t.dilation[1]},
                    .groups = t.groups,
                    .layout = t.layout,
                    .dtype_x = t.dtype,
                    .dtype_w = t.dtype};
  if (!turned && !t.output_pad_text.empty()) t.refuse("'{}' needs 'transposed'", t.output_pad_text);
  if (of_image && (of_filter || turned))
    t.refuse("dgrad is the gradient of a convolution's image; leave out {}", of_filter ? "wgrad" : "transposed");
  if (of_filter && (turned || conv.groups != 1 || conv.layout != Layout::nhwc))
    t.refuse(
        "wgrad is the gradient of a convolution NHWC of one group; leave out transposed, groups "
        "and layout");
  if (of_filter) return filter_gradient(conv);
  if (of_image) return input_gradient(conv);
  if (turned) return transposed(conv, {t.output_pad[0], t.output_pad[1]});
  return conv;
}

Contraction convolution_of(const ConvolutionText<3>& t) {
  return Conv3d{.n = t.image[0],
                .d = t.image[1],
                .h = t.image[2],
                .w = t.image[3],
                .c = t.image[4],
                .k = t.channels,
                .t = t.taps[0],
                .r = t.taps[1],
                .s = t.taps[2],
                .stride = {t.stride[0], t.stride[1], t.stride[2]},
                .before = {t.before[0], t.before[1], t.before[2]},
                .after = {t.after[0], t.after[1], t.after[2]},
                .dilation = {t.dilation[0], t.dilation[1], t.dilation[2]},
                .groups = t.groups,
                .dtype_x = t.dtype,
                .dtype_w = t.dtype};
}

}  // namespace

Contraction parse_convolution(const std::string& text) {
  const std::string_view image = std::string_view(text).substr(0, text.find("->"));
  Contraction result = std::ranges::count(image, ',') == 4 ? convolution_of(ConvolutionText<3>(text))
                                                           : convolution_of(ConvolutionText<2>(text));
  extents(result);  // legal?
  return result;
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
  if (auto* gemm = std::get_if<Gemm>(&contraction)) gemm->products = product_count(graph);
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
