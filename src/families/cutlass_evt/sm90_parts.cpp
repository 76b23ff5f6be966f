// What kernels of CUTLASS 3.x have in common: the types of the epilogue, and its visitors' arguments.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "families/cutlass_evt/kernel_text.hpp"
#include "families/cutlass_evt/sm90_parts.hpp"
#include "families/cutlass_evt/sm90_tree.hpp"

namespace unisono::families::cutlass_evt {

bool is_sm100(const Config& c) { return c.arch == Arch::sm100a; }
const char* tag_of(const Config& c) { return is_sm100(c) ? "Sm100" : "Sm90"; }
const char* schedule_name(const Config& c) { return c.schedule == Schedule::pingpong ? "Pingpong" : "Cooperative"; }

namespace {

std::string epilogue_schedule_of(const Config& c) {
  if (c.grouped) return fmt::format("PtrArrayTmaWarpSpecialized{}", is_sm100(c) ? "1Sm" : schedule_name(c));
  return fmt::format("TmaWarpSpecialized{}", is_sm100(c)                           ? "1Sm"
                                             : c.schedule == Schedule::cooperative ? "Cooperative"
                                                                                   : "");
}

const Dialect& dialect_of(const Config& c) { return c.grouped ? sm90_grouped_dialect() : sm90_dialect(); }

// The element of the fragments that a tree gives: loads of [m,n] give what lies in memory, sinks pass their input on. A
// topological visitor has converted to f32 what its last item reads
DType given_by(const Visitors& v, const Tree& tree) {
  const Visitor& last = v.list[tree.visitor];
  switch (last.kind) {
    case VisitorKind::compute:
    case VisitorKind::source:
    case VisitorKind::aux_load: return last.element;
    case VisitorKind::aux_store:
    case VisitorKind::scalar_reduction:
    case VisitorKind::row_reduction:
    case VisitorKind::column_reduction: return tree.is_topological() ? DType::f32 : given_by(v, tree.children[0]);
    default: return DType::f32;
  }
}

// To what the tree's values are converted at its end. The collective of sm_90 takes fragments of D's element, or of
// f32, which it rounds to D itself; that of sm_100 stores what the tree gives as it is. Nothing: they are that already
std::optional<std::string> last_element(const Config& c, const Visitors& v, const Tree& tree) {
  if (is_sm100(c)) return "ElementD";
  const DType given = given_by(v, tree);
  if (given == DType::f32 || given == v.element_d) return {};
  return element_name(DType::f32);
}

std::string visitors_type(const Config& c, const Visitors& v, const Tree& tree) {
  const auto element = last_element(c, v, tree);
  if (!element) return tree_type(dialect_of(c), v, tree, "");
  return fmt::format("fusion::Sm90EVT<\n    fusion::Sm90Compute<thread::Identity, {}, float, kRound>,\n    {}>",
                     *element, tree_type(dialect_of(c), v, tree, "    "));
}

}  // namespace

std::string visitors_arguments(const Config& c, const Visitors& v, const Tree& tree) {
  const auto element = last_element(c, v, tree);
  if (!element) return tree_arguments(dialect_of(c), v, tree, "    ");
  return fmt::format("{{\n        {},\n        {{}},  // thread::Identity to {}\n    }}",
                     tree_arguments(dialect_of(c), v, tree, "        "), *element);
}

std::string epilogue_types(const Config& c, const Visitors& v, const Tree& tree) {
  const std::string subtile = c.subtile_m == 0 ? "cutlass::epilogue::collective::EpilogueTileAuto"
                                               : fmt::format("Shape<_{}, _{}>", c.subtile_m, c.subtile_n);
  const DType element_c = v.source_field ? v.element_c : v.element_d;
  std::string text = fmt::format(
      "using TileShape = Shape<_{}, _{}, {}>;\n"
      "using ClusterShape = Shape<_{}, _{}, _1>;\n"
      "using ElementA = {};\n"
      "using ElementB = {};\n"
      "using ElementC = {};\n"
      "using ElementD = {};\n"
      "constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;\n\n",
      c.tile_m, c.tile_n,
      c.convolution && !c.gradient ? fmt::format("Shape<_{}>", c.tile_k) : fmt::format("_{}", c.tile_k), c.cluster_m,
      c.cluster_n, factor_name(c.a), factor_name(c.b), element_name(element_c), element_name(v.element_d));
  if (c.gradient)
    text += fmt::format("using WindowShape = Shape<_{}, Shape<_{}>, Shape<_{}>>;  // of the main loop\n\n", c.tile_m,
                        c.tile_n, c.tile_k);
  text += functor_definitions(v);
  text += fmt::format("using Visitors = {};\n\n", visitors_type(c, v, tree));
  text += fmt::format(
      "using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<\n"
      "    cutlass::arch::{}, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,\n"
      "    {}, float, float,\n"
      "    {}, cutlass::layout::RowMajor{}, {}, ElementD, cutlass::layout::RowMajor{}, {},\n"
      "    cutlass::epilogue::{}, Visitors>::CollectiveOp;\n",
      tag_of(c), subtile, v.source_field ? "ElementC" : "void", c.grouped ? "*" : "", alignment_of(element_c),
      c.grouped ? "*" : "", alignment_of(v.element_d), epilogue_schedule_of(c));
  return text;
}

std::string source_of(const Visitors& v) {
  return v.source_field ? fmt::format("address<const ElementC>(p, {})", *v.source_field) : "nullptr";
}

}  // namespace unisono::families::cutlass_evt
