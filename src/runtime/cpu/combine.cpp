#include "runtime/cpu/combine.hpp"

#include <algorithm>

namespace unisono::cpu {

namespace {

constexpr std::int64_t least_columns = 32;  // a call for each row costs about as much as two vectors

class Combiner {
 public:
  explicit Combiner(Program& p) : p_(p), readers_(p.registers.size(), 0), gone_(p.instructions.size(), false) {
    for (const Instruction& i : p_.instructions)
      for (const int s : i.source) ++readers_[static_cast<std::size_t>(s)];
  }

  void run() {
    for (std::size_t at = 0; at < p_.instructions.size(); ++at) {
      if (p_.instructions[at].kind == Kind::expand) read_by_rows(at);
      if (is_lanes(p_.instructions[at], Code::sub_fma)) combine(at);
      if (is_lanes(p_.instructions[at], Code::add)) join_relu(at);
    }
    std::vector<Instruction> left;
    for (std::size_t at = 0; at < gone_.size(); ++at)
      if (!gone_[at]) left.push_back(std::move(p_.instructions[at]));
    p_.instructions = std::move(left);
  }

 private:
  const Register& reg(int r) const { return p_.registers[static_cast<std::size_t>(r)]; }
  bool is_lanes(const Instruction& i, Code code) const {
    return i.kind == Kind::lanes && i.code == code && !reg(i.result).wide;
  }
  // Nothing but the next instruction reads it, so it need not stand anywhere
  bool passes_by(int r) const { return reg(r).home == Home::scratch && readers_[static_cast<std::size_t>(r)] == 1; }
  bool same_shape(int r, int s) const { return reg(r).shape == reg(s).shape; }

  void read_by_rows(std::size_t at);
  void combine(std::size_t at);
  void join_relu(std::size_t at);
  void take_bias(std::size_t at);
  std::size_t end_of(std::size_t at) const;

  Program& p_;
  std::vector<int> readers_;  // by register
  std::vector<bool> gone_;    // by instruction
};

// A value of each row that is repeated over the columns for lane-wise instructions alone
void Combiner::read_by_rows(std::size_t at) {
  const Instruction repeat = p_.instructions[at];
  const Register &from = reg(repeat.source[0]), &to = reg(repeat.result);
  const bool of_rows = from.shape == LaneShape{LaneShape::block, 1} && to.shape.rows == LaneShape::block;
  if (!of_rows || to.shape.cols < least_columns || to.wide || to.home != Home::scratch) return;
  const auto reads = [&](const Instruction& i) {
    return std::find(i.source.begin(), i.source.end(), repeat.result) != i.source.end();
  };
  for (const Instruction& i : p_.instructions)
    if (reads(i) && (i.kind != Kind::lanes || !same_shape(i.result, repeat.result) || reg(i.result).wide)) return;
  for (Instruction& i : p_.instructions) {
    if (!reads(i)) continue;
    std::replace(i.source.begin(), i.source.end(), repeat.result, repeat.source[0]);
    i.by_rows = true;
  }
  gone_[at] = true;
}

// The sum that is normalised
void Combiner::take_bias(std::size_t at) {
  Instruction& i = p_.instructions[at];
  const int sum = i.source[0];
  if (!passes_by(sum) || !same_shape(sum, i.result)) return;
  for (std::size_t before = at; before-- > 0;) {
    const Instruction& add = p_.instructions[before];
    if (add.result != sum) continue;
    if (!is_lanes(add, Code::add)) return;
    i.source[0] = add.source[0];
    i.source.push_back(add.source[1]);
    i.by_rows = i.by_rows || add.by_rows;
    gone_[before] = true;
    return;
  }
}

// The instruction that alone reads the result, if it is an end; else `at`
std::size_t Combiner::end_of(std::size_t at) const {
  const int result = p_.instructions[at].result;
  if (!passes_by(result)) return at;
  for (std::size_t next = at + 1; next < p_.instructions.size(); ++next) {
    const Instruction& i = p_.instructions[next];
    if (std::find(i.source.begin(), i.source.end(), result) == i.source.end()) continue;
    const bool end =
        std::find(std::begin(normalise_ends), std::end(normalise_ends), i.code) != std::end(normalise_ends);
    return i.kind == Kind::lanes && end && i.source.size() == 1 && same_shape(result, i.result) ? next : at;
  }
  return at;
}

void Combiner::combine(std::size_t at) {
  take_bias(at);
  Instruction joined = p_.instructions[at];
  joined.kind = Kind::normalise;
  joined.code = Code::copy;
  const std::size_t end = end_of(at);
  if (end != at) {
    joined.code = p_.instructions[end].code;
    joined.result = p_.instructions[end].result;
    gone_[at] = true;
  }
  p_.instructions[end] = std::move(joined);
}

// The addition of a residual and the instruction after it
void Combiner::join_relu(std::size_t at) {
  const Instruction& sum = p_.instructions[at];
  if (at + 1 == p_.instructions.size() || gone_[at] || !passes_by(sum.result)) return;
  Instruction& next = p_.instructions[at + 1];
  if (!is_lanes(next, Code::relu) || next.source[0] != sum.result) return;  // a store, for one, has no result
  const bool alike = same_shape(sum.source[0], sum.result) && same_shape(sum.source[1], sum.result) &&
                     same_shape(next.result, sum.result);
  if (!alike) return;
  next.code = Code::add_relu;
  next.source = sum.source;
  gone_[at] = true;
}

}  // namespace

void combine_lanes(Program& program) { Combiner(program).run(); }

}  // namespace unisono::cpu
