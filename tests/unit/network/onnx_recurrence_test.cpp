/// RNN, GRU and LSTM, against their equations written out.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "onnx_model.hpp"
#include "reference/onnx/check.hpp"

namespace unisono {
namespace {

using test::Random;
using test::refusal;
using testing::HasSubstr;
using Model = test::OnnxModel;
using Values = std::vector<float>;

constexpr std::int64_t steps = 4, rows = 3, features = 2, hidden = 3;

// A layer of `gates` gates over x (length,n,2), whose n is open
Model layer(const std::string& op, std::int64_t gates, std::int64_t directions, Random& r,
            std::vector<std::string> more = {}, std::int64_t length = steps) {
  std::vector<std::string> inputs{"x", "w", "r", "b"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  Model m(op, 14, inputs);
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {length, 1, features});
  m.proto.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_param("n");
  m.add_constant("w", {directions, gates * hidden, features},
                 test::random_elements(r, directions * gates * hidden * features));
  m.add_constant("r", {directions, gates * hidden, hidden},
                 test::random_elements(r, directions * gates * hidden * hidden));
  m.add_constant("b", {directions, 2 * gates * hidden}, test::random_elements(r, directions * 2 * gates * hidden));
  if (directions == 2) m.attribute("direction", 3)->set_s("bidirectional");
  return m;
}

const Values& elements(const Model& m, const std::string& name) {
  static std::map<const void*, Values> kept;
  for (const auto& t : m.proto.graph().initializer())
    if (t.name() == name) return kept[&t] = Values(t.float_data().begin(), t.float_data().end());
  throw InternalError("no such initializer");
}

// Σ of gate row `row` of a direction: w·x + r·h, both biases apart
struct Sums {
  const Model& m;
  std::int64_t gates, direction;
  double input(const float* x, std::int64_t row) const {
    double sum = elements(m, "b")[static_cast<std::size_t>(direction * 2 * gates * hidden + row)];
    for (std::int64_t k = 0; k < features; ++k)
      sum +=
          double(x[k]) * elements(m, "w")[static_cast<std::size_t>((direction * gates * hidden + row) * features + k)];
    return sum;
  }
  double state(const std::vector<double>& h, std::int64_t row, bool bias = true) const {
    double sum = bias ? elements(m, "b")[static_cast<std::size_t>((direction * 2 + 1) * gates * hidden + row)] : 0;
    for (std::int64_t k = 0; k < hidden; ++k)
      sum += h[static_cast<std::size_t>(k)] *
             elements(m, "r")[static_cast<std::size_t>((direction * gates * hidden + row) * hidden + k)];
    return sum;
  }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

using Step = std::function<void(const Sums& sums, const float* x, std::vector<double>& h, std::vector<double>& c)>;

// What Y must be, (T,D,N,H), and whether it is
void expect_steps(const Model& m, std::int64_t gates, std::int64_t directions, std::int64_t length, const Step& step) {
  Random r(7);
  const test::HostTensors x{{"x", test::random_tensor(r, {length, rows, features})}};
  const Network n = test::parse(m.bytes());
  const auto outputs = test::run(compile(n), x);
  test::expect_agreement(n, x, outputs);
  const test::HostTensor& y = outputs.at("y");
  ASSERT_EQ(y.shape, (std::vector<std::int64_t>{length, directions, rows, hidden}));
  for (std::int64_t d = 0; d < directions; ++d)
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<double> h(hidden, 0.0), c(hidden, 0.0);
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t t = d == 1 ? length - 1 - i : i;
        step({m, gates, d}, x.at("x").data.data() + (t * rows + row) * features, h, c);
        for (std::int64_t j = 0; j < hidden; ++j)
          EXPECT_NEAR(y.data[static_cast<std::size_t>(((t * directions + d) * rows + row) * hidden + j)],
                      h[static_cast<std::size_t>(j)], 2e-6)
              << t << " " << d << " " << row << " " << j;
      }
    }
}

// Compares with the definition and with the network as imported; how many elements have no claim
std::int64_t expect_defined(const Model& m, const test::HostTensors& x, const test::HostTensors& y) {
  using namespace float64;
  const auto in_f64 = [](const test::HostTensors& tensors) {
    Tensors64 all;
    for (const auto& [name, t] : tensors)
      all[name] = {t.shape, {t.data.begin(), t.data.end()}, std::vector<double>(t.data.size(), 0.0)};
    return all;
  };
  const std::string bytes = m.bytes();
  const auto model = OnnxModel::parse(std::as_bytes(std::span(bytes)));
  std::int64_t unclaimed = 0;
  for (const NetworkAgreement& a : check_model(model, test::parse(bytes), in_f64(x), in_f64(y))) {
    EXPECT_EQ(a.outside, 0) << a.output << ' ' << a.largest_error << ' ' << a.tolerance;
    EXPECT_EQ(a.misread, 0) << a.output << ' ' << a.misread_error;
    unclaimed += a.unclaimed;
  }
  const Network as_imported = test::parse(bytes);
  for (const NetworkAgreement& a : check_network(as_imported, in_f64(x), in_f64(y)))
    EXPECT_EQ(a.outside, 0) << a.output << ", as imported";
  return unclaimed;
}

TEST(OnnxLstm, IsItsEquationsAtAnyLength) {
  for (const std::int64_t length : {1, 4, 9}) {
    Random r(1);
    const Model m = layer("LSTM", 4, 2, r, {}, length);
    expect_steps(m, 4, 2, length, [](const Sums& s, const float* x, std::vector<double>& h, std::vector<double>& c) {
      const std::vector<double> before = h;
      for (std::int64_t j = 0; j < hidden; ++j) {
        const auto sum = [&](std::int64_t gate) {
          return s.input(x, gate * hidden + j) + s.state(before, gate * hidden + j);
        };
        double& cell = c[static_cast<std::size_t>(j)];
        cell = sigmoid(sum(2)) * cell + sigmoid(sum(0)) * std::tanh(sum(3));
        h[static_cast<std::size_t>(j)] = sigmoid(sum(1)) * std::tanh(cell);
      }
    });
  }
}

TEST(OnnxGru, IsItsEquationsWithTheResetOnEitherSide) {
  for (const bool linear : {false, true}) {
    Random r(2);
    Model m = layer("GRU", 3, 1, r);
    m.set("linear_before_reset", std::int64_t{linear});
    expect_steps(m, 3, 1, steps, [linear](const Sums& s, const float* x, std::vector<double>& h, std::vector<double>&) {
      const std::vector<double> before = h;
      std::vector<double> reset;
      const auto sum = [&](std::int64_t row) { return s.input(x, row) + s.state(before, row); };
      for (std::int64_t j = 0; j < hidden; ++j) reset.push_back(sigmoid(sum(hidden + j)));
      std::vector<double> scaled;
      for (std::int64_t j = 0; j < hidden; ++j)
        scaled.push_back(reset[static_cast<std::size_t>(j)] * before[static_cast<std::size_t>(j)]);
      for (std::int64_t j = 0; j < hidden; ++j) {
        const std::int64_t row = 2 * hidden + j;
        const double own = linear ? s.input(x, row) + reset[static_cast<std::size_t>(j)] * s.state(before, row)
                                  : s.input(x, row) + s.state(scaled, row);
        const double z = sigmoid(sum(j));
        h[static_cast<std::size_t>(j)] = (1 - z) * std::tanh(own) + z * before[static_cast<std::size_t>(j)];
      }
    });
  }
}

TEST(OnnxRnn, IsItsEquationInOtherFunctions) {
  Random r(3);
  Model m = layer("RNN", 1, 1, r);
  m.attribute("activations", 8)->add_strings("LeakyRelu");
  m.attribute("activation_alpha", 6)->add_floats(0.25f);
  m.set("clip", 0.5f);
  expect_steps(m, 1, 1, steps, [](const Sums& s, const float* x, std::vector<double>& h, std::vector<double>&) {
    const std::vector<double> before = h;
    for (std::int64_t j = 0; j < hidden; ++j) {
      const double sum = std::clamp(s.input(x, j) + s.state(before, j), -0.5, 0.5);
      h[static_cast<std::size_t>(j)] = sum < 0 ? 0.25 * sum : sum;
    }
  });
}

// Beyond a length there are zeros, and the last state is that at the length
TEST(OnnxLstm, RowsOfDifferentLengths) {
  Random r(4);
  Model m = layer("LSTM", 4, 1, r, {"lengths"});
  auto* lengths = m.add_constant("lengths", {rows});
  lengths->set_data_type(6);
  for (const int n : {2, 4, 0}) lengths->add_int32_data(n);
  m.node->add_output("last");
  m.proto.mutable_graph()->add_output()->set_name("last");
  const Network n = test::parse(m.bytes());
  const test::HostTensors x{{"x", test::random_tensor(r, {steps, rows, features})}};
  const auto outputs = test::run(compile(n), x);
  test::expect_agreement(n, x, outputs);
  const auto y = [&](std::int64_t t, std::int64_t row, std::int64_t j) {
    return outputs.at("y").data[static_cast<std::size_t>((t * rows + row) * hidden + j)];
  };
  for (std::int64_t j = 0; j < hidden; ++j) {
    EXPECT_NE(y(1, 0, j), 0);
    EXPECT_EQ(y(2, 0, j), 0);
    EXPECT_EQ(y(0, 2, j), 0);
    const auto last = [&](std::int64_t row) {
      return outputs.at("last").data[static_cast<std::size_t>(row * hidden + j)];
    };
    EXPECT_EQ(last(0), y(1, 0, j));
    EXPECT_EQ(last(1), y(3, 1, j));
    EXPECT_EQ(last(2), 0);
  }
}

// ONNX says that Y_h and Y_c are the last output values, and nothing of a row that has none; its reference evaluator
// reads no lengths and gives no Y_c. A state that no step changes is the one that it began with, by the equations and
// here; ONNX Runtime writes zeros.
TEST(OnnxLstm, RowsWithoutAStepKeepTheirFirstStates) {
  for (const std::int64_t layout : {0, 1}) {
    Random r(4);
    Model m = layer("LSTM", 4, 1, r, {"lengths", "h0", "c0"});
    m.set("layout", layout);
    auto* lengths = m.add_constant("lengths", {rows});
    lengths->set_data_type(6);
    for (const int n : {2, 4, 0}) lengths->add_int32_data(n);
    const auto batch_first = [&](std::int64_t d, std::int64_t n, std::int64_t e) {
      return layout == 1 ? std::vector{n, d, e} : std::vector{d, n, e};
    };
    m.add_constant("h0", batch_first(1, rows, hidden), test::random_elements(r, rows * hidden));
    m.add_constant("c0", batch_first(1, rows, hidden), test::random_elements(r, rows * hidden));
    auto& shape = *m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int i = 0; i < 2; ++i) shape.mutable_dim(i)->set_dim_value(i == (layout == 1 ? 0 : 1) ? rows : steps);
    for (const char* name : {"last", "cells"}) {
      m.node->add_output(name);
      m.proto.mutable_graph()->add_output()->set_name(name);
    }
    const test::HostTensors x{{"x", test::random_tensor(r, batch_first(steps, rows, features))}};
    const auto outputs = test::run(compile(test::parse(m.bytes())), x);
    expect_defined(m, x, outputs);
    for (std::size_t j = 2 * hidden; j < 3 * hidden; ++j) {
      EXPECT_EQ(outputs.at("last").data.at(j), elements(m, "h0").at(j)) << layout;
      EXPECT_EQ(outputs.at("cells").data.at(j), elements(m, "c0").at(j)) << layout;
      EXPECT_NE(outputs.at("cells").data.at(j - hidden), elements(m, "c0").at(j - hidden)) << layout;
    }
  }
}

