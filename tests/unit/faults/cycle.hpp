#pragma once
/// A small piece of work that is done again and again, each time with another of its calls failing.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "faults.hpp"
#include "unisono/error.hpp"

namespace unisono::faults {

// Calls that fail of each kind in a cycle, at most: all of a small one, else some, evenly apart. UNISONO_FAULTS=all:
// all.
inline long most_faults() {
  const char* all = std::getenv("UNISONO_FAULTS");
  return all != nullptr && std::string_view(all) == "all" ? 1L << 40 : 60;
}

using Cycle = std::function<bool()>;  ///< whether its results are right

enum class Ending { right, wrong, error };

inline Ending ending_of(Kind kind, long fails, const Cycle& cycle, std::string& what) {
  const Counting counting(kind, fails);
  try {
    return cycle() ? Ending::right : Ending::wrong;
  } catch (const InternalError& error) {
    what = error.what();
    return Ending::wrong;
  } catch (const Unsupported& error) {  // of what was served before
    what = error.what();
    return Ending::wrong;
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error&) {  // of a folder of its own that a test makes
  }
  return Ending::error;
}

inline std::ptrdiff_t open_files() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

/// Names of calls that may fail without an error; "*": all, as those for a cache.
using Harmless = std::set<std::string>;

/// Whether a call that failed had to make the cycle end with an error.
inline bool matters(Kind kind, const Harmless& harmless) {
  const std::string call = failed_call(kind);  // none if it was not made this time
  return !call.empty() && !passed_over() && !harmless.contains("*") && !harmless.contains(call);
}

inline void each_fails_once(Kind kind, const Cycle& cycle, const Harmless& harmless = {}) {
  std::string what;
  for (int warm = 0; warm < 3; ++warm) ASSERT_EQ(ending_of(kind, -1, cycle, what), Ending::right) << what;
  const long count = seen(kind), step = std::max(1L, count / most_faults());
  ASSERT_GT(count, 0);
  const long blocks = live_blocks();
  const std::ptrdiff_t files = open_files();
  long tried = 0;
  for (long n = 0; n < count; n += step) {
    const Ending ending = ending_of(kind, n, cycle, what);
    const std::string call = failed_call(kind) + ", call " + std::to_string(n) + " of " + std::to_string(count);
    ASSERT_NE(ending, Ending::wrong) << call << ": " << what;
    EXPECT_TRUE(ending == Ending::error || !matters(kind, harmless)) << call << " failed without an error";
    tried += passed_over() ? 0 : 1;
    if (n % 5 == 0) {
      ASSERT_EQ(ending_of(kind, -1, cycle, what), Ending::right) << "after call " << n << ": " << what;
    }
  }
  ASSERT_EQ(ending_of(kind, -1, cycle, what), Ending::right) << what;
  ASSERT_GT(tried, 0);
  EXPECT_LE(live_blocks(), blocks + 8) << "lost in " << tried << " failures";
  EXPECT_EQ(open_files(), files) << "after " << tried << " failures";
}

}  // namespace unisono::faults
