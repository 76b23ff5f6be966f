#include "runtime/cpu/resampled_stores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "ir/resampled_stores.hpp"
#include "runtime/common/names.hpp"
#include "runtime/common/views.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

using Sizes = std::vector<std::int64_t>;

// Extents and strides of an image in the order images, rows, columns, channels, whatever its layout
struct ImageView {
  std::byte* data = nullptr;
  DType dtype{};
  std::array<std::int64_t, 4> extents{}, strides{};

  std::int64_t at(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) const {
    return n * strides[0] + h * strides[1] + w * strides[2] + c * strides[3];
  }
  double load(std::int64_t element) const { return support::load(data, element, dtype); }
};

ImageView image_view(const TensorView& t, const Sizes& strides, Layout layout) {
  ImageView v{.data = static_cast<std::byte*>(t.data), .dtype = t.dtype};
  const std::array<std::size_t, 4> order =
      layout == Layout::nhwc ? std::array<std::size_t, 4>{0, 1, 2, 3} : std::array<std::size_t, 4>{0, 2, 3, 1};
  for (std::size_t i = 0; i < 4; ++i) v.extents[i] = t.shape[order[i]], v.strides[i] = strides[order[i]];
  return v;
}

Sizes strides_of(const ConstTensorView& t) { return t.strides.empty() ? row_major_strides(t.shape) : t.strides; }

double larger_or_nan(double x, double y) { return std::isnan(x) || x > y ? x : y; }  // NaN if one is

double pooled(const ImageView& from, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  const auto pixel = [&](std::int64_t i, std::int64_t j) { return from.load(from.at(n, 2 * h + i, 2 * w + j, c)); };
  return larger_or_nan(larger_or_nan(pixel(0, 0), pixel(0, 1)), larger_or_nan(pixel(1, 0), pixel(1, 1)));
}

void fill(const ImageView& to, const ImageView& from, StoreForm form) {
  const auto [images, height, width, channels] = to.extents;
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t h = 0; h < height; ++h)
      for (std::int64_t w = 0; w < width; ++w)
        for (std::int64_t c = 0; c < channels; ++c)
          support::store(
              to.data, to.at(n, h, w, c), to.dtype,
              form == StoreForm::max_pool_2x2 ? pooled(from, n, h, w, c) : from.load(from.at(n, h / 2, w / 2, c)));
}

class ResampledExecutable final : public ExecutableImpl {
 public:
  ResampledExecutable(std::shared_ptr<const ExecutableImpl> whole, const Contraction& contraction, const Graph& source,
                      ir::SplitStores split)
      : whole_(std::move(whole)),
        layout_(ir::image_layout(contraction)),
        shape_(shape_mn(contraction)),
        stores_(source.stores),
        operands_(runtime::operand_names(source)),
        source_(std::move(split.source)),
        alone_(split.only_enlarged) {
    for (const Store& s : stores_)
      if (s.form != StoreForm::whole) made_.push_back({s, ir::shape_of(s.form, contraction)});
  }

  void run(const Arguments& arguments) const override {
    runtime::check_names(arguments, operands_, stores_);
    Arguments inner = arguments;
    std::vector<ImageView> images;
    for (const Made& m : made_) {
      images.push_back(bound(m, arguments));
      inner.outputs.erase(m.store.name);
    }
    std::vector<std::byte> room;
    if (alone_) {
      const DType type = made_[0].store.dtype;
      room.resize(static_cast<std::size_t>(element_count(shape_)) * size_of(type));
      inner.outputs[source_] = {room.data(), type, shape_, {}};
    }
    whole_->run(inner);
    const TensorView& from = inner.outputs.at(source_);
    const ImageView image = image_view(from, strides_of(from), layout_);
    for (std::size_t i = 0; i < made_.size(); ++i) fill(images[i], image, made_[i].store.form);
  }

  std::string describe() const override {
    std::string text = whole_->describe();
    if (!text.empty() && text.back() != '\n') text += '\n';
    for (const Made& m : made_)
      text += fmt::format("  store {}: {} of {}, behind the last tile\n", m.store.name, to_string(m.store.form),
                          alone_ ? "a tensor of the execution" : source_);
    return text;
  }

 private:
  struct Made {
    Store store;
    Sizes shape;
  };

  ImageView bound(const Made& m, const Arguments& arguments) const {
    const std::string what = fmt::format("output {} ({})", m.store.name, to_string(m.store.form));
    const auto given = arguments.outputs.find(m.store.name);
    if (given == arguments.outputs.end())
      throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::outputs", what,
                                  runtime::shape_string(m.shape), to_string(m.store.dtype)));
    const TensorView& view = given->second;
    const DType dtypes[] = {m.store.dtype};
    const Sizes strides = runtime::checked_strides(view, m.shape, dtypes, what);
    runtime::check_distinct(view, strides, what);
    const auto check = [&](const ConstTensorView& other, const std::string& name) {
      if (other.data != nullptr && runtime::may_overlap(view, strides, other, strides_of(other)))
        throw UserError(fmt::format("{} shares memory with {}; give it memory of its own", what, name));
    };
    check(arguments.image, "the image"), check(arguments.filter, "the filter");
    for (const auto& [name, x] : arguments.operands) check(x, "operand " + name);
    for (const auto& [name, x] : arguments.outputs)
      if (name != m.store.name) check(x, "output " + name);
    return image_view(view, strides, layout_);
  }

  std::shared_ptr<const ExecutableImpl> whole_;
  Layout layout_;
  Sizes shape_;
  std::vector<Store> stores_;
  std::vector<std::string> operands_;
  std::string source_;
  bool alone_;
  std::vector<Made> made_;
};

}  // namespace

std::shared_ptr<const ExecutableImpl> with_resampled_stores(std::shared_ptr<const ExecutableImpl> whole,
                                                            const Contraction& contraction, const Graph& source) {
  ir::SplitStores split = ir::split_stores(source);
  if (!split.any()) return whole;
  return std::make_shared<ResampledExecutable>(std::move(whole), contraction, source, std::move(split));
}

}  // namespace unisono::cpu
