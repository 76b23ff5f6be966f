/// Convolutions whose image is enlarged ahead of them. The image of twice the height and width has each pixel four
/// times: what a filter's taps see of one pixel they see together, and their sums are the taps of a transposed
/// convolution of stride 2 of the small image.

#include <fmt/format.h>

#include <utility>

#include "network/cuda/lowering.hpp"
#include "network/cuda/parameters.hpp"
#include "network/names.hpp"

namespace unisono::network::gpu {

namespace {

constexpr double launch_us = 3;  ///< of a kernel that only moves memory: as the plans' cost model has it

}  // namespace

bool Lowering::enlarges() const {
  const auto* c = std::get_if<operators::Conv2d>(&op_->kind);
  return c != nullptr && c->enlarged;
}

std::optional<ConvTranspose2d> Lowering::transposed() const {
  const Contraction given = contraction_of(*op_, p_.storage.shapes);
  if (const auto* t = std::get_if<ConvTranspose2d>(&given)) return *t;
  if (form_ != Form::phases) return std::nullopt;
  const auto& c = std::get<Conv2d>(given);
  ConvTranspose2d t{
      .n = c.n, .h = c.h / 2, .w = c.w / 2, .c = c.c, .k = c.k, .r = c.r + 1, .s = c.s + 1, .stride = {2, 2}};
  for (std::size_t i = 0; i < 4; ++i) t.pad[i] = (i % 2 == 0 ? c.r : c.s) - 1 - c.pad[i];
  return t;
}

Located Lowering::image() const { return form_ == Form::enlarged ? *enlarged_ : located(in(0)); }

Sizes Lowering::image_sizes() const {
  Sizes s = sizes(in(0));
  if (form_ == Form::enlarged) s[2] *= 2, s[3] *= 2;
  return s;
}

// Where the large image lies between its kernel and the contraction's
void Lowering::place_enlarged() {
  const Sizes& x = sizes(in(0));
  const std::int64_t pitch = (column_count(x) + 7) / 8 * 8;
  const auto bytes = static_cast<std::size_t>(2 * x[0] * 4 * x[2] * x[3] * pitch);
  enlarged_ = Located{scratch(bytes), pitch, p_.element};
}

void Lowering::enlarge() {
  const Sizes& x = sizes(in(0));
  resize(operators::Resize{.scale_h = 2, .scale_w = 2}, x, {x[0], x[1], 2 * x[2], 2 * x[3]}, located(in(0)),
         *enlarged_);
}

double Lowering::enlarging_us() const {
  const Sizes& x = sizes(in(0));
  return launch_us + 2e-6 * 5 * static_cast<double>(element_count(x)) / p_.device.memory_tbps;
}

std::unique_ptr<Step> Lowering::best_form(const Make& make, std::string& why) {
  form_ = Form::given;
  if (!enlarges()) return make(why);
  std::string why_enlarged;
  const std::size_t used = scratch_used_, bytes = lowered_.scratch_bytes;
  form_ = Form::phases;
  auto phases = make(why);
  form_ = Form::enlarged;
  place_enlarged();
  auto enlarged = make(why_enlarged);
  const double us = enlarged ? enlarged->predicted_us + enlarging_us() : 0;
  if (enlarged && (!phases || phases->predicted_us > us)) {
    enlarged->how +=
        phases ? fmt::format(", of an enlarged image: {:.1f} us predicted, {:.1f} by phases", us, phases->predicted_us)
               : fmt::format(", of an enlarged image: not by phases: {}", first_line(why));
    enlarge();
    return enlarged;
  }
  scratch_used_ = used, lowered_.scratch_bytes = bytes;
  form_ = Form::phases;
  return phases;
}

}  // namespace unisono::network::gpu
