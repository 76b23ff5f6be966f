/// Contractions, compile(), executables, launches and explanations.

#include "options.hpp"
#include "prepared.hpp"
#include "tensors.hpp"

namespace unisono::python {
namespace {

using namespace nb::literals;
using Extent = std::int64_t;

/// An executable with what its arguments are checked by.
struct PythonExecutable {
  Executable executable;
  Contraction contraction;
  Place place;
};

Pair pair_of(nb::handle object, const char* what) {
  if (Extent both = 0; nb::try_cast(object, both, false)) return Pair(both);
  if (std::pair<Extent, Extent> two; nb::isinstance<nb::sequence>(object) && nb::len(object) == 2)
    return Pair(nb::cast<Extent>(object[0]), nb::cast<Extent>(object[1]));
  throw UserError(std::string(what) + ": expected a number, or two: rows and columns");
}

Margins margins_of(nb::handle object) {
  if (nb::isinstance<nb::sequence>(object) && nb::len(object) == 4)
    return Margins(nb::cast<Extent>(object[0]), nb::cast<Extent>(object[1]), nb::cast<Extent>(object[2]),
                   nb::cast<Extent>(object[3]));
  const Pair both = pair_of(object, "pad (or four: top, left, bottom, right)");
  return Margins(both.h, both.w, both.h, both.w);
}

/// Tensors and numbers of one call. The right operand may be None if it was given when compiling.
Arguments arguments_of(const PythonExecutable& self, BoundTensors& bound, nb::handle a, nb::handle b,
                       const nb::dict& operands, const nb::dict& outputs) {
  const bool product = has_left_and_right(self.contraction);
  Arguments arguments;
  arguments.a(self.contraction) = bound.read(product ? "left" : "image", a);
  if (nb::isinstance<nb::tuple>(b)) {
    if (nb::len(b) != 2)
      throw UserError("there are " + std::to_string(nb::len(b)) + (product ? " right operands" : " filters") +
                      "; expected one, or two of a dual " + (product ? "product" : "convolution"));
    arguments.b(self.contraction) = bound.read(product ? "right" : "filter", b[0]);
    arguments.right1 = bound.read("right1", b[1]);
  } else if (!b.is_none()) {
    arguments.b(self.contraction) = bound.read(product ? "right" : "filter", b);
  }
  for (const auto& [key, value] : operands) {
    const auto name = nb::cast<std::string>(key);
    if (double number = 0;
        (nb::isinstance<nb::float_>(value) || nb::isinstance<nb::int_>(value)) && nb::try_cast(value, number, true))
      arguments.scalars[name] = number;
    else
      arguments.operands[name] = bound.read(name, value);
  }
  arguments.outputs = write_all(bound, outputs);
  return arguments;
}

PythonExecutable compile_graph(const Contraction& contraction, const Graph& graph, nb::object constant_filter,
                               const nb::kwargs& keywords) {
  CompileOptions options = compile_options_of(keywords);
  const Place place{options.device, options.device_index};
  BoundTensors bound({options.device, options.device_index, true});
  if (!constant_filter.is_none()) options.constant_filter = bound.read("constant_filter", constant_filter);
  nb::gil_scoped_release unlocked;
  return {compile(contraction, graph, options), contraction, place};
}

void bind_contractions(nb::module_& m) {
  nb::class_<Gemm>(
      m, "Gemm",
      "A matrix product: acc[b,i,j] = Σ_k A[b,i,k]·B[b,k,j]. A: (batch,m,k), or (batch,k,m) if transpose_a. B: "
      "(batch,k,n), or (batch,n,k) if transpose_b. batch = 1: without the first extent. products = 2: B is a tuple of "
      "two matrices, and the accumulators are acc0 and acc1.")
      .def(
          "__init__",
          [](Gemm* self, Extent m, Extent n, Extent k, Extent batch, bool ta, bool tb, DType da, DType db,
             int products) {
            new (self) Gemm{.batch = batch,
                            .m = m,
                            .n = n,
                            .k = k,
                            .transpose_a = ta,
                            .transpose_b = tb,
                            .dtype_a = da,
                            .dtype_b = db,
                            .products = products};
          },
          nb::kw_only(), "m"_a, "n"_a, "k"_a, "batch"_a = 1, "transpose_a"_a = false, "transpose_b"_a = false,
          "dtype_a"_a = DType::f32, "dtype_b"_a = DType::f32, "products"_a = 1)
      .def("__str__", [](const Gemm& g) { return to_string(Contraction(g)); })
      .def_prop_ro(
          "shape_mn", [](const Gemm& g) { return shape_mn(Contraction(g)); }, "The shape of an [m,n] value.")
      .def_prop_ro("flop", [](const Gemm& g) { return flop(Contraction(g)); });
  const auto convolution = [&]<class C>(C, const char* name, const char* doc) {
    nb::class_<C>(m, name, doc)
        .def(
            "__init__",
            [](C* self, Extent n, Extent h, Extent w, Extent c, Extent k, Extent r, Extent s, nb::object stride,
               nb::object pad, nb::object dilation, Extent groups, Layout layout, DType dx, DType dw, nb::object more,
               int products) {
              C conv{.n = n, .h = h, .w = w, .c = c, .k = k, .r = r, .s = s};
              conv.stride = pair_of(stride, "stride"), conv.pad = margins_of(pad);
              conv.dilation = pair_of(dilation, "dilation"), conv.groups = groups, conv.layout = layout;
              conv.dtype_x = dx, conv.dtype_w = dw;
              if constexpr (requires { conv.output_pad; })
                conv.output_pad = pair_of(more, "output_pad");
              else if (pair_of(more, "output_pad") != Pair(0))
                throw UserError("Conv2d has no output_pad; only ConvTranspose2d has");
              if constexpr (requires { conv.products; })
                conv.products = products;
              else if (products != 1)
                throw UserError("ConvTranspose2d has one filter");
              new (self) C(conv);
            },
            nb::kw_only(), "n"_a = 1, "h"_a, "w"_a, "c"_a, "k"_a, "r"_a = 1, "s"_a = 1, "stride"_a = 1, "pad"_a = 0,
            "dilation"_a = 1, "groups"_a = 1, "layout"_a = Layout::nhwc, "dtype_x"_a = DType::f32,
            "dtype_w"_a = DType::f32, "output_pad"_a = 0, "products"_a = 1)
        .def("__str__", [](const C& c) { return to_string(Contraction(c)); })
        .def_prop_ro(
            "shape_mn", [](const C& c) { return shape_mn(Contraction(c)); }, "The shape of an [m,n] value.")
        .def_prop_ro("flop", [](const C& c) { return flop(Contraction(c)); });
  };
  convolution(
      Conv2d{}, "Conv2d",
      "A 2-D convolution. Layout nhwc: X (n,h,w,c), W (k,r,s,c/groups), [m,n] values (n,P,Q,k). nchw: X (n,c,h,w), W "
      "(k,c/groups,r,s), [m,n] values (n,k,P,Q). pad: a number, (rows, columns) or (top, left, bottom, right). "
      "products "
      "= 2: W is a tuple of two filters, and the accumulators are acc0 and acc1.");
  convolution(
      ConvTranspose2d{}, "ConvTranspose2d",
      "A transposed 2-D convolution, as in PyTorch. Layout nhwc: W (c,r,s,k/groups). nchw: W (c,k/groups,r,s).");
  using Three = std::tuple<Extent, Extent, Extent>;
  const auto triple = [](const Three& x) { return Triple(std::get<0>(x), std::get<1>(x), std::get<2>(x)); };
  nb::class_<Conv3d>(
      m, "Conv3d",
      "A 3-D convolution. X (n,d,h,w,c), W (k,t,r,s,c/groups), [m,n] values (n,O,P,Q,k). stride, dilation, and the "
      "zeros before the first and after the last: (planes, rows, columns).")
      .def(
          "__init__",
          [triple](Conv3d* self, Extent n, Extent d, Extent h, Extent w, Extent c, Extent k, Extent t, Extent r,
                   Extent s, const Three& stride, const Three& before, const Three& after, const Three& dilation,
                   Extent groups, DType dx, DType dw) {
            new (self) Conv3d{.n = n,
                              .d = d,
                              .h = h,
                              .w = w,
                              .c = c,
                              .k = k,
                              .t = t,
                              .r = r,
                              .s = s,
                              .stride = triple(stride),
                              .before = triple(before),
                              .after = triple(after),
                              .dilation = triple(dilation),
                              .groups = groups,
                              .dtype_x = dx,
                              .dtype_w = dw};
          },
          nb::kw_only(), "n"_a = 1, "d"_a, "h"_a, "w"_a, "c"_a, "k"_a, "t"_a = 1, "r"_a = 1, "s"_a = 1,
          "stride"_a = Three(1, 1, 1), "before"_a = Three(0, 0, 0), "after"_a = Three(0, 0, 0),
          "dilation"_a = Three(1, 1, 1), "groups"_a = 1, "dtype_x"_a = DType::f32, "dtype_w"_a = DType::f32)
      .def("__str__", [](const Conv3d& c) { return to_string(Contraction(c)); })
      .def_prop_ro(
          "shape_mn", [](const Conv3d& c) { return shape_mn(Contraction(c)); }, "The shape of an [m,n] value.")
      .def_prop_ro("flop", [](const Conv3d& c) { return flop(Contraction(c)); });
  m.def(
      "input_gradient", &input_gradient, "convolution"_a,
      "The gradient of a Conv2d with respect to its image (dgrad), as a ConvTranspose2d. Its image is dY, of the shape "
      "of the convolution's output; its filter is that of the convolution.");
}

/// What Python holds of a prepared call.
struct PythonCall {
  std::shared_ptr<PreparedCall> call;
};

Order order_of(const std::string& name) {
  if (name == "contiguous") return Order::contiguous;
  return name.empty() ? Order::as_given : Order::channels_last;
}

PythonCall prepared(const PythonExecutable& self, nb::object a, nb::object b, Named operands, Named outputs,
                    const std::vector<std::string>& orders,
                    const std::vector<std::tuple<std::vector<Extent>, std::vector<Extent>, DType>>& results) {
  BoundTensors bound(self.place);
  CallForm form{
      self.contraction,       arguments_of(self, bound, a, b, operands, outputs), {}, {}, {}, self.place.device,
      self.place.device_index};
  for (const auto& [key, value] : operands) {
    auto name = nb::cast<std::string>(key);
    (form.arguments.operands.contains(name) ? form.tensors : form.numbers).push_back(std::move(name));
  }
  for (const auto& [key, value] : outputs) form.outputs.push_back(nb::cast<std::string>(key));
  self.executable.check_arguments(form.arguments);
  PythonCall made{prepare_call(self.executable, std::move(form))};
  for (const std::string& order : orders) made.call->orders.push_back(order_of(order));
  for (const auto& [shape, strides, dtype] : results) made.call->results.push_back({shape, strides, dtype});
  return made;
}

/// A workspace that a Python function makes: a tensor of so many bytes.
std::shared_ptr<void> allocated(const nb::object& allocate, const Place& place, std::size_t bytes, void** address) {
  const nb::gil_scoped_acquire locked;
  BoundTensors bound(place);
  nb::object tensor = allocate(bytes);
  *address = bound.write("workspace", tensor).data;
  return {new nb::object(std::move(tensor)), [](nb::object* kept) {
            if (!Py_IsInitialized()) return;  // its memory goes with the process
            const nb::gil_scoped_acquire locked;
            delete kept;
          }};
}

void bind_prepared(nb::module_& m) {
  nb::class_<PythonCall>(m, "PreparedCall",
                         "A checked call, without the addresses of its tensors and the values of its scalars.")
      .def(
          "run",
          [](const PythonCall& self, const std::vector<std::uintptr_t>& addresses, const std::vector<double>& numbers,
             std::uintptr_t stream, nb::object allocate) {
            static_assert(sizeof(std::uintptr_t) == sizeof(void*));
            const auto* first = reinterpret_cast<const void* const*>(addresses.data());
            nb::gil_scoped_release unlocked;
            self.call->run(first, numbers.data(), reinterpret_cast<Stream>(stream),
                           [&](std::size_t bytes, void** address) {
                             return allocated(allocate, {Device::cuda, 0, true}, bytes, address);
                           });
          },
          "addresses"_a, "numbers"_a, "stream"_a = 0, "allocate"_a = nb::none(),
          "addresses: image and filter (or left and right; two filters or rights if dual), operands, outputs. numbers: "
          "scalars. On a GPU, enqueues on the stream, a cudaStream_t as a number; allocate(bytes) returns a workspace.")
      .def(
          "share",
          [](const PythonCall& self) {
            return reinterpret_cast<std::uintptr_t>(new std::shared_ptr<PreparedCall>(self.call));
          },
          "The call as a number, for the library of PyTorch's operators, which takes ownership.")
      .def(
          "retire", [](const PythonCall& self) { self.call->is_retired = true; },
          "Marks the call, so that its holders prepare a new one.")
      .def_prop_ro("runs", [](const PythonCall& self) { return self.call->runs.load(); })
      .def_prop_ro(
          "was_captured", [](const PythonCall& self) { return self.call->was_captured.load(); },
          "Whether a CUDA graph has captured it. The call must outlive the graph.");
}

/// Nothing of it holds the GIL while it waits or launches.
void bind_executable(nb::module_& m) {
  nb::class_<PythonExecutable>(m, "Executable", "A compiled kernel. Several threads may run it at once.")
      .def(
          "run",
          [](const PythonExecutable& self, nb::object a, nb::object b, Named operands, Named outputs) {
            BoundTensors bound(self.place);
            const Arguments arguments = arguments_of(self, bound, a, b, operands, outputs);
            nb::gil_scoped_release unlocked;
            self.executable.run(arguments);
          },
          "a"_a, "b"_a.none(), "operands"_a = Named(nb::dict()), nb::kw_only(), "outputs"_a,
          "Runs the kernel and waits. a, b: image and filter, or left and right (b: a tuple of two if dual). operands: "
          "{name: tensor, or number of a scalar}. outputs: {name of the store: tensor to write}. Raises UserError.")
      .def(
          "enqueue",
          [](const PythonExecutable& self, nb::object a, nb::object b, Named operands, Named outputs,
             std::uintptr_t stream) {
            BoundTensors bound(self.place);
            const Arguments arguments = arguments_of(self, bound, a, b, operands, outputs);
            nb::gil_scoped_release unlocked;
            self.executable.enqueue(arguments, reinterpret_cast<Stream>(stream));
          },
          "a"_a, "b"_a.none(), "operands"_a = Named(nb::dict()), nb::kw_only(), "outputs"_a, "stream"_a,
          "GPU only: launches on the stream, a cudaStream_t as a number, and does not wait. The tensors must outlive "
          "the "
          "launch. A CUDA graph may capture it.")
      .def(
          "bind",
          [](const PythonExecutable& self, nb::object a, nb::object b, Named operands, Named outputs,
             nb::object workspace, std::uintptr_t stream, bool is_clear) {
            BoundTensors bound(self.place);
            const Arguments arguments = arguments_of(self, bound, a, b, operands, outputs);
            const WorkspaceMemory memory = workspace_of(bound, workspace, stream, is_clear);
            nb::gil_scoped_release unlocked;
            return self.executable.bind(arguments, memory);
          },
          "a"_a, "b"_a.none(), "operands"_a = Named(nb::dict()), nb::kw_only(), "outputs"_a, "workspace"_a = nb::none(),
          "stream"_a = 0, "is_clear"_a = false,
          "GPU only: checks the arguments once, for any number of launches. workspace: a tensor of at least "
          "workspace_bytes bytes, which the stream clears unless is_clear. The caller keeps it and all tensors alive.")
      .def(
          "prepare", &prepared, "a"_a, "b"_a, "operands"_a, "outputs"_a, "orders"_a, "results"_a,
          "Checks the arguments of run() once, by shapes, strides and dtypes. orders: the memory order that each input "
          "must have, '', 'contiguous' or 'channels_last'. results: (shape, strides, dtype) of each output, as the "
          "caller sees it.")
      .def_prop_ro(
          "workspace_bytes", [](const PythonExecutable& self) { return self.executable.workspace_bytes(); },
          "Bytes of device memory for one execution in flight; 0 on the CPU.")
      .def(
          "describe", [](const PythonExecutable& self) { return self.executable.describe(); },
          "The backend and the plan, with the reasons, as text.");
}

void bind_launch(nb::module_& m) {
  nb::class_<Launch>(m, "Launch", "A GPU kernel with bound arguments. At most one execution may be in flight.")
      .def(
          "slot", [](const Launch& self, const std::string& name) { return self.slot(name); }, "name"_a,
          "The index of an argument by name: 'image', 'filter', 'left', 'right', an operand, a scalar or an output.")
      .def(
          "rebind",
          [](Launch& self, std::size_t slot, std::uintptr_t address) {
            self.rebind(slot, reinterpret_cast<const void*>(address));
          },
          "slot"_a, "address"_a, "Changes the address of a tensor. Shape, dtype and strides stay the same.")
      .def(
          "rebind_scalar", [](Launch& self, std::size_t slot, double value) { self.rebind(slot, value); }, "slot"_a,
          "value"_a, "Changes the value of a scalar that was bound by value.")
      .def(
          "use",
          [](Launch& self, nb::object workspace, std::uintptr_t stream, bool is_clear) {
            BoundTensors bound({Device::cuda, 0, true});
            self.use(workspace_of(bound, workspace, stream, is_clear));
          },
          "workspace"_a, "stream"_a = 0, "is_clear"_a = false, "Changes the workspace. No execution may be in flight.")
      .def_prop_ro("workspace_bytes", &Launch::workspace_bytes)
      .def(
          "enqueue", [](const Launch& self, std::uintptr_t stream) { self.enqueue(reinterpret_cast<Stream>(stream)); },
          "stream"_a, nb::call_guard<nb::gil_scoped_release>(),
          "Launches once on the stream, a cudaStream_t as a number.");
}

void bind_explanation(nb::module_& m) {
  nb::class_<KernelExplanation>(m, "KernelExplanation", "The kernel that compile() would use on a GPU.")
      .def("__str__", [](const KernelExplanation& e) { return to_string(e); })
      .def_ro("contraction", &KernelExplanation::contraction)
      .def_ro("device", &KernelExplanation::device)
      .def_ro("device_note", &KernelExplanation::device_note,
              "Why the device is not a GPU of this machine; empty if it is.")
      .def_ro("plan", &KernelExplanation::plan)
      .def_ro("origin", &KernelExplanation::origin, "Whether the cost model or a measurement chose the plan.")
      .def_ro("predicted_us", &KernelExplanation::predicted_us, "Microseconds, by the cost model.")
      .def_ro("workspace_bytes", &KernelExplanation::workspace_bytes)
      .def_ro("takes_slices", &KernelExplanation::takes_slices,
              "Whether the image may be a slice of the channels of a larger image.")
      .def_ro("reasons", &KernelExplanation::reasons)
      .def_ro("source", &KernelExplanation::source, "CUDA C++.");
  m.def(
      "explain",
      [](const Contraction& contraction, const Graph& graph, nb::kwargs keywords) {
        const CompileOptions options = compile_options_of(keywords);
        nb::gil_scoped_release unlocked;
        return explain_kernel(contraction, graph, options);
      },
      "contraction"_a, "graph"_a, "options"_a,
      nb::sig("def explain(contraction: Gemm | Conv2d | Conv3d | ConvTranspose2d, graph: Graph, **options: object) -> "
              "KernelExplanation"),
      "Plans and generates a kernel for the GPU of this machine, or for an H200 if there is none. Nothing is "
      "compiled.");
}

}  // namespace

CompileOptions compile_options_of(const nb::kwargs& keywords) {
  using O = CompileOptions;
  static const OptionFields<O> fields{{"device", field(&O::device)},     {"device_index", field(&O::device_index)},
                                      {"threads", field(&O::threads)},   {"storage", field(&O::storage)},
                                      {"plan", field(&O::plan)},         {"tuned", field(&O::tuned)},
                                      {"accurate", field(&O::accurate)}, {"spare_sms", field(&O::spare_sms)},
                                      {"watchdog", field(&O::watchdog)}, {"device_scalars", field(&O::device_scalars)}};
  return read_options("compile", fields, keywords);
}

void bind_executables(nb::module_& m) {
  bind_contractions(m);
  bind_prepared(m);
  bind_executable(m);
  bind_launch(m);
  bind_explanation(m);
  m.def(
      "compile", &compile_graph, "contraction"_a, "graph"_a, "constant_filter"_a = nb::none(), "options"_a,
      nb::sig("def compile(contraction: Gemm | Conv2d | Conv3d | ConvTranspose2d, graph: Graph, constant_filter: "
              "object | None = "
              "None, **options: object) -> Executable"),
      "Compiles a contraction with its epilogue. options: see CompileOptions: device, device_index, threads, storage "
      "({operand: DType}), plan, tuned, accurate, spare_sms, watchdog, device_scalars. constant_filter: the filter or "
      "right matrix, if it never changes. Raises UserError, Unsupported, CompileError and DeviceError.");
}

}  // namespace unisono::python
