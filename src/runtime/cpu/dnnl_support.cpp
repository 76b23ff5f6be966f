#include "runtime/cpu/dnnl_support.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/cpu/room.hpp"
#include "runtime/cpu/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

void throw_as_own(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
  throw InternalError(fmt::format("oneDNN: {}", error.what()));
}

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN asks OpenMP for the number of threads, which is a setting of each thread
SingleThreaded::SingleThreaded() : before_(openmp_threads()) { omp_set_num_threads(1); }
SingleThreaded::~SingleThreaded() { omp_set_num_threads(before_); }

Making::Making() { require_room(room_of_a_primitive); }

dnnl::primitive_attr with_own_scratchpad(bool adds) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (adds) {
    dnnl::post_ops sum;
    sum.append_sum();
    attr.set_post_ops(sum);
  }
  return attr;
}

void execute(const dnnl::primitive& primitive, const std::vector<Binding>& bindings) {
  const SingleThreaded single;
  with_own_errors([&] {
    require_room(room_of_objects);
    const dnnl::engine& engine = dnnl_engine();
    dnnl::stream stream(engine);
    std::unordered_map<int, dnnl::memory> arguments;
    for (const Binding& b : bindings)
      arguments.emplace(b.argument, dnnl::memory(b.desc, engine, const_cast<void*>(b.data)));
    primitive.execute(stream, arguments);
    stream.wait();
  });
}

struct Callable::State {
  // What one execution needs
  struct Call {
    dnnl::stream stream;
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  // A call that no other thread has, given back at the end
  class Taken {
   public:
    explicit Taken(State& state) : state_(state), call_(state.take()) {}
    ~Taken() {
      const std::lock_guard lock(state_.mutex);
      state_.idle.push_back(std::move(call_));
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    Call& operator*() { return call_; }

   private:
    State& state_;
    Call call_;
  };

  void make_calls(int count);
  Call make_call() const;
  Call take();
  void execute(std::initializer_list<const void*> data);

  dnnl::primitive primitive;
  std::vector<Argument> arguments;
  std::mutex mutex;
  std::size_t made = 0;
  std::vector<Call> idle;  // has room for all that were made: giving back never allocates
};

void Callable::State::make_calls(int count) {
  require_room(room_of_objects);
  idle.reserve(static_cast<std::size_t>(count));
  for (; std::ssize(idle) < count; ++made) idle.push_back(make_call());
}

Callable::State::Call Callable::State::make_call() const {
  Call call{dnnl::stream(dnnl_engine()), {}, {}};
  for (const auto& [argument, desc] : arguments) {
    call.memories.emplace_back(desc, dnnl_engine(), static_cast<void*>(DNNL_MEMORY_NONE));
    if (!desc.is_zero()) call.arguments.push_back({argument, call.memories.back().get()});
  }
  return call;
}

// One more only where several runs are under way, which are in it with more threads than one run has
Callable::State::Call Callable::State::take() {
  const std::lock_guard lock(mutex);
  if (idle.empty()) {
    require_room(room_of_objects);
    idle.reserve(made + 1);
    idle.push_back(make_call());
    ++made;
  }
  Call call = std::move(idle.back());
  idle.pop_back();
  return call;
}

Callable::Callable(dnnl::primitive primitive, std::vector<Argument> arguments) : state_(std::make_shared<State>()) {
  state_->primitive = std::move(primitive);
  state_->arguments = std::move(arguments);
  state_->make_calls(CallsOfThreads::threads());
}

void Callable::operator()(std::initializer_list<const void*> data) const {
  const SingleThreaded single;
  with_own_errors([&] { state_->execute(data); });
}

void Callable::State::execute(std::initializer_list<const void*> data) {
  Taken taken(*this);
  Call& call = *taken;
  auto memory = call.memories.begin();
  for (const void* p : data) {
    if (p && memory->get_data_handle() != p) memory->set_data_handle(const_cast<void*>(p));
    ++memory;
  }
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), call.stream.get(),
                                                 static_cast<int>(call.arguments.size()), call.arguments.data()),
                          "could not execute a primitive");
}

dnnl::memory::data_type dnnl_type(DType t) {
  return t == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

bool multiplies_bf16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [&](dnnl::cpu_isa all) { return (isa & static_cast<unsigned>(all)) == static_cast<unsigned>(all); };
  return has(dnnl::cpu_isa::avx512_core_bf16);
}

