// May a launch be cooperative and programmatically dependent at once, on a stream and in a graph, and what does the second save?
// Prints the driver's answer for each combination, and the time from launch to launch of a kernel that takes a whole SM each.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void __launch_bounds__(384, 1) work(unsigned* out, int clocks, bool dependent) {
    extern __shared__ unsigned memory[];
    memory[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (dependent) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    }
    const long long start = clock64();
    while (clock64() - start < clocks) {}
    if (threadIdx.x == 0) out[blockIdx.x] += memory[5];
}

int main() {
    unsigned* out;
    cudaMalloc(&out, 4096);
    cudaMemset(out, 0, 4096);
    constexpr int kShared = 200 << 10, kLaunches = 200;
    cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (int cooperative = 0; cooperative < 2; ++cooperative)
        for (int cluster = 1; cluster < 3; ++cluster)
            for (int dependent = 0; dependent < 2; ++dependent)
                for (int clocks : {0, 20000}) {
                    std::vector<cudaLaunchAttribute> attributes;
                    auto add = [&](cudaLaunchAttributeID id) -> cudaLaunchAttributeValue& {
                        attributes.push_back({});
                        attributes.back().id = id;
                        return attributes.back().val;
                    };
                    if (cooperative) add(cudaLaunchAttributeCooperative).cooperative = 1;
                    if (dependent) add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
                    if (cluster > 1) {
                        auto& value = add(cudaLaunchAttributeClusterDimension);
                        value.clusterDim.x = cluster, value.clusterDim.y = value.clusterDim.z = 1;
                    }
                    cudaLaunchConfig_t config{};
                    config.gridDim = 128, config.blockDim = 384, config.dynamicSmemBytes = kShared, config.stream = stream;
                    config.attrs = attributes.data(), config.numAttrs = unsigned(attributes.size());
                    auto launch = [&] { return cudaLaunchKernelEx(&config, work, out, clocks, bool(dependent)); };
                    const cudaError_t plain = launch();
                    const cudaError_t done = cudaStreamSynchronize(stream);
                    cudaGraph_t graph = nullptr;
                    cudaGraphExec_t exec = nullptr;
                    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
                    cudaError_t captured = cudaSuccess;
                    for (int i = 0; i < kLaunches && captured == cudaSuccess; ++i) captured = launch();
                    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
                    const cudaError_t made = ended == cudaSuccess ? cudaGraphInstantiate(&exec, graph, 0) : ended;
                    float best = 1e9f;
                    cudaError_t ran = made;
                    if (made == cudaSuccess) {
                        cudaEvent_t a, b;
                        cudaEventCreate(&a), cudaEventCreate(&b);
                        for (int i = 0; i < 10; ++i) {
                            cudaEventRecord(a, stream), cudaGraphLaunch(exec, stream), cudaEventRecord(b, stream);
                            ran = cudaStreamSynchronize(stream);
                            float ms = 0;
                            cudaEventElapsedTime(&ms, a, b);
                            if (ms < best) best = ms;
                        }
                    }
                    std::printf("cooperative %d, cluster %d, dependent %d, %5d clocks: launch %s, run %s, capture %s, instantiate %s, replay %s: %.2f us a launch\n",
                                cooperative, cluster, dependent, clocks, cudaGetErrorName(plain), cudaGetErrorName(done), cudaGetErrorName(captured),
                                cudaGetErrorName(made), cudaGetErrorName(ran), best * 1e3 / kLaunches);
                    cudaGetLastError();
                }
}
