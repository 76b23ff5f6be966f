#pragma once
/// Random problems over everything that the backend takes, each named by a seed and a number.

#include <map>
#include <string>
#include <vector>

#include "gpu/case.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

/// Neighbours in number are a family: they have epilogue and layout in common, and most of them their kernel.
inline constexpr int broad_shapes = 4;

/// How often something was drawn that the backend refuses, by reason.
using Refusals = std::map<std::string, int>;

/// The cases broad_shapes·family, …, the same for the same seed whatever else is drawn. Reasons of refusals are added
/// to `refusals`.
std::vector<Case> broad_family(std::uint64_t seed, int family, Refusals& refusals);

/// All of them; on all cores.
std::vector<Case> broad_cases(std::uint64_t seed, int count, Refusals& refusals);

/// Too large for the emulated GPU: one in sixteen.
bool is_large(const Case& c);

// ---- Epilogues (broad_graphs.cpp)

struct DrawnGraph {
  std::string text;
  std::map<std::string, double> scalars;
  std::set<std::string> device_scalars;
  std::string witnessed, witness_axes;  ///< as in Case
};

/// An epilogue of any kind for these columns. `type`: of the contraction's operands.
DrawnGraph draw_graph(test::Random& random, std::int64_t columns, DType type);

// ---- Contractions (broad_shapes.cpp)

/// A contraction of any kind, and its dtype, written into the case.
void draw_contraction(test::Random& random, Case& c, bool large);
/// The same of a depthwise convolution, channels last.
void draw_depthwise(test::Random& r, Case& c, bool large);
/// Other extents for the same filter, layout and output columns.
void redraw_extents(test::Random& random, Case& c, bool large);

}  // namespace unisono::gpu
