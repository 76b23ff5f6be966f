#include "runtime/cpu/resampled_stores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "ir/store_forms.hpp"
#include "passes/split_stores.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cpu/backend.hpp"
#include "runtime/cpu/made_output.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "support/float_convert.hpp"
#include "support/fork.hpp"

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

double larger_or_nan(double x, double y) { return std::isnan(x) || x > y ? x : y; }  // NaN propagates

double pooled(const ImageView& from, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  const auto pixel = [&](std::int64_t i, std::int64_t j) { return from.load(from.at(n, 2 * h + i, 2 * w + j, c)); };
  return larger_or_nan(larger_or_nan(pixel(0, 0), pixel(0, 1)), larger_or_nan(pixel(1, 0), pixel(1, 1)));
}

void fill_row(const ImageView& to, const ImageView& from, StoreForm form, std::int64_t n, std::int64_t h) {
  for (std::int64_t w = 0; w < to.extents[2]; ++w)
    for (std::int64_t c = 0; c < to.extents[3]; ++c)
      support::store(
          to.data, to.at(n, h, w, c), to.dtype,
          form == StoreForm::max_pool_2x2 ? pooled(from, n, h, w, c) : from.load(from.at(n, h / 2, w / 2, c)));
}

// Every image row is written by one thread
void fill(const ImageView& to, const ImageView& from, StoreForm form, int threads) {
  const std::int64_t height = to.extents[1], rows = to.extents[0] * height;
  const auto row = [&](std::int64_t i, int) { fill_row(to, from, form, i / height, i % height); };
  if (rows > 0) WorkerPool::shared().for_each(threads, rows, std::cref(row));
}

class ResampledExecutable final : public ExecutableImpl {
 public:
  ResampledExecutable(std::shared_ptr<const ExecutableImpl> whole, const Contraction& contraction, const Graph& source,
                      passes::SplitStores split, int threads)
      : whole_(std::move(whole)),
        layout_(ir::image_layout(contraction)),
        shape_(shape_mn(contraction)),
        stores_(source.stores),
        operands_(runtime::operand_names(source)),
        source_(std::move(split.source)),
        alone_(split.only_upsampled),
        threads_(threads) {
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
    AlignedBuffer room;
    if (alone_) {
      const DType type = made_[0].store.dtype;
      room = AlignedBuffer(static_cast<std::size_t>(element_count(shape_)) * size_of(type));
      inner.outputs[source_] = {room.data(), type, shape_, {}};
    }
    whole_->run(inner);
    const TensorView& from = inner.outputs.at(source_);
    const ImageView image = image_view(from, strides_of(from), layout_);
    const support::NoFork no_fork;
    for (std::size_t i = 0; i < made_.size(); ++i) fill(images[i], image, made_[i].store.form, threads_);
  }

  std::string describe() const override {
    std::string text = whole_->describe();
    if (!text.empty() && text.back() != '\n') text += '\n';
    for (const Made& m : made_)
      text += fmt::format("  store {}: {} of {}, after the last tile\n", m.store.name, to_string(m.store.form),
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
    const Sizes strides = checked_made_output(m.store.name, what, m.shape, m.store.dtype, arguments);
    return image_view(arguments.outputs.at(m.store.name), strides, layout_);
  }

  std::shared_ptr<const ExecutableImpl> whole_;
  Layout layout_;
  Sizes shape_;
  std::vector<Store> stores_;
  std::vector<std::string> operands_;
  std::string source_;
  bool alone_;
  int threads_;
  std::vector<Made> made_;
};

}  // namespace

std::shared_ptr<const ExecutableImpl> with_resampled_stores(std::shared_ptr<const ExecutableImpl> whole,
                                                            const Contraction& contraction, const Graph& source,
                                                            const CompileOptions& options) {
  passes::SplitStores split = passes::split_stores(source);
  if (!split.any()) return whole;
  return std::make_shared<ResampledExecutable>(std::move(whole), contraction, source, std::move(split),
                                               thread_count(options));
}

}  // namespace unisono::cpu
