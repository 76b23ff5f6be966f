/// Loop: its body stands in the network once for each step.

#include <algorithm>

#include "network/onnx/importer.hpp"
#include "support/at_exit.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::int64_t most_loop_steps = 4096;

// The number of steps at most that a loop is told; nothing if it is told none
std::optional<std::int64_t> told_steps(const NodeReader& node) {
  if (!node.has(0)) return std::nullopt;
  const std::string& name = node.proto().input(0);
  const Integers count = node.is_integers(0) ? node.integers(0) : Integers{};
  if (count.elements.size() != 1 || !count.elements[0].known())
    node.fail(
        "its number of steps '{}' is {}; only a Loop whose number of steps follows from constants and fixed extents is "
        "imported",
        name, count.elements.size() == 1 ? count.elements[0].symbol() : "what the run computes");
  return std::max<std::int64_t>(count.elements[0].value(), 0);
}

// A condition that is known; nothing if the run computes it
std::optional<bool> known_truth(const Imported& condition) {
  const auto* v = std::get_if<NetworkValue>(&condition);
  if (v == nullptr || !v->tensor().bytes || v->dtype() != DType::boolean || v->tensor().bytes->size() != 1)
    return std::nullopt;
  return v->tensor().bytes->front() != std::byte{0};
}

}  // namespace

// Inputs of the body: the step, the condition and what steps hand on. Its outputs: the condition, what is handed on,
// and what is stacked.
void Importer::unroll_loop(const NodeReader& node) {
  const schema::GraphProto& body = node.attribute("body")->g();
  const int carried = std::max(node.inputs() - 2, 0), stacked = node.outputs() - carried;
  if (body.input_size() != carried + 2)
    node.fail("its body has {} inputs; expected {}: the step, the condition and what it hands on", body.input_size(),
              carried + 2);
  if (stacked < 0 || body.output_size() != node.outputs() + 1)
    node.fail("its body has {} outputs, and the node {}; expected one more, the condition", body.output_size(),
              node.outputs());
  std::vector<Result> state{node.has(1) ? result_of(node.proto().input(1), node)
                                        : Result{builder_.constant("condition", {}, DType::boolean, {std::byte{1}})}};
  for (int i = 0; i < carried; ++i) {
    if (!node.has(2 + i)) node.fail("input {} is missing", 2 + i);
    state.push_back(result_of(node.proto().input(2 + i), node));
  }
  std::vector<Sequence> rows;
  {
    read_initializers(body);
    const support::AtExit forgotten([&] { forget_initializers(body); });
    rows = unroll_steps(node, body, state, static_cast<std::size_t>(stacked));
  }
  for (int i = 0; i < carried; ++i) define_result(node, i, state[static_cast<std::size_t>(i + 1)]);
  for (int i = 0; i < stacked; ++i) {
    if (!node.wants(carried + i)) continue;
    const Sequence& all = rows[static_cast<std::size_t>(i)];
    if (all.elements.empty()) node.fail("has no step, so output '{}' has no shape", node.proto().output(carried + i));
    const auto [value, type] = joined(node, all, 0, true);
    const Imported whole = std::visit([](const auto& v) -> Imported { return v; }, value);
    define_result(node, carried + i, {whole, type});
  }
}

// `state`: the condition and what is handed on, which each step replaces. The result is what steps make to be stacked.
std::vector<Sequence> Importer::unroll_steps(const NodeReader& node, const schema::GraphProto& body,
                                             std::vector<Result>& state, std::size_t stacked) {
  const auto steps = told_steps(node);
  const bool asks = node.has(1);
  if (!steps && !asks) node.fail("has neither a number of steps nor a condition, so it never ends");
  std::vector<Sequence> rows(stacked);
  for (std::int64_t step = 0; !steps || step < *steps; ++step) {
    const auto goes_on = asks ? known_truth(state[0].value) : true;
    if (!goes_on)
      node.fail("whether it goes on {} depends on what the network is run with",
                step == 0 ? "at all" : fmt::format("after {} of its steps", step));
    if (!*goes_on) break;
    if (step == most_loop_steps)
      node.fail("has more than {} steps, which are unrolled; that is the limit", most_loop_steps);
    count_node();  // a body may have none
    std::vector<Result> inputs{{Integers{.elements = {Dim(step)}, .scalar = true}}};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const auto results = read_body(node, body, fmt::format("{}", step), inputs);
    const auto handed_on = results.begin() + static_cast<std::ptrdiff_t>(state.size());
    state.assign(results.begin(), handed_on);
    for (std::size_t i = 0; i < stacked; ++i)
      rows[i].elements.push_back(row_of(node, handed_on[static_cast<std::ptrdiff_t>(i)]));
  }
  return rows;
}

// What a step makes of an output that is stacked
Sequence::Element Importer::row_of(const NodeReader& node, const Result& result) {
  if (const auto* v = std::get_if<NetworkValue>(&result.value)) return {*v, result.type};
  if (const auto* v = std::get_if<Integers>(&result.value)) {
    budget_.take_computed(v->elements.size(), v->elements.size() * sizeof(Dim),
                          fmt::format("Loop '{}'", node.proto().name()));
    return {*v, result.type};
  }
  node.fail("a step makes a sequence of an output that is stacked; expected a tensor");
}

}  // namespace unisono::network::onnx_import