void require_contraction_dtype(DType t, const std::string& what) {
  if (t == DType::f32 || t == DType::tf32 || t == DType::bf16 || t == DType::f16) return;
  throw Unsupported(
      fmt::format("{} has dtype {}. On the CPU:\n  oneDNN: takes f32, tf32, f16 and bf16 operands and "
                  "accumulates in f32; {} operands would lose precision or meaning; convert them",
                  what, to_string(t), to_string(t)));
}

std::vector<DType> accepted_dtypes(DType t) {
  if (t == DType::f32 || t == DType::tf32) return {DType::f32, DType::tf32};
  return {t};
}

std::string conversion_note(DType a, DType b, DType compute) {
  if (compute == DType::bf16) return {};
  std::string note;
  for (const auto& [name, t] : {std::pair{"a", a}, std::pair{"b", b}}) {
    if (t == DType::f32) continue;
    if (!note.empty()) note += ", ";
    note += t == DType::tf32 ? fmt::format("{} is tf32 and multiplied as f32", name)
                             : fmt::format("{} is {} and converted to f32", name, to_string(t));
  }
  return note;
}

void convert_run(const VectorUnit& unit, const void* source, DType from, std::int64_t stride, std::size_t count,
                 void* target, DType to) {
  if (to == DType::f32) return load_floats(unit, source, from, stride, count, static_cast<float*>(target));
  if (size_of(from) == sizeof(float)) {
    const auto* f = static_cast<const float*>(source);
    if (stride == 1) return unit.store_bf16(f, static_cast<std::uint16_t*>(target), count);
    std::array<float, 256> run{};
    for (std::size_t i = 0; i < count; i += run.size()) {
      const std::size_t n = std::min(run.size(), count - i);
      load_floats(unit, f + static_cast<std::int64_t>(i) * stride, DType::f32, stride, n, run.data());
      unit.store_bf16(run.data(), static_cast<std::uint16_t*>(target) + i, n);
    }
    return;
  }
  if (stride == 1) {
    std::memcpy(target, source, count * sizeof(std::uint16_t));
    return;
  }
  const auto* s = static_cast<const std::uint16_t*>(source);
  auto* t = static_cast<std::uint16_t*>(target);
  for (std::size_t i = 0; i < count; ++i) t[i] = s[static_cast<std::int64_t>(i) * stride];
}

PackedWeights::PackedWeights(std::vector<std::int64_t> shape, DType compute, dnnl::memory::desc plain,
                             dnnl::memory::desc wanted, const VectorUnit& unit, std::int64_t offset)
    : shape_(std::move(shape)),
      compute_(compute),
      plain_(std::move(plain)),
      wanted_(std::move(wanted)),
      unit_(&unit),
      offset_(offset),
      is_part_(element_count(plain_.get_dims()) != element_count(shape_)) {
  const SingleThreaded single;
  const Making making;
  if (needs_reorder())
    reorder_ = dnnl::reorder(dnnl::reorder::primitive_desc(dnnl_engine(), plain_, dnnl_engine(), wanted_));
}

std::size_t PackedWeights::dense_bytes() const {
  return aligned_size(static_cast<std::size_t>(element_count(shape_)) * size_of(compute_));
}

void PackedWeights::pack(const ConstTensorView& view, std::byte* dense, std::byte* packed) const {
  const auto strides = view.strides.empty() ? row_major_strides(shape_) : view.strides;
  const bool is_dense = strides == row_major_strides(shape_) && size_of(view.dtype) == size_of(compute_);
  std::byte* target = needs_reorder() ? dense : packed;
  const void* source = view.data;
  if (!is_dense || !needs_reorder()) {
    const std::int64_t inner = shape_.back(), runs = element_count(shape_) / inner;
    std::vector<std::int64_t> at(shape_.size() - 1);
    for (std::int64_t run = 0, offset = 0; run < runs; ++run) {
      convert_run(*unit_, element(view.data, offset, view.dtype), view.dtype, strides.back(),
                  static_cast<std::size_t>(inner), element(static_cast<void*>(target), run * inner, compute_),
                  compute_);
      for (auto d = at.size(); d-- > 0;) {  // next run: an odometer
        offset += strides[d];
        if (++at[d] < shape_[d]) break;
        offset -= at[d] * strides[d];
        at[d] = 0;
      }
    }
    source = target;
  }
  if (needs_reorder())
    execute(reorder_, {{DNNL_ARG_FROM, plain_, element(source, offset_, compute_)}, {DNNL_ARG_TO, wanted_, packed}});
}

}  // namespace unisono::cpu
