#include "jit/build_id.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <vector>

namespace unisono::jit {
namespace {

constexpr std::size_t note_limit = 1 << 16;

class File {
 public:
  explicit File(const std::filesystem::path& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (file_ >= 0) ::close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read(std::uint64_t offset, void* into, std::size_t size) const {
    return ::pread(file_, into, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }
  std::optional<struct stat> info() const {
    struct stat result {};
    if (file_ < 0 || ::fstat(file_, &result) != 0) return std::nullopt;
    return result;
  }

 private:
  int file_;
};

/// Looks through the notes of one segment: name size, description size, type, then name and description, each padded to
/// four bytes.
std::string id_in_notes(const std::vector<char>& notes) {
  std::size_t at = 0;
  while (notes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    at += sizeof note;
    const std::size_t name = (std::size_t{note.n_namesz} + 3) / 4 * 4,
                      description = (std::size_t{note.n_descsz} + 3) / 4 * 4;
    if (name + description > notes.size() - at) return "";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data() + at, "GNU", 4) == 0) {
      std::string digits;
      for (std::size_t i = 0; i < note.n_descsz; ++i) {
        digits += fmt::format("{:02x}", static_cast<unsigned char>(notes[at + name + i]));
      }
      return digits;
    }
    at += name + description;
  }
  return "";
}

}  // namespace

std::string build_id(const std::filesystem::path& library) {
  const File file(library);
  const auto info = file.info();
  Elf64_Ehdr header;
  if (!info || !file.read(0, &header, sizeof header)) return "";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return "";
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.read(header.e_phoff + i * sizeof segment, &segment, sizeof segment)) break;
    if (segment.p_type != PT_NOTE || segment.p_filesz > note_limit) continue;
    std::vector<char> notes(segment.p_filesz);
    if (!file.read(segment.p_offset, notes.data(), notes.size())) continue;
    if (std::string id = id_in_notes(notes); !id.empty()) return id;
  }
  return fmt::format("{} {} {}", library.filename().string(), static_cast<std::int64_t>(info->st_size),
                     static_cast<std::int64_t>(info->st_mtime));
}

}  // namespace unisono::jit
