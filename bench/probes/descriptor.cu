// Whether matrix instructions read a swizzled operand that starts at any row: a patch of 10 x 34 pixels x 64 channels as TMA
// writes it, 8 x 32 pixels of it from every shift of a 3x3 filter as the second operand, with the descriptor's base-offset field zero or
// as the address has it. Prints how many of the products differ from the host's (all are exact in float32): make build/descriptor
#include "launcher.cuh"
using namespace probe;

constexpr int kHaloTileW = 10, kHaloTileH = 34, kHeight = 40, kWidth = 24, kLeft = 3, kTop = 2;

__global__ void __launch_bounds__(128, 1) product(const __grid_constant__ TensorMap image, const __grid_constant__ TensorMap filter, float* out, int shift_w, int shift_h, bool offset) {
    extern __shared__ u8 unaligned[];
    u8* memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
    const u32 a = shared_address(memory), b = a + 64 * 128, barrier = b + 48 * 1024;
    if (threadIdx.x == 0) mbarrier_init(barrier, 1), mbarrier_init_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(barrier, 64 * 128 + kHaloTileW * kHaloTileH * 128);
        tma_load_3d(a, filter, barrier, 0, 0, 0);
        tma_load_4d(b, image, barrier, 0, kLeft, kTop, 0);
    }
    mbarrier_wait(barrier, 0);
    __syncthreads();
    float d[128];
    const u32 from = b + (shift_h * kHaloTileW + shift_w) * 128;
    const u64 first = operand_descriptor<128>(a), second = operand_descriptor<128, kHaloTileW * 128>(from) | (offset ? u64(from >> 7 & 7) << 49 : 0);
    wgmma_fence();
    for (int k = 0; k < 4; ++k) wgmma<Bf16, 256>(d, first + 2 * k, second + 2 * k, k);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    for (int j = 0; j < 32; ++j)
        for (int i = 0; i < 4; ++i) out[(16 * warp + lane / 4 + 8 * (i / 2)) * 256 + 8 * j + 2 * (lane & 3) + i % 2] = d[4 * j + i];
}

int main() {
    auto narrow = [](float x) { u32 bits; memcpy(&bits, &x, 4); return uint16_t(bits >> 16); };
    auto wide = [](uint16_t x) { u32 bits = u32(x) << 16; float y; memcpy(&y, &bits, 4); return y; };
    std::vector<uint16_t> x(kHeight * kWidth * 64), f(64 * 64);
    for (auto& v : x) v = narrow((rand() % 17 - 8) / 8.f);
    for (auto& v : f) v = narrow((rand() % 17 - 8) / 8.f);
    uint16_t *image, *filter;
    float* out;
    CHECK_CUDA(cudaMalloc(&image, x.size() * 2));
    CHECK_CUDA(cudaMalloc(&filter, f.size() * 2));
    CHECK_CUDA(cudaMalloc(&out, 64 * 256 * 4));
    CHECK_CUDA(cudaMemcpy(image, x.data(), x.size() * 2, cudaMemcpyDefault));
    CHECK_CUDA(cudaMemcpy(filter, f.data(), f.size() * 2, cudaMemcpyDefault));
    TensorMap of_image, of_filter;
    if (!tiled_map<4>(of_image, image, {64, kWidth, kHeight, 1}, {128, 128 * kWidth, 128ull * kWidth * kHeight}, {64, kHaloTileW, kHaloTileH, 1}, Type::kBf16) ||
        !tiled_map<3>(of_filter, filter, {64, 1, 64}, {128, 128}, {64, 1, 64}, Type::kBf16))
        return std::printf("a tensor map was refused\n"), 1;
    CHECK_CUDA(cudaFuncSetAttribute(product, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
    int wrong_without = 0;
    for (const bool offset : {false, true})
        for (int shift = 0; shift < 9; ++shift) {
            product<<<1, 128, 100000>>>(of_image, of_filter, out, shift % 3, shift / 3, offset);
            std::vector<float> result(64 * 256);
            CHECK_CUDA(cudaMemcpy(result.data(), out, result.size() * 4, cudaMemcpyDefault));
            int wrong = 0;
            for (int c = 0; c < 64; ++c)
                for (int p = 0; p < 256; ++p) {
                    float sum = 0;
                    for (int i = 0; i < 64; ++i) sum += wide(f[c * 64 + i]) * wide(x[((kTop + p / 8 + shift / 3) * kWidth + kLeft + p % 8 + shift % 3) * 64 + i]);
                    wrong += sum != result[c * 256 + p];
                }
            std::printf("base offset %s, shift %d,%d: %d of 16384 wrong\n", offset ? "of the address" : "zero", shift / 3, shift % 3, wrong);
            if (!offset) wrong_without += wrong;
        }
    return wrong_without != 0;
}