// Functions that have no bound leave f32 within some steps: what follows is infinite or no number in f32, and something
// else in f64
TEST(OnnxRecurrence, WhatLeavesF32IsNoClaim) {
  const auto runs = [](const char* op, std::int64_t gates, std::vector<const char*> functions) {
    Random r(6);
    Model m = layer(op, gates, 1, r, {}, 14);
    auto* names = m.attribute("activations", 8);
    for (const char* f : functions) names->add_strings(f);
    for (auto& t : *m.proto.mutable_graph()->mutable_initializer())
      for (float& e : *t.mutable_float_data()) e = 3000 * std::abs(e);
    const test::HostTensors x{{"x", test::random_tensor(r, {14, rows, features})}};
    const auto y = test::run(compile(test::parse(m.bytes())), x);
    const auto& all = y.at("y").data;
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](float e) { return !std::isfinite(e); })) << op;
    return std::pair(expect_defined(m, x, y), std::ssize(all));
  };
  for (const auto& [unclaimed, all] :
       {runs("GRU", 3, {"Elu", "Softplus"}), runs("GRU", 3, {"Affine", "Elu"}), runs("RNN", 1, {"Softplus"}),
        runs("LSTM", 4, {"Softplus", "Relu", "Elu"}), runs("LSTM", 4, {"Relu", "Affine", "Tanh"})}) {
    EXPECT_GT(unclaimed, 0);
    EXPECT_LT(unclaimed, all) << "the first steps are claimed";
  }
}

