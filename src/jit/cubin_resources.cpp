#include "jit/cubin_resources.hpp"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace unisono::jit {
namespace {

constexpr std::string_view text_prefix = ".text.", shared_prefix = ".nv.shared.";

/// Reads structures at any offset; what lies outside is absent.
class Image {
 public:
  explicit Image(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    T value;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof value) return std::nullopt;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  std::string_view text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    const char* begin = reinterpret_cast<const char*>(bytes_.data() + offset);
    const void* end = std::memchr(begin, 0, bytes_.size() - offset);
    return end == nullptr ? std::string_view{} : std::string_view(begin, static_cast<const char*>(end) - begin);
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Section {
  Elf64_Shdr header;
  std::string_view name;
};

std::vector<Section> sections_of(const Image& image) {
  const auto file = image.at<Elf64_Ehdr>(0);
  if (!file || std::memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_ident[EI_CLASS] != ELFCLASS64) return {};
  if (file->e_shentsize != sizeof(Elf64_Shdr)) return {};
  const auto names = image.at<Elf64_Shdr>(file->e_shoff + std::uint64_t{file->e_shstrndx} * sizeof(Elf64_Shdr));
  if (!names) return {};
  std::vector<Section> sections;
  for (std::uint64_t i = 0; i < file->e_shnum; ++i) {
    const auto header = image.at<Elf64_Shdr>(file->e_shoff + i * sizeof(Elf64_Shdr));
    if (!header) return {};
    sections.push_back({*header, image.text(names->sh_offset + header->sh_name)});
  }
  return sections;
}

std::string_view symbol_name(const Image& image, const std::vector<Section>& sections, std::uint32_t index) {
  for (const Section& s : sections) {
    if (s.header.sh_type != SHT_SYMTAB || s.header.sh_link >= sections.size()) continue;
    const auto symbol = image.at<Elf64_Sym>(s.header.sh_offset + std::uint64_t{index} * sizeof(Elf64_Sym));
    return symbol ? image.text(sections[s.header.sh_link].header.sh_offset + symbol->st_name) : std::string_view{};
  }
  return {};
}

/// An attribute of .nv.info: a format, a number, a 16-bit size, and for format 4 so many bytes; here always a symbol
/// and a value.
struct Attribute {
  std::uint8_t format, number;
  std::uint16_t size;
};
constexpr std::uint8_t with_size = 4, frame_size = 0x11, register_count = 0x2f;

void read_info(const Image& image, const std::vector<Section>& sections, const Section& info,
               std::map<std::string, Resources>& kernels) {
  std::uint64_t at = info.header.sh_offset;
  const std::uint64_t end = at + info.header.sh_size;
  while (at < end) {
    const auto attribute = image.at<Attribute>(at);
    if (!attribute) return;
    at += sizeof(Attribute);
    if (attribute->format != with_size) continue;  // the value stands in place of the size
    const auto symbol = image.at<std::uint32_t>(at), value = image.at<std::uint32_t>(at + 4);
    at += attribute->size;
    if (!symbol || !value || attribute->size != 8) continue;
    const auto kernel = kernels.find(std::string(symbol_name(image, sections, *symbol)));
    if (kernel == kernels.end()) continue;
    if (attribute->number == register_count) kernel->second.registers = static_cast<int>(*value);
    if (attribute->number == frame_size) kernel->second.stack_bytes = *value;
  }
}

/// The number before `unit` in a line such as "8 bytes stack frame, 4 bytes spill stores".
std::size_t number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::size_t value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

}  // namespace

std::map<std::string, Resources> resources_of_cubin(std::span<const std::byte> cubin) {
  const Image image(cubin);
  const std::vector<Section> sections = sections_of(image);
  std::map<std::string, Resources> kernels;
  for (const Section& s : sections) {
    if (s.name.starts_with(text_prefix)) kernels[std::string(s.name.substr(text_prefix.size()))];
  }
  // from sm_90 on the driver's own kilobyte stands in front of the kernel's, and a section says so
  const bool reserved =
      std::any_of(sections.begin(), sections.end(), [](const Section& s) { return s.name == ".nv.shared.reserved.0"; });
  for (const Section& s : sections) {
    if (s.name == ".nv.info") read_info(image, sections, s, kernels);
    if (!s.name.starts_with(shared_prefix)) continue;
    const auto kernel = kernels.find(std::string(s.name.substr(shared_prefix.size())));
    if (kernel != kernels.end())
      kernel->second.static_shared_bytes =
          s.header.sh_size - std::min<std::size_t>(s.header.sh_size, reserved ? 1024 : 0);
  }
  return kernels;
}

std::map<std::string, Printed> printed_resources(std::string_view log) {
  constexpr std::string_view properties = "Function properties for ", function = "in function '";
  std::map<std::string, Printed> kernels;
  std::string kernel;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (const std::size_t p = line.find(properties); p != std::string_view::npos) {
      kernel = line.substr(p + properties.size());
      while (!kernel.empty() && (kernel.back() == ' ' || kernel.back() == '\r')) kernel.pop_back();
    } else if (line.find("is injected in") != std::string_view::npos) {
      const std::size_t at = line.find(function);
      if (at == std::string_view::npos) continue;
      const std::string_view name = line.substr(at + function.size());
      ++kernels[std::string(name.substr(0, name.find('\'')))].injected_waits;
    } else if (line.find(" bytes spill stores") != std::string_view::npos) {
      kernels[kernel].spill_stores = number_before(line, " bytes spill stores");
      kernels[kernel].spill_loads = number_before(line, " bytes spill loads");
    } else if (line.find(" bytes smem") != std::string_view::npos) {
      kernels[kernel].shared = number_before(line, " bytes smem");
    }
  }
  return kernels;
}

std::map<std::string, Resources> resources_of(std::span<const std::byte> cubin, std::string_view log) {
  auto kernels = resources_of_cubin(cubin);
  for (const auto& [name, printed] : printed_resources(log)) {
    const auto kernel = kernels.find(name);
    if (kernel == kernels.end()) continue;
    kernel->second.spill_store_bytes = printed.spill_stores;
    kernel->second.spill_load_bytes = printed.spill_loads;
    kernel->second.static_shared_bytes = printed.shared;
    kernel->second.injected_waits = printed.injected_waits;
  }
  return kernels;
}

}  // namespace unisono::jit
