#include "products/norm_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/pieces.hpp"

namespace unisono::products {

namespace {

constexpr std::uint32_t widest_tile = 32;                          // octets of a CTA: half a KB of a pixel
constexpr std::uint32_t most_image_parts = 128, least_pixels = 4;  // of a thread

std::uint32_t ceiling(std::uint32_t x, std::uint32_t to) { return (x + to - 1) / to; }

// Four CTAs an SM, if each thread has some pixels
void divide_image(NormGradientParams& p, const plan::Device& device) {
  p.octets = ceiling(p.channels, 8), p.wide = std::min(p.octets, widest_tile), p.chunks = ceiling(p.octets, p.wide);
  const std::uint32_t lanes = kNormThreads / p.wide, wanted = 4 * static_cast<std::uint32_t>(std::max(device.sms, 1));
  const std::uint32_t parts = std::clamp(wanted / (p.images * p.chunks), 1u, most_image_parts);
  p.parts = std::clamp(ceiling(p.pixels, lanes * least_pixels), 1u, parts);
  p.part_pixels = ceiling(p.pixels, p.parts), p.parts = ceiling(p.pixels, p.part_pixels);
}

Kernel norm_kernel(const std::string& entry, const std::string& parameters, const std::string& call, std::uint32_t ctas,
                   std::string how) {
  Kernel k;
  k.entry = entry, k.threads = kNormThreads, k.ctas = ctas, k.how = std::move(how);
  k.source = source_of("norm_gradient.cuh", entry, parameters, call, std::to_string(kNormThreads));
  return k;
}

}  // namespace

NormGradientKernels norm_gradient(NormGradientProblem& problem, const plan::Device& device) {
  NormGradientParams& p = problem.extents;
  divide_image(p, device);
  const std::string_view x = codegen::element_name(problem.x), g = codegen::element_name(problem.g),
                         y = codegen::element_name(problem.y);
  const std::uint32_t tiles = p.images * p.parts * p.chunks, padded = 8 * p.octets;
  NormGradientKernels made;
  made.sums =
      norm_kernel("unisono_norm_gradient_sums", "NormGradientParams", fmt::format("norm_gradient_sums<{}, {}>", x, g),
                  tiles, fmt::format("sums of channels, {} parts of an image, {} CTAs", p.parts, tiles));
  made.factors = norm_kernel("unisono_norm_gradient_factors", "NormGradientParams",
                             fmt::format("norm_gradient_factors<{}>", x), p.images * p.groups, "statistics of groups");
  made.input = norm_kernel("unisono_norm_gradient_of_input", "NormGradientParams",
                           fmt::format("norm_gradient_of_input<{}, {}, {}>", x, g, y), tiles,
                           fmt::format("gradient of a normalisation's input, {} CTAs", tiles));
  made.partial_bytes = std::int64_t{16} * p.images * p.parts * padded;
  made.factor_bytes = std::int64_t{16} * p.images * padded;
  made.vector_bytes = std::int64_t{12} * p.images * padded;
  return made;
}

Kernel norm_gradient_of_vector(std::uint32_t channels, DType type) {
  return norm_kernel("unisono_norm_gradient_of_vector", "NormVectorParams",
                     fmt::format("norm_gradient_of_vector<{}>", codegen::element_name(type)),
                     ceiling(channels, kNormThreads), "sums over images");
}

std::vector<NormGradientProblem> norm_gradient_space() {
  std::vector<NormGradientProblem> all;
  for (const DType element : {DType::bf16, DType::f16})
    for (const DType x : {element, DType::f32})
      for (const DType g : {element, DType::f32})
        for (const DType y : {element, DType::f32}) {
          NormGradientProblem problem{.x = x, .g = g, .y = y};
          problem.extents.images = 1, problem.extents.pixels = 64, problem.extents.channels = 32;
          problem.extents.groups = 8;
          all.push_back(problem);
        }
  return all;
}

}  // namespace unisono::products
