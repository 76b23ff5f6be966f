#pragma once
/// Launches of the kernels of products/.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "network/cuda/decide/attention_operands.hpp"
#include "network/cuda/emit/region_emission.hpp"
#include "network/names.hpp"
#include "products/kernel.hpp"

namespace unisono::network::gpu {

/// Operations, and elements of all matrices.
struct ProductWork {
  double flop = 0, elements = 0;
};

/// The address of the first element.
inline void* first_element(const PlacedMatrix& m, const Bases& bases) {
  return static_cast<std::byte*>(address(m.at, bases)) + m.first;
}

/// `placed`: what is read, and behind it the `written` ones. `parameter`: of a function that says where each begins.
template <class P, class Make>
void add_launch_of(RegionEmission& e, const products::Kernel& kernel, const ProductWork& work,
                   const std::vector<PlacedMatrix>& placed, const Make& parameter, std::size_t written = 1) {
  std::vector<Location> used;
  Touched touched;
  for (const PlacedMatrix& m : placed) {
    used.push_back(m.at);
    if (!m.at.constant) touched.reads.push_back(m.memory);
  }
  for (std::size_t i = placed.size() - written; i < placed.size(); ++i) touched.writes.push_back(placed[i].memory);
  const auto parameters = [parameter, placed](const Bases& bases) {
    return parameter([&](std::size_t i) { return first_element(placed[i], bases); });
  };
  auto step = std::make_unique<PlainStep>(kernel.source, kernel.entry, e.in.device.arch(),
                                          cuda::PlainGrid{kernel.ctas, kernel.threads, kernel.shared_bytes}, sizeof(P),
                                          parameters);
  step->flop = work.flop, step->bytes = work.elements * static_cast<double>(size_of(e.in.element));
  e.add(std::move(step), {describe(e.net(), *e.op), kernel.how}, used, std::move(touched));
}

/// `fill` completes the parameters with addresses.
template <class P, class Fill>
void add_launch(RegionEmission& e, const products::Kernel& kernel, const P& fixed, const ProductWork& work,
                const std::vector<PlacedMatrix>& placed, const Fill& fill) {
  add_launch_of<P>(e, kernel, work, placed, [fixed, fill](const auto& at) {
    P p = fixed;
    fill(p, at);
    return PlainParameter(bytes_of(p));
  });
}

}  // namespace unisono::network::gpu
