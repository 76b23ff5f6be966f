// What kernels that are generated from an epilogue graph without a contraction are made of: elements, and reductions by one block each.
#pragma once
#include "plain.cuh"

namespace coda::plain {

// An element of any operand, by its place in the table.
template <class Element> CODA_DEVICE float element(const PlainTensor& tensor, i64 offset) {
    return Element::unpack(__ldg(static_cast<const u16*>(tensor.memory) + offset)).x;
}
template <> CODA_DEVICE float element<float>(const PlainTensor& tensor, i64 offset) { return __ldg(static_cast<const float*>(tensor.memory) + offset); }

// The sum or the largest of one number a thread, the same in every thread. In a fixed order, so that results repeat.
template <int kThreads, class Join> CODA_DEVICE float join_block(float x, const Join& join) {
    __shared__ float scratch[kThreads];
    scratch[threadIdx.x] = x;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (int(threadIdx.x) < half) scratch[threadIdx.x] = join(scratch[threadIdx.x], scratch[threadIdx.x + half]);
        __syncthreads();
    }
    x = scratch[0];
    __syncthreads();
    return x;
}

// The rows and columns that one result is made of.
struct Domain {
    u32 row, rows, column, columns;
    CODA_DEVICE u64 count() const { return u64(rows) * columns; }
};

// Joins value(row, column) over the domain, beginning with `start`.
template <int kThreads, class Value, class Join> CODA_DEVICE float reduce(const Domain& d, float start, const Value& value, const Join& join) {
    float x = start;
    for (u64 i = threadIdx.x; i < d.count(); i += kThreads) x = join(x, value(d.row + u32(i / d.columns), d.column + u32(i % d.columns)));
    return join_block<kThreads>(x, join);
}

struct Sum {
    CODA_DEVICE float operator()(float x, float y) const { return x + y; }
};
struct Largest {
    CODA_DEVICE float operator()(float x, float y) const { return math::max(x, y); }
};
struct Smallest {
    CODA_DEVICE float operator()(float x, float y) const { return math::min(x, y); }
};

template <int kThreads, class Value> CODA_DEVICE float mean(const Domain& d, const Value& value) {
    return reduce<kThreads>(d, 0.f, value, Sum()) / float(d.count());
}
// The mean of the squares of the distances from the mean, which is found first.
template <int kThreads, class Value> CODA_DEVICE float variance(const Domain& d, const Value& value) {
    const float centre = mean<kThreads>(d, value);
    return mean<kThreads>(d, [&](u32 row, u32 column) {
        const float distance = value(row, column) - centre;
        return distance * distance;
    });
}

// Every element of the graph's stores. Values: kInputs operands [m,n], kOutputs stores, load, element and store.
template <class Values> CODA_DEVICE void elements(const GraphParams& p) {
    const u32 octets = (p.columns + 7) / 8;
    const u64 count = u64(p.images) * p.pixels * octets;
    for (u64 i = first_index(); i < count; i += index_step()) {
        const u32 row = u32(i / octets), channel = 8 * u32(i % octets);
        Octet inputs[Values::kInputs + 1], outputs[Values::kOutputs];
        Values::load(p, row, channel, inputs);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            float given[Values::kInputs + 1], made[Values::kOutputs];
#pragma unroll
            for (int j = 0; j < Values::kInputs; ++j) given[j] = inputs[j].of[k];
            Values::element(p, row / p.pixels, row, channel + k < p.columns ? channel + k : p.columns - 1, given, made);
#pragma unroll
            for (int j = 0; j < Values::kOutputs; ++j) outputs[j].of[k] = made[j];
        }
        Values::store(p, row, channel, outputs);
    }
}

CODA_DEVICE void put(const PlainTensor& tensor, u64 offset, float x) {
    if (threadIdx.x == 0) static_cast<float*>(const_cast<void*>(tensor.memory))[offset] = x;
}

}  // namespace coda::plain
