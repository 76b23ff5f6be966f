#include "bench/cublaslt.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <array>

#include "bench/dynamic_library.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::bench {

struct Cublaslt::Impl {
  DynamicLibrary library;
  decltype(::cublasLtCreate)* create = nullptr;
  decltype(::cublasLtDestroy)* destroy = nullptr;
  decltype(::cublasLtGetVersion)* get_version = nullptr;
  decltype(::cublasLtMatmulDescCreate)* matmul_create = nullptr;
  decltype(::cublasLtMatmulDescDestroy)* matmul_destroy = nullptr;
  decltype(::cublasLtMatmulDescSetAttribute)* matmul_set = nullptr;
  decltype(::cublasLtMatrixLayoutCreate)* layout_create = nullptr;
  decltype(::cublasLtMatrixLayoutDestroy)* layout_destroy = nullptr;
  decltype(::cublasLtMatmulPreferenceCreate)* preference_create = nullptr;
  decltype(::cublasLtMatmulPreferenceDestroy)* preference_destroy = nullptr;
  decltype(::cublasLtMatmulPreferenceSetAttribute)* preference_set = nullptr;
  decltype(::cublasLtMatmulAlgoGetHeuristic)* heuristic = nullptr;
  decltype(::cublasLtMatmul)* matmul = nullptr;
  cublasLtHandle_t handle = nullptr;
  gpu::Buffer scratch;

  explicit Impl(const std::filesystem::path& folder)
      : library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, folder), scratch(std::size_t{64} << 20) {
    library.find("cublasLtCreate", create);
    library.find("cublasLtDestroy", destroy);
    library.find("cublasLtGetVersion", get_version);
    library.find("cublasLtMatmulDescCreate", matmul_create);
    library.find("cublasLtMatmulDescDestroy", matmul_destroy);
    library.find("cublasLtMatmulDescSetAttribute", matmul_set);
    library.find("cublasLtMatrixLayoutCreate", layout_create);
    library.find("cublasLtMatrixLayoutDestroy", layout_destroy);
    library.find("cublasLtMatmulPreferenceCreate", preference_create);
    library.find("cublasLtMatmulPreferenceDestroy", preference_destroy);
    library.find("cublasLtMatmulPreferenceSetAttribute", preference_set);
    library.find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    library.find("cublasLtMatmul", matmul);
    check(create(&handle), "starting cuBLASLt");
  }
  ~Impl() {
    if (handle != nullptr) destroy(handle);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  static void check(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw UserError(fmt::format("{}: cuBLASLt status {}", what, static_cast<int>(status)));
  }
};

