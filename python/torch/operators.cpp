/// The kernels of unisono::conv2d and unisono::gemm, of the fused_ operators that compiled graphs call (those two,
/// transposed and dual convolutions and dual products), and of the operators that write into given tensors, on
/// libtorch's stable ABI. A call that was prepared before is found by the shapes, strides and dtypes of its tensors and
/// costs no Python; any other is prepared by the operator unisono::prepare, which the package registers from Python.

#include <array>
#include <charconv>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "memory.hpp"
#include "prepared.hpp"
#include "stable_abi.hpp"

namespace unisono::python {
namespace {

constexpr std::size_t most_calls = 8192;

/// What one call is told apart by, as bytes.
class Key {
 public:
  Key() { bytes().clear(); }
  void add(std::int64_t number) { bytes().append(reinterpret_cast<const char*>(&number), sizeof number); }
  void add(std::string_view text) { add(static_cast<std::int64_t>(text.size())), bytes().append(text); }
  void add(const Tensor& tensor) {
    std::int64_t dim = 0, *sizes = nullptr, *strides = nullptr;
    std::int32_t dtype = 0, device = 0, index = 0;
    const AtenTensorHandle t = tensor.get();
    check(aoti_torch_get_dim(t, &dim), "asking for a tensor's rank");
    check(aoti_torch_get_sizes(t, &sizes), "asking for a tensor's shape");
    check(aoti_torch_get_strides(t, &strides), "asking for a tensor's strides");
    check(aoti_torch_get_dtype(t, &dtype), "asking for a tensor's dtype");
    check(aoti_torch_get_device_type(t, &device), "asking for a tensor's device");
    check(aoti_torch_get_device_index(t, &index), "asking for a tensor's device");
    add(std::int64_t{dtype} << 32 | dim), add(std::int64_t{device} << 32 | static_cast<std::uint32_t>(index));
    // A GPU's kernels read a slice where it is, if it is aligned
    add(device == aoti_torch_device_type_cuda() ? reinterpret_cast<std::uintptr_t>(tensor.address()) % alignment : 0);
    const auto count = static_cast<std::size_t>(dim) * sizeof(std::int64_t);
    bytes().append(reinterpret_cast<const char*>(sizes), count);
    bytes().append(reinterpret_cast<const char*>(strides), count);
  }
  std::string_view view() const { return bytes(); }

