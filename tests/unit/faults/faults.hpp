#pragma once
/// What a system may refuse, refused on purpose: the n-th allocation of our own code, the n-th call for a file or a
/// process, of SQLite, of oneDNN. Calls are counted while a Counting lives; what other libraries call is neither
/// counted nor refused.

#include <atomic>
#include <cstddef>
#include <string>

namespace unisono::faults {

/// child: calls for files of a process that was forked; removal: of what a failure has left; object: what oneDNN has
/// for memory and streams.
enum class Kind { allocation, file, child, removal, database, primitive, object };

/// Calls of a kind so far; since the last Counting began.
long seen(Kind kind);

/// Blocks of memory that operator new has given and nobody has given back.
long live_blocks();

/// While one lives, calls of this kind are counted, and that of this number, from 0, fails; none if it is negative.
class Counting {
 public:
  Counting(Kind kind, long fails);
  ~Counting();
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  Kind kind_;
};

/// The name of the call that failed since the last Counting of this kind began; empty if none has.
std::string failed_call(Kind kind);

/// Whether the allocation that should have failed since the last Counting began was another library's, and did not.
bool passed_over();

/// Counts a call; whether it is the one that fails.
bool fails_now(Kind kind, const char* name);

}  // namespace unisono::faults
