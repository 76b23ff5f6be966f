/// A network with a chain's own of each move that it has beside others.

#include "network/chains.hpp"

namespace unisono::network {

namespace {

// Writes the network anew, with a chain's own of each move that it has beside others
class ChainWriting {
 public:
  ChainWriting(const Network& network, const std::vector<ChainMembers>& chains)
      : in_(network), chains_(chains), own_(chains.size()) {
    out_.network = network;
    out_.network.operators.clear();
    out_.chains.resize(chains.size());
  }

  Chained run() {
    for (std::size_t i = 0; i < in_.operators.size(); ++i) {
      std::optional<std::size_t> chain;  // that has the operator itself
      for (std::size_t c = 0; c < chains_.size(); ++c) {
        const auto at = chains_[c].find(i);
        if (at == chains_[c].end()) continue;
        if (at->second != ChainRole::copied)
          chain = c;
        else
          copy(i, c);
      }
      Operator op = in_.operators[i];
      if (chain) enter(op, *chain);
      out_.network.operators.push_back(std::move(op));
    }
    drop_unread();
    return std::move(out_);
  }

 private:
  void enter(Operator& op, std::size_t chain) {
    for (TensorId& id : op.inputs)
      if (const auto at = own_[chain].find(id); at != own_[chain].end()) id = at->second;
    out_.chains[chain].push_back(out_.network.operators.size());
  }
  void copy(std::size_t i, std::size_t chain) {
    Operator op = in_.operators[i];
    enter(op, chain);
    out_.network.tensors.push_back(in_[op.output]);
    own_[chain][op.output] = static_cast<TensorId>(out_.network.tensors.size() - 1);
    op.output = own_[chain].at(op.output);
    out_.network.operators.push_back(std::move(op));
  }
  void drop_unread();

  const Network& in_;
  const std::vector<ChainMembers>& chains_;
  std::vector<std::map<TensorId, TensorId>> own_;  // by chain
  Chained out_;
};

void ChainWriting::drop_unread() {
  Network& n = out_.network;
  std::vector<bool> needed(n.tensors.size(), false), live(n.operators.size(), false);
  for (const TensorId id : n.outputs) needed[id] = true;
  for (std::size_t i = n.operators.size(); i-- > 0;) {
    if (!needed[n.operators[i].output]) continue;
    live[i] = true;
    for (const TensorId id : n.operators[i].inputs) needed[id] = true;
  }
  std::vector<std::size_t> place(n.operators.size());
  std::vector<Operator> all;
  for (std::size_t i = 0; i < n.operators.size(); ++i) {
    place[i] = all.size();
    if (live[i]) all.push_back(std::move(n.operators[i]));
  }
  n.operators = std::move(all);
  std::erase_if(out_.chains, [&](const std::vector<std::size_t>& chain) { return !live[chain.back()]; });
  for (std::vector<std::size_t>& chain : out_.chains)
    for (std::size_t& i : chain) i = place[i];
}

}  // namespace

Chained with_copies(const Network& network, const std::vector<ChainMembers>& chains) {
  return ChainWriting(network, chains).run();
}

}  // namespace unisono::network
