#include "jit/lock.hpp"

#include <cerrno>
#include <system_error>

namespace unisono::jit {

std::unique_ptr<support::FileLock> lock_of(const std::string& key) {
  const auto host = support::host_folder();
  if (!host)
    throw std::system_error(EACCES, std::generic_category(), "no folder of this user below XDG_RUNTIME_DIR or /tmp");
  support::make_folders(*host / "locks");
  return std::make_unique<support::FileLock>(*host / "locks" / key.substr(0, 3));
}

}  // namespace unisono::jit
