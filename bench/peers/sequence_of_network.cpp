#include "peers/sequence_of_network.hpp"

#include <fmt/format.h>

#include <map>

#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

namespace net = unisono::operators;
using Id = unisono::TensorId;

class Translation {
 public:
  Translation(OnednnSequence& sequence, const Network& network, std::int64_t batch)
      : sequence_(sequence), network_(network) {
    for (std::size_t i = 0; i < network.operators.size(); ++i)
      for (const Id x : network.operators[i].inputs) users_[x].push_back(i);
    const Shape& shape = network[network.inputs.at(0)].shape;
    const auto extent = [&](std::size_t i) { return shape.at(i).known() ? shape[i].value() : batch; };
    made_[network.inputs[0]] = sequence.input(extent(0), extent(1), extent(2), extent(3));
  }

  void run() {
    for (std::size_t i = 0; i < network_.operators.size(); ++i)
      if (!done_.contains(i)) translate(i);
    sequence_.output(made_.at(network_.outputs.at(0)));
  }

 private:
  const Operator& op(std::size_t i) const { return network_.operators[i]; }

  std::span<const float> constant(Id id) const {
    const auto& c = network_[id].constant;
    if (!c) throw Unsupported(fmt::format("the oneDNN sequence needs {} to be constant", network_[id].name));
    return *c;
  }

  static Activation activation_of(Op o) {
    switch (o) {
      case Op::silu: return Activation::silu;
      case Op::mish: return Activation::mish;
      case Op::relu: return Activation::relu;
      case Op::sigmoid: return Activation::sigmoid;
      default: return Activation::none;
    }
  }

  // The activation that follows tensor x alone; marks its operators as done and returns what they make
  std::pair<Activation, Id> take_activation(Id x) {
    const auto& users = users_[x];
    const auto elementwise = [&](std::size_t i) { return std::get_if<net::Elementwise>(&op(i).kind); };
    if (users.size() == 1 && elementwise(users[0])) {
      const Activation a = activation_of(elementwise(users[0])->op);
      if (a != Activation::none) {
        done_[users[0]] = true;
        return {a, op(users[0]).output};
      }
    }
    if (users.size() == 2 && elementwise(users[0]) && elementwise(users[1]) &&
        elementwise(users[0])->op == Op::sigmoid && elementwise(users[1])->op == Op::mul &&
        users_[op(users[0]).output].size() == 1) {
      done_[users[0]] = done_[users[1]] = true;
      return {Activation::silu, op(users[1]).output};
    }
    return {Activation::none, x};
  }

  void translate(std::size_t i) {
    const Operator& o = op(i);
    const auto in = [&](std::size_t k) { return made_.at(o.inputs.at(k)); };
    if (const auto* c = std::get_if<net::Conv2d>(&o.kind)) {
      const Shape& w = network_[o.inputs.at(1)].shape;
      const auto [activation, result] = take_activation(o.output);
      made_[result] =
          sequence_.convolution(in(0), {.k = w[0].value(),
                                        .r = w[2].value(),
                                        .s = w[3].value(),
                                        .stride = c->stride.h,
                                        .pad = c->pad.top,
                                        .weights = constant(o.inputs[1]),
                                        .bias = o.inputs.size() > 2 ? constant(o.inputs[2]) : std::span<const float>{},
                                        .activation = activation});
    } else if (const auto* n = std::get_if<net::Normalisation>(&o.kind);
               n && n->op == Op::group_norm && n->has_scale && n->has_shift) {
      const auto [activation, result] = take_activation(o.output);
      made_[result] = sequence_.group_norm(in(0), n->groups, static_cast<float>(n->eps), constant(o.inputs.at(1)),
                                           constant(o.inputs.at(2)), activation);
    } else if (const auto* p = std::get_if<net::Pool2d>(&o.kind); p && !p->average) {
      made_[o.output] = sequence_.max_pool(in(0), p->kernel.h);
    } else if (const auto* r = std::get_if<net::Resize>(&o.kind); r && r->mode == ResizeMode::nearest) {
      made_[o.output] = sequence_.upsample_nearest(in(0), static_cast<std::int64_t>(r->scale_h));
    } else if (std::holds_alternative<net::Concat>(o.kind)) {
      std::vector<TensorId> xs;
      for (std::size_t k = 0; k < o.inputs.size(); ++k) xs.push_back(in(k));
      made_[o.output] = sequence_.concat(xs);
    } else if (std::holds_alternative<net::Identity>(o.kind)) {
      made_[o.output] = in(0);
    } else {
      throw Unsupported(fmt::format("the oneDNN sequence has no {} ({})", to_string(o.kind), o.name));
    }
  }

  OnednnSequence& sequence_;
  const Network& network_;
  std::map<Id, std::vector<std::size_t>> users_;
  std::map<Id, unisono::bench::TensorId> made_;
  std::map<std::size_t, bool> done_;
};

}  // namespace

void append_network(OnednnSequence& sequence, const Network& network, std::int64_t batch) {
  Translation(sequence, network, batch).run();
}

}  // namespace unisono::bench
