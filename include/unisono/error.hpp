#pragma once
/// The error classes of Unisono. Every message says what was given, what was expected, where, and what to do.

#include <stdexcept>
#include <string>

namespace unisono {

/// Base of all errors that Unisono throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's input is wrong: a shape, a name, a dtype, an alignment, a text, a file.
class UserError : public Error {
 public:
  using Error::Error;
};

/// A legal request that no kernel serves. The message lists each candidate and the reason it refused.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// A compiler failed on generated source. The message holds the command, the log and the path of the source.
class CompileError : public Error {
 public:
  using Error::Error;
};

/// The device or its driver failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant inside Unisono: always a bug of ours.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace unisono
