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

/// A valid request that no kernel supports. The message lists each candidate and why it was rejected.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// A compiler failed on generated source. The message has the command, the log and the path of the source.
class CompileError : public Error {
 public:
  using Error::Error;
};

/// The device or its driver failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant inside Unisono: a bug to report.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace unisono
