// The host's part of a kernel of grouped products.
#include <fmt/format.h>

#include <string>

#include "families/cutlass_evt/sm90_parts.hpp"
#include "families/cutlass_evt/tree_text.hpp"

namespace unisono::families::cutlass_evt {
namespace {

// Written on the GPU, from the launch's own parameter: a copy of the host's memory would be read when a captured graph
// is replayed, and be gone by then
constexpr const char* tables =
    R"~(// What the kernel reads of each group lies in tables at the beginning of the workspace
template <class T>
CUTLASS_HOST_DEVICE T* table(const Parameter& p, int number) {
    return reinterpret_cast<T*>(static_cast<char*>(p.to.workspace) + number * kGroupTableBytes);
}
using GroupShape = typename Groups::UnderlyingProblemShape;
using StrideA = typename Kernel::InternalStrideA;
using StrideB = typename Kernel::InternalStrideB;
using StrideC = typename Kernel::InternalStrideC;
using StrideD = typename Kernel::InternalStrideD;
static_assert(sizeof(GroupShape) <= 16 && sizeof(StrideA) <= 16 && sizeof(StrideD) <= 16, "an entry of a table");

__global__ void write_tables(const Parameter p) {
    const int group = int(threadIdx.x);
    if (group >= p.groups.count) return;
    std::int64_t first = 0;
    for (int i = 0; i < group; ++i) first += p.groups.rows[i];
    const int n = int(p.to.n), k = int(p.to.k);
    table<GroupShape>(p, 0)[group] = GroupShape{p.groups.rows[group], n, k};
    table<const ElementA*>(p, 1)[group] = static_cast<const ElementA*>(p.to.a) + first * p.to.pitch_a;
    table<StrideA>(p, 2)[group] = make_stride(std::int64_t(p.to.pitch_a), _1{}, _0{});
    table<const ElementB*>(p, 3)[group] = static_cast<const ElementB*>(p.to.b) + group * p.to.step_b;
)~";

std::string text_of_tables(const Config& c, const Visitors& v) {
  std::string text = tables;
  text += fmt::format("    table<StrideB>(p, 4)[group] = make_stride({}, _0{{}});\n",
                      c.columns_b ? "_1{}, std::int64_t(p.to.pitch_b)" : "std::int64_t(p.to.pitch_b), _1{}");
  if (v.source_field) text += fmt::format("    table<const ElementC*>(p, 5)[group] = {} + first * n;\n", source_of(v));
  const std::string stride = v.store_place == Place::main ? "p.to.pitch_d" : "p.to.n";
  text += "    table<StrideC>(p, 6)[group] = make_stride(std::int64_t(n), _1{}, _0{});\n";
  text += fmt::format(
      "    table<ElementD*>(p, 7)[group] = {} + first * {};\n"
      "    table<StrideD>(p, 8)[group] = make_stride(std::int64_t({}), _1{{}}, _0{{}});\n",
      result_address(v.store_place, "ElementD", v.store_field), stride, stride);
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::column)
      text += fmt::format("    table<const {0}*>(p, {1})[group] = address<const {0}>(p, {2}) + first;  // {3}\n",
                          element_name(each.element), first_vector_table + each.field, each.field, each.name);
  return text + "}\n\n";
}

constexpr const char* ending =
    R"~(    if (!Kernel::can_implement(all)) return int(cutlass::Status::kErrorInvalidProblem);
    const std::size_t bytes = Kernel::get_workspace_size(all);
    if (kTables * kGroupTableBytes + bytes > std::size_t(p.to.workspace_bytes))
        return int(cutlass::Status::kErrorWorkspaceNull);
    write_tables<<<1, kMostGroups, 0, stream>>>(p);
    if (const cudaError_t error = cudaGetLastError()) return 1000 + int(error);
    void* const workspace = table<void>(p, kTables);
    const cutlass::Status status = Kernel::initialize_workspace(all, workspace, stream);
    if (status != cutlass::Status::kSuccess) return int(status);
    auto params = Kernel::to_underlying_arguments(all, workspace);
)~";

}  // namespace

std::string grouped_host(const Config& c, const Visitors& v, const Tree& tree) {
  std::string text = text_of_tables(c, v) +
                     "int run(const Parameter& p, cudaStream_t stream) {\n"
                     "    const std::int64_t m = p.to.m, n = p.to.n;\n"
                     "    (void)m, (void)n;\n";
  text += fmt::format("    constexpr int kTables = {};\n", tables_of(v));
  text += fmt::format("    typename Visitors::Arguments visitors{};\n", visitors_arguments(c, v, tree));
  text += fmt::format(
      "    typename Kernel::Arguments all{{\n"
      "        cutlass::gemm::GemmUniversalMode::kGrouped,\n"
      "        {{p.groups.count, table<GroupShape>(p, 0), nullptr}},\n"
      "        {{table<const ElementA*>(p, 1), table<StrideA>(p, 2), table<const ElementB*>(p, 3), "
      "table<StrideB>(p, 4)}},\n"
      "        {{visitors, {}, table<StrideC>(p, 6), table<ElementD*>(p, 7), table<StrideD>(p, 8)}}}};\n"
      "    all.hw_info.sm_count = int(p.to.sms);\n",
      v.source_field ? "table<const ElementC*>(p, 5)" : "nullptr");
  text += fmt::format(
      "    using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;\n"
      "    all.scheduler.raster_order = Raster::{};\n"
      "    all.scheduler.max_swizzle_size = {};\n",
      c.raster == Raster::columns ? "AlongN" : "AlongM", c.swizzle);
  return text + ending;
}

}  // namespace unisono::families::cutlass_evt
