#include "prepared.hpp"

#include <mutex>
#include <string>
#include <utility>

namespace unisono::python {
namespace {

/// The arguments of one call in flight, and where their addresses stand.
struct Room {
  explicit Room(const CallForm& form) : arguments(form.arguments) {
    read = {&arguments.a(form.contraction).data, &arguments.b(form.contraction).data};
    if (product_count(form.contraction) == 2) read.push_back(&arguments.right1.data);
    for (const std::string& name : form.tensors) read.push_back(&arguments.operands.at(name).data);
    for (const std::string& name : form.numbers) numbers.push_back(&arguments.scalars.at(name));
    for (const std::string& name : form.outputs) written.push_back(&arguments.outputs.at(name).data);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  void fill(const void* const* addresses, const double* values) {
    for (const void** place : read) *place = *addresses++;
    for (void** place : written) *place = const_cast<void*>(*addresses++);
    for (double* place : numbers) *place = *values++;
  }

  Arguments arguments;
  std::vector<const void**> read;
  std::vector<void**> written;
  std::vector<double*> numbers;
};

/// A launch that is bound for one stream.
struct Bound {
  Stream stream;
  Launch launch;
  std::shared_ptr<void> workspace;
  std::vector<std::size_t> tensors, numbers;  // slots
};

class Prepared final : public PreparedCall {
 public:
  Prepared(Executable executable, CallForm form) : executable_(std::move(executable)), form_(std::move(form)) {}

  void run(const void* const* addresses, const double* numbers, Stream stream, const Allocate& allocate) override {
    runs.fetch_add(1, std::memory_order_relaxed);
    if (form_.device == Device::cpu)
      return with_room(addresses, numbers, [&](const Arguments& a) { executable_.run(a); });
    if (is_captured(stream, form_.device_index)) {
      was_captured = true;
      return with_room(addresses, numbers, [&](const Arguments& a) { executable_.enqueue(a, stream); });
    }
    const std::lock_guard lock(mutex_);
    for (Bound& bound : bound_)
      if (bound.stream == stream) return enqueue(bound, addresses, numbers);
    bound_.push_back(bind(addresses, numbers, stream, allocate));
    bound_.back().launch.enqueue(stream);
  }

 private:
  template <class F>
  void with_room(const void* const* addresses, const double* numbers, F run) {
    std::unique_ptr<Room> room;
    {
      const std::lock_guard lock(mutex_);
      if (!rooms_.empty()) room = std::move(rooms_.back()), rooms_.pop_back();
    }
    if (!room) room = std::make_unique<Room>(form_);
    room->fill(addresses, numbers);
    run(room->arguments);
    const std::lock_guard lock(mutex_);
    rooms_.push_back(std::move(room));
  }

  static void enqueue(Bound& bound, const void* const* addresses, const double* numbers) {
    for (const std::size_t slot : bound.tensors) bound.launch.rebind(slot, *addresses++);
    for (const std::size_t slot : bound.numbers) bound.launch.rebind(slot, *numbers++);
    bound.launch.enqueue(bound.stream);
  }

  Bound bind(const void* const* addresses, const double* numbers, Stream stream, const Allocate& allocate) const {
    Room room(form_);
    room.fill(addresses, numbers);
    WorkspaceMemory memory{.bytes = executable_.workspace_bytes(), .stream = stream};
    std::shared_ptr<void> kept;
    if (memory.bytes > 0) kept = allocate(memory.bytes, &memory.memory);
    Bound bound{stream, executable_.bind(room.arguments, memory), std::move(kept), {}, {}};
    const bool is_product = has_left_and_right(form_.contraction);
    for (const char* name : {is_product ? "left" : "image", is_product ? "right" : "filter"})
      bound.tensors.push_back(bound.launch.slot(name));
    if (product_count(form_.contraction) == 2) bound.tensors.push_back(bound.launch.slot("right1"));
    for (const std::string& name : form_.tensors) bound.tensors.push_back(bound.launch.slot("operand " + name));
    for (const std::string& name : form_.outputs) bound.tensors.push_back(bound.launch.slot("output " + name));
    for (const std::string& name : form_.numbers) bound.numbers.push_back(bound.launch.slot("operand " + name));
    return bound;
  }

  const Executable executable_;
  const CallForm form_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Room>> rooms_;  // of calls that are over
  std::vector<Bound> bound_;
};

}  // namespace

std::shared_ptr<PreparedCall> prepare_call(Executable executable, CallForm form) {
  return std::make_shared<Prepared>(std::move(executable), std::move(form));
}

}  // namespace unisono::python
