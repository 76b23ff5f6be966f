// How the operands of a contraction lie in memory. A configuration says so by a type `Operands`; one without has Images.
#pragma once

namespace coda {

struct Images {  // NHWC and KRSC: both have their k side by side
    static constexpr bool kColumnsA = false, kColumnsB = false, kBatched = false, kRowsA = false;
};

// Of products, and of 1x1 convolutions that are such. kColumnsA: A is (k, m), kColumnsB: B is (k, n); each is loaded by boxes of 64 columns
// and multiplied MN-major. Else A is loaded by boxes of rows. kBatched: as many filters B as images A; tiles do not straddle images.
template <bool kOfA, bool kOfB, bool kEach> struct Matrices {
    static constexpr bool kColumnsA = kOfA, kColumnsB = kOfB, kBatched = kEach, kRowsA = !kOfA;
};

template <class T> struct Exists { using Type = void; };
template <class Config, class = void> struct OperandsOf { using Type = Images; };
template <class Config> struct OperandsOf<Config, typename Exists<typename Config::Operands>::Type> { using Type = typename Config::Operands; };

}  // namespace coda
