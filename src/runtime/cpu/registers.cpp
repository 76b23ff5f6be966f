#include "runtime/cpu/registers.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/cpu/scratch.hpp"

namespace unisono::cpu {

namespace {

// Homes whose memory is the program's own, at least at times: an operand or output that cannot be bound lane by lane
// stands in scratch
bool in_scratch(const Register& r) {
  return r.home == Home::scratch || r.home == Home::operand || r.home == Home::output || r.home == Home::replicated;
}

// Instructions [first, last] during which a register holds something
struct Life {
  int first = -1, last = -1;
};

std::vector<Life> lives(const Program& p) {
  std::vector<Life> life(p.registers.size());
  for (int i = 0; i < static_cast<int>(p.instructions.size()); ++i) {
    const Instruction& x = p.instructions[static_cast<std::size_t>(i)];
    const auto touch = [&](int reg) {
      Life& l = life[static_cast<std::size_t>(reg)];
      if (l.first < 0) l.first = i;
      l.last = i;
    };
    for (const int s : x.source) touch(s);
    if (x.result >= 0) touch(x.result);
  }
  for (std::size_t r = 0; r < life.size(); ++r)
    if (p.registers[r].home == Home::replicated && life[r].first >= 0)
      life[r] = {0, static_cast<int>(p.instructions.size())};  // filled before the first block, read in all
  return life;
}

}  // namespace

std::size_t array_bytes(const LaneShape& shape, bool wide, std::int64_t block_rows) {
  const std::int64_t lanes = std::max(lanes_of(shape, block_rows), static_cast<std::int64_t>(scalar_lanes));
  return aligned_size(static_cast<std::size_t>(lanes) * (wide ? sizeof(double) : sizeof(float)));
}

int live_registers(const Program& program) {
  const auto life = lives(program);
  int most = 0;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    int alive = 0;
    for (std::size_t r = 0; r < life.size(); ++r)
      alive += !program.registers[r].shape.scalar() && life[r].first <= i && i <= life[r].last;
    most = std::max(most, alive);
  }
  return most;
}

void allocate_uniform(Program& program, Plan& plan) {
  for (Register& r : program.registers) {
    if (r.home != Home::scratch) continue;
    r.home = Home::uniform;
    r.offset = plan.uniform_bytes;
    plan.uniform_bytes += array_bytes(r.shape, r.wide);
  }
}

// A register that no instruction needs any more leaves its place to the next of the same size. A result never takes the
// place of a source of the same instruction: not all instructions work lane by lane.
void allocate_tile(Program& program, const Plan&, std::int64_t block_rows) {
  const auto life = lives(program);
  std::map<std::size_t, std::vector<std::size_t>> idle;  // size → offsets
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < life.size(); ++r)
    if (in_scratch(program.registers[r]) && life[r].first >= 0) order.push_back(r);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return life[x].first < life[y].first; });
  std::vector<std::size_t> active;
  for (const std::size_t r : order) {
    Register& reg = program.registers[r];
    std::erase_if(active, [&](std::size_t a) {
      if (life[a].last >= life[r].first) return false;
      const Register& done = program.registers[a];
      idle[array_bytes(done.shape, done.wide, block_rows)].push_back(done.offset);
      return true;
    });
    const std::size_t bytes = array_bytes(reg.shape, reg.wide, block_rows);
    if (auto& places = idle[bytes]; !places.empty()) {
      reg.offset = places.back();
      places.pop_back();
    } else {
      reg.offset = program.scratch_bytes;
      program.scratch_bytes += bytes;
    }
    active.push_back(r);
  }
}

}  // namespace unisono::cpu
