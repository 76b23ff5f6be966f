#pragma once
/// What the contractions by oneDNN share.

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/scratch.hpp"
#include "unisono/dtype.hpp"
#include "unisono/executable.hpp"

namespace unisono::cpu {

/// Throws std::bad_alloc where oneDNN has no memory, InternalError for its other errors.
[[noreturn]] void throw_as_own(const dnnl::error& error);

/// What `f` returns; oneDNN's errors are thrown as our own.
template <class F>
decltype(auto) with_own_errors(F&& f) {
  try {
    return f();
  } catch (const dnnl::error& error) {
    throw_as_own(error);
  }
}

/// The CPU engine of the process.
const dnnl::engine& dnnl_engine();

/// While one lives, oneDNN primitives that this thread creates or executes use this thread alone.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

/// Stands ahead of primitives, their descriptions and what describes memory: there is room for them.
class Making {
 public:
  Making();
};

/// What oneDNN computes with lies in memory that the caller gives. With `adds`, results are added to what the target
/// holds.
dnnl::primitive_attr with_own_scratchpad(bool adds = false);

/// Memory that `execute` binds to an argument of a primitive.
struct Binding {
  int argument;
  const dnnl::memory::desc& desc;
  const void* data;
};

/// Runs a primitive on this thread.
void execute(const dnnl::primitive& primitive, const std::vector<Binding>& bindings);

/// A primitive that is executed often. oneDNN's objects for its arguments are made with it, for the threads of one run
/// (CallsOfThreads); more where more threads are in it at a time. Copies share them.
class Callable {
 public:
  /// An argument, and what it is.
  using Argument = std::pair<int, dnnl::memory::desc>;

  Callable() = default;
  Callable(dnnl::primitive primitive, std::vector<Argument> arguments);
  /// On this thread; `data` in the order of the arguments, null for one that is absent (whose description is empty).
  void operator()(std::initializer_list<const void*> data) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The dtype in which oneDNN multiplies: bf16 if both operands are and the processor can, else f32.
struct ComputeType {
  DType dtype = DType::f32;
  std::string note;  ///< what is converted, for describe(); empty if nothing is
};
dnnl::memory::data_type dnnl_type(DType t);
/// Whether this processor has instructions for products of bf16, which oneDNN otherwise emulates.
bool multiplies_bf16();

/// Throws Unsupported for dtypes that no contraction takes (f64, i32, bool, fp8).
void require_contraction_dtype(DType t, const std::string& what);
/// Dtypes of memory that may be bound where the contraction says `t`: tf32 is stored as f32, so either name will do.
std::vector<DType> accepted_dtypes(DType t);
std::string conversion_note(DType a, DType b, DType compute);

/// `count` elements of dtype `from`, `stride` apart, to dense elements of dtype `to` (f32 or bf16; bf16 from bf16 or
/// f32, which is rounded).
void convert_run(const VectorUnit& unit, const void* source, DType from, std::int64_t stride, std::size_t count,
                 void* target, DType to);

/// A right operand in the format that its primitive wants: dense in the caller's shape first, then reordered.
class PackedWeights {
 public:
  PackedWeights() = default;
  /// `plain` describes the dense row-major operand of shape `shape`, or the part of it that begins `offset` elements
  /// after its start; `wanted` is the primitive's format.
  PackedWeights(std::vector<std::int64_t> shape, DType compute, dnnl::memory::desc plain, dnnl::memory::desc wanted,
                const VectorUnit& unit, std::int64_t offset = 0);

  std::size_t packed_bytes() const { return aligned_size(wanted_.get_size()); }
  /// Scratch for pack(): the dense copy.
  std::size_t dense_bytes() const;
  bool needs_reorder() const { return plain_ != wanted_ || is_part_; }

  void pack(const ConstTensorView& view, std::byte* dense, std::byte* packed) const;

 private:
  std::vector<std::int64_t> shape_;
  DType compute_ = DType::f32;
  dnnl::memory::desc plain_, wanted_;
  dnnl::reorder reorder_;
  const VectorUnit* unit_ = nullptr;
  std::int64_t offset_ = 0;
  bool is_part_ = false;  // of the operand: it is taken out of the whole even where the format stays
};

}  // namespace unisono::cpu
