#include "families/cutlass_evt/self_check_helpers.hpp"

namespace unisono::families::cutlass_evt {
namespace {

constexpr const char* helpers = R"~(#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace unisono::evt {

inline void succeed(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
}
inline float draw() {  // -1 to 1
    static unsigned long long state = 20261;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return float(double(state >> 40) / double(1 << 23) - 1);
}
template <class T>
T* uploaded(const std::vector<T>& host) {
    void* memory = nullptr;
    succeed(cudaMalloc(&memory, host.size() * sizeof(T)), "cudaMalloc");
    succeed(cudaMemcpy(memory, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    return static_cast<T*>(memory);
}
template <class T>
T* filled(long long count) {
    std::vector<T> host;
    for (long long i = 0; i < count; ++i) host.push_back(std::is_integral<T>::value ? T(draw() > 0) : T(draw()));
    return uploaded(host);
}
template <class T>
T* poisoned(long long count) {
    return uploaded(std::vector<T>(std::size_t(count), T(NAN)));
}
template <class T>
std::vector<T> downloaded(const T* memory, long long count) {
    std::vector<T> host(static_cast<std::size_t>(count));
    succeed(cudaMemcpy(host.data(), memory, host.size() * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
}
template <class T>
constexpr double unit() {  // of rounding
    return sizeof(T) == 4 ? 0x1p-20 : std::is_same<T, cutlass::bfloat16_t>::value ? 0x1p-8 : 0x1p-11;
}
inline bool close(double found, double wanted, double tolerance) {
    return found == wanted || (std::isnan(found) && std::isnan(wanted)) || std::fabs(found - wanted) <= tolerance;
}
inline bool report(const char* what, long long wrong, long long count) {
    std::printf("%s: %lld of %lld elements differ\n", what, wrong, count);
    return wrong == 0;
}
// f16 and bf16 values on the way to a result may be rounded one step apart, after sums of another order
template <class T>
bool same_elements(const T* memory, const float* expected, long long count, const char* what) {
    const auto found = downloaded(memory, count);
    long long wrong = 0;
    for (long long i = 0; i < count; ++i) {
        const double wanted = expected[i];
        wrong += !close(double(float(found[i])), wanted, (2 * unit<T>() + kSlack) * (1 + std::fabs(wanted)));
    }
    return report(what, wrong, count);
}
enum class Fold { sum, max, min };
template <class T>
bool same_folds(const T* memory, const float* values, const CutlassEvtParams& to, bool rows, bool columns, bool per_batch,
                Fold fold, const char* what) {
    const long long count = (per_batch ? to.batch : 1) * (rows ? 1 : to.m) * (columns ? 1 : to.n);
    std::vector<double> wanted(std::size_t(count), fold == Fold::sum ? 0.0 : fold == Fold::max ? -INFINITY : INFINITY);
    std::vector<double> sizes(std::size_t(count), 0.0);
    for (long long i = 0; i < to.batch * to.m * to.n; ++i) {
        const long long column = i % to.n, row = i / to.n % to.m, l = i / to.n / to.m;
        const long long at = ((per_batch ? l : 0) * (rows ? 1 : to.m) + (rows ? 0 : row)) * (columns ? 1 : to.n) + (columns ? 0 : column);
        const double x = values[i];
        double& y = wanted[std::size_t(at)];
        y = fold == Fold::sum ? y + x : std::isnan(x) || std::isnan(y) ? NAN : fold == Fold::max ? std::fmax(y, x) : std::fmin(y, x);
        sizes[std::size_t(at)] = fold == Fold::sum ? sizes[std::size_t(at)] + std::fabs(x) : std::fabs(y);
    }
    const auto found = downloaded(memory, count);
    long long wrong = 0;
    for (long long i = 0; i < count; ++i)
        wrong += !close(double(float(found[std::size_t(i)])), wanted[std::size_t(i)], (2 * unit<T>() + kSlack) * (1 + sizes[std::size_t(i)]));
    return report(what, wrong, count);
}

)~";

}  // namespace

std::string_view self_check_helpers() { return helpers; }

}  // namespace unisono::families::cutlass_evt
