// A probe of the convolution kernels: problems, operands in device memory, and variants to run on them.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#define CHECK_CUDA(call)                                                                                \
    do {                                                                                                \
        cudaError_t status_ = (call);                                                                   \
        if (status_ != cudaSuccess) {                                                                   \
            std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_));     \
            std::fflush(stdout);                                                                        \
            std::_Exit(2);                                                                              \
        }                                                                                               \
    } while (0)

struct ConvShape {
    int n, h, w, c, k, r, s, stride = 1, pad = 1, dilation = 1, groups = 32;
    constexpr int p() const { return (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1; }
    constexpr int q() const { return (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1; }
    constexpr size_t input() const { return size_t(n) * h * w * c; }
    constexpr size_t filter() const { return size_t(k) * r * s * c; }
    constexpr size_t output() const { return size_t(n) * p() * q() * k; }
    double flop() const { return 2.0 * n * p() * q() * k * double(c) * r * s; }
    std::string name() const {
        char text[128];
        std::snprintf(text, sizeof text, "%d,%d,%d,%d,%d,%dx%d/%d%s", n, h, w, c, k, r, s, stride, dilation > 1 ? "d" : "");
        return text;
    }
};

enum class Work { kBare, kBias, kBiasSilu, kBlock, kBlockResidual };  // block: conv + bias, group norm, SiLU
enum class Type { kBf16, kF16 };

// Device memory of one problem instance. Operands but the output's neighbours are read only.
struct Operands {
    uint16_t *x, *w, *y, *residual;  // NHWC, KRSC, NPQK, NPQK
    float *bias, *gamma, *beta;      // [k]
};

struct Workspace {  // of one execution in flight
    uint8_t* memory = nullptr;
    size_t bytes = 0;
};

using Launch = std::function<cudaError_t(cudaStream_t)>;

struct Variant {
    std::string name;
    Work work;
    Type type;
    bool streamed;
    // Null and a reason if the variant does not serve the problem. Workspace memory must be zero at first.
    std::function<Launch(const ConvShape&, const Operands&, Workspace, std::string& reason)> prepare;
};

std::vector<Variant>& variants();

// Device memory for a timeline of every CTA (see Trace), or null without UNISONO_TRACE.
uint64_t* trace_buffer();

// cuDNN, bare convolution: the best of its proposed engines on this problem, or null.
Launch prepare_cudnn(const ConvShape&, const Operands&, Type, std::string& chosen);