// The same numbers whether the file says how many steps there are or the run does; more than any unrolling would take
TEST(OnnxLstm, StepsThatTheRunSays) {
  Random r(8);
  Model m = layer("LSTM", 4, 2, r);
  m.node->add_output("last");
  m.node->add_output("cells");
  for (const char* name : {"last", "cells"}) m.proto.mutable_graph()->add_output()->set_name(name);
  Model open = m;
  auto& shape = *open.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("t");
  const Network as_said = test::parse(m.bytes()), as_run = test::parse(open.bytes());
  EXPECT_EQ(to_string(as_run[as_run.outputs[0]].shape), "(t,2,n,3)");
  EXPECT_EQ(to_string(as_run[as_run.outputs[1]].shape), "(2,n,3)");
  const test::HostTensors x{{"x", test::random_tensor(r, {steps, rows, features})}};
  const NetworkExecutable run = compile(as_run);
  const auto expected = test::run(compile(as_said), x), outputs = test::run(run, x);
  for (const char* name : {"y", "last", "cells"}) EXPECT_EQ(outputs.at(name).data, expected.at(name).data) << name;
  for (const std::int64_t length : {0, 1, 3000}) {
    const test::HostTensors longer{{"x", test::random_tensor(r, {length, 1, features})}};
    const auto y = test::run(run, longer);
    EXPECT_EQ(y.at("y").shape, (std::vector<std::int64_t>{length, 2, 1, hidden}));
    if (length > 0) test::expect_agreement(as_run, longer, y);
    EXPECT_TRUE(length > 0 || y.at("last").data == Values(2 * hidden, 0.0f));
  }
}

