#include "network/joined_convolutions.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "network/dim.hpp"

namespace unisono::network {

namespace {

using Values = std::shared_ptr<const std::vector<float>>;

class Joiner {
 public:
  explicit Joiner(const Network& network)
      : in_(network),
        out_(network),
        readers_(network.tensors.size(), 0),
        source_(network.tensors.size(), nullptr),
        gone_(network.tensors.size(), false) {
    out_.operators.clear();
    for (const TensorId id : in_.outputs) readers_[id] += 2;  // it has to be there, whoever else reads it
    for (const Operator& op : in_.operators) {
      source_[op.output] = &op;
      for (const TensorId id : op.inputs) ++readers_[id];
    }
  }

  Network run() {
    std::vector<Sum> sums;
    for (auto op = in_.operators.rbegin(); op != in_.operators.rend(); ++op)  // the last addition of a sum first
      if (!gone_[op->output] && is_sum(op->output))
        if (Sum s = sum_of(*op); s.joins()) sums.push_back(std::move(s));
    if (sums.empty()) return in_;
    for (const Operator& op : in_.operators) {
      if (gone_[op.output]) continue;
      const auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum& s) { return s.last == &op; });
      if (sum == sums.end())
        out_.operators.push_back(op);
      else
        write(*sum);
    }
    forget_constants();
    return std::move(out_);
  }

 private:
  using Group = std::vector<const Operator*>;  // convolutions that become one, the one with the largest window first
  struct Summand {
    TensorId tensor;
    Group convolutions;  // none: the tensor as it is
  };
  struct Sum {
    const Operator* last;
    std::vector<Summand> summands;
    bool joins() const {
      return std::any_of(summands.begin(), summands.end(), [](const Summand& s) { return s.convolutions.size() > 1; });
    }
  };

  bool is_sum(TensorId id) const;
  bool is_convolution(TensorId id) const;
  bool holds(const Operator& large, const Operator& small) const;
  void collect(TensorId id, std::vector<TensorId>& terms, std::vector<TensorId>& inner) const;
  Sum sum_of(const Operator& last);
  bool add_to_group(Sum& sum, const Operator& convolution) const;
  TensorId add_tensor(NetworkTensor t) {
    out_.tensors.push_back(std::move(t));
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }
  TensorId summed_filter(const Group& group);
  std::optional<TensorId> summed_bias(const Group& group);
  void write(const Sum& sum);
  void forget_constants();

  const Network& in_;
  Network out_;
  std::vector<int> readers_;
  std::vector<const Operator*> source_;
  std::vector<bool> gone_;  // by tensor: it is not made any more
};

bool Joiner::is_sum(TensorId id) const {
  const Operator* op = source_[id];
  if (!op || op->kind != OperatorKind(operators::Elementwise{}) || op->inputs.size() != 2) return false;
  return std::all_of(op->inputs.begin(), op->inputs.end(), [&](TensorId input) {
    return in_[input].shape == in_[id].shape && in_[input].dtype == DType::f32;
  });
}

// One that nothing but a sum reads, of constants
bool Joiner::is_convolution(TensorId id) const {
  const Operator* op = source_[id];
  if (!op || readers_[id] != 1 || !std::holds_alternative<operators::Conv2d>(op->kind)) return false;
  return std::all_of(op->inputs.begin() + 1, op->inputs.end(),
                     [&](TensorId input) { return in_[input].constant != nullptr; });
}

// Whether each tap of the small filter reads what a tap of the large one reads
bool Joiner::holds(const Operator& large, const Operator& small) const {
  const auto &a = std::get<operators::Conv2d>(large.kind), &b = std::get<operators::Conv2d>(small.kind);
  if (large.inputs[0] != small.inputs[0] || a.groups != b.groups || a.stride != b.stride) return false;
  const Shape &wide = in_[large.inputs[1]].shape, &narrow = in_[small.inputs[1]].shape;
  if (a == b && wide == narrow) return true;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t taps = wide[2 + i].value(), fewer = narrow[2 + i].value(), first = a.pad[i] - b.pad[i];
    if ((taps > 1 && a.dilation[i] != 1) || (fewer > 1 && b.dilation[i] != 1)) return false;
    if (first < 0 || first + fewer > taps) return false;
  }
  return true;
}

void Joiner::collect(TensorId id, std::vector<TensorId>& terms, std::vector<TensorId>& inner) const {
  for (const TensorId input : source_[id]->inputs) {
    if (readers_[input] == 1 && is_sum(input)) {
      inner.push_back(input);
      collect(input, terms, inner);
    } else {
      terms.push_back(input);
    }
  }
}