 private:
  static std::string& bytes() {
    thread_local std::string buffer;
    return buffer;
  }
};

/// Prepared calls by their keys.
class Cache {
 public:
  std::shared_ptr<PreparedCall> find(std::string_view key) const {
    const std::shared_lock lock(mutex_);
    const auto found = calls_.find(key);
    return found == calls_.end() || found->second->is_retired ? nullptr : found->second;
  }
  void put(std::string_view key, std::shared_ptr<PreparedCall> call) {
    const std::lock_guard lock(mutex_);
    if (calls_.size() >= most_calls) calls_.clear();  // they are prepared again when they are next called
    calls_.insert_or_assign(std::string(key), std::move(call));
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<PreparedCall>, Hash, std::equal_to<>> calls_;
};

/// Never destroyed: what it holds belongs to a driver and an allocator that may be gone by then.
Cache& cache() {
  static auto* const all = new Cache;
  return *all;
}

/// A result that goes into the channels first, first + 1, … of a larger image.
struct Placement {
  std::size_t store = 0;
  std::int64_t first = 0;
};

/// The arguments of one call of an operator.
struct Call {
  std::size_t factors = 2;      // 3 of a dual product or convolution
  std::vector<Tensor> tensors;  // factors, operands
  std::vector<double> numbers;
  std::array<std::int64_t, 9>
      moves{};  // stride, padding, dilation, if transposed output_padding, groups; none of a product
  std::size_t move_count = 0;
  std::optional<StableIValue> dtype;
  std::vector<Tensor> outputs;      // that the caller gives, in the order of the stores; none: they are made
  std::optional<Placement> placed;  // the output `store` is a slice of outputs[store]
};

/// Text arguments, which stay where they are.
struct Names {
  std::string_view epilogue, names;
};

/// Calls unisono::prepare, which gives an address in decimal digits, or an error's text: what it throws would lose it.
std::shared_ptr<PreparedCall> prepared(const Call& call, const Names& names) {
  const auto same = [](auto x) { return from(x); };
  const auto shared = [](const Tensor& t) { return t.shared(); };
  const std::array<std::int64_t, 2> place{static_cast<std::int64_t>(call.placed.value_or(Placement{}).store),
                                          call.placed.value_or(Placement{}).first};
  std::array<StableIValue, 9> stack{list_value(std::span(call.tensors).first(call.factors), shared),
                                    list_value(std::span(call.tensors).subspan(call.factors), shared),
                                    list_value(call.numbers, same),
                                    string_value(names.epilogue),
                                    string_value(names.names),
                                    list_value(std::span(call.moves).first(call.move_count), same),
                                    from(call.dtype ? new StableIValue(*call.dtype) : nullptr),
                                    list_value(call.outputs, shared),
                                    list_value(std::span(place).first(call.placed ? 2 : 0), same)};
  check(torch_call_dispatcher("unisono::prepare", "", stack.data(), stable_version), "calling unisono::prepare");
  const Text result(stack[0]);
  std::uintptr_t address = 0;
  if (std::from_chars(result.view().data(), result.view().data() + result.view().size(), address).ec != std::errc())
    throw std::runtime_error(std::string(result.view()));
  const std::unique_ptr<std::shared_ptr<PreparedCall>> owned(reinterpret_cast<std::shared_ptr<PreparedCall>*>(address));
  return std::move(*owned);
}

std::vector<Tensor> run(Call& call, PreparedCall& prepared) {
  Place place;
  check(aoti_torch_get_device_type(call.tensors[0].get(), &place.device), "asking for a tensor's device");
  check(aoti_torch_get_device_index(call.tensors[0].get(), &place.index), "asking for a tensor's device");
  const bool on_gpu = place.device == aoti_torch_device_type_cuda();
  std::vector<const void*> addresses;
  addresses.reserve(call.tensors.size() + prepared.results.size());
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    if (prepared.orders[i] != Order::as_given) call.tensors[i] = ordered(call.tensors[i], prepared.orders[i]);
    addresses.push_back(call.tensors[i].address());
  }
  std::vector<Tensor> results;
  results.reserve(prepared.results.size());
  for (std::size_t i = 0; i < prepared.results.size(); ++i) {
    const MadeTensor& one = prepared.results[i];
    if (call.outputs.empty()) results.push_back(empty(one.shape, one.strides, dtype_of(one.dtype), place));
    const Tensor& written = call.outputs.empty() ? results.back() : call.outputs[i];
    const bool is_slice = call.placed && call.placed->store == i;
    addresses.push_back(is_slice ? address_of_channel(written, call.placed->first, one.dtype) : written.address());
  }
  const Stream stream = on_gpu ? current_stream(place.index) : nullptr;
  const auto allocate = [&](std::size_t bytes, void** address) -> std::shared_ptr<void> {
    auto made = std::make_shared<Tensor>(workspace(bytes, place, stream));
    *address = made->address();
    return made;
  };
  prepared.run(addresses.data(), call.numbers.data(), stream, allocate);
  return results;
}

std::vector<Tensor> tensors_of(const List& list) {
  std::vector<Tensor> found;
  for (std::size_t i = 0; i < list.size(); ++i) found.emplace_back(to<AtenTensorHandle>(list[i]));
  return found;
}

/// What becomes of the results: they are returned, written into the caller's tensors, or one of them is written into a
/// range of channels of a larger image and the others into the caller's tensors.
enum class Form : std::uint8_t { returned, written, placed };

/// Takes the arguments that say where the results go from the stack, from `next` on.
void take_outputs(Call& call, StableIValue* next, Form form) {
  if (form == Form::written) {
    call.outputs = tensors_of(List(*next));
    if (call.outputs.empty())
      throw std::runtime_error("unisono.UserError: out= has no tensors; expected one for each store");
  }
  if (form != Form::placed) return;
  Tensor whole(to<AtenTensorHandle>(next[0]));
  call.placed = Placement{static_cast<std::size_t>(to<std::int64_t>(next[2])), to<std::int64_t>(next[1])};
  call.outputs = tensors_of(List(next[3]));
  if (call.placed->store > call.outputs.size())
    throw std::runtime_error("unisono.UserError: store " + std::to_string(to<std::int64_t>(next[2])) +
                             " cannot go to a slice of `whole`; expected 0 to " + std::to_string(call.outputs.size()));
  call.outputs.insert(call.outputs.begin() + static_cast<std::ptrdiff_t>(call.placed->store), std::move(whole));
}

/// Takes the arguments from the stack and puts the results there. moves: lists of two, and a number behind them.
void operate(StableIValue* stack, std::size_t factors, std::size_t moves, Form form) {
  Call call;
  call.factors = factors;
  std::size_t next = 0;
  while (next < factors) call.tensors.emplace_back(to<AtenTensorHandle>(stack[next++]));
  const List operands(stack[next]), numbers(stack[next + 1]);
  const Text epilogue(stack[next + 2]), names(stack[next + 3]);
  next += 4;
  for (std::size_t i = 0; i < moves; ++i) {
    const List pair(stack[next++]);
    if (pair.size() != 2) throw std::runtime_error("unisono: stride, padding, dilation and output_padding are pairs");
    for (std::size_t j : {0, 1}) call.moves[call.move_count++] = to<std::int64_t>(pair[j]);
  }
  if (moves > 0) call.moves[call.move_count++] = to<std::int64_t>(stack[next++]);
  if (form != Form::written)
    if (const std::unique_ptr<StableIValue> dtype(to<StableIValue*>(stack[next++])); dtype) call.dtype = *dtype;
  take_outputs(call, stack + next, form);
  for (std::size_t i = 0; i < operands.size(); ++i) call.tensors.emplace_back(to<AtenTensorHandle>(operands[i]));
  for (std::size_t i = 0; i < numbers.size(); ++i) call.numbers.push_back(to<double>(numbers[i]));

  Key key;
  key.add(epilogue.view()), key.add(names.view());
  key.add(static_cast<std::int64_t>(call.tensors.size())), key.add(static_cast<std::int64_t>(factors));
  key.add(static_cast<std::int64_t>(call.move_count));
  for (std::size_t i = 0; i < call.move_count; ++i) key.add(call.moves[i]);
  key.add(call.dtype ? static_cast<std::int64_t>(*call.dtype) : -1);
  for (const Tensor& tensor : call.tensors) key.add(tensor);
  key.add(call.placed ? static_cast<std::int64_t>(call.placed->store) : -1);
  key.add(call.placed ? call.placed->first : 0);
  for (const Tensor& tensor : call.outputs) key.add(tensor);
  std::shared_ptr<PreparedCall> found = cache().find(key.view());
  if (!found) {
    const std::string kept(key.view());
    found = prepared(call, {epilogue.view(), names.view()});
    cache().put(kept, found);
  }
  std::vector<Tensor> results = run(call, *found);
  if (form == Form::returned) stack[0] = list_value(results, [](Tensor& t) { return from(t.release()); });
}

/// PyTorch knows no classes of Unisono's errors: their names go ahead of the text.
template <std::size_t factors, std::size_t moves, Form form = Form::returned>
void operate_or_explain(StableIValue* stack, std::uint64_t, std::uint64_t) {
  const auto named = [](const char* name, const Error& e) { return std::runtime_error(name + std::string(e.what())); };
  try {
    operate(stack, factors, moves, form);
  } catch (const UserError& e) {
    throw named("unisono.UserError: ", e);
  } catch (const Unsupported& e) {
    throw named("unisono.Unsupported: ", e);
  } catch (const DeviceError& e) {
    throw named("unisono.DeviceError: ", e);
  } catch (const Error& e) {
    throw named("unisono.Error: ", e);
  }
}

constexpr std::pair<const char*, StableKernel> kernels[] = {
    {"conv2d", &operate_or_explain<2, 3>},
    {"fused_conv2d", &operate_or_explain<2, 3>},
    {"gemm", &operate_or_explain<2, 0>},
    {"fused_gemm", &operate_or_explain<2, 0>},
    {"fused_conv_transpose2d", &operate_or_explain<2, 4>},
    {"fused_dual_conv2d", &operate_or_explain<3, 3>},
    {"dual_gemm", &operate_or_explain<3, 0>},
    {"fused_dual_gemm", &operate_or_explain<3, 0>},
    {"conv2d_out", &operate_or_explain<2, 3, Form::written>},
    {"conv2d_into", &operate_or_explain<2, 3, Form::placed>},
    {"conv_transpose2d_into", &operate_or_explain<2, 4, Form::placed>},
};

/// What is registered stays so until the process ends.
void register_kernels() {
  for (const char* key : {"CPU", "CUDA"}) {
    TorchLibraryHandle library = nullptr;
    check(aoti_torch_library_init_impl("unisono", key, "unisono", 0, &library), "opening the library of operators");
    for (const auto& [name, kernel] : kernels)
      check(torch_library_impl(library, name, kernel, stable_version), "registering an operator");
  }
}

}  // namespace
}  // namespace unisono::python

/// Registers the kernels with the PyTorch that the process has loaded. Returns why it could not, or null. Once in a
/// process; the package's Python has defined the operators before.
extern "C" __attribute__((visibility("default"))) const char* unisono_register_operators() {
  static std::string why;
  try {
    if (const std::string missing = unisono::python::load_libtorch(); !missing.empty())
      why = "it has no function " + missing;
    else
      unisono::python::register_kernels();
  } catch (const std::exception& error) {
    why = error.what();
  }
  return why.empty() ? nullptr : why.c_str();
}