// As wide as layers are, where a step is the work of several threads
TEST(OnnxGru, WideLayersOnAnyNumberOfThreads) {
  constexpr std::int64_t wide = 320, length = 5;
  Random r(9);
  for (const bool linear : {false, true}) {
    Model m("GRU", 14, {"x", "w", "r", "", "", "h"});
    m.proto.mutable_graph()->clear_input();
    m.add_input("x", {length, 12, 8});
    m.add_input("h", {1, 12, wide});
    m.add_constant("w", {1, 3 * wide, 8}, test::random_elements(r, 3 * wide * 8));
    Values state = test::random_elements(r, 3 * wide * wide);
    for (float& x : state) x *= 0.0625f;
    m.add_constant("r", {1, 3 * wide, wide}, state);
    m.set("linear_before_reset", std::int64_t{linear});
    const Network n = test::parse(m.bytes());
    const test::HostTensors x{{"x", test::random_tensor(r, {length, 12, 8})},
                              {"h", test::random_tensor(r, {1, 12, wide})}};
    const auto one = test::run(compile(n, {.threads = 1}), x), four = test::run(compile(n, {.threads = 4}), x);
    test::expect_agreement(n, x, one);
    EXPECT_EQ(one.at("y").data, four.at("y").data);
  }
}

TEST(OnnxLstm, WhatIsRefused) {
  Random r(5);
  const auto says = [&](const auto& change) {
    Model m = layer("LSTM", 4, 1, r);
    change(m);
    return refusal(m);
  };
  EXPECT_EQ(says([](Model&) {}), test::accepted);
  EXPECT_THAT(says([](Model& m) { m.set("hidden_size", std::int64_t{4}); }),
              HasSubstr("hidden_size is 4, and R has shape (1,12,3)"));
  EXPECT_THAT(says([](Model& m) { m.attribute("direction", 3)->set_s("both"); }),
              HasSubstr("direction is 'both'; expected forward, reverse or bidirectional"));
  EXPECT_THAT(says([](Model& m) { m.attribute("activations", 8)->add_strings("Tanh"); }),
              HasSubstr("has 1 activations; expected 3, 3 for each direction"));
  EXPECT_THAT(says([](Model& m) {
                auto* a = m.attribute("activations", 8);
                for (const char* f : {"Sigmoid", "Tan", "Tanh"}) a->add_strings(f);
              }),
              HasSubstr("activation 'Tan' is unknown; expected Affine, Elu"));
  EXPECT_THAT(says([](Model& m) { m.set("clip", -1.0f); }), HasSubstr("clip is -1; expected 0 or more"));
  EXPECT_THAT(says([](Model& m) { m.node->set_input(3, "r"); }), HasSubstr("B has shape (1,12,3); expected (1,24)"));
}

}  // namespace
}  // namespace unisono
