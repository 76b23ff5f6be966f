#include "training/training_folder.hpp"

#include <fmt/format.h>

#include <system_error>

#include "media/file.hpp"
#include "unisono/error.hpp"

namespace unisono::training {

namespace fs = std::filesystem;

TrainingFolder::TrainingFolder(const fs::path& folder) : folder_(folder) {
  media::make_folder(folder_);
  try {
    lock_ = std::make_unique<support::FileLock>(folder_ / ".lock");
    if (!lock_->try_lock(0))
      throw UserError(fmt::format(
          "'{}': another process is training in this folder; wait for it, or give another folder", folder_.string()));
  } catch (const std::system_error& error) {
    throw UserError(fmt::format("'{}': cannot be locked: {}", folder_.string(), error.code().message()));
  }
  remove_left_overs();
}

// ".NAME.UNIQUE" beside NAME, see support::replace_file
void TrainingFolder::remove_left_overs() const {
  for (const fs::path& file : {checkpoint(), log(), curves(), model()}) {
    const std::string prefix = "." + file.filename().string() + ".";
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      std::error_code error;
      if (name.starts_with(prefix) && support::is_unique_name(name.substr(prefix.size())))
        fs::remove(entry.path(), error);
    }
  }
}

}  // namespace unisono::training
