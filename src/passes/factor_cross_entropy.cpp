#include "passes/factor_cross_entropy.hpp"

#include <utility>

#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

const Pattern x = any(0), t = any(1);
const Pattern complement = shared(1 - t), reversed = shared(t + -1);  // 1 - t and t - 1
const Pattern loss = (relu(x) - t * x) - logsigmoid(abs(x));

Pattern sum(const Pattern& p) { return with_attributes(0, Op::sum, {p}); }
Pattern mean(const Pattern& p) { return with_attributes(0, Op::mean, {p}); }

// After fuse_operators: log(p) is logsigmoid(x), log(1 - p) is -softplus(x)
std::vector<Row> stable_rows() {
  const Pattern hit = t * logsigmoid(x), miss = complement * softplus(x), reversed_miss = reversed * softplus(x);
  std::vector<Row> r{
      {"(1 - t)*softplus(x) - t*logsigmoid(x) -> loss", miss - hit, loss},
      {"t*logsigmoid(x) - (1 - t)*softplus(x) -> -loss", hit - miss, -loss},
      {"t*logsigmoid(x) + (t - 1)*softplus(x) -> -loss", hit + reversed_miss, -loss},
      {"-((t - 1)*softplus(x)) - t*logsigmoid(x) -> loss", -reversed_miss - hit, loss},
  };
  for (auto* over : {&sum, &mean}) {
    r.push_back({"sum((1 - t)*softplus(x)) - sum(t*logsigmoid(x)) -> sum(loss), also of means", over(miss) - over(hit),
                 over(loss)});
    r.push_back({"sum(t*logsigmoid(x)) - sum((1 - t)*softplus(x)) -> -sum(loss), also of means", over(hit) - over(miss),
                 -over(loss)});
    r.push_back({"sum(t*logsigmoid(x)) + sum(-((1 - t)*softplus(x))) -> -sum(loss), also of means",
                 over(hit) + over(-miss), -over(loss)});
    r.push_back({"sum(t*logsigmoid(x)) + sum((t - 1)*softplus(x)) -> -sum(loss), also of means",
                 over(hit) + over(reversed_miss), -over(loss)});
  }
  return r;
}

// Where p has other users, such as the gradient p - t, fuse_operators leaves the logarithms alone: each by itself would
// cost an exponential. The whole loss does not: one exponential more, one logarithm less.
std::vector<Row> shared_probability_rows() {
  const Pattern p = shared(sigmoid(x));
  std::vector<Row> r;
  for (const Pattern& log_miss : {log(shared(1 - p)), log1p(shared(-p))}) {
    const Pattern hit = t * log(p), miss = complement * log_miss, reversed_miss = reversed * log_miss;
    r.push_back({"t*log(p) + (1 - t)*log(1 - p) -> -loss", hit + miss, -loss});
    r.push_back({"(t - 1)*log(1 - p) - t*log(p) -> loss", reversed_miss - hit, loss});
    r.push_back({"t*log(p) - (t - 1)*log(1 - p) -> -loss", hit - reversed_miss, -loss});
    r.push_back({"-(t*log(p)) - (1 - t)*log(1 - p) -> loss", -hit - miss, loss});
    for (auto* over : {&sum, &mean}) {
      r.push_back({"sum(t*log(p)) + sum((1 - t)*log(1 - p)) -> -sum(loss), also of means", over(hit) + over(miss),
                   -over(loss)});
      r.push_back({"sum((t - 1)*log(1 - p)) - sum(t*log(p)) -> sum(loss), also of means",
                   over(reversed_miss) - over(hit), over(loss)});
    }
  }
  return r;
}

}  // namespace

const RowTable& cross_entropy_rows() {
  static const RowTable table({stable_rows(), shared_probability_rows()});
  return table;
}

Graph factor_cross_entropy(const Graph& graph) {
  Editor g(graph);
  apply(cross_entropy_rows(), g);
  return std::move(g).finish();
}

}  // namespace unisono::passes
