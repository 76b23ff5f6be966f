// Which descriptor fields a matrix instruction wants for an MN-major operand that TMA wrote in boxes of 64 columns by 64 or 32 k,
// swizzled by 128 bytes. All four layouts of a product, 64 x N, N from 8 to 256, bf16 and f16, by several readings of the PTX ISA.
// Prints for each reading how many elements differ from the host's (all are exact in float32); the first is the kernels'
// (columns_descriptor). make build/columns; it fails if that one is ever off.
#include <cuda_fp16.h>

#include "launcher.cuh"
using namespace probe;

// Bytes of the leading-dimension and the stride field, and from one k16 to the next.
struct Reading {
    const char* name;
    int leading, stride, step;
};
std::vector<Reading> readings(int box) {
    return {{"leading: next 64 columns, stride: next 8 k, step: 16 k", box, 1024, 2048},
            {"leading: next 8 k, stride: next 64 columns, step: 16 k", 1024, box, 2048},
            {"leading: next 64 columns, stride: next 8 k, step: 32 bytes", box, 1024, 32},
            {"leading: one, stride: next 8 k, step: 16 k", 16, 1024, 2048}};
}

template <bool kColumns, int kDepth> __device__ u64 descriptor_of(u32 address, Reading r) {
    if constexpr (kColumns) return u64(1) << 62 | u64(r.stride >> 4) << 32 | u64(r.leading >> 4) << 16 | u64(address >> 4);
    else return operand_descriptor<kDepth * 2>(address);
}

template <class Element, int kN, int kDepth, bool kColumnsA, bool kColumnsB>
__global__ void __launch_bounds__(128, 1) product(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float* out, Reading reading) {
    extern __shared__ u8 unaligned[];
    u8* memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
    constexpr int kBox = 64 * kDepth * 2, kBoxes = divide_up(kN, 64);
    const u32 a = shared_address(memory), b = a + kBox, barrier = b + kBoxes * kBox;
    if (threadIdx.x == 0) mbarrier_init(barrier, 1), mbarrier_init_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(barrier, kBox + (kColumnsB ? kBoxes * kBox : kN * kDepth * 2));
        tma_load_3d(a, map_a, barrier, 0, 0, 0);
        if (kColumnsB)
            for (int i = 0; i < kBoxes; ++i) tma_load_3d(b + i * kBox, map_b, barrier, 64 * i, 0, 0);
        else tma_load_3d(b, map_b, barrier, 0, 0, 0);
    }
    mbarrier_wait(barrier, 0);
    __syncthreads();
    float d[kN / 2];
    const u64 first = descriptor_of<kColumnsA, kDepth>(a, reading), second = descriptor_of<kColumnsB, kDepth>(b, reading);
    wgmma_fence();
    for (int k = 0; k < kDepth / 16; ++k)
        wgmma<Element, kN, kColumnsA, kColumnsB>(d, first + k * ((kColumnsA ? reading.step : 32) >> 4), second + k * ((kColumnsB ? reading.step : 32) >> 4), k);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    for (int j = 0; j < kN / 8; ++j)
        for (int i = 0; i < 4; ++i) out[(16 * warp + lane / 4 + 8 * (i / 2)) * kN + 8 * j + 2 * (lane & 3) + i % 2] = d[4 * j + i];
}

uint16_t narrow(float x, Type type) {  // small eighths: exact in both
    if (type == Type::kF16) return __half_as_ushort(__float2half(x));
    u32 bits;
    memcpy(&bits, &x, 4);
    return uint16_t(bits >> 16);
}

struct Operand {
    std::vector<float> values;  // (rows, depth)
    uint16_t* memory;
    TensorMap map;
    Operand(int rows, int depth, bool columns, Type type, int box_rows) : values(rows * depth) {
        std::vector<uint16_t> stored(values.size());
        for (int r = 0; r < rows; ++r)
            for (int k = 0; k < depth; ++k) {
                const float x = values[r * depth + k] = (rand() % 17 - 8) / 8.f;
                stored[columns ? k * rows + r : r * depth + k] = narrow(x, type);
            }
        CHECK_CUDA(cudaMalloc(&memory, stored.size() * 2));
        CHECK_CUDA(cudaMemcpy(memory, stored.data(), stored.size() * 2, cudaMemcpyDefault));
        const uint64_t inner = columns ? rows : depth, outer = columns ? depth : rows;
        const uint32_t box_inner = columns ? 64 : depth, box_outer = columns ? depth : box_rows;
        if (!tiled_map<3>(map, memory, {inner, outer, 1}, {inner * 2, inner * outer * 2}, {box_inner, box_outer, 1}, type)) std::printf("a tensor map was refused\n"), std::exit(2);
    }
    ~Operand() { cudaFree(memory); }
};

int wrong_of_kernels = 0, runs = 0;

template <class Element, int kN, int kDepth, bool kColumnsA, bool kColumnsB> void check() {
    constexpr Type type = Same<Element, Bf16>::value ? Type::kBf16 : Type::kF16;
    const Operand a(64, kDepth, kColumnsA, type, 64), b(kN, kDepth, kColumnsB, type, kN);
    float* out;
    CHECK_CUDA(cudaMalloc(&out, 64 * kN * 4));
    const auto kernel = product<Element, kN, kDepth, kColumnsA, kColumnsB>;
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
    std::printf("%s 64x%dx%d, A %s, B %s: wrong", type == Type::kBf16 ? "bf16" : "f16", kN, kDepth, kColumnsA ? "(k,m)" : "(m,k)", kColumnsB ? "(k,n)" : "(n,k)");
    bool first = true;
    for (const Reading& reading : readings(64 * kDepth * 2)) {
        kernel<<<1, 128, 100000>>>(a.map, b.map, out, reading);
        std::vector<float> result(64 * kN);
        CHECK_CUDA(cudaMemcpy(result.data(), out, result.size() * 4, cudaMemcpyDefault));
        int wrong = 0;
        for (int m = 0; m < 64; ++m)
            for (int n = 0; n < kN; ++n) {
                float sum = 0;
                for (int k = 0; k < kDepth; ++k) sum += a.values[m * kDepth + k] * b.values[n * kDepth + k];
                wrong += sum != result[m * kN + n];
            }
        if (first) wrong_of_kernels += wrong != 0, ++runs;
        first = false;
        std::printf(" %d", wrong);
        if (!kColumnsA && !kColumnsB) break;  // no reading to choose
    }
    std::printf("\n");
    cudaFree(out);
}

template <class Element, int kDepth, int kN> void layouts() {
    check<Element, kN, kDepth, false, false>();
    check<Element, kN, kDepth, true, false>();
    check<Element, kN, kDepth, false, true>();
    check<Element, kN, kDepth, true, true>();
}
template <class Element, int kDepth> void widths() {
    layouts<Element, kDepth, 8>(), layouts<Element, kDepth, 56>(), layouts<Element, kDepth, 64>(), layouts<Element, kDepth, 72>();
    layouts<Element, kDepth, 128>(), layouts<Element, kDepth, 160>(), layouts<Element, kDepth, 192>(), layouts<Element, kDepth, 256>();
}

int main() {
    int i = 0;
    for (const Reading& r : readings(8192)) std::printf("reading %d: %s\n", i++, r.name);
    widths<Bf16, 64>(), widths<Bf16, 32>(), widths<F16, 64>(), widths<F16, 32>();
    std::printf("%d of %d runs wrong by reading 0, the kernels'\n", wrong_of_kernels, runs);
    return wrong_of_kernels != 0;
}
