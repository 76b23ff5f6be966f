#include "command/output.hpp"

#include <gtest/gtest.h>

#include "command/fusion_report.hpp"
#include "command/machine.hpp"

namespace unisono::command {
namespace {

TEST(Table, ColumnsAreAligned) {
  Table table({"n", "name", "x"}, {true});
  table.row({"1", "µ→ä", "last"});
  table.row({"10", "four"});
  EXPECT_EQ(table.text("  "),
            "   n  name  x\n"
            "   1  µ→ä   last\n"
            "  10  four\n");
}

TEST(BytesText, Units) {
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::size_t{5} << 20), "5.0 MiB");
  EXPECT_EQ(bytes_text(std::size_t{3} << 30), "3.00 GiB");
}

TEST(CudaVersion, IsReadable) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
}

TEST(Machine, HasAProcessorAndMemory) {
  const CpuInfo cpu = cpu_info();
  EXPECT_GE(cpu.usable, 1);
  EXPECT_LE(cpu.usable, cpu.logical);
  EXPECT_FALSE(cpu.architecture.empty());
  const MemoryInfo memory = memory_info();
  EXPECT_GT(memory.bytes, std::uint64_t{64} << 20);
  EXPECT_LE(memory.available, memory.bytes);
}

TEST(Machine, CudaIsAskedWithoutADriverToo) {
  const CudaInfo cuda = cuda_info();
  EXPECT_EQ(cuda.gpus.empty(), !cuda.problem.empty());
}

}  // namespace
}  // namespace unisono::command
