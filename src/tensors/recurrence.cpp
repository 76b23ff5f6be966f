#include "tensors/recurrence.hpp"

#include <fmt/format.h>

#include <array>

#include "tensors/text.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

constexpr std::int64_t most_steps = std::int64_t{1} << 16;
constexpr std::int64_t most_states = std::int64_t{1} << 28;
constexpr std::int64_t units_of_cta = 32, rows_of_cta = 4, threads_of_cta = 256;  // as recurrence.cuh has them

enum class Part { whole, reset, candidate };

bool masks(const operators::Recurrence& op) { return op.cell == RecurrentCell::gru && !op.linear_before_reset; }

class Steps {
 public:
  Steps(const operators::Recurrence& op, const RecurrenceTensors& t) : op_(op), t_(t) {
    p_.rows = static_cast<u32>(t.x.shape[1]), p_.steps = static_cast<u32>(t.x.shape[0]);
    p_.directions = static_cast<u32>(t.weights.shape[0]), p_.hidden = static_cast<u32>(t.weights.shape[1]);
    p_.clip = op.clip, p_.reverse = op.reverse ? 1 : 0, p_.input_forget = op.input_forget ? 1 : 0;
    for (std::size_t i = 0; i < op.functions.size(); ++i)
      p_.functions[i] = {static_cast<int>(op.functions[i].kind), 0, op.functions[i].alpha, op.functions[i].beta};
    states_ = t.x.shape[1] * t.weights.shape[0] * t.weights.shape[1];
    bytes_ = static_cast<std::size_t>(states_) * size_of(t.to.type.value);
    bytes_ = (bytes_ + 15) / 16 * 16;
    add(t.x, &RecurrenceParams::x, offsetof(RecurrenceParams, x));
    add(t.weights, &RecurrenceParams::weights, offsetof(RecurrenceParams, weights));
    add(t.to, &RecurrenceParams::to, offsetof(RecurrenceParams, to));
    const auto optional = [&](const StridedTensor* x, StridedView RecurrenceParams::*view, std::size_t place) {
      if (x != nullptr) add(*x, view, place);
    };
    optional(t.extra, &RecurrenceParams::extra, offsetof(RecurrenceParams, extra));
    optional(t.lengths, &RecurrenceParams::lengths, offsetof(RecurrenceParams, lengths));
    optional(t.h, &RecurrenceParams::h, offsetof(RecurrenceParams, h));
    optional(t.c, &RecurrenceParams::c, offsetof(RecurrenceParams, c));
  }

  Launches all() {
    Launches made;
    made.scratch_bytes = 4 * bytes_;  // the state twice, the cell or z, what is masked
    made.list.push_back(begin());
    for (u32 i = 0; i < p_.steps; ++i) {
      p_.step = i, p_.last = i + 1 == p_.steps ? 1 : 0;
      if (masks(op_)) made.list.push_back(step(Part::reset));
      made.list.push_back(step(masks(op_) ? Part::candidate : Part::whole));
    }
    return made;
  }

 private:
  void add(const StridedTensor& x, StridedView RecurrenceParams::*view, std::size_t place) {
    set_strides((p_.*view).strides, x.strides);
    tensors_.push_back(reads(tensors_.size(), start_of(x)));
    tensors_.back().place = place;
  }
  static std::string_view tag(const StridedTensor* given, const StridedTensor& otherwise) {
    return tag_of((given != nullptr ? *given : otherwise).type.memory);
  }
  static KernelText text(std::string_view entry, const std::string& function) {
    return {"// Steps of recurrent layers.\n#include <unisono/tensor/recurrence.cuh>\n" +
                kernel_text(entry, "RecurrenceParams", function),
            std::string(entry)};
  }
  // The addresses of the tensors, of which `to` is written, and of the scratch memory
  Launch with_addresses(Launch launch) const {
    for (Address a : tensors_) {
      a.read = a.number != 2, a.written = a.number == 2;
      add_address(launch, a.place, a);
    }
    const std::int64_t size = static_cast<std::int64_t>(bytes_), now = p_.step % 2;
    const auto scratch = [&](std::size_t place, std::int64_t number) {
      add_address(launch, place, {.of = Address::Of::scratch, .bytes = number * size, .read = true, .written = true});
    };
    scratch(offsetof(RecurrenceParams, before), now), scratch(offsetof(RecurrenceParams, after), 1 - now);
    scratch(offsetof(RecurrenceParams, second), 2), scratch(offsetof(RecurrenceParams, masked), 3);
    return launch;
  }
  // As a step before the first one
  Launch begin() {
    p_.step = 1, p_.last = p_.steps == 0 ? 1 : 0;
    const std::string function = fmt::format("begin_recurrence<{}, {}, {}, {}>", tag(t_.h, t_.x), tag(t_.c, t_.x),
                                             tag_of(t_.to.type.memory), op_.cell == RecurrentCell::lstm);
    return with_addresses(
        launch_of(text("unisono_recurrence_begins", function), states_, p_, "the states before the first step"));
  }
  Launch step(Part part) const {
    constexpr std::array parts{"kWhole", "kReset", "kCandidate"};
    constexpr std::array cells{"kRnn", "kGru", "kLstm"};
    const std::string function =
        fmt::format("recurrent_step<{}, {}, {}, {}, Cell::{}, Part::{}>", tag_of(t_.x.type.memory),
                    tag_of(t_.weights.type.memory), tag(t_.extra, t_.x), tag_of(t_.to.type.memory),
                    cells[static_cast<std::size_t>(op_.cell)], parts[static_cast<std::size_t>(part)]);
    const auto blocks = [](std::int64_t n, std::int64_t by) { return (n + by - 1) / by; };
    const std::int64_t ctas = p_.directions * blocks(p_.rows, rows_of_cta) * blocks(p_.hidden, units_of_cta);
    return with_addresses(launch_of(text("unisono_recurrent_step", function), ctas * threads_of_cta, p_,
                                    fmt::format("step {}", p_.step)));
  }

  const operators::Recurrence& op_;
  const RecurrenceTensors& t_;
  RecurrenceParams p_{};
  std::vector<Address> tensors_;
  std::int64_t states_;
  std::size_t bytes_;
};

}  // namespace

plan::Expected<Launches> recurrence(const operators::Recurrence& op, const RecurrenceTensors& tensors) {
  if (element_count(tensors.to.shape) == 0) return Launches{};
  const std::int64_t steps = tensors.x.shape[0];
  if (steps > most_steps) return plan::because(fmt::format("size: {} steps, each of them a launch", steps));
  if (tensors.x.shape[1] * tensors.weights.shape[0] * tensors.weights.shape[1] > most_states)
    return plan::because("size: states of more than 2^28 elements");
  return Steps(op, tensors).all();
}

}  // namespace unisono::tensors
