#include <fmt/format.h>
#include <fmt/ranges.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "command/commands.hpp"
#include "command/json.hpp"
#include "command/machine.hpp"
#include "command/output.hpp"
#include "command/self_test.hpp"
#include "families/cutlass_evt/family.hpp"
#include "runtime/cuda/backend.hpp"
#include "runtime/cudnn/library.hpp"

namespace unisono::command {
namespace {

struct DnnlInfo {
  std::string version, threading, instructions;
};

std::string instruction_set_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41: return "SSE 4.1";
    case dnnl::cpu_isa::avx: return "AVX";
    case dnnl::cpu_isa::avx2: return "AVX2";
    case dnnl::cpu_isa::avx2_vnni: return "AVX2 with VNNI";
    case dnnl::cpu_isa::avx2_vnni_2: return "AVX2 with VNNI, bf16 and f16 conversion";
    case dnnl::cpu_isa::avx512_core: return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni: return "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_bf16: return "AVX-512 with bf16";
    case dnnl::cpu_isa::avx512_core_fp16: return "AVX-512 with bf16 and f16";
    case dnnl::cpu_isa::avx512_core_amx: return "AVX-512 with AMX";
    case dnnl::cpu_isa::avx512_core_amx_fp16: return "AVX-512 with AMX and f16";
    default: return fmt::format("set {:#x}", static_cast<unsigned>(isa));
  }
}

DnnlInfo dnnl_info() {
  const dnnl_version_t* version = dnnl_version();
  DnnlInfo info;
  info.version = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  switch (version->cpu_runtime) {
    case DNNL_RUNTIME_SEQ: info.threading = "sequential"; break;
    case DNNL_RUNTIME_OMP: info.threading = "OpenMP"; break;
    case DNNL_RUNTIME_TBB: info.threading = "TBB"; break;
    case DNNL_RUNTIME_THREADPOOL: info.threading = "thread pool"; break;
    default: info.threading = "none"; break;
  }
  info.instructions = instruction_set_name(dnnl::get_effective_cpu_isa());
  return info;
}

std::string capability_text(const Gpu& gpu) { return fmt::format("{}.{}", gpu.device.major, gpu.device.minor); }

struct Diagnosis {
  CpuInfo cpu = cpu_info();
  MemoryInfo memory = memory_info();
  DnnlInfo dnnl = dnnl_info();
  CudaInfo cuda = cuda_info();
  FolderInfo cache = cache_info();
  std::vector<KernelFolder> kernels = kernel_folders();
  SelfTest cpu_test = self_test(Device::cpu);
  std::optional<SelfTest> cuda_test = is_served() ? std::optional(self_test(Device::cuda)) : std::nullopt;

  static std::string cudnn() {
    const auto found = cudnn::library();
    if (!found) return "none: " + found.refusal().first();
    return fmt::format("{} ({}), for attention where it is asked for, or was measured as faster",
                       (*found)->version_text(), (*found)->path.string());
  }
  std::string cpu_verdict() const {
    return cpu_test.passed ? "used: it runs everywhere, and the self-test passed"
                           : "does not work: the self-test failed";
  }
  int capability() const { return cuda.gpus.empty() ? 0 : cuda.gpus[0].capability(); }
  bool is_served() const { return capability() >= 75; }
  bool cuda_works() const { return cuda_test && cuda_test->passed; }
  std::string cuda_verdict() const {
    if (cuda.gpus.empty()) return fmt::format("not used: {}", cuda.problem);
    const std::string has = fmt::format("GPU 0 has {}", capability_text(cuda.gpus[0]));
    if (!is_served()) return "not used: the kernels are for compute capability 7.5 and later, " + has;
    if (!cuda_works()) return "does not work: the self-test failed";
    if (capability() == 90) return "used where Device::cuda is asked for: the self-test passed";
    return "used where Device::cuda is asked for, without tensor cores (their kernels are for 9.0, " + has +
           "): the self-test passed";
  }
};

std::string gibibytes(std::uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30); }

std::string line(std::string_view label, std::string_view text) { return fmt::format("  {:<14}{}\n", label, text); }

std::string toolkit_text(const CudaInfo& cuda) {
  if (cuda.toolkit.empty()) return "none (no nvcc in PATH or /usr/local/cuda)";
  const std::string version = cuda.toolkit_version > 0 ? cuda_version_text(cuda.toolkit_version) : "of unknown version";
  return fmt::format("CUDA {} in {}", version, cuda.toolkit.string());
}

std::string gpus_text(const std::vector<Gpu>& gpus) {
  std::string text;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const plan::Device& d = gpus[i].device;
    text += line(fmt::format("GPU {}", i), fmt::format("{}, compute capability {}, {} SMs, {}", d.name,
                                                       capability_text(gpus[i]), d.sms, gibibytes(gpus[i].memory)));
    text += line("", fmt::format("plans reckon with {:.3g} TFLOP/s of bf16, {:.3g} TB/s, {:.4g} GHz, {} KiB of L2",
                                 d.tensor_tflops, d.memory_tbps, d.clock_ghz, d.l2_bytes / 1024));
  }
  return text;
}

