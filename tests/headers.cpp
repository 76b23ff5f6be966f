// A source for the target that precompiles headers.hpp
