#include "jit/cubin_resources.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

namespace unisono::jit {
namespace {

constexpr const char* log_text =
    "ptxas info    : 306 bytes gmem\n"
    "ptxas info    : Compiling entry function 'one' for 'sm_90a'\n"
    "ptxas info    : Function properties for one\n"
    "ptxas         .     24 bytes stack frame, 8336 bytes spill stores, 9296 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 16 barriers, 512 bytes smem\n"
    "ptxas info    : (C7519) warpgroup.arrive is injected in around line 303 by compiler to allow use of registers in "
    "GMMA "
    "in function 'two'\n"
    "ptxas info    : (C7517) warpgroup.wait is injected in around line 327 by compiler to allow use of registers "
    "defined by "
    "GMMA in function 'two'\n"
    "ptxas info    : Compiling entry function 'two' for 'sm_90a'\n"
    "ptxas info    : Function properties for two\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 8 registers, used 0 barriers\n"
    "source.cu(3): warning: nothing to see";

TEST(Printed, SpillsAndSharedMemoryByKernel) {
  const auto kernels = printed_resources(log_text);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels.at("one").spill_stores, 8336u);
  EXPECT_EQ(kernels.at("one").spill_loads, 9296u);
  EXPECT_EQ(kernels.at("one").shared, 512u);
  EXPECT_EQ(kernels.at("two").spill_stores, 0u);
  EXPECT_EQ(kernels.at("two").shared, 0u);
  EXPECT_EQ(kernels.at("one").injected_waits, 0u);
  EXPECT_EQ(kernels.at("two").injected_waits, 2u);
}

TEST(Printed, OtherTextGivesNothing) {
  EXPECT_TRUE(printed_resources("").empty());
  EXPECT_TRUE(printed_resources("error: bytes smem\n bytes\n").size() <= 1);
}

/// A cubin in small: the sections that are read, for a kernel "k".
std::vector<std::byte> small_cubin(bool reserved) {
  constexpr char all_names[] = "\0.text.k\0.nv.info\0.nv.shared.k\0.nv.shared.reserved.0\0.symtab\0.strtab\0";
  const std::string names(all_names, sizeof all_names);
  const std::string strings("\0k\0", 3);
  struct {
    Elf64_Ehdr file{};
    Elf64_Shdr sections[7]{};
    Elf64_Sym symbols[2]{};
    std::uint8_t info[28]{4, 0x2f, 8, 0, 1, 0, 0, 0, 168, 0, 0, 0,   // registers of symbol 1
                          1, 0x33, 0, 0,                             // an attribute without a size
                          4, 0x11, 8, 0, 1, 0, 0, 0, 24,  0, 0, 0};  // its frame
    char names[80]{}, strings[8]{};
  } image;
  const auto offset = [&](const void* part) {
    return static_cast<std::uint64_t>(static_cast<const char*>(part) - reinterpret_cast<const char*>(&image));
  };
  std::memcpy(image.file.e_ident, ELFMAG, SELFMAG);
  image.file.e_ident[EI_CLASS] = ELFCLASS64;
  image.file.e_shoff = offset(image.sections);
  image.file.e_shentsize = sizeof(Elf64_Shdr);
  image.file.e_shnum = 7;
  image.file.e_shstrndx = 6;
  std::memcpy(image.names, names.data(), names.size());
  std::memcpy(image.strings, strings.data(), strings.size());
  const auto name = [&](const char* text) { return static_cast<std::uint32_t>(names.find(std::string(text) + '\0')); };
  image.sections[1].sh_name = name(".text.k");
  image.sections[2] = {.sh_name = name(".nv.info"),
                       .sh_type = 0x70000000,
                       .sh_flags = 0,
                       .sh_addr = 0,
                       .sh_offset = offset(image.info),
                       .sh_size = sizeof image.info,
                       .sh_link = 4,
                       .sh_info = 0,
                       .sh_addralign = 4,
                       .sh_entsize = 0};
  image.sections[3].sh_name = name(".nv.shared.k");
  image.sections[3].sh_size = 1536;
  image.sections[4] = {.sh_name = name(".symtab"),
                       .sh_type = SHT_SYMTAB,
                       .sh_flags = 0,
                       .sh_addr = 0,
                       .sh_offset = offset(image.symbols),
                       .sh_size = sizeof image.symbols,
                       .sh_link = 6,
                       .sh_info = 0,
                       .sh_addralign = 8,
                       .sh_entsize = sizeof(Elf64_Sym)};
  if (reserved) image.sections[5].sh_name = name(".nv.shared.reserved.0");
  image.sections[6].sh_name = name(".strtab");
  image.sections[6].sh_type = SHT_STRTAB;
  image.sections[6].sh_offset = offset(image.names);
  image.symbols[1].st_name = static_cast<std::uint32_t>(offset(image.strings) + 1 - offset(image.names));
  std::vector<std::byte> bytes(sizeof image);
  std::memcpy(bytes.data(), &image, sizeof image);
  return bytes;
}

TEST(Cubin, RegistersStackAndSharedMemory) {
  for (const bool reserved : {false, true}) {
    const auto kernels = resources_of_cubin(small_cubin(reserved));
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(kernels.at("k").registers, 168);
    EXPECT_EQ(kernels.at("k").stack_bytes, 24u);
    EXPECT_EQ(kernels.at("k").static_shared_bytes, reserved ? 512u : 1536u);
  }
}

TEST(Cubin, AnyPrefixAndAnyChangedByteIsReadWithoutHarm) {
  const auto whole = small_cubin(true);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    resources_of_cubin(std::vector<std::byte>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0x7f, 0x80, 0xff}) {
      auto changed = whole;
      changed[i] = static_cast<std::byte>(value);
      resources_of_cubin(changed);
    }
  }
  EXPECT_TRUE(resources_of_cubin({}).empty());
}

TEST(Cubin, LogAddsWhatIsNotInIt) {
  const auto kernels =
      resources_of(small_cubin(true),
                   "Function properties for k\n 24 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
                   "Used 168 registers, 256 bytes smem\nFunction properties for unknown\n 1 bytes spill stores\n");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels.at("k").spill_store_bytes, 12u);
  EXPECT_EQ(kernels.at("k").spill_load_bytes, 8u);
  EXPECT_EQ(kernels.at("k").static_shared_bytes, 256u);
  EXPECT_EQ(kernels.at("k").registers, 168);
}

}  // namespace
}  // namespace unisono::jit