bool Joiner::add_to_group(Sum& sum, const Operator& convolution) const {
  for (Summand& s : sum.summands) {
    if (s.convolutions.empty()) continue;
    const Operator& largest = *s.convolutions.front();
    if (holds(largest, convolution)) {
      s.convolutions.push_back(&convolution);
      return true;
    }
    if (holds(convolution, largest)) {
      s.convolutions.insert(s.convolutions.begin(), &convolution);
      return true;
    }
  }
  return false;
}

Joiner::Sum Joiner::sum_of(const Operator& last) {
  std::vector<TensorId> terms, inner;
  collect(last.output, terms, inner);
  Sum sum{&last, {}};
  for (const TensorId id : terms) {
    const Operator* convolution = is_convolution(id) ? source_[id] : nullptr;
    if (convolution && add_to_group(sum, *convolution)) continue;
    sum.summands.push_back({id, convolution ? Group{convolution} : Group{}});
  }
  if (!sum.joins()) return sum;
  for (const TensorId id : inner) gone_[id] = true;
  for (const Summand& s : sum.summands)
    if (s.convolutions.size() > 1)
      for (const Operator* c : s.convolutions) gone_[c->output] = true;
  return sum;
}

TensorId Joiner::summed_filter(const Group& group) {
  const Operator& large = *group.front();
  const auto& host = std::get<operators::Conv2d>(large.kind);
  const std::vector<std::int64_t> shape = values(in_[large.inputs[1]].shape);
  const std::int64_t rows = shape[2], cols = shape[3];
  std::vector<double> sums(in_[large.inputs[1]].constant->size(), 0.0);
  for (const Operator* c : group) {
    const auto& kind = std::get<operators::Conv2d>(c->kind);
    const NetworkTensor& filter = in_[c->inputs[1]];
    const std::int64_t height = filter.shape[2].value(), width = filter.shape[3].value(), taps = height * width;
    const std::int64_t row = host.pad[0] - kind.pad[0], col = host.pad[1] - kind.pad[1];
    for (std::int64_t i = 0; i < std::ssize(*filter.constant); ++i) {
      const std::int64_t tap = (i % taps / width + row) * cols + i % width + col;
      sums[static_cast<std::size_t>(i / taps * rows * cols + tap)] +=
          static_cast<double>((*filter.constant)[static_cast<std::size_t>(i)]);
    }
  }
  NetworkTensor summed = in_[large.inputs[1]];
  summed.name += "_joined";
  summed.constant = std::make_shared<const std::vector<float>>(sums.begin(), sums.end());
  return add_tensor(std::move(summed));
}

std::optional<TensorId> Joiner::summed_bias(const Group& group) {
  std::optional<NetworkTensor> bias;
  std::vector<double> sums;
  for (const Operator* c : group) {
    if (c->inputs.size() < 3) continue;
    if (!bias) bias = in_[c->inputs[2]];
    const std::vector<float>& given = *in_[c->inputs[2]].constant;
    sums.resize(given.size(), 0.0);
    for (std::size_t i = 0; i < given.size(); ++i) sums[i] += static_cast<double>(given[i]);
  }
  if (!bias) return std::nullopt;
  bias->name += "_joined";
  bias->constant = std::make_shared<const std::vector<float>>(sums.begin(), sums.end());
  return add_tensor(std::move(*bias));
}

void Joiner::write(const Sum& sum) {
  const Operator& last = *sum.last;
  const auto made = [&](bool is_result) {
    if (is_result) return last.output;
    const NetworkTensor like = in_[last.output];
    return add_tensor({like.name + "_part", like.dtype, like.shape, nullptr, nullptr});
  };
  std::optional<TensorId> before;
  for (std::size_t i = 0; i < sum.summands.size(); ++i) {
    const Summand& s = sum.summands[i];
    TensorId term = s.tensor;
    if (s.convolutions.size() > 1) {
      const Operator& large = *s.convolutions.front();
      Operator joined{large.kind, large.name, {large.inputs[0], summed_filter(s.convolutions)}, 0};
      if (const auto bias = summed_bias(s.convolutions)) joined.inputs.push_back(*bias);
      joined.output = term = made(sum.summands.size() == 1);
      out_.operators.push_back(std::move(joined));
    }
    if (before) {
      const TensorId result = made(i + 1 == sum.summands.size());
      out_.operators.push_back({operators::Elementwise{}, last.name, {*before, term}, result});
      term = result;
    }
    before = term;
  }
}

// Filters that nothing reads any more need no memory
void Joiner::forget_constants() {
  std::vector<bool> read(out_.tensors.size(), false);
  for (const TensorId id : out_.outputs) read[id] = true;
  for (const Operator& op : out_.operators)
    for (const TensorId id : op.inputs) read[id] = true;
  for (TensorId id = 0; id < in_.tensors.size(); ++id)
    if (!read[id] && readers_[id] > 0) out_.tensors[id].constant.reset();
}

}  // namespace

Network join_convolutions(const Network& network) { return Joiner(network).run(); }

}  // namespace unisono::network
