// Checks every variant against float64 references on fresh random data, twice, at every element, and times it with
// cold rotating operands by graph replays, beside cuDNN's bare convolution.
//   conv_probe [check] [time] [trace] [offset] [shape=I,J..] [only=TEXT] [random=COUNT] [seed=N]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "unisono/ptx/sm90_barrier.cuh"
#include "reference.cuh"

std::vector<Variant>& variants() {
    static std::vector<Variant> all;
    return all;
}

constexpr size_t kTraceWords = size_t(132) * 4 * unisono::kTraceTiles * unisono::kTraceEvents;
uint64_t* trace_buffer() {
#ifdef UNISONO_TRACE
    static uint64_t* buffer = [] { uint64_t* p; CHECK_CUDA(cudaMalloc(&p, kTraceWords * 8)); return p; }();
    return buffer;
#else
    return nullptr;
#endif
}

namespace {

const char* const kWorkNames[] = {"bare", "bias", "bias+silu", "block", "block+res"};

struct Memory {
    std::vector<void*> held;
    template <class T> T* take(size_t count) {
        void* p;
        CHECK_CUDA(cudaMalloc(&p, count * sizeof(T) + 256));
        held.push_back(p);
        return static_cast<T*>(p);
    }
    ~Memory() { for (void* p : held) cudaFree(p); }
};

// Values of mean `offset` and deviation `deviation` ahead of a normalisation.
double offset = 0, deviation = 1;

Operands make_operands(const ConvShape& p, Memory& memory, Type type, uint64_t seed, bool residual) {
    Operands o{memory.take<uint16_t>(p.input()), memory.take<uint16_t>(p.filter()), memory.take<uint16_t>(p.output()),
               residual ? memory.take<uint16_t>(p.output()) : nullptr, memory.take<float>(p.k), memory.take<float>(p.k), memory.take<float>(p.k)};
    const float unit = std::sqrt(3.f);  // of a uniform value: standard deviation 1
    fill16<<<1024, 256>>>(o.x, p.input(), unit, 0, seed, type);
    fill16<<<1024, 256>>>(o.w, p.filter(), float(deviation) * unit / std::sqrt(float(p.c) * p.r * p.s), 0, seed + 1, type);
    if (residual) fill16<<<1024, 256>>>(o.residual, p.output(), unit, 0, seed + 2, type);
    fill32<<<64, 256>>>(o.bias, p.k, float(deviation), float(offset), seed + 3);
    fill32<<<64, 256>>>(o.gamma, p.k, 1, 1, seed + 4);
    fill32<<<64, 256>>>(o.beta, p.k, 1, 0, seed + 5);
    CHECK_CUDA(cudaMemset(o.y, 0xff, p.output() * 2));
    CHECK_CUDA(cudaGetLastError());
    return o;
}

Workspace shared_workspace() {
    static Workspace w = [] {
        Workspace x;
        x.bytes = size_t(64) << 20;
        CHECK_CUDA(cudaMalloc(&x.memory, x.bytes));
        return x;
    }();
    CHECK_CUDA(cudaMemset(w.memory, 0, w.bytes));
    return w;
}

bool wanted(const Variant& v, const std::string& only) { return only.empty() || (v.name + " " + kWorkNames[int(v.work)]).find(only) != std::string::npos; }

// Returns the number of failed variants.
int check(const ConvShape& p, const std::string& only, uint64_t seed, bool verbose) {
    int failures = 0;
    for (Type type : {Type::kBf16, Type::kF16}) {
        bool any = false;
        for (const Variant& v : variants()) any |= v.type == type && wanted(v, only);
        if (!any) continue;
        Memory memory;
        Operands o = make_operands(p, memory, type, seed, true);
        double* conv[2] = {memory.take<double>(p.output()), memory.take<double>(p.output())};
        double2* stats = memory.take<double2>(size_t(p.n) * p.groups);
        uint16_t* first = memory.take<uint16_t>(p.output());
        auto* result = memory.take<Comparison>(1);
        auto* differences = memory.take<unsigned long long>(1);
        const size_t items = p.output() / 8;
        for (int bias = 0; bias < 2; ++bias) reference_conv<<<unsigned((items + 127) / 128), 128>>>(p, o, conv[bias], bias, type);
        if (p.k % p.groups == 0) reference_stats<<<p.n * p.groups, 256>>>(p, conv[1], stats);
        CHECK_CUDA(cudaDeviceSynchronize());
        for (const Variant& v : variants()) {
            if (v.type != type || !wanted(v, only)) continue;
            std::string reason;
            const Launch launch = v.prepare(p, o, shared_workspace(), reason);
            if (!launch) {
                if (verbose) std::printf("  %-28s %-9s -  %s\n", v.name.c_str(), kWorkNames[int(v.work)], reason.c_str());
                continue;
            }
            unsigned long long different = 0;
            Comparison c{};
            for (int round = 0; round < 3; ++round) {
                CHECK_CUDA(cudaMemset(o.y, 0xff, p.output() * 2));
                CHECK_CUDA(cudaMemset(result, 0, sizeof c));
                CHECK_CUDA(cudaMemset(differences, 0, 8));
                cudaError_t status = launch(nullptr);
                if (status == cudaSuccess) status = cudaDeviceSynchronize();
                if (status != cudaSuccess) {
                    std::printf("%s %s %s: %s\n", p.name().c_str(), v.name.c_str(), kWorkNames[int(v.work)], cudaGetErrorString(status));
                    std::fflush(stdout);
                    std::_Exit(3);
                }
                if (round == 0) {
                    compare<<<1024, 256>>>(p, o, conv[v.work != Work::kBare], stats, v.work, type, v.streamed, offset, result);
                    CHECK_CUDA(cudaMemcpy(&c, result, sizeof c, cudaMemcpyDeviceToHost));
                    CHECK_CUDA(cudaMemcpy(first, o.y, p.output() * 2, cudaMemcpyDeviceToDevice));
                } else {
                    count_differences<<<1024, 256>>>(o.y, first, p.output(), differences);
                    unsigned long long d;
                    CHECK_CUDA(cudaMemcpy(&d, differences, 8, cudaMemcpyDeviceToHost));
                    different += d;
                }
            }
            const bool bad = c.wrong || c.poisoned || different;
            failures += bad;
            if (bad || verbose)
                std::printf("  %-28s %-9s %s wrong %llu poisoned %llu of %zu, worst error/tolerance %.2f, largest error %.2g, not repeated %llu\n", v.name.c_str(),
                            kWorkNames[int(v.work)], bad ? "FAIL" : "ok  ", c.wrong, c.poisoned, p.output(), c.worst, c.largest_error, different);
            std::fflush(stdout);
        }
    }
    return failures;
}

// Median and spread (half the interquartile range over the median) of a launch, by graph replays.
struct Timing { double us, spread; };
Timing time_launches(const std::vector<Launch>& sets, int launches) {
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreate(&stream));
    for (const Launch& l : sets) CHECK_CUDA(l(stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < launches; ++i) CHECK_CUDA(sets[i % sets.size()](stream));
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    cudaEvent_t start, stop;
    CHECK_CUDA(cudaEventCreate(&start)); CHECK_CUDA(cudaEventCreate(&stop));
    std::vector<double> times;
    for (int i = 0; i < 14; ++i) {
        CHECK_CUDA(cudaEventRecord(start, stream));
        CHECK_CUDA(cudaGraphLaunch(executable, stream));
        CHECK_CUDA(cudaEventRecord(stop, stream));
        CHECK_CUDA(cudaEventSynchronize(stop));
        float ms;
        CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
        if (i >= 3) times.push_back(ms * 1000 / launches);
    }
    std::sort(times.begin(), times.end());
    CHECK_CUDA(cudaGraphExecDestroy(executable)); CHECK_CUDA(cudaGraphDestroy(graph)); CHECK_CUDA(cudaStreamDestroy(stream));
    const size_t n = times.size();
    return {times[n / 2], (times[3 * n / 4] - times[n / 4]) / 2 / times[n / 2]};
}

struct Row { std::string name; double cudnn; std::map<int, std::pair<double, std::string>> best; };

Row time_problem(const ConvShape& p, const std::string& only, uint64_t seed, bool cudnn) {
    const size_t bytes = 2 * (p.input() + p.filter() + p.output());
    const int count = int(std::clamp<size_t>((size_t(200) << 20) / bytes + 1, 2, 32));
    const int launches = std::max(count, int(2000 / (p.flop() / 600e6) + 1));
    const int rounded = (launches + count - 1) / count * count;
    Memory memory;
    std::vector<Operands> sets;
    for (int i = 0; i < count; ++i) sets.push_back(make_operands(p, memory, Type::kBf16, seed + 10 * i, true));
    CHECK_CUDA(cudaDeviceSynchronize());
    Row row{p.name(), 0, {}};
    std::printf("%s  (%d sets, %d launches)\n", p.name().c_str(), count, rounded);
    if (cudnn) {
        std::vector<Launch> l;
        std::string chosen;
        for (const Operands& o : sets) l.push_back(prepare_cudnn(p, o, Type::kBf16, chosen));
        if (l[0]) {
            const Timing t = time_launches(l, rounded);
            row.cudnn = t.us;
            std::printf("  %-28s %-9s %8.1f us  %4.0f TFLOP/s  +-%.1f%%\n", ("cuDNN " + chosen).c_str(), "bare", t.us, p.flop() / t.us * 1e-6, t.spread * 100);
        }
    }
    for (const Variant& v : variants()) {
        if (v.type != Type::kBf16 || !wanted(v, only)) continue;
        std::vector<Launch> l;
        std::string reason;
        const Workspace w = shared_workspace();
        for (const Operands& o : sets) l.push_back(v.prepare(p, o, w, reason));
        if (!l[0]) continue;
        const Timing t = time_launches(l, rounded);
        std::printf("  %-28s %-9s %8.1f us  %4.0f TFLOP/s  +-%.1f%%  %.2f\n", v.name.c_str(), kWorkNames[int(v.work)], t.us, p.flop() / t.us * 1e-6, t.spread * 100,
                    row.cudnn ? t.us / row.cudnn : 0.0);
        std::fflush(stdout);
        auto& best = row.best[int(v.work)];
        if (best.first == 0 || t.us < best.first) best = {t.us, v.name};
    }
    return row;
}

// Clocks between events of the tiles of a few CTAs: one line a tile.
void print_timeline(const ConvShape& p, const std::string& only, uint64_t seed) {
    Memory memory;
    const Operands o = make_operands(p, memory, Type::kBf16, seed, true);
    for (const Variant& v : variants()) {
        if (v.type != Type::kBf16 || !wanted(v, only)) continue;
        std::string reason;
        const Launch launch = v.prepare(p, o, shared_workspace(), reason);
        if (!launch) continue;
        for (int i = 0; i < 3; ++i) {
            CHECK_CUDA(cudaMemset(trace_buffer(), 0, kTraceWords * 8));
            CHECK_CUDA(launch(nullptr));
        }
        std::vector<uint64_t> t(kTraceWords);
        CHECK_CUDA(cudaMemcpy(t.data(), trace_buffer(), kTraceWords * 8, cudaMemcpyDeviceToHost));
        std::printf("timeline %s %s %s\n", p.name().c_str(), v.name.c_str(), kWorkNames[int(v.work)]);
        for (int cta : {0, 77}) {
            const uint64_t start = t[size_t(cta) * 4 * unisono::kTraceTiles * unisono::kTraceEvents];
            for (int tile = 0; tile < 12; ++tile)
                for (int w = 0; w < 4; ++w) {
                    const size_t at = (size_t(cta) * 4 + w) * unisono::kTraceTiles + tile;
                    const uint64_t* e = &t[at * unisono::kTraceEvents];
                    if (!e[0]) continue;
                    std::printf("  CTA %3d warpgroup %d tile %2d at %7lld:", cta, w, tile, (long long)(e[0] - start));
                    for (int i = 1; i < unisono::kTraceEvents; ++i) if (e[i]) std::printf("  %d:%+6lld", i, (long long)(e[i] - e[0]));
                    std::printf("\n");
                }
        }
    }
}

ConvShape random_problem(std::mt19937_64& random) {
    auto pick = [&](int low, int high) { return low + int(random() % (high - low + 1)); };
    for (;;) {
        const int taps = pick(0, 5);
        ConvShape p{pick(1, 5), pick(1, 40), pick(1, 40), 8 * pick(1, 30), 8 * pick(1, 45), 3, 3};
        if (taps == 0) p.r = p.s = 1;
        if (taps == 1) p.r = pick(1, 7), p.s = pick(1, 7);
        p.stride = pick(1, 3) == 3 ? 2 : 1, p.dilation = pick(1, 4) == 4 ? 2 : 1;
        p.pad = pick(0, 1) ? p.r / 2 : pick(0, 3);
        std::vector<int> widths;
        for (int g = 1; g <= 64; ++g) if (p.k % g == 0) widths.push_back(g);
        p.groups = p.k / widths[random() % widths.size()];
        if (p.h + 2 * p.pad >= p.dilation * (p.r - 1) + 1 && p.w + 2 * p.pad >= p.dilation * (p.s - 1) + 1 && p.p() * p.q() > 1) return p;
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<ConvShape> problems = {
        {2, 64, 64, 320, 320, 3, 3}, {2, 32, 32, 640, 640, 3, 3}, {2, 16, 16, 1280, 1280, 3, 3}, {8, 64, 64, 320, 320, 3, 3}, {8, 32, 32, 640, 640, 3, 3},
        {16, 128, 128, 128, 128, 3, 3}, {4, 256, 256, 128, 128, 3, 3}, {32, 56, 56, 256, 256, 3, 3}, {8, 64, 64, 320, 320, 1, 1, 1, 0},
        {1, 512, 512, 128, 128, 3, 3}, {8, 256, 256, 64, 64, 3, 3}};
    bool checks = false, times = false, cudnn = true, traces = false;
    int random_count = 0;
    std::string only;
    uint64_t seed = uint64_t(std::chrono::system_clock::now().time_since_epoch().count());
    std::vector<int> chosen;
    for (int i = 1; i < argc; ++i) {
        const std::string a = argv[i];
        if (a == "check") checks = true;
        else if (a == "time") times = true;
        else if (a == "trace") traces = true;
        else if (a == "offset") offset = 1000, deviation = 0.01;
        else if (a == "nocudnn") cudnn = false;
        else if (a.rfind("only=", 0) == 0) only = a.substr(5);
        else if (a.rfind("random=", 0) == 0) random_count = std::atoi(a.c_str() + 7);
        else if (a.rfind("seed=", 0) == 0) seed = std::strtoull(a.c_str() + 5, nullptr, 10);
        else if (a.rfind("shape=", 0) == 0) for (const char* c = a.c_str() + 6; *c;) { chosen.push_back(std::atoi(c)); c = std::strchr(c, ','); if (!c) break; ++c; }
        else return std::printf("unknown argument %s\n", argv[i]), 1;
    }
    std::printf("seed %llu, %zu variants\n", (unsigned long long)seed, variants().size());
    if (!chosen.empty()) {
        std::vector<ConvShape> some;
        for (int c : chosen) some.push_back(problems.at(c));
        problems = some;
    }
    int failures = 0;
    if (checks)
        for (const ConvShape& p : problems) {
            std::printf("%s\n", p.name().c_str());
            failures += check(p, only, seed, true);
        }
    std::mt19937_64 random(seed);
    for (int i = 0; i < random_count; ++i) {
        const ConvShape p = random_problem(random);
        const int bad = check(p, only, seed + i, false);
        if (bad) std::printf("random %d: %s pad %d groups %d: %d failed\n", i, p.name().c_str(), p.pad, p.groups, bad);
        failures += bad;
    }
    if (checks || random_count) std::printf("checks: %d failed (%d random problems)\n", failures, random_count);
    if (traces && trace_buffer())
        for (const ConvShape& p : problems) print_timeline(p, only, seed);
    if (times) {
        std::vector<Row> rows;
        for (const ConvShape& p : problems) rows.push_back(time_problem(p, only, seed, cudnn));
        std::printf("\n%-26s %8s", "best, us", "cuDNN");
        for (const char* name : kWorkNames) std::printf(" %26s", name);
        std::printf("\n");
        std::map<int, std::pair<double, int>> geomean;
        for (const Row& r : rows) {
            std::printf("%-26s %8.1f", r.name.c_str(), r.cudnn);
            for (int w = 0; w < 5; ++w) {
                const auto found = r.best.find(w);
                if (found == r.best.end()) { std::printf(" %26s", "-"); continue; }
                std::printf(" %6.1f %19s", found->second.first, found->second.second.c_str());
                if (r.cudnn) geomean[w].first += std::log(r.cudnn / found->second.first), ++geomean[w].second;
            }
            std::printf("\n");
        }
        std::printf("%-26s %8s", "cuDNN bare / ours, geomean", "");
        for (int w = 0; w < 5; ++w) std::printf(" %26.3f", geomean.count(w) ? std::exp(geomean[w].first / geomean[w].second) : 0.0);
        std::printf("\n");
    }
    return failures ? 1 : 0;
}
