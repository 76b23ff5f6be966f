#pragma once
/// Libraries of peers, loaded when they are asked for: the benchmark starts without them.

#include <filesystem>
#include <string>
#include <vector>

namespace unisono::bench {

/// Never unloaded: such libraries keep threads and memory of their own.
class DynamicLibrary {
 public:
  /// The first of `names` that the linker, `folder` or a toolkit's folder has. Throws UserError that says where it was
  /// looked for.
  DynamicLibrary(const std::vector<std::string>& names, const std::filesystem::path& folder);

  const std::string& name() const { return name_; }

  /// Sets `function` to the symbol. Throws UserError if the library lacks it.
  template <class Function>
  void find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;
  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace unisono::bench
