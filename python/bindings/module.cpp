/// unisono._native: the public C++ interface in Python. The package's own modules build on it.

#include "tensors.hpp"

namespace unisono::python {
namespace {

void bind_errors(nb::module_& m) {
  // Translators are asked in the reverse order of their registration: the base class last.
  const auto base = nb::exception<Error>(m, "Error", PyExc_RuntimeError);
  nb::exception<UserError>(m, "UserError", base.ptr());
  nb::exception<Unsupported>(m, "Unsupported", base.ptr());
  nb::exception<CompileError>(m, "CompileError", base.ptr());
  nb::exception<DeviceError>(m, "DeviceError", base.ptr());
  nb::exception<InternalError>(m, "InternalError", base.ptr());
  nb::exception<Cancelled>(m, "Cancelled", base.ptr());
  m.attr("Error").attr("__doc__") = "The base class of all errors that Unisono raises.";
  m.attr("UserError").attr("__doc__") = "Invalid input of the caller: a shape, name, dtype, alignment, text or file.";
  m.attr("Unsupported").attr("__doc__") =
      "A valid request that no kernel can serve. The message lists each candidate and why it was refused.";
  m.attr("CompileError").attr("__doc__") =
      "A compiler failed on generated source. The message contains the command, the log and the path of the source.";
  m.attr("DeviceError").attr("__doc__") = "The device or its driver failed.";
  m.attr("InternalError").attr("__doc__") = "A broken invariant inside Unisono: a bug to report.";
  m.attr("Cancelled").attr("__doc__") = "The caller cancelled the run.";
}

void bind_enums(nb::module_& m) {
  nb::enum_<DType>(m, "DType", "The element type of a tensor, and the compute type of a node of an epilogue graph.")
      .value("f64", DType::f64)
      .value("f32", DType::f32)
      .value("tf32", DType::tf32, "stored as f32, 10 bits of mantissa")
      .value("f16", DType::f16)
      .value("bf16", DType::bf16)
      .value("i32", DType::i32)
      .value("bool", DType::boolean, "stored as one byte, 0 or 1")
      .value("i8", DType::i8)
      .value("u8", DType::u8)
      .value("i16", DType::i16)
      .value("u16", DType::u16)
      .value("u32", DType::u32)
      .value("i64", DType::i64)
      .value("u64", DType::u64);
  nb::enum_<Device>(m, "Device").value("cpu", Device::cpu).value("cuda", Device::cuda);
  nb::enum_<Layout>(m, "Layout", "The memory order of images: (N,H,W,C) or (N,C,H,W).")
      .value("nhwc", Layout::nhwc)
      .value("nchw", Layout::nchw);
}

}  // namespace
}  // namespace unisono::python

NB_MODULE(_native, m) {
  using namespace unisono::python;
  m.doc() = "The C++ interface of Unisono. Import `unisono` instead.";
  m.attr("__version__") = UNISONO_VERSION;
  bind_errors(m);
  bind_enums(m);
  bind_tensors(m);
  bind_graphs(m);
  bind_builder(m);
  bind_executables(m);
  bind_networks(m);
  bind_compiler(m);
  bind_explore(m);
  bind_memory(m);
}
