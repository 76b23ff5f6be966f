// Operators of networks by the kernels of src/tensors/: no host step is left, and results agree with float64.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <ostream>
#include <string>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

using testing::HasSubstr;

NetworkValue applied(const OperatorKind& kind, const std::vector<NetworkValue>& x, const std::string& name = "") {
  return x[0].builder().apply(kind, x, name);
}
NetworkValue mapped(MapOp op, const std::vector<NetworkValue>& x) { return applied(operators::Map{.op = op}, x); }

NetworkValue indices(NetworkBuilder& net, const std::string& name, const Sizes& shape,
                     const std::vector<std::int64_t>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(std::int64_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return net.constant(name, Shape(shape.begin(), shape.end()), DType::i64, std::move(bytes));
}

NetworkValue numbers(NetworkBuilder& net, const std::string& name, const Sizes& shape) {
  test::Random random(7);
  std::vector<float> x(static_cast<std::size_t>(element_count(shape)));
  for (float& f : x) f = static_cast<float>(random.uniform(-1, 1));
  return net.constant(name, Shape(shape.begin(), shape.end()), std::move(x));
}

struct TensorCase {
  const char* name;
  Shapes shapes;
  std::function<void(NetworkBuilder&, const std::map<std::string, NetworkValue>&)> make;
};
void PrintTo(const TensorCase& c, std::ostream* out) { *out << c.name; }

Network network_of(const TensorCase& c) {
  NetworkBuilder net(c.name);
  std::map<std::string, NetworkValue> inputs;
  for (const auto& [name, shape] : c.shapes) inputs.emplace(name, net.input(name, Shape(shape.begin(), shape.end())));
  c.make(net, inputs);
  return net.build();
}

using Inputs = std::map<std::string, NetworkValue>;

void make_maps(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue x = in.at("x"), y = in.at("y");
  net.output(mapped(MapOp::floor, {relu(x) * 3.0}), "floor");
  net.output(relu(mapped(MapOp::tan, {x})), "tan");
  net.output(mapped(MapOp::fmod, {x, y + 3.0}), "fmod");
  net.output(mapped(MapOp::max, {x, numbers(net, "c", {3, 1, 1})}), "max");
  net.output(mapped(MapOp::sign, {y}), "sign");
}

void make_reductions(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue x = relu(in.at("x"));
  using operators::Reduce;
  net.output(relu(applied(Reduce{.axes = {2}}, {x})), "rows");
  net.output(applied(Reduce{.op = ReduceOp::mean, .axes = {0, 3}, .keep = false}, {x}), "mean");
  net.output(applied(Reduce{.op = ReduceOp::max, .axes = {1}}, {x}), "channels");
  net.output(applied(Reduce{.op = ReduceOp::log_sum_exp, .axes = {}, .keep = false}, {x}), "all");
  net.output(applied(Reduce{.op = ReduceOp::l2, .axes = {1, 2, 3}, .keep = false}, {in.at("x")}), "l2");
}

void make_products(NetworkBuilder& net, const Inputs& in) {
  net.output(relu(applied(operators::MatMul{}, {relu(in.at("a")), in.at("b")})), "ab");
  net.output(applied(operators::MatMul{}, {in.at("a"), numbers(net, "c", {7, 5})}), "ac");
}

void make_moves(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue x = relu(in.at("x"));
  net.output(relu(applied(operators::Tile{.repeats = {2, 1, 3, 2}}, {x})), "tiled");
  net.output(applied(operators::DepthToSpace{.block = 2}, {x}), "space");
  net.output(applied(operators::DepthToSpace{.block = 2, .column_row_depth = true}, {x}), "space of columns");
  net.output(applied(operators::DepthToSpace{.block = 2, .inverse = true}, {x}), "depth");
  const std::map<std::string, PadMode> modes{
      {"edge", PadMode::edge}, {"reflect", PadMode::reflect}, {"wrap", PadMode::wrap}};
  for (const auto& [name, mode] : modes)
    net.output(relu(applied(operators::Pad{.before = {0, 1, 2, 3}, .after = {0, 0, 1, -1}, .mode = mode}, {x})), name);
  net.output(applied(operators::Triangle{.upper = false, .diagonal = 1}, {x}), "triangle");
  net.output(applied(operators::CumulativeSum{.axis = 2, .exclusive = true}, {x}), "sums");
}

void make_many_axes(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue x = reshape(relu(in.at("x")), {2, 3, 2, 2, 4, 5});
  const NetworkValue t = transpose(x, {5, 0, 3, 1, 2, 4});
  net.output(relu(reshape(t, {10, 48})), "transposed");
  net.output(relu(reshape(
                 applied(operators::Pad{.before = {1, 0, 0, 0, 0, 2}, .after = {0, 0, 1, 0, -1, 0}, .value = 0.5}, {x}),
                 {3, 3, 3, 2, 21})),
             "padded");
  net.output(reshape(concat({x, x * 2.0}, 2), {2, 3, -1}), "joined");
  net.output(
      reshape(applied(operators::Slice{.starts = {1, 3}, .ends = {3, 0}, .steps = {1, -2}, .axes = {1, 4}}, {x}), {-1}),
      "sliced");
}

void make_windows(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue v = relu(in.at("v")), x = in.at("x");
  operators::PoolNd pool{
      .kernel = {2, 3, 2}, .stride = {1, 2, 2}, .dilation = {1, 1, 1}, .before = {0, 1, 0}, .after = {1, 1, 0}};
  net.output(relu(applied(pool, {v})), "largest");
  pool.average = true, pool.count_pad = true;
  net.output(applied(pool, {v}), "average");
  operators::PoolNd wide{.kernel = {7, 9}, .stride = {7, 4}, .dilation = {1, 2}, .before = {0, 0}, .after = {0, 0}};
  net.output(relu(applied(wide, {relu(in.at("w"))})), "wide windows");
  wide.average = true;
  net.output(applied(wide, {in.at("w")}), "average of wide windows");
  net.output(relu(applied(operators::Conv3d{.stride = {1, 2, 1},
                                            .dilation = {1, 1, 2},
                                            .before = {1, 1, 1},
                                            .after = {1, 1, 1},
                                            .output_pad = {0, 0, 0},
                                            .groups = 2},
                          {v, numbers(net, "w", {6, 2, 2, 3, 3}), numbers(net, "bias", {6})})),
             "volumes");
  net.output(applied(operators::Resample{.mode = ResizeMode::cubic,
                                         .scales = {1, 1, 1.5, 0.7},
                                         .sizes = {0, 0, 0, 0},
                                         .roi_begin = {},
                                         .roi_end = {}},
                     {x}),
             "cubic");
  net.output(relu(applied(operators::GridSample{.padding = GridPadding::border}, {relu(x), in.at("grid")})), "sampled");
}

void make_indexed(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue x = relu(in.at("x")), u = in.at("u");
  net.output(relu(applied(operators::Gather{.axis = 1}, {x, indices(net, "i", {2, 2}, {4, 0, -1, 1})})), "rows");
  net.output(
      applied(operators::GatherElements{.axis = 0}, {x, indices(net, "e", {2, 5}, {0, 2, 1, 2, 0, -3, 1, 1, 0, 2})}),
      "elements");
  net.output(applied(operators::GatherND{}, {x, indices(net, "t", {2, 2}, {2, 4, -3, 0})}), "tuples");
  const std::map<std::string, ScatterReduction> reductions{
      {"replaced", ScatterReduction::none}, {"added", ScatterReduction::add}, {"greatest", ScatterReduction::max}};
  for (const auto& [name, reduction] : reductions)
    net.output(relu(applied(operators::ScatterND{.reduction = reduction},
                            {x, indices(net, name + " at", {3, 1}, {1, 1, 0}), u})),
               name);
  net.output(applied(operators::ScatterElements{.axis = 1},
                     {x, indices(net, "s", {3, 5}, {0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 1, 0, 2, 4, 3}), u}),
             "placed");
}

void make_filters(NetworkBuilder& net, const Inputs& in) {
  net.output(relu(conv_transpose2d(relu(in.at("x")), in.at("f") * 0.25, {.stride = {2, 1}, .pad = 1, .groups = 2})),
             "y");
}

// Parts without elements, as segmentation models join where an encoder lacks a skip
void make_parts_of_nothing(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue x = relu(in.at("x"));
  const NetworkValue channels = concat({numbers(net, "channels", {2, 0, 5, 6}), x, in.at("none")}, 1);
  net.output(relu(conv2d(channels, numbers(net, "w", {8, 16, 3, 3}), {.pad = 1}) * 0.1), "y");
  net.output(relu(concat({x, numbers(net, "columns", {2, 16, 5, 0})}, 3)), "columns");
  net.output(relu(concat({x, numbers(net, "images", {0, 16, 5, 6})}, 0)), "images");
}

// Neighbours are one launch; bool is stored where another region reads it
void make_map_regions(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue x = in.at("x"), y = mapped(MapOp::asinh, {relu(x) * 3.0}) * in.at("s");
  const NetworkValue less = mapped(MapOp::less, {y, x});
  net.output(mapped(MapOp::select, {less, y, x}), "chosen");
  const NetworkValue there = applied(operators::Transpose{{0, 1, 3, 2}}, {less}), z = transpose(x, {0, 1, 3, 2});
  net.output(mapped(MapOp::select, {mapped(MapOp::logical_not, {there}), z, transpose(y, {0, 1, 3, 2})}), "turned");
}

void make_epilogues(NetworkBuilder& net, const Inputs& in) {
  const NetworkValue c = conv2d(in.at("x"), numbers(net, "w", {16, 16, 3, 3}), {.pad = 1}) * 0.1;
  const NetworkValue less = mapped(MapOp::less, {c, in.at("s")});
  net.output(mapped(MapOp::select, {less, c, c * c}), "bent");
  const NetworkValue t = in.at("t"), p = sigmoid(gemm(in.at("a"), numbers(net, "v", {32, 16})));
  net.output(t * log(p) + (1.0 - t) * log(1.0 - p), "loss");
}

// Layers of 37 units and 6 rows: more than a CTA's, in both directions
void make_recurrences(NetworkBuilder& net, const Inputs& in) {
  constexpr std::int64_t hidden = 37, rows = 6;
  const std::vector<std::int32_t> lengths{3, 5, 0, 1, 4, 5};
  std::vector<std::byte> bytes(lengths.size() * sizeof(std::int32_t));
  std::memcpy(bytes.data(), lengths.data(), bytes.size());
  const NetworkValue of_rows = net.constant("lengths", {rows}, DType::i32, std::move(bytes));
  const auto layer = [&](const std::string& name, operators::Recurrence op, std::int64_t directions, NetworkValue h) {
    const std::int64_t columns = gates_of(op.cell) * hidden;
    using Kind = GateFunction::Kind;
    for (std::int64_t i = 0; i < directions * functions_of(op.cell); ++i)
      op.functions.push_back({i % functions_of(op.cell) == 0 ? Kind::sigmoid : Kind::tanh});
    const bool is_long = op.cell == RecurrentCell::lstm;
    std::vector<NetworkValue> x{
        applied(operators::MatMul{}, {in.at("x"), numbers(net, name + " w", {8, directions * columns})}),
        numbers(net, name + " r", {directions, hidden, columns}) * 0.125};
    if (op.has_extra) x.push_back(numbers(net, name + " extra", {directions, (is_long ? 3 : 1) * hidden}));
    if (op.has_lengths) x.push_back(of_rows);
    if (op.has_h) x.push_back(h);
    if (op.has_c) x.push_back(h * 0.5);
    net.output(applied(op, x, name), name + " y");
  };
  const NetworkValue one = tanh(in.at("h")), two = concat({one, one * -1.0}, 1);
  layer("rnn", {.cell = RecurrentCell::rnn, .reverse = true, .has_h = true, .clip = 0.75, .functions = {}}, 1, one);
  layer("gru", {.cell = RecurrentCell::gru, .has_lengths = true, .has_h = true, .functions = {}}, 2, two);
  layer("linear gru", {.cell = RecurrentCell::gru, .linear_before_reset = true, .has_extra = true, .functions = {}}, 1,
        one);
  layer("lstm",
        {.cell = RecurrentCell::lstm,
         .has_extra = true,
         .has_lengths = true,
         .has_h = true,
         .has_c = true,
         .functions = {}},
        2, two);
  layer("coupled lstm", {.cell = RecurrentCell::lstm, .input_forget = true, .functions = {}}, 1, one);
}

const std::vector<TensorCase>& tensor_cases() {
  static const std::vector<TensorCase> cases{
      {"maps", {{"x", {2, 3, 5, 7}}, {"y", {1, 3, 1, 7}}}, make_maps},
      {"reductions", {{"x", {2, 13, 4, 6}}}, make_reductions},
      {"products", {{"a", {2, 3, 6, 7}}, {"b", {3, 7, 9}}}, make_products},
      {"moves", {{"x", {2, 12, 4, 6}}}, make_moves},
      {"many axes", {{"x", {6, 80}}}, make_many_axes},
      {"windows",
       {{"v", {2, 4, 3, 7, 6}}, {"w", {2, 3, 22, 35}}, {"x", {2, 3, 5, 6}}, {"grid", {2, 4, 3, 2}}},
       make_windows},
      {"parts of nothing", {{"x", {2, 16, 5, 6}}, {"none", {2, 0, 5, 6}}}, make_parts_of_nothing},
      {"indices", {{"x", {3, 5}}, {"u", {3, 5}}}, make_indexed},
      {"recurrences", {{"x", {5, 6, 8}}, {"h", {6, 37}}}, make_recurrences},
      {"map regions", {{"x", {2, 16, 5, 6}}, {"s", {16, 1, 1}}}, make_map_regions},
      {"epilogues", {{"x", {2, 16, 5, 6}}, {"s", {16, 1, 1}}, {"t", {8, 16}}, {"a", {8, 32}}}, make_epilogues},
      {"a computed filter", {{"x", {2, 8, 5, 5}}, {"f", {8, 6, 3, 2}}}, make_filters}};
  return cases;
}

class NetworkSmallTensors : public testing::TestWithParam<TensorCase> {};

TEST_P(NetworkSmallTensors, AgreeWithoutHostSteps) {
  const TensorCase& c = GetParam();
  for (const DType precision : {DType::bf16, DType::f16}) {
    NetworkOptions options = on_gpu(precision);
    options.strict = true;
    const NetworkExecutable executable = compile(network_of(c), options);
    const HostTensors inputs = random_inputs(c.shapes, 3), outputs = run(executable, inputs);
    expect_agreement(executable, options, inputs, outputs);
    for (const auto& [name, t] : run(executable, inputs)) EXPECT_EQ(t.data, outputs.at(name).data) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, NetworkSmallTensors, testing::ValuesIn(tensor_cases()));

// An index that is outside for some extents: run() says so in the operator's name, and the next run is right
TEST(NetworkSmall, AnIndexOutsideIsAnErrorOfItsRun) {
  NetworkBuilder net("rows");
  const NetworkValue x = relu(net.input("x", {"rows", 16}));
  net.output(relu(applied(operators::Gather{}, {x, indices(net, "i", {3}, {0, 6, -7})}, "picked")), "y");
  const NetworkExecutable executable = compile(net.build(), on_gpu());
  for (const std::int64_t rows : {6, 7, 5, 9}) {
    const HostTensors inputs = random_inputs({{"x", {rows, 16}}}, 4);
    if (rows > 6) {
      expect_agreement(executable, on_gpu(), inputs, run(executable, inputs));
      continue;
    }
    try {
      run(executable, inputs);
      ADD_FAILURE() << rows << " rows were enough";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("gather 'picked': index "));
      EXPECT_THAT(error.what(), Says(" is outside … extent " + std::to_string(rows)));
    }
  }
}

}  // namespace
}  // namespace unisono::gpu