std::string to_text(const Diagnosis& d) {
  std::string processors = fmt::format("{}, of which this process may use {}", d.cpu.logical, d.cpu.usable);
  if (d.cpu.quota) processors += fmt::format(" and {:.1f} of their time", *d.cpu.quota);
  std::string memory = fmt::format("{}, {} available", gibibytes(d.memory.bytes), gibibytes(d.memory.available));
  if (d.memory.limit) memory += fmt::format(", limited to {}", gibibytes(*d.memory.limit));

  std::string out = fmt::format("unisono {}, built with {}\n\nmachine\n", UNISONO_VERSION, UNISONO_COMPILER);
  out += line("CPU", fmt::format("{}, {}", d.cpu.name, d.cpu.architecture));
  out += line("processors", processors);
  out += line("instructions", fmt::format("{}", fmt::join(d.cpu.features, " ")));
  out += line("memory", memory);
  out += "\nCPU backend\n";
  out += line("oneDNN", fmt::format("{}, {}, {}", d.dnnl.version, d.dnnl.threading, d.dnnl.instructions));
  out += line("self-test", fmt::format("{}: {}", d.cpu_test.passed ? "passed" : "FAILED", d.cpu_test.text));
  out += "\nCUDA\n";
  out += line("driver",
              d.cuda.driver > 0 ? fmt::format("for CUDA up to {}", cuda_version_text(d.cuda.driver)) : d.cuda.problem);
  if (d.cuda.driver > 0 && d.cuda.gpus.empty()) out += line("GPU", d.cuda.problem);
  out += gpus_text(d.cuda.gpus);
  out += line("toolkit", toolkit_text(d.cuda));
  out += line("compiler", d.cuda.nvrtc.empty() ? "none: " + d.cuda.nvrtc_problem : d.cuda.nvrtc);
  out += line("cuDNN", d.cudnn());
  out += line("CUTLASS", "family cutlass_evt: " + families::cutlass_evt::tested_architectures());
  if (d.cuda_test)
    out += line("self-test", fmt::format("{}: {}", d.cuda_test->passed ? "passed" : "FAILED", d.cuda_test->text));
  out += "\ncache\n";
  out += line("folder", d.cache.path.empty() ? "none" : d.cache.path.string());
  out += line("writable", d.cache.writable ? "yes" : "no: " + d.cache.problem);
  for (const KernelFolder& k : d.kernels) {
    out += line(k.kind == "pack" ? "pack" : "kernels", k.path.string());
    if (!k.refused.empty()) out += line("", "NOT USED: " + k.refused);
  }
  out += "\nbackends\n";
  out += line("cpu", d.cpu_verdict());
  out += line("cuda", d.cuda_verdict());
  return out;
}

nlohmann::json version_json(int version) {
  return version > 0 ? nlohmann::json(cuda_version_text(version)) : nlohmann::json(nullptr);
}

nlohmann::json cuda_json(const Diagnosis& d) {
  using nlohmann::json;
  json gpus = json::array();
  for (const Gpu& gpu : d.cuda.gpus) {
    gpus.push_back({{"name", gpu.device.name},
                    {"compute_capability", capability_text(gpu)},
                    {"sms", gpu.device.sms},
                    {"memory_bytes", gpu.memory},
                    {"l2_bytes", gpu.device.l2_bytes},
                    {"clock_ghz", gpu.device.clock_ghz},
                    {"tensor_tflops", gpu.device.tensor_tflops},
                    {"memory_tbps", gpu.device.memory_tbps}});
  }
  return {{"driver", version_json(d.cuda.driver)},
          {"problem", d.cuda.problem},
          {"gpus", gpus},
          {"toolkit", d.cuda.toolkit.empty() ? json(nullptr) : json(d.cuda.toolkit.string())},
          {"toolkit_version", version_json(d.cuda.toolkit_version)},
          {"cudnn", d.cudnn()},
          {"nvrtc", d.cuda.nvrtc.empty() ? json(nullptr) : json(d.cuda.nvrtc)},
          {"self_test",
           d.cuda_test ? json({{"passed", d.cuda_test->passed}, {"text", d.cuda_test->text}}) : json(nullptr)}};
}

std::string to_json(const Diagnosis& d) {
  using nlohmann::json;
  json kernels = json::array();
  for (const KernelFolder& k : d.kernels)
    kernels.push_back(
        {{"kind", k.kind}, {"folder", k.path.string()}, {"used", k.refused.empty()}, {"refused", k.refused}});
  const json object = {
      {"version", UNISONO_VERSION},
      {"compiler", UNISONO_COMPILER},
      {"cpu",
       {{"name", d.cpu.name},
        {"architecture", d.cpu.architecture},
        {"processors", d.cpu.logical},
        {"usable_processors", d.cpu.usable},
        {"quota", d.cpu.quota ? json(*d.cpu.quota) : json(nullptr)},
        {"features", d.cpu.features}}},
      {"memory",
       {{"bytes", d.memory.bytes},
        {"available_bytes", d.memory.available},
        {"limit_bytes", d.memory.limit ? json(*d.memory.limit) : json(nullptr)}}},
      {"onednn", {{"version", d.dnnl.version}, {"threading", d.dnnl.threading}, {"instructions", d.dnnl.instructions}}},
      {"cuda", cuda_json(d)},
      {"cache", {{"folder", d.cache.path.string()}, {"writable", d.cache.writable}, {"problem", d.cache.problem}}},
      {"kernels", kernels},
      {"self_test", {{"passed", d.cpu_test.passed}, {"text", d.cpu_test.text}}},
      {"backends",
       {{"cpu", {{"used", d.cpu_test.passed}, {"why", d.cpu_verdict()}}},
        {"cuda", {{"used", d.cuda_works()}, {"why", d.cuda_verdict()}}}}},
  };
  return dump(object);
}

}  // namespace

int doctor(const DoctorOptions& options) {
  const Diagnosis diagnosis;
  print(options.json ? to_json(diagnosis) : to_text(diagnosis));
  return diagnosis.cpu_test.passed && (!diagnosis.cuda_test || diagnosis.cuda_test->passed) ? 0 : 1;
}

}  // namespace unisono::command
