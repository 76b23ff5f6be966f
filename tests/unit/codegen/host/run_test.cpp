#include <gtest/gtest.h>

#include <cstring>

#include "host/cases.hpp"
#include "reference/reference.hpp"
#include "support/float_convert.hpp"
#include "unisono/text.hpp"

namespace host {

struct FixedParams {
  std::int64_t images, rows, channels, group_channels;
  const float* accumulators;
  void *output, *side;
};
using Entry = void (*)(const void* params);
extern const std::vector<Entry> entries;

}  // namespace host

namespace unisono::codegen {
namespace {

std::int64_t extent_of(Coordinate c, const Extents& e) {
  switch (c) {
    case Coordinate::m: return e.rows();
    case Coordinate::n: return e.cols;
    case Coordinate::b: return e.images;
    case Coordinate::h: return e.height;
    case Coordinate::w: return e.width;
  }
  return 0;
}

double scalar_of(const HostCase& c, const std::string& name) {
  if (const auto found = c.problem.arguments.scalars.find(name); found != c.problem.arguments.scalars.end())
    return found->second;
  for (const Node& x : c.problem.graph.nodes)
    if (x.op == Op::operand && x.attr.name == name) return x.attr.default_value.value();
  throw std::out_of_range(name);
}

// Eight bytes, as a launch fills them
std::uint64_t bits_of(const Field& f, const HostCase& c, const Extents& e) {
  const auto low = [](auto value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return std::uint64_t{bits};
  };
  switch (f.kind) {
    case Field::Kind::operand_pointer:
      return reinterpret_cast<std::uint64_t>(c.problem.arguments.operands.at(f.name).data);
    case Field::Kind::store_pointer:
      return reinterpret_cast<std::uint64_t>(c.problem.arguments.outputs.at(f.name).data);
    case Field::Kind::extent: return low(static_cast<std::int32_t>(extent_of(f.coordinate, e)));
    case Field::Kind::operand_step:
    case Field::Kind::store_step:
    case Field::Kind::operand_vectors:
    case Field::Kind::pointer: return 0;                                     // of no case
    case Field::Kind::pitch: return low(static_cast<std::int32_t>(e.cols));  // dense
    case Field::Kind::operand_value: {
      const double value = scalar_of(c, f.name);
      return f.dtype == DType::i32 ? low(static_cast<std::int32_t>(value)) : low(static_cast<float>(value));
    }
  }
  return 0;
}

void run(const HostCase& c, const reference::Values& product, host::Entry entry) {
  const Extents e = extents(c.problem.contraction);
  const std::vector<float> accumulators(product.value.begin(), product.value.end());
  const bool apart = c.epilogue.per_image();  // else tiles run across the borders of images
  const auto output = [&](std::size_t i) {
    return c.problem.arguments.outputs.at(c.epilogue.graph.stores[c.epilogue.outputs[i].store].name).data;
  };
  const bool two = c.epilogue.side_before() || c.epilogue.side_after();
  const host::FixedParams fixed{apart ? e.images : 1,
                                apart ? e.rows_per_image() : e.rows(),
                                e.cols,
                                c.epilogue.norm() ? c.epilogue.normalised()->group_channels : 1,
                                accumulators.data(),
                                output(0),
                                two ? output(1) : nullptr};
  std::vector<std::uint64_t> params(sizeof(fixed) / 8);
  std::memcpy(params.data(), &fixed, sizeof(fixed));
  for (const Field& f : c.kernel.fields) params.push_back(bits_of(f, c, e));
  params.push_back(0);  // a struct without fields has a byte
  entry(params.data());
}

TEST(HostRun, EveryOutputAgreesWithTheReference) {
  const std::vector<HostCase> cases = host_cases();
  ASSERT_EQ(cases.size(), host::entries.size());
  std::int64_t elements = 0, unclaimed = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const HostCase& c = cases[i];
    const auto product = reference::contract(c.problem.contraction, c.problem.arguments.a(c.problem.contraction),
                                             c.problem.arguments.b(c.problem.contraction));
    run(c, product, host::entries[i]);
    for (const auto& [name, values] :
         reference::evaluate(c.problem.graph, c.problem.contraction, product, c.problem.arguments)) {
      const auto found = reference::compare(values, c.problem.contraction, c.problem.arguments.outputs.at(name));
      elements += found.elements;
      unclaimed += found.unclaimed;
      EXPECT_TRUE(found.ok()) << c.title << ", " << name << ": element " << found.worst_index << " is "
                              << found.worst_actual << " instead of " << found.worst_expected << ", " << found.outside
                              << " of " << found.elements << " are wrong\n"
                              << print(c.problem.graph) << c.kernel.source;
    }
  }
  EXPECT_GT(elements, 20000);
  EXPECT_LT(unclaimed, elements / 10);
}

// The random cases are worth something only if they hold what visitors are about
TEST(HostRun, TheCasesAreVaried) {
  int normalised = 0, raw = 0, sides = 0, tensors = 0, columns = 0, pointers = 0, statistics = 0, pixels = 0;
  for (const HostCase& c : host_cases()) {
    normalised += c.epilogue.norm() ? 1 : 0;
    pixels += c.epilogue.normalises_rows() ? 1 : 0;
    raw += c.epilogue.uses_raw ? 1 : 0;
    sides += c.epilogue.side_before() || c.epilogue.side_after() ? 1 : 0;
    tensors += c.epilogue.ahead_of_stages().tensors.size() + c.epilogue.reads.tensors.size() > 1 ? 1 : 0;
    columns += c.epilogue.ahead_of_stages().columns.size() + c.epilogue.reads.columns.size() > 1 ? 1 : 0;
    pointers += c.options.scalar_pointers.empty() ? 0 : 1;
    statistics += c.epilogue.outputs.back().path == plan::Output::StorePath::statistics ? 1 : 0;
  }
  EXPECT_GE(normalised, 80);
  EXPECT_GE(pixels, 10);
  EXPECT_GE(raw, 10);
  EXPECT_GE(sides, 40);
  EXPECT_GE(tensors, 15);
  EXPECT_GE(columns, 30);
  EXPECT_GE(pointers, 10);
  EXPECT_GE(statistics, 10);
}

}  // namespace
}  // namespace unisono::codegen
