// What a launch costs the host, by its attributes and by the bytes of its parameters: 125 launches of a kernel that does nothing, the
// least of 40 runs. `replaced`: a graph of one launch whose parameters are set anew before each replay.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

template <int kBytes>
struct alignas(64) Parameters {
    char bytes[kBytes];
};

template <int kBytes>
__global__ void __launch_bounds__(384, 1) nothing(const __grid_constant__ Parameters<kBytes> p) {
    if (p.bytes[0]) asm volatile("griddepcontrol.wait;" ::: "memory");
}

constexpr int kLaunches = 125, kRuns = 40, kShared = 200 << 10;

template <class Launch>
double microseconds(cudaStream_t stream, Launch launch) {
    double best = 1e9;
    for (int run = 0; run <= kRuns; ++run) {
        cudaStreamSynchronize(stream);
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kLaunches; ++i)
            if (const cudaError_t error = launch(); error != cudaSuccess) {
                std::printf("%s\n", cudaGetErrorName(error));
                return -1;
            }
        const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
        if (run > 0) best = std::min(best, time.count() / kLaunches);
    }
    cudaStreamSynchronize(stream);
    return best;
}

template <int kBytes>
void measure(cudaStream_t stream, const char* where, int blocks) {
    static Parameters<kBytes> parameters{};
    void* arguments[] = {&parameters};
    const auto* kernel = reinterpret_cast<const void*>(nothing<kBytes>);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    for (int cooperative = 0; cooperative < 2; ++cooperative)
        for (int dependent = 0; dependent < 2; ++dependent) {
            std::vector<cudaLaunchAttribute> attributes;
            auto add = [&](cudaLaunchAttributeID id) -> cudaLaunchAttributeValue& {
                attributes.push_back({});
                attributes.back().id = id;
                return attributes.back().val;
            };
            if (cooperative) add(cudaLaunchAttributeCooperative).cooperative = 1;
            if (dependent) add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
            cudaLaunchConfig_t config{};
            config.gridDim = blocks, config.blockDim = 384, config.dynamicSmemBytes = kShared, config.stream = stream;
            config.attrs = attributes.data(), config.numAttrs = unsigned(attributes.size());
            const double host = microseconds(stream, [&] { return cudaLaunchKernelExC(&config, kernel, arguments); });
            cudaEvent_t a, b;
            cudaEventCreate(&a), cudaEventCreate(&b);
            cudaEventRecord(a, stream);
            for (int i = 0; i < kLaunches; ++i) cudaLaunchKernelExC(&config, kernel, arguments);
            cudaEventRecord(b, stream);
            cudaStreamSynchronize(stream);
            float ms = 0;
            cudaEventElapsedTime(&ms, a, b);
            cudaGraph_t graph = nullptr;
            cudaGraphExec_t exec = nullptr;
            cudaStream_t capture;
            cudaStreamCreate(&capture);
            config.stream = capture;
            cudaStreamBeginCapture(capture, cudaStreamCaptureModeThreadLocal);
            cudaLaunchKernelExC(&config, kernel, arguments);
            cudaStreamEndCapture(capture, &graph);
            cudaGraphNode_t node;
            size_t count = 1;
            cudaGraphGetNodes(graph, &node, &count);
            cudaKernelNodeParams node_parameters{};
            double replayed = -1, replaced = -1;
            if (cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess && cudaGraphKernelNodeGetParams(node, &node_parameters) == cudaSuccess) {
                node_parameters.kernelParams = arguments;
                replayed = microseconds(stream, [&] { return cudaGraphLaunch(exec, stream); });
                replaced = microseconds(stream, [&] {
                    const cudaError_t set = cudaGraphExecKernelNodeSetParams(exec, node, &node_parameters);
                    return set == cudaSuccess ? cudaGraphLaunch(exec, stream) : set;
                });
            }
            cudaGetLastError();
            std::printf("%s, %d blocks, %d bytes, cooperative %d, dependent %d: host %.2f us a launch, both %.2f; as a graph %.2f, replaced %.2f\n",
                        where, blocks, kBytes, cooperative, dependent, host, 1e3 * ms / kLaunches, replayed, replaced);
        }
}

int main() {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (const int blocks : {1, 128}) {
        measure<64>(stream, "a stream", blocks);
        measure<1024>(stream, "a stream", blocks);
        measure<1024>(nullptr, "the legacy stream", blocks);
    }
}
