#include "passes/factor_cross_entropy.hpp"

#include <utility>

#include "passes/editor.hpp"

namespace coda::passes {

namespace {

std::vector<Row> rows() {
  const Pattern x = any(0), t = any(1);
  const Pattern hit = t * logsigmoid(x);                       // t·log(p)
  const Pattern miss = shared(1 - t) * softplus(x);            // -(1 - t)·log(1 - p)
  const Pattern reversed_miss = shared(t + -1) * softplus(x);  // the same by t - 1, with the other sign
  const Pattern loss = (relu(x) - t * x) - logsigmoid(abs(x));
  std::vector<Row> r{
      {"(1 - t)*softplus(x) - t*logsigmoid(x) -> loss", miss - hit, loss},
      {"t*logsigmoid(x) - (1 - t)*softplus(x) -> -loss", hit - miss, -loss},
      {"t*logsigmoid(x) + (t - 1)*softplus(x) -> -loss", hit + reversed_miss, -loss},
  };
  for (const Op op : {Op::sum, Op::mean}) {
    const auto over = [op](const Pattern& p) { return with_attributes(0, op, {p}); };
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

}  // namespace

const RowTable& cross_entropy_rows() {
  static const RowTable table({rows()});
  return table;
}

Graph factor_cross_entropy(const Graph& graph) {
  Editor g(graph);
  apply(cross_entropy_rows(), g);
  return std::move(g).finish();
}

}  // namespace coda::passes