namespace {

/// D (m, n) = A (m, k) · B (n, k)ᵀ with row-major matrices is, column by column, D' (n, m) = B'ᵀ · A'.
template <class Library>
class Product {
 public:
  Product(const Library& library, const Gemm& g, ProductEpilogue epilogue,
          const std::vector<std::unique_ptr<Data>>& sets)
      : library_(library), sets_(sets) {
    const cudaDataType type = g.dtype_a == DType::bf16  ? CUDA_R_16BF
                              : g.dtype_a == DType::f16 ? CUDA_R_16F
                                                        : CUDA_R_32F;
    compute_ = g.dtype_a == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const auto m = static_cast<std::uint64_t>(g.m), n = static_cast<std::uint64_t>(g.n),
               k = static_cast<std::uint64_t>(g.k);
    Library::check(library.layout_create(&first_, type, k, n, g.k), "describing a matrix to cuBLASLt");
    Library::check(library.layout_create(&second_, type, k, m, g.k), "describing a matrix to cuBLASLt");
    Library::check(library.layout_create(&result_, type, n, m, g.n), "describing a matrix to cuBLASLt");
    const std::size_t operations = epilogue == ProductEpilogue::none ? 1 : sets.size();
    for (std::size_t i = 0; i < operations; ++i) operations_.push_back(operation(epilogue, *sets[i]));
  }
  ~Product() {
    for (const auto layout : {first_, second_, result_})
      if (layout != nullptr) library_.layout_destroy(layout);
    for (const auto operation : operations_) library_.matmul_destroy(operation);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  std::vector<cublasLtMatmulHeuristicResult_t> algorithms() const {
    constexpr int most = 16;
    cublasLtMatmulPreference_t preference = nullptr;
    Library::check(library_.preference_create(&preference), "asking cuBLASLt");
    const std::size_t bytes = library_.scratch.bytes();
    library_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    std::vector<cublasLtMatmulHeuristicResult_t> found(most);
    int count = 0;
    const auto status = library_.heuristic(library_.handle, operations_.front(), first_, second_, result_, result_,
                                           preference, most, found.data(), &count);
    library_.preference_destroy(preference);
    Library::check(status, "asking cuBLASLt for its algorithms");
    found.resize(static_cast<std::size_t>(count));
    return found;
  }

  void enqueue(CUstream stream, std::size_t set, const cublasLtMatmulAlgo_t& algorithm) const {
    const float one = 1, zero = 0;
    const Arguments& a = sets_[set]->arguments();
    const TensorView& d = a.outputs.begin()->second;
    Library::check(library_.matmul(library_.handle, operations_[operations_.size() == 1 ? 0 : set], &one, a.right.data,
                                   first_, a.left.data, second_, &zero, d.data, result_, d.data, result_, &algorithm,
                                   library_.scratch.data(), library_.scratch.bytes(), stream),
                   "running cuBLASLt");
  }

 private:
  cublasLtMatmulDesc_t operation(ProductEpilogue epilogue, const Data& data) const {
    cublasLtMatmulDesc_t made = nullptr;
    Library::check(library_.matmul_create(&made, compute_, CUDA_R_32F), "describing a product to cuBLASLt");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      Library::check(library_.matmul_set(made, attribute, &value, sizeof value), "describing a product to cuBLASLt");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (epilogue == ProductEpilogue::bias_gelu) {
      const ConstTensorView& bias = data.arguments().operands.at("bias");
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias.dtype == DType::f32    ? CUDA_R_32F
                                               : bias.dtype == DType::bf16 ? CUDA_R_16BF
                                                                           : CUDA_R_16F);
    }
    return made;
  }

  const Library& library_;
  const std::vector<std::unique_ptr<Data>>& sets_;
  cublasComputeType_t compute_ = CUBLAS_COMPUTE_32F;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  std::vector<cublasLtMatmulDesc_t> operations_;  // one for all sets, or one a set
};

}  // namespace

ProductEpilogue epilogue_of(const Case& c) {
  const auto is = [&](const char* storage) {
    return structurally_equal(
        c.graph, parse(fmt::format("operand bias[n] : {0}\nstore gelu_tanh(acc + bias[n]) as y : {1}", storage,
                                   to_string(c.conv.dtype_x))));
  };
  return is("bf16") || is("f16") || is("f32") ? ProductEpilogue::bias_gelu : ProductEpilogue::none;
}

Cublaslt::Cublaslt(const std::filesystem::path& folder) : impl_(std::make_unique<Impl>(folder)) {}
Cublaslt::~Cublaslt() = default;

std::string Cublaslt::version() const {
  const std::size_t v = impl_->get_version();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::vector<Engine> Cublaslt::engines(const Gemm& product, ProductEpilogue epilogue,
                                      const std::vector<std::unique_ptr<Data>>& sets) {
  const auto shared = std::make_shared<Product<Impl>>(*impl_, product, epilogue, sets);
  const auto found = shared->algorithms();
  if (found.empty()) throw UserError("cuBLASLt proposes no algorithm for " + to_string(Contraction(product)));
  std::vector<Engine> engines;
  for (std::size_t i = 0; i < found.size(); ++i) {
    Engine& engine = engines.emplace_back(Engine{fmt::format("proposal {} of {}", i + 1, found.size()), {}});
    for (std::size_t set = 0; set < sets.size(); ++set)
      engine.sets.push_back(
          [shared, set, algorithm = found[i].algo](CUstream stream) { shared->enqueue(stream, set, algorithm); });
  }
  return engines;
}

}  // namespace unisono::bench
